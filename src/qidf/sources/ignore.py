"""Ignore rules as git's, from .gitignore, .ignore and .qidfignore files. Knows nothing of which files are documents.

pathspec translates each pattern to a regular expression. What this module adds is git's order: rules are asked about an
entry itself while walking down, never about the folders above it (a file below an ignored folder is never met), so the
last rule that matches decides. All rules of a folder are one alternation, which makes a look-up one or two matches.
As in git, patterns and names are bytes: `?` is one byte. Here each byte is one character (`_as_bytes`).
"""

from __future__ import annotations

import codecs
import os
import re
import warnings
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from qidf.sources.text import UnfitError, read_regular

IGNORE_FILES = (".gitignore", ".ignore", ".qidfignore")
"""Read in each folder; a later one overrules an earlier one of the same folder."""

NONE, IGNORE, KEEP, FORCE = 0, 1, 2, 3
"""Verdicts: no rule matches; ignored; kept by a `!` rule; kept by a `!` rule of .qidfignore, vendored or not."""

MAX_IGNORE_BYTES = 1_000_000

# How pathspec ends a pattern: on the entry or anything below it, and on a folder only.
_ANY_TAIL = "(?:(?P<ps_d>/)|$)"
_DIR_TAIL = "(?P<ps_d>/)"
_ANY_DEPTH = "^(?:.+/)?"
_POSIX_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \t",
    "digit": "0-9",
    "lower": "a-z",
    "space": " \t-\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


class _Rule(NamedTuple):
    verdict: int
    regex: str  # of the entry's name, or of its path below the rules' folder; to be matched in full
    by_name: bool
    dir_only: bool


class _Alternation:
    """Many regular expressions in one; tells which of those that match stands last."""

    __slots__ = ("_order", "_regex")

    def __init__(self, numbered: list[tuple[int, str]]) -> None:
        # The empty group marks the alternative; at its end, so that `re` can skip alternatives by their first letter.
        last_first = numbered[::-1]
        self._order = [number for number, _ in last_first]
        self._regex = re.compile("|".join(f"{regex}()" for _, regex in last_first), re.DOTALL)

    def last(self, text: str) -> int:
        """Return the number of the last expression that matches all of `text`; −1 if none does."""
        match = self._regex.fullmatch(text)
        return -1 if match is None else self._order[(match.lastindex or 0) - 1]


class Rules:
    """The rules of one folder, compiled."""

    __slots__ = ("_dirs", "_files", "_verdicts")

    def __init__(self, rules: list[_Rule]) -> None:
        self._verdicts = [rule.verdict for rule in rules] + [NONE]
        self._files = _split([(i, rule) for i, rule in enumerate(rules) if not rule.dir_only])
        self._dirs = _split(list(enumerate(rules)))

    def verdict(self, name: str, path: str, is_dir: bool) -> int:
        """Say what the rules tell of the entry `name` at `path` below their folder, but not of what is around it."""
        names, paths = self._dirs if is_dir else self._files
        found = -1 if names is None else names.last(name)
        if paths is not None:
            found = max(found, paths.last(path))
        return self._verdicts[found]


class Scope(NamedTuple):
    """Rules, and how a path below the source's root becomes one below the rules' folder: `lead + path[cut:]`."""

    rules: Rules
    cut: int  # bytes
    lead: str


Scopes = tuple[Scope, ...]
"""The rules that hold in a folder, the deepest folder's first."""


def verdict(scopes: Scopes, name: str, path: str, is_dir: bool) -> int:
    """Say what the innermost rules that know the entry tell of it; `path` is below the source's root."""
    if not path.isascii():
        name, path = _as_bytes(os.fsencode(name)), _as_bytes(os.fsencode(path))
    for rules, cut, lead in scopes:
        if found := rules.verdict(name, lead + path[cut:], is_dir):
            return found
    return NONE


def folder_rules(folder: str, names: Iterable[str], notes: list[str]) -> Rules | None:
    """Read the rules in the files `names` of `folder`; None if there are none.

    A file that can't be read or decoded counts as absent, and is told in `notes`.
    """
    texts = []
    for name in sorted(names, key=IGNORE_FILES.index):
        text = _read(os.path.join(folder, name), notes)
        texts.append((text, FORCE if name == ".qidfignore" else KEEP))
    return _compile(tuple(texts))


def outer_scopes(root: str, notes: list[str]) -> Scopes:
    """Read the rules that reach into `root` from the git work tree around it.

    These are the ignore files of the folders above `root`, up to the work tree's top, and the repository's
    info/exclude. No rule is asked about `root` itself: whoever names an ignored folder wants it. git's own
    configuration (`core.excludesFile`) is not read. There are none outside of a work tree.
    """
    above = [(root, "")]  # and the way from there to root
    while not os.path.lexists(dot_git := os.path.join(above[-1][0], ".git")):
        parent, name = os.path.split(above[-1][0])
        if not name:
            return ()
        above.append((parent, f"{name}/{above[-1][1]}"))
    scopes: list[Scope] = []
    for folder, lead in above[1:]:
        present = [name for name in IGNORE_FILES if os.path.lexists(os.path.join(folder, name))]
        if (rules := folder_rules(folder, present, notes)) is not None:
            scopes.append(Scope(rules, 0, _as_bytes(os.fsencode(lead))))
    exclude = os.path.realpath(os.path.join(_git_directory(dot_git), "info", "exclude"))
    if os.path.isfile(exclude) and (rules := _compile(((_read(exclude, notes), KEEP),))) is not None:
        scopes.append(Scope(rules, 0, _as_bytes(os.fsencode(above[-1][1]))))
    return tuple(scopes)


