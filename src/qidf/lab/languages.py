"""Programming languages as the lab sees them: files by suffix, what is a test, where functions and their comments are.

Knows names, suffixes and grammars; parses nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True)
class Language:
    """A language with a grammar.

    Attributes
    ----------
    name : str
    suffixes : tuple of str
    package : str
        The grammar's package on PyPI, with underscores its module.
    functions : str
        A tree-sitter query with @function and, inside it, @name; @comment; @skip for what may stand between the two.
    doc : tuple of str
        How a comment begins that documents; empty for Python, where it is the first statement.
    entry : str
        The function of the module that gives the grammar.
    """

    name: str
    suffixes: tuple[str, ...]
    package: str
    functions: str
    doc: tuple[str, ...]
    entry: str = "language"


_VALUE = "[(arrow_function) (function_expression)]"
_JAVASCRIPT = f"""
(function_declaration name: (_) @name) @function
(generator_function_declaration name: (_) @name) @function
(method_definition name: (_) @name) @function
(variable_declarator name: (identifier) @name value: {_VALUE}) @function
(assignment_expression left: (member_expression property: (_) @name) right: {_VALUE}) @function
(pair key: (_) @name value: {_VALUE}) @function
(comment) @comment
(decorator) @skip
"""
_C = """
(function_definition declarator: (_) @name) @function
(comment) @comment
"""

_ALL = (
    Language(
        "go",
        (".go",),
        "tree-sitter-go",
        "(function_declaration name: (_) @name) @function (method_declaration name: (_) @name) @function"
        " (comment) @comment",
        ("//", "/*"),
    ),
    Language(
        "java",
        (".java",),
        "tree-sitter-java",
        "(method_declaration name: (_) @name) @function (block_comment) @comment",
        ("/**",),
    ),
    Language("python", (".py",), "tree-sitter-python", "(function_definition name: (_) @name) @function", ()),
    Language(
        "ruby",
        (".rb",),
        "tree-sitter-ruby",
        "(method name: (_) @name) @function (singleton_method name: (_) @name) @function (comment) @comment",
        ("#", "=begin"),
    ),
    Language(
        "php",
        (".php",),
        "tree-sitter-php",
        "(function_definition name: (_) @name) @function (method_declaration name: (_) @name) @function"
        " (comment) @comment (attribute_list) @skip",
        ("/**",),
        "language_php",
    ),
    Language(
        "javascript",
        (".js", ".jsx", ".mjs", ".cjs"),
        "tree-sitter-javascript",
        f"{_JAVASCRIPT} (field_definition property: (_) @name value: {_VALUE}) @function",
        ("/**",),
    ),
    Language(
        "typescript",
        (".ts", ".mts", ".cts"),
        "tree-sitter-typescript",
        f"{_JAVASCRIPT} (public_field_definition name: (_) @name value: {_VALUE}) @function",
        ("/**",),
        "language_typescript",
    ),
    Language(
        "rust",
        (".rs",),
        "tree-sitter-rust",
        "(function_item name: (_) @name) @function (line_comment) @comment (block_comment) @comment"
        " (attribute_item) @skip",
        ("///", "/**"),
    ),
    Language("c", (".c", ".h"), "tree-sitter-c", _C, ("/*", "//")),
    Language("cpp", (".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".h"), "tree-sitter-cpp", _C, ("/*", "//")),
)

LANGUAGES = {language.name: language for language in _ALL}
"""By name: those whose functions can be found."""

SOURCE_SUFFIXES = frozenset(suffix for language in _ALL for suffix in language.suffixes) | {
    ".clj", ".cljs", ".coffee", ".cs", ".cu", ".cxx", ".d", ".dart", ".el", ".erl", ".ex", ".exs", ".f90", ".fs",
    ".groovy", ".hs", ".inc", ".jl", ".kt", ".kts", ".lua", ".m", ".ml", ".mli", ".mm", ".nim", ".pas", ".pl", ".pm",
    ".proto", ".pyi", ".pyx", ".r", ".rake", ".scala", ".scm", ".sh", ".sol", ".sql", ".svelte", ".swift", ".tsx",
    ".vala", ".vue", ".zig",
}  # fmt: skip
"""Of files that commits are judged by: source code, no data, no prose, no markup."""

_TEST_FOLDERS = frozenset((
    "test", "tests", "testing", "testdata", "test-data", "test_data", "testutil", "testutils", "testlib", "testsuite",
    "spec", "specs", "__tests__", "__mocks__", "e2e", "fixtures",
))  # fmt: skip
_TEST_NAME = re.compile(
    r"^tests?[._-]|[._-](?:tests?|spec|specs|e2e)\.[^.]+$|^conftest\.py$|^test_helper|^spec_helper"
    r"|^Test[A-Z]\w*\.|[a-z\d](?:Test|Tests|TestCase|Spec|IT)\.[^.]+$",
)


def is_source(path: str) -> bool:
    """Return whether a file's name is that of source code."""
    return PurePosixPath(path).suffix.lower() in SOURCE_SUFFIXES


def is_test(path: str) -> bool:
    """Return whether a file is a test, by its folders or its name."""
    parts = PurePosixPath(path).parts
    return any(part.lower() in _TEST_FOLDERS for part in parts[:-1]) or bool(parts and _TEST_NAME.search(parts[-1]))
