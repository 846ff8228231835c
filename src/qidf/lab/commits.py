"""A test collection out of a repository's history: commit messages, and the source files that they changed.

The corpus is the tree before all of these commits, so that no document can hold what a query led to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from qidf.errors import SourceError
from qidf.lab.collection import Collection, label, safe_id
from qidf.lab.git import Blob, Commit, Repository
from qidf.lab.languages import is_source, is_test
from qidf.sources import MAX_BYTES, Document
from qidf.weighting import check_count

COMMITS = 500
"""Queries that are looked for."""

MOST_FILES = 4
"""Source files that a commit may change; one that changes more is no answer to a question."""

FEWEST_WORDS = 3
"""Of a message, what is taken out of it not counted."""

_DEEPEST = 1 << 20
_TRAILER = re.compile(
    r"^(?:[a-z][\w-]*-(?:by|id|on|to|url|link|number)|closes|fixes|refs?|see|issue|bug|cc|link)\s*:"
    r"|^\(cherry picked from |^PiperOrigin-RevId",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<!\s)\s*+\((?:[\w./-]*+#\d++(?:,\s*+)?+)++\)|(?<!\w)#\d+\b|\bGH-\d+\b")  # linear in the text
_SKIPPED = re.compile(
    r"(?:revert|merge|bump|release)\b|(?:build|chore)\(deps|v?\d+\.\d+|update changelog|fixup!|squash!", re.IGNORECASE
)

Progress = Callable[[int, int], None]


def collect(path: str | os.PathLike[str], *, commits: int = COMMITS, progress: Progress | None = None) -> Collection:
    """Make a test collection of a repository's last commits.

    A commit asks if it is no merge, revert, release or bump of a dependency, its message has three words or more, and
    it changed one to four source files, tests left out, of which one at least was in the tree before. Trailers
    (`Signed-off-by:` …) and numbers of issues are taken out of messages.

    Parameters
    ----------
    path : str or path
        A work tree or a bare clone.
    commits : int, default 500
        The most queries: the first ones after the tree that is the corpus.
    progress : callable, optional
        Is told how many files are read, of how many.

    Raises
    ------
    SourceError
        There is no repository, or its history is too short.
    """
    wanted = check_count("commits", commits)
    repository = Repository(path)
    base, tree, found, skipped = _window(repository, wanted)
    collection = Collection()
    collection.skipped.update(skipped)
    collection.about = {
        "kind": "commits",
        "repository": label(repository.path),
        "tip": repository.head,
        "base": base,
    }
    if len(found) < wanted and repository.is_shallow:
        collection.notes.append("the history is shallow: git fetch --unshallow brings more commits")
    for at, text in repository.texts(tree, collection.skipped, progress):
        collection.documents.append(Document(safe_id(at), text, at))
    held = {document.id for document in collection.documents}
    for commit, message, files in found:
        if files := [safe_id(file) for file in files if safe_id(file) in held]:
            collection.queries[commit.id[:12]] = message
            collection.relevant[commit.id[:12]] = files
    return collection


Found = tuple[Commit, str, list[str]]


def _window(repository: Repository, wanted: int) -> tuple[str, list[Blob], list[Found], dict[str, int]]:
    """Return a base with enough good commits after it, its source files, and these commits, oldest first.

    Where the history is too short for that, the base with the most of them is taken: the first commit of a project has
    hardly a file to ask for.
    """
    line = repository.mainline(_DEEPEST)
    if len(line) < 2:
        shallow = " (it is shallow: git fetch --unshallow)" if repository.is_shallow else ""
        raise SourceError(f"{repository.path} has no history to ask questions of{shallow}")
    last = len(line) - 1
    depths = sorted({2 * wanted << i for i in range(20)} | {max(1, last * i // 4) for i in (1, 2, 3, 4)})
    depths = [depth for depth in depths if depth <= last and (depth >= 2 * wanted or last < 4 * wanted)]
    best: tuple[str, list[Blob], list[Found], dict[str, int]] | None = None
    for depth in depths:
        base = line[depth]
        tree = [
            blob
            for blob in repository.tree(base)
            if is_source(blob.path) and not is_test(blob.path) and blob.size <= MAX_BYTES
        ]
        held = {blob.path for blob in tree}
        skipped: dict[str, int] = {}
        found: list[Found] = []
        for commit in repository.commits(base, repository.head):
            message, files, reason = _question(commit, held)
            if reason:
                skipped[reason] = skipped.get(reason, 0) + 1
            else:
                found.append((commit, message, files))
        if best is None or min(len(found), wanted) > len(best[2]):
            best = base, tree, found[::-1][:wanted], skipped
        if len(best[2]) >= wanted:
            break
    assert best is not None
    return best


def _question(commit: Commit, held: set[str]) -> tuple[str, list[str], str]:
    """Return a commit's message and the files of the tree that it changed, or why it asks nothing."""
    message = clean_message(commit.message)
    if _SKIPPED.match(message):
        return "", [], "commits that revert, release or bump"
    if len(re.findall(r"\w+", message)) < FEWEST_WORDS:
        return "", [], f"messages of fewer than {FEWEST_WORDS} words"
    changed = [path for _, path in commit.changes if is_source(path) and not is_test(path)]
    if not 1 <= len(changed) <= MOST_FILES:
        return "", [], f"commits of none or more than {MOST_FILES} source files"
    files = [path for path in changed if path in held]
    return (message, files, "") if files else ("", [], "commits of files that are new")


def clean_message(message: str) -> str:
    """Return a commit message without trailers and numbers of issues."""
    lines = [line for line in message.splitlines() if not _TRAILER.match(line.strip())]
    return _NUMBER.sub("", "\n".join(lines)).strip()
