"""What was read so far: whole after a kill, begun anew where it is another's, never written by two."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qidf.errors import QidfError
from qidf.expansion.collected import Collected
from qidf.expansion.dictionary import in_order

WORDS = st.sampled_from(["web", "socket", "größe", "\ud800", "id", "user"])
PARTS = st.lists(WORDS, min_size=2, max_size=4).filter(lambda own: len(set(own)) > 1).map(tuple)
DOCUMENTS = st.lists(st.tuples(st.sampled_from(["t1", "t2", "größemax"]), PARTS), max_size=4)


@settings(max_examples=60, deadline=None)
@given(st.lists(DOCUMENTS, max_size=6))
def test_counts_add_up_over_transactions_and_openings(
    tmp_path_factory: pytest.TempPathFactory, documents: list[list[tuple[str, tuple[str, ...]]]]
) -> None:
    path = str(tmp_path_factory.mktemp("collected") / "read")
    spelled: dict[str, Counter[tuple[str, ...]]] = {}
    words: Counter[str] = Counter()
    for number, document in enumerate(documents):
        here = {part for _, parts in document for part in parts}
        with Collected(path, "mine") as collected:
            assert (collected.documents, collected.checkpoint) == (number, None if not number else {"at": number})
            own: dict[str, Counter[tuple[str, ...]]] = {}
            for term, parts in document:
                own.setdefault(term, Counter())[parts] += 1
                spelled.setdefault(term, Counter())[parts] += 1
            words.update(here)
            collected.add(own, dict.fromkeys(here, 1), 1, {"at": number + 1})
    with Collected(path, "mine") as collected:
        assert collected.dfs() == dict(words)
        best = {
            term: max(own, key=lambda parts: (own[parts], "\x1f".join(parts).encode("utf-8", "surrogatepass")))
            for term, own in spelled.items()
        }
        assert list(collected.terms()) == list(in_order(best))
    with Collected(path, "another's") as collected:
        assert (collected.documents, collected.dfs(), list(collected.terms())) == (0, {}, [])


def test_terms_are_what_an_analyzer_makes_of_names() -> None:
    with Collected() as collected:
        names: dict[str, dict[tuple[str, ...], int]] = {
            "getUser": {("get", "user"): 2},
            "GetUser": {("get", "user"): 1},
            "a-b": {("a", "b"): 9},
        }
        collected.add(names, {}, 1, None)
        asked: list[str] = []

        def analyze(names: list[str]) -> dict[str, str]:
            asked.extend(names)
            return {name: name.lower() for name in names if "-" not in name}

        collected.analyze(analyze, 2)
        collected.add({"getUsers": {("get", "users"): 1}}, {}, 1, None)
        collected.analyze(analyze, 2)
        assert sorted(asked) == ["GetUser", "a-b", "getUser", "getUsers"]
        assert list(collected.terms(analyzed=True)) == [("getuser", ("get", "user")), ("getusers", ("get", "users"))]


@pytest.mark.parametrize("fresh", [False, True])
def test_two_do_not_write_one_file(tmp_path: Path, fresh: bool) -> None:
    path = str(tmp_path / "read")
    with Collected(path) as first:
        first.add({"a_b": {("a", "b"): 1}}, {}, 1, 1)
        with pytest.raises(QidfError, match="another 'qidf dictionary build' of this index is at work"):
            Collected(path, fresh=fresh)
    with Collected(path) as collected:
        assert collected.documents == 1


def test_another_database_is_begun_anew(tmp_path: Path) -> None:
    path = str(tmp_path / "read")
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE state (something TEXT)")
        other.commit()
    with Collected(path) as collected:
        collected.add({"a_b": {("a", "b"): 1}}, {"a": 1}, 1, 1)
    with Collected(path, fresh=True) as collected:
        assert (collected.documents, collected.dfs()) == (0, {})


@pytest.mark.parametrize("data", [b"no database", b"", b"SQLite format 3\0" + bytes(90)])
def test_something_else_is_begun_anew(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "read"
    path.write_bytes(data)
    with Collected(str(path)) as collected:
        collected.add({"a_b": {("a", "b"): 1}}, {"a": 1}, 1, 1)
        assert collected.dfs() == {"a": 1}


SCRIPT = textwrap.dedent(
    """\
    import sys
    from qidf.expansion.collected import Collected
    with Collected(sys.argv[1]) as collected:
        while True:
            n = collected.documents
            names = {f"a{n}_{i}": {("a", f"b{i}"): 1} for i in range(300)}
            collected.add(names, {"a": 1, f"w{n}": 1}, 1, n + 1)
            print(n, flush=True)
    """
)


def test_a_kill_at_any_moment_loses_the_last_documents_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "read")
    for round in range(8):
        with subprocess.Popen([sys.executable, "-c", SCRIPT, path], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            told = [int(process.stdout.readline()) for _ in range(1 + round % 3)]
            process.send_signal(signal.SIGKILL)
            told += [int(line) for line in process.stdout]
        with Collected(path) as collected:
            assert collected.documents in (told[-1] + 1, told[-1] + 2)
            assert collected.checkpoint == collected.documents
            dfs = collected.dfs()
            assert dfs.pop("a") == collected.documents == len(dfs)
            assert len(list(collected.terms())) == 300 * collected.documents


def test_a_full_disk_is_a_line_and_what_was_read_stays(tmp_path: Path) -> None:
    path = str(tmp_path / "read")
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))\n{SCRIPT}"
    limited = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n" + limited
    done = subprocess.run([sys.executable, "-c", limited, path], capture_output=True, text=True, env=os.environ)
    assert "can't be kept" in done.stderr.splitlines()[-1]
    with Collected(path) as collected:
        assert collected.documents == len(done.stdout.split()) > 0
