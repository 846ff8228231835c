"""Write src/qidf/analysis/unicode.py: the character tables and the `standard` automaton that the analyzers share.

Run with Python 3.11 (its `unicodedata` is one of the sources), a Java 17, Maven, and tantivy-py installed:
    python tools/generate_unicode.py
The grammar of `standard` is written here once, as regular expressions over the letters of `CLASSES`, and turned into a
minimal automaton. `analysis/standard.py` states the same grammar a second time for Python's `re`; a test compares them.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path

import tantivy

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "src" / "qidf" / "analysis" / "unicode.py"
JFLEX = "de.jflex:jflex:1.8.2"
UNICODE = "12.1"  # the version Lucene 9's StandardTokenizer was built with
RUST_UNICODE = "17.0"  # char::UNICODE_VERSION of the Rust that built the installed tantivy-py; its table holds Sidetic
CODE_POINTS = 0x110000

# Word_Break values of UAX #29 and the sets that cut across them. The letter names the class in the grammar below.
CLASSES = (
    ("Other", ""),
    ("ALetter", "a"),
    ("ALetter+Pictographic", "b"),
    ("Hebrew_Letter", "h"),
    ("Numeric", "n"),
    ("Numeric+Keycap_Base", "d"),
    ("Keycap_Base", "k"),
    ("Katakana", "t"),
    ("ExtendNumLet", "_"),
    ("MidLetter", ":"),
    ("MidNumLet", "."),
    ("MidNum", ","),
    ("Single_Quote", "q"),
    ("Double_Quote", "Q"),
    ("Extend", "x"),
    ("Complex_Context", "s"),
    ("Complex_Context+Extend", "S"),
    ("ZWJ", "z"),
    ("Enclosing_Keycap", "c"),
    ("Text_Style", "e"),
    ("Emoji_Style", "f"),
    ("Emoji_Modifier", "m"),
    ("Tag", "g"),
    ("Cancel_Tag", "G"),
    ("Regional_Indicator", "r"),
    ("Pictographic", "p"),
    ("Han", "i"),
    ("Hiragana", "u"),
)

# Names in braces stand for the expression given before. Longest match wins, so the order of RULES says nothing.
NAMES = {
    "X": "[xSzcefmgG]",  # WB4: Extend, Format and ZWJ stay with what they follow
    "Y": "[xSzcmgG]",  # the same inside emoji, where a style selector has a place of its own
    "AH": "[abh]{X}*",
    "E": "(_{X}*)",
    # WB5-WB7c. A Hebrew letter takes a closing ' or " + letter only where it does not stand after a mid character.
    "letters": "({AH}([:.q]{X}*{AH})*|h{X}*q{X}*|h{X}*Q{X}*h{X}*)",
    "number": "[nd]{X}*([,.q]{X}*[nd]{X}*)*",  # WB8, WB11, WB12
    "part": "(({letters}|{number})({letters}|{number})*|t{X}*(t{X}*)*)",  # WB9, WB10; WB13
    "pict": "[bp]{Y}*f?",
}
RULES = (
    "{E}*{part}({E}{E}*{part})*{E}*",  # WB13a, WB13b
    "[sS]({X}|[sS])*",  # line break class SA: no word rules without a dictionary
    "i{X}*",
    "u{X}*",
    "r{X}*r{X}*",  # WB15, WB16: flags
    "[dk]{Y}*f?c{Y}*",  # keycaps
    "(z*{pict}|m{Y}*)(zz*{pict}|zm{Y}*)*",  # WB3c and emoji ZWJ sequences
    "z*[bp]{Y}*fgg*G",  # tag sequences after a style selector
)


def properties(*names: str) -> dict[str, list[tuple[int, int]]]:
    """Ask JFlex and Java for character sets; key "java" holds Java's version, "lower" its toLowerCase pairs."""
    group, artifact, version = JFLEX.split(":")
    subprocess.run(["mvn", "-q", "dependency:get", f"-Dartifact={JFLEX}"], check=True)
    repository = Path.home() / ".m2" / "repository"
    jar = repository / group.replace(".", "/") / artifact / version / f"{artifact}-{version}.jar"
    command = ["java", "-cp", str(jar), str(ROOT / "tools" / "golden" / "Properties.java"), UNICODE, *names]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for line in lines:
        kind, *rest = line.split()
        if kind == "set":
            found[rest[0]] = [(int(a, 16), int(b, 16)) for a, b in (pair.split("-") for pair in rest[1:])]
        elif kind == "lower":
            found[kind].append((int(rest[0], 16), int(rest[1], 16)))
        elif kind == "java":
            found[f"java {rest[0]}"] = []
        else:
            found[kind].append((int(rest[0], 16), int(rest[0], 16)))
    return found


