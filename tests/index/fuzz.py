"""Damage an index at random, thousands of times: `python -m tests.index.fuzz --cases 100000 --seed 7`.

Each case changes one file (or two: they change places), opens the index, asks what a user asks, and expects the right
answer or an error of qidf's own. The process has a limit of memory; a crash or a hang is the caller's to notice.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qidf.errors import IndexCorruptError, IndexMismatchError, IndexNotFoundError
from qidf.index import Index, merge, store
from qidf.index.build import build
from qidf.sources import Document

WORDS = ["alpha", "beta", "gamma", "the", "getUser", "getUserById", "sha256", "漢字", "x"]
MEMORY = 4 << 30


def make(path: str) -> None:
    """An index with files of every kind: three segments, two with deletes."""
    rng = random.Random(1)
    documents = []
    for i in range(160):
        words = [*rng.choices(WORDS, k=rng.randrange(25)), f"rare{i}", *["often"] * (300 * (i == 7))]
        documents.append(Document(f"d{i:03}", " ".join(words), f"p{i % 9}", 1 + i % 4))
    merge.FAN = 1 << 30
    stamps = [(f"file{i}", (i, i, i)) for i in range(300)]
    build(documents[:80], path, analyzer="code", store_text=True, threads=1, stamps=stamps)
    index = Index.open(path)
    index.add(documents[80:])
    index.delete(["d003", "d050"])
    index.commit(merge="none")
    index.update([Document("d101", "the beta came later", "p4", 2), Document("d004", "gamma", "p4", 1)])
    index.commit(merge="none")
    assert [bool(name) for name in store.read_manifest(path).deletes] == [True, True, False]


def ask(path: str) -> list[Any]:
    """What a user asks, and in the end everything."""
    index = Index.open(path)
    out: list[Any] = [index.documents, index.tokens, index.terms, index.hapax_terms]
    for query in ("alpha beta the", "getUserById often rare7", "漢字 sha256 rare101 rare4"):
        hits = index.search(query, 9)
        out.append(hits)
        for hit in hits[:3]:
            out.append((index.text(hit.id), index.length(hit.id), index.term_freqs(hit.id, ["often", "the"])))
        out.append(index.search(query, 3, q=0.4, k1=0.5))
    table = store.read_sources(path, store.read_manifest(path))
    assert table in ({}, {f"file{i}": (i, i, i) for i in range(300)})
    index.verify()
    return out


def flip(rng: random.Random, data: bytearray) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def scribble(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data))
    data[at : at + rng.randrange(1, 64)] = rng.randbytes(rng.randrange(1, 64))


def cut_end(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data)) :]


def cut_middle(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.choice([1, 8, 64, 4096])]


def insert(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data))
    data[at:at] = bytes(rng.choice([1, 8, 64, 4096]))


def swap(rng: random.Random, data: bytearray) -> None:
    width = rng.choice([1, 4, 8, 64, 4096])
    a, b = sorted(rng.randrange(max(1, len(data) // width)) * width for _ in range(2))
    if b >= a + width:
        data[a : a + width], data[b : b + width] = data[b : b + width], data[a : a + width]


def repeat(rng: random.Random, data: bytearray) -> None:
    width = rng.choice([8, 64, 4096])
    a, b = (rng.randrange(max(1, len(data) // width)) * width for _ in range(2))
    data[a : a + width] = data[b : b + width]


def number(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(max(1, len(data) // 4)) * 4
    value = rng.choice([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, rng.getrandbits(32)])
    data[at : at + 4] = value.to_bytes(4, "little")


def tail(rng: random.Random, data: bytearray) -> None:
    """The footer and the trailer, which everything else hangs on."""
    at = len(data) - 1 - rng.randrange(min(len(data), 1200))
    data[at] = rng.randrange(256)


DAMAGES: list[Callable[[random.Random, bytearray], None]] = [
    flip, scribble, cut_end, cut_middle, insert, swap, repeat, number, tail,
]  # fmt: skip


def put(file: Path, data: bytes | bytearray) -> None:
    """Replace a file by another: one that is mapped may not shrink under its reader."""
    aside = file.with_suffix(".new")
    aside.write_bytes(data)
    aside.replace(file)


def run(cases: int, seed: int) -> Counter[str]:
    """Damage an index `cases` times and count what came of it."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
    rng = random.Random(seed)
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "index")
        make(path)
        files = sorted(file for file in Path(path).iterdir() if file.name not in (store.LOCK, store.OWNER))
        good = {file: file.read_bytes() for file in files}
        expected = ask(path)
        for case in range(cases):
            file = rng.choice(files)
            if rng.random() < 0.02:
                other = rng.choice(files)
                what = f"swap {file.name} and {other.name}"
                put(file, good[other])
                put(other, good[file])
                touched = [file, other]
            else:
                damage = rng.choice(DAMAGES)
                what = f"{damage.__name__} in {file.name}"
                data = bytearray(good[file])
                for _ in range(rng.choice([1, 1, 1, 2, 5])):
                    if data:
                        damage(rng, data)
                put(file, data)
                touched = [file]
            try:
                got = ask(path)
            except (IndexCorruptError, IndexMismatchError, IndexNotFoundError) as error:
                outcomes[type(error).__name__] += 1
            except BaseException as error:
                raise AssertionError(f"case {case} of seed {seed}: {what}") from error
            else:
                assert got == expected, f"case {case} of seed {seed}: {what}: another answer"
                outcomes["right"] += 1
            for one in touched:
                put(one, good[one])
        assert ask(path) == expected
    return outcomes


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for outcome, n in sorted(run(arguments.cases, arguments.seed).items()):
        print(f"{n:8,}  {outcome}")
