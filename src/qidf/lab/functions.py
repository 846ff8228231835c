"""Functions in source code, with their doc comments: parsed by tree-sitter, as far as a file parses.

Knows one file at a time; filters nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from qidf.engines.base import missing
from qidf.lab.languages import LANGUAGES
from qidf.sources.text import UnfitError

if TYPE_CHECKING:
    from tree_sitter import Node


WIDEST = 50_000
"""Children of a node: to look for functions among n takes a time that grows with n², here about a second."""


class Function(NamedTuple):
    """A function that has a doc comment.

    Attributes
    ----------
    name : str
    doc : str
        The comment's first paragraph on one line, without markers; it ends where tags (`@param`, `:param`) begin.
    code : str
        From the line where the function begins to its end, without the comment.
    line : int
        Where it begins, from 1.
    """

    name: str
    doc: str
    code: str
    line: int


def find_functions(text: str, language: str) -> list[Function]:
    """Return the functions of a file that have a doc comment, in order.

    Parameters
    ----------
    text : str
        One that does not parse gives what parses of it.
    language : str
        One of `qidf.lab.languages.LANGUAGES`.

    Raises
    ------
    UnfitError
        A node has more than `WIDEST` children: so many brackets that nothing closes, so many lines of data.
    EngineError
        tree-sitter or the grammar is not installed.
    """
    data = text.encode("utf-8", "replace")
    parser, find = _grammar(language)
    starts = [0, *(match.end() for match in re.finditer(b"\n", data))]
    comments: dict[int, tuple[int, bytes]] = {}  # by the row of its end: the row where it begins, what it says
    skipped: dict[int, int] = {}
    found: list[tuple[Node, bytes]] = []
    root = parser.parse(data).root_node
    if _is_too_wide(root):
        raise UnfitError("too hard to parse")
    for _, match in find(root):
        for kind, nodes in match.items():
            for node in nodes:
                if kind in ("comment", "skip"):
                    _note(node, data, starts, comments if kind == "comment" else None, skipped)
        if "function" in match:
            found.append((match["function"][0], _name(match["name"][0])))
    functions = []
    marks = LANGUAGES[language].doc
    for node, name in sorted(found, key=lambda one: one[0].start_byte):
        row = node.start_point[0]
        if node.parent is not None and node.parent.type == "template_declaration":
            row = node.parent.start_point[0]
        start, end = starts[row], node.end_byte
        if marks:
            doc = _comment_above(row, comments, skipped, tuple(mark.encode() for mark in marks))
            code = data[start:end]
        else:
            doc, code = _docstring(node, data, start)
        words = _first_paragraph(doc.decode("utf-8", "replace"))
        if words:
            functions.append(Function(name.decode("utf-8", "replace"), words, _text(code), row + 1))
    return functions


@lru_cache
def _grammar(language: str) -> tuple[Any, Any]:
    """Return a parser, and what finds (pattern, captures) below a node."""
    own = LANGUAGES[language]
    try:
        import tree_sitter

        grammar = tree_sitter.Language(getattr(import_module(own.package.replace("-", "_")), own.entry)())
    except ImportError:
        raise missing(own.package, "lab") from None
    query = tree_sitter.Query(grammar, own.functions)
    return tree_sitter.Parser(grammar), lambda node: tree_sitter.QueryCursor(query).matches(node)


def _is_too_wide(root: Node) -> bool:
    if root.descendant_count <= WIDEST:
        return False
    cursor = root.walk()
    while True:
        node = cursor.node
        if node is not None and node.child_count > WIDEST:
            return True
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return False


def _note(
    node: Node, data: bytes, starts: list[int], comments: dict[int, tuple[int, bytes]] | None, skipped: dict[int, int]
) -> None:
    """Remember a comment, or what may stand between one and its function, if it begins a line."""
    (row, _), (last, column) = node.start_point, node.end_point
    if data[starts[row] : node.start_byte].strip():
        return
    if column == 0 and last > row:  # Rust's end with the line
        last -= 1
    if comments is None:
        skipped[last] = row
    else:
        comments[last] = row, data[node.start_byte : node.end_byte].rstrip()


def _name(node: Node) -> bytes:
    """Return the name that a declarator declares: C's hides below pointers and parameters."""
    while (inner := node.child_by_field_name("declarator") or node.child_by_field_name("name")) is not None:
        node = inner
    return node.text or b""


def _comment_above(
    row: int, comments: dict[int, tuple[int, bytes]], skipped: dict[int, int], marks: tuple[bytes, ...]
) -> bytes:
    """Return the comment that ends on the line above `row`: one block, or the line comments that follow each other."""
    above: list[bytes] = []
    row -= 1
    while not above and row in skipped:
        row = skipped[row] - 1
    while row in comments:
        row, text = comments[row]
        is_block = text.startswith((b"/*", b"=begin"))
        if not text.startswith(marks) or (is_block and above):
            break
        above.append(text)
        row -= 1
        if is_block:
            break
    return b"\n".join(reversed(above))


def _docstring(node: Node, data: bytes, start: int) -> tuple[bytes, bytes]:
    """Return Python's first string of a body, and the code without it."""
    body = node.child_by_field_name("body")
    first = body.named_children[0] if body is not None and body.named_children else None
    if first is None or first.type != "expression_statement" or not first.named_children:
        return b"", b""
    string = first.named_children[0]
    if string.type != "string":
        return b"", b""
    text = re.sub(rb"^[a-zA-Z]*(\"\"\"|'''|\"|')(.*)\1$", rb"\2", string.text or b"", flags=re.DOTALL)
    return text, data[start : first.start_byte].rstrip() + data[first.end_byte : node.end_byte]


_OPENING = re.compile(r"/\*+!?(?!/)|\*+/|\*+(?!/)|//[/!]*|#+!?|=begin\b|=end\b")
_TAG = re.compile(
    r"(?:@(?!code\b|link\b)\w|\\(?:param|return|arg|sa|see)\b|:\w+[^:]*:|-{3,}|={3,}"
    r"|(?:# )?(?:Args|Arguments|Parameters|Params|Returns?|Raises|Yields|Examples?|Notes?)\s*:?$)"
)
_DIRECTIVE = re.compile(
    r"//(?:go:|nolint|export |\s*\+build|line |lint:|\s*#nosec)|#\s*(?:rubocop|frozen_string_literal|:nodoc:)|# -\*-"
)
_BRIEF = re.compile(r"^[@\\](?:brief|short|summary|description|desc)\b\s*")


def _first_paragraph(comment: str) -> str:
    lines: list[str] = []
    for line in map(str.strip, comment.splitlines()):
        if _DIRECTIVE.match(line):
            continue
        text = _OPENING.sub("", line, count=1) if _OPENING.match(line) else line
        if text.endswith("*/"):
            text = text.removesuffix("*/").rstrip("*")
        text = _BRIEF.sub("", text.strip())
        if (not text or _TAG.match(text)) and (lines or text):
            break
        if text:
            lines.append(text)
    return " ".join(" ".join(lines).split())


def _text(code: bytes) -> str:
    """Return code with the common indentation of its lines gone."""
    from textwrap import dedent

    return dedent(code.decode("utf-8", "replace"))