def members(ranges: Iterable[tuple[int, int]]) -> set[int]:
    return {c for first, last in ranges for c in range(first, last + 1)}


def standard_classes(sets: dict[str, list[tuple[int, int]]]) -> list[int]:
    """Return the class of every code point."""
    number = {name: i for i, (name, _) in enumerate(CLASSES)}
    table = [0] * CODE_POINTS

    def put(name: str, points: Iterable[int]) -> None:
        for c in points:
            table[c] = number[name]

    pictographic = members(sets["extendedpictographic"])
    complex_context = members(sets["lb=sa"])
    extend = members(sets["wb=extend"]) | members(sets["wb=format"])
    letters = members(sets["wb=aletter"])
    put("Pictographic", pictographic)
    put("ALetter", letters)
    put("ALetter+Pictographic", letters & pictographic)
    put("Hebrew_Letter", members(sets["wb=hebrewletter"]))
    put("Numeric", members(sets["wb=numeric"]))
    put("Numeric+Keycap_Base", range(0x30, 0x3A))
    put("Keycap_Base", (0x23, 0x2A))
    put("Katakana", members(sets["wb=katakana"]))
    put("ExtendNumLet", members(sets["wb=extendnumlet"]))
    put("MidLetter", members(sets["wb=midletter"]))
    put("MidNumLet", members(sets["wb=midnumlet"]))
    put("MidNum", members(sets["wb=midnum"]))
    put("Single_Quote", members(sets["wb=singlequote"]))
    put("Double_Quote", members(sets["wb=doublequote"]))
    put("Complex_Context", complex_context)
    put("Extend", extend)
    put("Complex_Context+Extend", extend & complex_context)
    put("ZWJ", members(sets["wb=zwj"]))
    put("Enclosing_Keycap", (0x20E3,))
    put("Text_Style", (0xFE0E,))
    put("Emoji_Style", (0xFE0F,))
    put("Emoji_Modifier", members(sets["emojimodifier"]))
    put("Tag", range(0xE0020, 0xE007F))
    put("Cancel_Tag", (0xE007F,))
    put("Regional_Indicator", members(sets["wb=regionalindicator"]))
    put("Han", members(sets["script=han"]) - letters - extend)
    put("Hiragana", members(sets["script=hiragana"]) - letters - extend)
    return table


class Nfa:
    """Thompson's construction for concatenation, |, *, ?, ( ) and [ ] over single letters."""

    def __init__(self) -> None:
        self.empty: list[list[int]] = []
        self.steps: list[dict[str, int]] = []

    def state(self) -> int:
        """Add a state, return its number."""
        self.empty.append([])
        self.steps.append({})
        return len(self.empty) - 1

    def add(self, pattern: str) -> tuple[int, int]:
        """Add `pattern`, return its start and its end."""
        tokens = re.findall(r"\[[^]]*\]|.", pattern)
        start, end, at = self._either(tokens, 0)
        assert at == len(tokens), pattern
        return start, end

    def _either(self, tokens: list[str], at: int) -> tuple[int, int, int]:
        start, end = self.state(), self.state()
        while True:
            first = last = self.state()
            while at < len(tokens) and tokens[at] not in "|)":
                a, b, at = self._repeated(tokens, at)
                self.empty[last].append(a)
                last = b
            self.empty[start].append(first)
            self.empty[last].append(end)
            if at == len(tokens) or tokens[at] == ")":
                return start, end, at
            at += 1

    def _repeated(self, tokens: list[str], at: int) -> tuple[int, int, int]:
        if tokens[at] == "(":
            a, b, at = self._either(tokens, at + 1)
        else:
            a, b = self.state(), self.state()
            for letter in tokens[at].strip("[]"):
                self.steps[a][letter] = b
        at += 1
        if at < len(tokens) and tokens[at] in "*?":
            start, end = self.state(), self.state()
            self.empty[start] += [a, end]
            self.empty[b] += [end, a] if tokens[at] == "*" else [end]
            return start, end, at + 1
        return a, b, at

    def closure(self, states: Iterable[int]) -> frozenset[int]:
        """Return `states` and what they reach without a letter."""
        seen, waiting = set(states), list(states)
        while waiting:
            for follower in self.empty[waiting.pop()]:
                if follower not in seen:
                    seen.add(follower)
                    waiting.append(follower)
        return frozenset(seen)


