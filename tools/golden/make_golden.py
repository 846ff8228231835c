"""Write tests/analysis/golden from the real analyzers: Lucene 9.12.3 (Java 17, Maven), tantivy-py and bm25s.

    python tools/golden/make_golden.py

Texts go to `*.jsonl`, one `{"text", "tokens"}` a line: Lucene's tokens as [term, start, end] in code points, tantivy's
and bm25s' as terms, for they tell no offsets. What an analyzer does with every code point goes to `*-code-points.json`.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

import bm25s
import tantivy
from texts import texts

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent.parent / "tests" / "analysis" / "golden"
LUCENE = "9.12.3"
CODE_POINTS = 0x110000

# `@` stands for the code point.
CONTEXTS = (
    *("@", "a@b", "a@", "1@2", "א@ב", 'א"@', "カ@カ", "한@국", "漢@", "ひ@", "ไ@ท", "_@_", "a_@", "a'@", "1,@"),
    *("👩\u200d@", "@\u200d👩", "@\ufe0f\u20e3", "🇦@🇧", "@🏽", "🏴\ufe0f@\U000e007f", "👩\ufe0f@", "ℹ\u200d@"),
)

Tokens = list[tuple[str, int, int]]


class Lucene:
    """The compiled LuceneTokens.java, run once for each list of texts."""

    def __init__(self, folder: str) -> None:
        jars = []
        for artifact in ("lucene-core", "lucene-analysis-common"):
            subprocess.run(
                ["mvn", "-q", "dependency:get", f"-Dartifact=org.apache.lucene:{artifact}:{LUCENE}"], check=True
            )
            repository = Path.home() / ".m2" / "repository" / "org" / "apache" / "lucene"
            jars.append(str(repository / artifact / LUCENE / f"{artifact}-{LUCENE}.jar"))
        self.path = ":".join([*jars, folder])
        subprocess.run(["javac", "-cp", self.path, "-d", folder, str(HERE / "LuceneTokens.java")], check=True)

    def analyze(self, some: Iterable[str]) -> list[Tokens]:
        """Return the tokens of each text, offsets in code points."""
        some = list(some)
        encoded = [text.encode("utf-16-be", "surrogatepass") for text in some]
        sent = b"".join(struct.pack(">i", len(text)) + text for text in encoded)
        command = ["java", "-cp", self.path, "LuceneTokens"]
        answer = subprocess.run(command, input=sent, stdout=subprocess.PIPE, check=True).stdout
        at = 0

        def integer() -> int:
            nonlocal at
            at += 4
            return int(struct.unpack_from(">i", answer, at - 4)[0])

        found = []
        for text in some:
            points = [i for i, c in enumerate(text) for _ in range(1 + (c > "\uffff"))] + [len(text)]
            tokens = []
            for _ in range(integer()):
                start, end, size = integer(), integer(), integer()
                tokens.append((answer[at : at + size].decode("utf-16-be", "surrogatepass"), points[start], points[end]))
                at += size
            found.append(tokens)
        assert at == len(answer)
        return found


def write_texts(name: str, analyze: Callable[[str], object], some: Iterable[str]) -> None:
    with (GOLDEN / f"{name}.jsonl").open("w") as file:
        for text in some:
            print(json.dumps({"text": text, "tokens": analyze(text)}), file=file)


def packed_runs(values: list[Tokens]) -> dict[str, object]:
    """Return the different spans of the tokens in `values`, and their runs: hexadecimal length, capital letter."""
    spans = [tuple((start, end) for _, start, end in tokens) for tokens in values]
    different = list(dict.fromkeys(spans))
    packed = "".join(f"{len(list(run)):x}{chr(ord('A') + different.index(value))}" for value, run in groupby(spans))
    return {"spans": different, "runs": packed}


def lucene_code_points(lucene: Lucene) -> None:
    """For each context, where the spans of its tokens change from one code point to the next, and all lower-casing."""
    contexts = {}
    lower = {}
    for context in CONTEXTS:
        # A lone high surrogate at a text's end makes Lucene drop tokens: the blank keeps it from there.
        found = lucene.analyze(context.replace("@", chr(c)) + " " for c in range(CODE_POINTS))
        contexts[context] = packed_runs(found)
        if context == "a@":
            for c, tokens in enumerate(found):
                if "".join(term for term, _, _ in tokens) != "a" + chr(c) and tokens[-1][2] == 2:
                    lower[c] = tokens[-1][0][-1]
    lines = ",\n".join(f"  {json.dumps(context)}: {json.dumps(some)}" for context, some in contexts.items())
    path = GOLDEN / f"lucene-{LUCENE}-code-points.json"
    path.write_text(f'{{"contexts": {{\n{lines}\n}},\n"lower": {json.dumps(lower)}}}\n')


def main() -> None:
    well_formed = [text for text in texts() if not any("\ud800" <= c <= "\udfff" for c in text)]
    endings = "\ud800", "\udbff"
    with tempfile.TemporaryDirectory() as folder:
        lucene = Lucene(folder)
        some = [text + " " * text.endswith(endings) for text in texts()]
        answers = iter(lucene.analyze(some))
        write_texts(f"lucene-{LUCENE}", lambda _: next(answers), some)
        lucene_code_points(lucene)

    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    default = builder.filter(tantivy.Filter.remove_long(40)).filter(tantivy.Filter.lowercase()).build()
    edition = version("tantivy")
    write_texts(f"tantivy-{edition}", default.analyze, well_formed)
    whole = default.analyze(" ".join(chr(c) for c in range(CODE_POINTS) if not 0xD800 <= c < 0xE000))
    (GOLDEN / f"tantivy-{edition}-code-points.json").write_text(json.dumps(_packed(whole)) + "\n")

    def words(text: str) -> list[str]:
        return list(bm25s.tokenize([text], return_ids=False, show_progress=False)[0])

    write_texts(f"bm25s-{bm25s.__version__}", words, well_formed)
    print(f"{len(some)} texts", file=sys.stderr)


def _packed(terms: list[str]) -> list[str]:
    """Return `terms` with each stretch of consecutive characters as `first-last`."""
    packed: list[str] = []
    for term in terms:
        if len(term) == 1 and packed and len(packed[-1]) == 3 and ord(packed[-1][2]) + 1 == ord(term):
            packed[-1] = packed[-1][:2] + term
        else:
            packed.append(f"{term}-{term}" if len(term) == 1 else term)
    return packed


if __name__ == "__main__":
    main()
