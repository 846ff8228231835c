"""Functions and their doc comments, in each language."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qidf.lab.functions import find_functions
from qidf.lab.languages import LANGUAGES, is_source, is_test
from qidf.sources.text import UnfitError
from tests.engines.required import load

load("lab", "tree_sitter")

SOURCES = {
    "go": (
        "package a\n\n// Far away.\n\n// Add adds a\n// and b.\n//go:noinline\nfunc Add(a, b int) int {\n"
        "\treturn a + b\n}\n"
        "func none() {}\n/* M is a method. */\nfunc (s *S) M() {}\n",
        [("Add", "Add adds a and b.", 8), ("M", "M is a method.", 13)],
    ),
    "java": (
        "class A {\n  /**\n   * Adds two.\n   *\n   * @param a one\n   */\n  @Override\n"
        "  public int add(int a, int b) {\n"
        "    return a + b;\n  }\n  /* none */\n  void no() {}\n}\n",
        [("add", "Adds two.", 7)],
    ),
    "python": (
        'class A:\n    @property\n    def add(self):\n        """Add two,\n        and more.\n\n        Long.\n'
        '        """\n        return 1\n\ndef no():\n    return "x"\n\nasync def f():\n'
        "    r'''One line.'''\n    return 2\n",
        [("add", "Add two, and more.", 3), ("f", "One line.", 14)],
    ),
    "ruby": (
        "class A\n  # Adds two.\n  # @param a one\n  def add(a)\n    a\n  end\n\n  # Of the class.\n"
        "  def self.make\n  end\n"
        "  x = 1 # none\n  def no\n  end\nend\n",
        [("add", "Adds two.", 4), ("make", "Of the class.", 9)],
    ),
    "php": (
        "<?php\nclass A {\n  /**\n   * Adds two.\n   * @return int\n   */\n  #[Pure]\n"
        "  public function add($a) {\n    return $a;\n"
        "  }\n}\n/** Alone. */\nfunction f() {}\n// none\nfunction g() {}\n",
        [("add", "Adds two.", 7), ("f", "Alone.", 13)],
    ),
    "javascript": (
        "/** Adds two. */\nexport function add(a) { return a }\n/** Arrow. */\nexport const arrow = async (x) => x\n"
        "/** Of it. */\nFoo.prototype.bar = function (a) { return 1 }\nclass A {\n  /** In it. */\n  foo() {}\n}\n"
        "// none\nfunction no() {}\n",
        [("add", "Adds two.", 2), ("arrow", "Arrow.", 4), ("bar", "Of it.", 6), ("foo", "In it.", 9)],
    ),
    "typescript": (
        "export class A {\n  /** Adds two. */\n  @dec()\n  add(a: number): void { }\n}\n/** Alone. */\n"
        "export function f(a: string) { return a }\n",
        [("add", "Adds two.", 4), ("f", "Alone.", 7)],
    ),
    "rust": (
        "/// Adds two.\n/// And more.\n#[inline]\npub fn add(a: u8) -> u8 { a }\nimpl A {\n    // none\n"
        "    fn no(&self) {}\n"
        "    /** Block. */\n    fn b(&self) {}\n}\n",
        [("add", "Adds two. And more.", 4), ("b", "Block.", 9)],
    ),
    "c": (
        "/*\n * Adds two.\n */\nstatic int *add(int a)\n{\n\treturn 0;\n}\nint no(void) { return 1; }\n",
        [("add", "Adds two.", 4)],
    ),
    "cpp": (
        "/// Adds two.\ntemplate <class T>\nT A::add(T a) const {\n  return a;\n}\nclass X {\n  // \\brief In it.\n"
        "  int g() { return 1; }\n};\n",
        [("add", "Adds two.", 2), ("g", "In it.", 8)],
    ),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_functions_with_their_comments(language: str) -> None:
    text, expected = SOURCES[language]
    assert [(one.name, one.doc, one.line) for one in find_functions(text, language)] == expected


@pytest.mark.parametrize("language", LANGUAGES)
def test_code_is_without_its_comment(language: str) -> None:
    for function in find_functions(SOURCES[language][0], language):
        assert function.name in function.code
        assert function.doc not in " ".join(function.code.split())


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_does_not_parse_is_kept_as_far_as_it_does(language: str) -> None:
    text, expected = SOURCES[language]
    first = expected[0][0]
    assert first in [one.name for one in find_functions(f"{text}\n((( {{ @@ \x01 \ufffd", language)]


def test_what_nothing_closes_is_given_up() -> None:
    with pytest.raises(UnfitError, match="too hard to parse"):
        find_functions("(" * 60_000, "go")
    many = "\n".join(f"// Number {i} is here.\nfunc F{i}() {{\n}}" for i in range(9_000))
    assert len(find_functions(f"package a\n{many}", "go")) == 9_000


def test_a_comment_of_nothing_but_spaces_takes_no_time() -> None:
    text = (
        f"package a\n\n// Add {' ' * 200_000}two.\nfunc Add() {{\n}}\n/* Of {'*' * 200_000} it. **/\nfunc Of() {{}}\n"
    )
    assert [one.doc for one in find_functions(text, "go")] == ["Add two.", f"Of {'*' * 200_000} it."]


@given(st.text(max_size=300), st.sampled_from(sorted(LANGUAGES)))
def test_any_text_is_read_without_an_error(text: str, language: str) -> None:
    for function in find_functions(text, language):
        assert function.doc


@given(st.data(), st.sampled_from(sorted(LANGUAGES)))
def test_any_cut_of_a_source_is_read_without_an_error(data: st.DataObject, language: str) -> None:
    text = SOURCES[language][0]
    cut = data.draw(st.integers(0, len(text)))
    find_functions(text[:cut], language)
    find_functions(text[cut:], language)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/a.go", False),
        ("src/a_test.go", True),
        ("spec/models/a.rb", True),
        ("lib/a_spec.rb", True),
        ("a/test_b.py", True),
        ("a/latest.py", False),
        ("src/ContestIT.java", True),
        ("src/FooTest.java", True),
        ("src/Contest.java", False),
        ("src/a.spec.ts", True),
        ("src/inspect.ts", False),
        ("testing/x.py", True),
        ("conftest.py", True),
    ],
)
def test_tests_are_known_by_name(path: str, expected: bool) -> None:
    assert is_test(path) is expected


def test_source_is_known_by_suffix() -> None:
    assert is_source("a/b.PY")
    assert not is_source("README.md")
    assert not is_source("py")