def standard_automaton() -> tuple[list[bytes], bytes]:
    """Return the rows and the accepting flags of the minimal automaton; state 0 dead, state 1 start."""
    names: dict[str, str] = {}
    for name, pattern in NAMES.items():
        names[name] = pattern.format_map(names)
    nfa = Nfa()
    ends = set()
    start = nfa.state()
    for rule in RULES:
        first, end = nfa.add(rule.format_map(names))
        nfa.empty[start].append(first)
        ends.add(end)
    letters = [letter for _, letter in CLASSES]

    # Subsets.
    numbers = {frozenset(): 0, nfa.closure([start]): 1}
    subsets = list(numbers)
    rows: list[list[int]] = []
    for subset in subsets:  # grows while it is walked
        row = []
        for letter in letters:
            target = nfa.closure({nfa.steps[s][letter] for s in subset if letter in nfa.steps[s]})
            if target not in numbers:
                numbers[target] = len(subsets)
                subsets.append(target)
            row.append(numbers[target])
        rows.append(row)
    accept = [bool(subset & ends) for subset in subsets]

    # Moore's refinement: a block is split until its states step into the same blocks.
    block = [int(a) for a in accept]
    while True:
        signature = [(block[s], *(block[t] for t in row)) for s, row in enumerate(rows)]
        order = {sig: i for i, sig in enumerate(dict.fromkeys(signature))}
        refined = [order[sig] for sig in signature]
        if len(order) == len(set(block)):
            break
        block = refined
    block = refined  # numbered by first appearance: the dead subset is 0, the start 1
    representative = [block.index(b) for b in range(len(set(block)))]
    assert block[0] == 0
    assert block[1] == 1
    dfa = [bytes(block[t] for t in rows[s]) for s in representative]
    return dfa, bytes(accept[s] for s in representative)


def alphanumeric_of_tantivy() -> tuple[list[bool], dict[int, str]]:
    """Ask tantivy which code points make words (Rust's char::is_alphanumeric) and how it lower-cases these."""
    plain = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).build()
    lowering = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(tantivy.Filter.lowercase()).build()
    points = [c for c in range(CODE_POINTS) if not 0xD800 <= c < 0xE000]
    text = " ".join(map(chr, points))
    found = plain.analyze(text)
    lowered = lowering.analyze(text)
    assert len(found) == len(lowered)
    assert all(len(f) == 1 for f in found)
    alphanumeric = [False] * CODE_POINTS
    lower = {}
    for old, new in zip(found, lowered, strict=True):
        alphanumeric[ord(old)] = True
        if old != new:
            lower[ord(old)] = new
    return alphanumeric, lower


CODE_NAMES = ("other", "letter", "upper", "digit", "underscore", "mark", "single")


def code_class(c: int, single: set[int]) -> int:
    category = unicodedata.category(chr(c))
    if c in single and category in ("Lo", "Lm", "Nl"):
        return CODE_NAMES.index("single")
    if category in ("Lu", "Lt"):
        return CODE_NAMES.index("upper")
    if category.startswith("L"):
        return CODE_NAMES.index("letter")
    if category.startswith("N"):
        return CODE_NAMES.index("digit")
    if c == ord("_"):
        return CODE_NAMES.index("underscore")
    if category in ("Mn", "Mc") or c in (0x200C, 0x200D):
        return CODE_NAMES.index("mark")
    return 0


def singles(sets: dict[str, list[tuple[int, int]]]) -> set[int]:
    """Return Han and Hiragana: Java's script data, and by name what Python's newer Unicode adds."""
    new = re.compile(r"CJK (UNIFIED|COMPATIBILITY) IDEOGRAPH-|HIRAGANA (LETTER|DIGRAPH)|HENTAIGANA")
    named = {c for c in range(CODE_POINTS) if new.match(unicodedata.name(chr(c), ""))}
    return named | members(sets["han"]) | members(sets["hiragana"])


def classes(table: list[int]) -> list[tuple[int, int, int]]:
    """Return maximal ranges of one class, class 0 left out."""
    found: list[tuple[int, int, int]] = []
    for c, k in enumerate(table):
        if k and found and found[-1][1:] == (c - 1, k):
            found[-1] = (found[-1][0], c, k)
        elif k:
            found.append((c, c, k))
    return found


def ranges(accepts: Callable[[int], bool]) -> list[tuple[int, int]]:
    return [(first, last) for first, last, _ in classes([int(accepts(c)) for c in range(CODE_POINTS)])]


def mapping(pairs: dict[int, int]) -> list[tuple[int, int, int, int]]:
    """Return (first, last, step, delta): every step-th code point from first to last maps to itself plus delta."""
    found: list[list[int]] = []
    for c, to in sorted(pairs.items()):
        run = found[-1] if found else [0, -9, 0, 0]
        step = c - run[1]
        if run[3] == to - c and step <= 2 and (run[0] == run[1] or step == run[2]):
            run[1:3] = c, step
        else:
            found.append([c, c, 1, to - c])
    return [(a, b, step, delta) for a, b, step, delta in found]