def _git_directory(dot_git: str) -> str:
    """Find the directory that holds info/exclude; .git is a file in a linked work tree and in a submodule."""
    if os.path.isdir(dot_git):
        return dot_git
    try:
        pointer = os.fsdecode(read_regular(dot_git, MAX_IGNORE_BYTES)).removeprefix("gitdir:").strip()
        own = os.path.join(os.path.dirname(dot_git), pointer)
    except UnfitError:
        return dot_git
    try:
        return os.path.join(own, os.fsdecode(read_regular(os.path.join(own, "commondir"), MAX_IGNORE_BYTES)).strip())
    except UnfitError:  # a submodule: nothing is shared with another work tree
        return own


def _read(path: str, notes: list[str]) -> str:
    try:
        data = read_regular(path, MAX_IGNORE_BYTES)
        if b"\0" in data:
            raise UnfitError("binary", "it is not UTF-8")
    except UnfitError as e:
        notes.append(f"ignore rules in {path} are not used: {e}")
        return ""
    return _as_bytes(data.removeprefix(codecs.BOM_UTF8))


def _as_bytes(data: bytes) -> str:
    """Turn each byte into one character that is itself or, above 127, no space or sign to anyone."""
    return data.decode("ascii", "surrogateescape")


@lru_cache(maxsize=1024)
def _compile(texts: tuple[tuple[str, int], ...]) -> Rules | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of sets in sets, which a glob means literally
        lines = ((line, keep) for text, keep in texts for line in text.split("\n"))
        rules = [rule for line, keep in lines if (rule := _translate(line, keep)) is not None]
        return Rules(rules) if rules else None


def _split(numbered: list[tuple[int, _Rule]]) -> tuple[_Alternation | None, _Alternation | None]:
    """Compile the rules about names, and those about paths."""
    names = [(i, rule.regex) for i, rule in numbered if rule.by_name]
    paths = [(i, rule.regex) for i, rule in numbered if not rule.by_name]
    return _Alternation(names) if names else None, _Alternation(paths) if paths else None


def _translate(line: str, keep: int) -> _Rule | None:
    """Read one line of an ignore file; None if it is blank, a comment, or a pattern that git would not match either."""
    line = line.removesuffix("\r")
    stripped = line.rstrip(" ")
    if len(line) > len(stripped) and (len(stripped) - len(stripped.rstrip("\\"))) % 2:
        stripped += " "  # the first of the spaces was escaped
    if not stripped or stripped.startswith("#"):
        return None
    glob = stripped.removeprefix("!")
    by_name = "/" not in glob.removesuffix("/")
    # pathspec reads `a/**` and `a/**/` as everything below `a` and `a` itself; git means what is below.
    if not by_name:
        glob = re.sub(r"/\*\*(/?)$", r"/**/*\1", glob)
    if glob[-1:].isspace() and glob[-1] != " ":  # pathspec cuts any white space, git only spaces
        glob = f"{glob[:-1]}[{glob[-1]}]"
    if "\\/" in glob:  # an escaped slash is a slash, but for the last
        glob = re.sub(r"(?<!\\)((?:\\\\)*)\\/(?=.)", r"\1/", glob)
    if "[:" in glob:
        glob = re.sub(r"\[:(\w+):\]", lambda m: _POSIX_CLASSES.get(m[1], m[0]), glob)

    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    try:
        # Escaped, a `!` or `#` after the first `!` stays what it is: a part of the name.
        regex, include = GitIgnoreSpecPattern.pattern_to_regex(f"\\{glob}" if glob[:1] in ("!", "#") else glob)
    except ValueError:  # git matches nothing with a pattern that is not well-formed
        return None
    if regex is None or include is None:
        return None

    dir_only = not regex.endswith(_ANY_TAIL) and regex.endswith(_DIR_TAIL)
    if dir_only:
        regex = regex.removesuffix(_DIR_TAIL) or ".+"
    elif regex.endswith(_ANY_TAIL):
        regex = regex.removesuffix(_ANY_TAIL)
    else:  # it names a beginning, or (without ^) any part of the path
        regex = f"{regex}.*" if regex.startswith("^") else f".*{regex}.*"
    if by_name:
        regex = _without_backtracking(regex.removeprefix(_ANY_DEPTH))
    else:
        regex = re.sub(r"(?<!\\)\[\^(?!/\])", "(?!/)[^", regex)  # [!a] is no slash
    try:
        if "[" in glob:  # nothing else can be malformed by now
            re.compile(regex)
    except re.error:
        return None
    return _Rule(keep if stripped.startswith("!") else IGNORE, regex, by_name, dir_only)


def _without_backtracking(regex: str) -> str:
    """Let each star of a name's glob but the last end at the first place it can: that loses no match and no time."""
    first, *rest = regex.split("[^/]*")
    if not rest:
        return regex
    return first + "".join(f"(?>[^/]*?{part})" for part in rest[:-1] if part) + f"[^/]*{rest[-1]}"