def lines(items: Iterable[object]) -> str:
    """Return the items as the inside of a tuple, in lines of some 2000 characters."""
    text, row = "", ""
    for item in items:
        row += repr(item).replace(", ", ",").replace("b'", 'b"').replace("'", '"') + ","
        if len(row) > 2000:
            text, row = text + "\n    " + row, ""
    return text + ("\n    " + row if row else "") + "\n"


def literal(row: bytes) -> str:
    return 'b"' + "".join(f"\\x{b:02x}" for b in row) + '"'


def main() -> None:
    assert unicodedata.unidata_version == "14.0.0", (
        f"Python 3.11's Unicode is wanted, got {unicodedata.unidata_version}"
    )
    breaks = (
        "aletter doublequote extend extendnumlet format hebrewletter katakana midletter midnum midnumlet numeric "
        "regionalindicator singlequote zwj"
    )
    sets = properties(
        *(f"wb={name}" for name in breaks.split()),
        *("lb=sa", "script=han", "script=hiragana", "emojimodifier", "extendedpictographic"),
    )
    java = next(key for key in sets if key.startswith("java ")).split()[1]
    dfa, accept = standard_automaton()
    alphanumeric, rust = alphanumeric_of_tantivy()
    single = singles(sets)
    word = re.compile(r"\w")
    versions = {
        "standard": f"Unicode {UNICODE} (JFlex 1.8.2)",
        "simple": f"Unicode {RUST_UNICODE} (the Rust inside tantivy-py {version('tantivy')})",
        "word": f"Unicode {unicodedata.unidata_version} (Python {platform.python_version()})",
        "code": f"Unicode {unicodedata.unidata_version} (Python {platform.python_version()}; Han, Hiragana also Java)",
        "lower": f"Unicode 13.0 (Java {java}, Character.toLowerCase)",
    }
    rows = ",\n    ".join(map(literal, dfa))
    standard = classes(standard_classes(sets))
    one = {c: ord(to) for c, to in rust.items() if len(to) == 1}
    many = {c: to for c, to in rust.items() if len(to) > 1}
    code = classes([code_class(c, single) for c in range(CODE_POINTS)])
    version_lines = "".join(f"    {key!r}: {value!r},\n" for key, value in versions.items()).replace("'", '"')
    many_items = ", ".join(f"{c}: {to!a}" for c, to in many.items()).replace("'", '"')
    TARGET.write_text(
        f'''# ruff: noqa
# fmt: off
"""Character tables of the analyzers. GENERATED by tools/generate_unicode.py; do not edit.

`VERSIONS` names each table's source and its Unicode version. Ranges are inclusive and ascending.
"""

from __future__ import annotations

VERSIONS: dict[str, str] = {{
{version_lines}}}

# standard: class numbers are positions in STANDARD_NAMES; what is not listed is 0, Other. Word_Break, Line_Break,
# Script, Extended_Pictographic and Emoji_Modifier of Unicode {UNICODE}. "Extend" holds Format too.
STANDARD_NAMES: tuple[str, ...] = ({", ".join(f'"{name}"' for name, _ in CLASSES)})
STANDARD_CLASSES: tuple[tuple[int, int, int], ...] = ({lines(standard)})

# standard: one row a state, one byte a class: the next state. State 0 is dead, state 1 the start.
STANDARD_DFA: tuple[bytes, ...] = (
    {rows},
)
STANDARD_ACCEPT: bytes = {literal(accept)}

# simple: Rust's char::is_alphanumeric.
SIMPLE_ALNUM: tuple[tuple[int, int], ...] = ({lines(ranges(lambda c: alphanumeric[c]))})

# simple: Rust's char::to_lowercase of the same characters, and the one that grows.
RUST_LOWER: tuple[tuple[int, int, int, int], ...] = ({lines(mapping(one))})
RUST_LOWER_MANY: dict[int, str] = {{{many_items}}}

# word: \\w of Python's re.
WORD_CHARS: tuple[tuple[int, int], ...] = ({lines(ranges(lambda c: word.match(chr(c)) is not None))})

# code: class numbers are positions in CODE_NAMES.
CODE_NAMES: tuple[str, ...] = ({", ".join(f'"{name}"' for name in CODE_NAMES)})
CODE_CLASSES: tuple[tuple[int, int, int], ...] = ({lines(code)})

# standard, code: Java's Character.toLowerCase(int) as (first, last, step, delta).
LOWER: tuple[tuple[int, int, int, int], ...] = ({lines(mapping(dict(sets["lower"])))})
'''
    )
    print(f"{len(standard)} standard ranges, {len(dfa)} states, {len(code)} code ranges", file=sys.stderr)


if __name__ == "__main__":
    main()
