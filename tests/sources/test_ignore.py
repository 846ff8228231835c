from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from qidf.sources.files import FileSource

from .conftest import Tree


def git(where: Path, *arguments: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(where), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "core.excludesFile=/dev/null"]
    run = subprocess.run(["git", *who, *arguments], cwd=where, env=environment, capture_output=True, check=True)
    return os.fsdecode(run.stdout)


def git_files(where: Path) -> list[str]:
    listed = git(where, "ls-files", "-co", "--exclude-standard", "-z").split("\0")
    return sorted({path for path in listed if path})


def found(root: Path) -> list[str]:
    return [entry.path for entry in FileSource(root).scan()]


# Names and patterns share few letters, so that most patterns match something.
# fmt: off
NAMES = [
    "a", "b", "ab", "abc", "a.py", "b.py", "c.txt", "build", "Build", "x-y", "!a", "#b", "[a]", "a b", "b ", "foo",
    "q\\z", "é", "à", "new\nline",
    "Icon", "Icon\r", "b\t",
]
GLOBS = [
    "a", "b", "ab", "abc", "*", "**", "?", "a*", "*b", "*.py", "*.txt", "[ab]", "[!a]", "[^b]*", "[a-c]", "build",
    "foo", "?b", "a**b", "*a*b*", r"\!a", r"\#b", r"\[a\]", "[]a]", "x[-+]y", r"\a", "a b", r"b\ ", "[[]a]", r"q\\z",
    "*c*", "[!a]*[!b]", "[[:alpha:]]", "é", "à", "a\\", "??", "new*", "Icon\r", "b\t",
]
# fmt: on


def random_pattern(rng: random.Random) -> str:
    pattern = "/".join(rng.choice(GLOBS) for _ in range(rng.choice([1, 1, 1, 1, 2, 2, 3])))
    pattern = "/" * (rng.random() < 0.2) + pattern + "/" * (rng.random() < 0.25)
    pattern = "!" * (rng.random() < 0.35) + pattern + " " * (rng.random() < 0.05) + "\r" * (rng.random() < 0.05)
    return "#" * (rng.random() < 0.03) + pattern


def random_patterns(rng: random.Random, most: int) -> str:
    return "\n".join(random_pattern(rng) for _ in range(rng.randint(0, most))) + rng.choice(["", "\n", "\n\n"])


def random_tree(rng: random.Random, folder: Path, depth: int) -> None:
    folder.mkdir(exist_ok=True)
    for name in rng.sample(NAMES, rng.randint(2, 6)):
        if depth and rng.random() < 0.5:
            random_tree(rng, folder / name, depth - 1)
        else:
            (folder / name).write_text("x")
    if rng.random() < 0.6:
        (folder / ".gitignore").write_text(random_patterns(rng, 6), newline="")


def test_agrees_with_git_on_random_trees(tmp_path: Path) -> None:
    for seed in range(120):
        rng = random.Random(seed)
        top = tmp_path / str(seed)
        top.mkdir()
        git(top, "init", "-q", "--template=")
        random_tree(rng, top, 3)
        (top / ".git" / "info").mkdir()
        (top / ".git" / "info" / "exclude").write_text(random_patterns(rng, 3), newline="")
        assert sorted(found(top)) == git_files(top), f"seed {seed}"
        for folder in sorted(top.iterdir())[:3]:
            # git lists nothing in an ignored folder; we do, since the user named it.
            if folder.is_dir() and folder.name != ".git" and (expected := git_files(folder)):
                assert sorted(found(folder)) == expected, f"seed {seed}, from {folder.name!r}"
        shutil.rmtree(top)


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        ({".gitignore": "*.log\n!keep.log"}, ["d/keep.log", "d/x.py", "keep.log"]),
        ({".gitignore": "/keep.log\n"}, ["a.log", "d/b.log", "d/keep.log", "d/x.py"]),
        ({".gitignore": "d/\n!d/x.py"}, ["a.log", "keep.log"]),
        ({".gitignore": "d/*\n!d/x.py"}, ["a.log", "d/x.py", "keep.log"]),
        ({".gitignore": "d/**\n!d/x.py"}, ["a.log", "d/x.py", "keep.log"]),
        ({".gitignore": "*.log", "d/.gitignore": "!*.log"}, ["d/b.log", "d/keep.log", "d/x.py"]),
        ({".gitignore": "*.log", ".ignore": "!a.log"}, ["a.log", "d/x.py"]),
        ({".qidfignore": "*.log", ".ignore": "!a.log"}, ["d/x.py"]),
        ({".qidfignore": "*.log", "d/.gitignore": "!b.log"}, ["d/b.log", "d/x.py"]),
        ({".gitignore": b"\xef\xbb\xbf*.log\r\n"}, ["d/x.py"]),
        ({".gitignore": "[[:lower:]].log\n[z-a]\nx\\"}, ["d/keep.log", "d/x.py", "keep.log"]),
    ],
)
def test_rules(tree: Tree, rules: dict[str, str | bytes], kept: list[str]) -> None:
    root = tree({"a.log": "1", "keep.log": "1", "d/b.log": "1", "d/keep.log": "1", "d/x.py": "1", **rules})
    assert [path for path in found(root) if "ignore" not in path] == kept


def test_a_root_inside_a_work_tree_obeys_the_rules_above_it(tree: Tree) -> None:
    root = tree(
        {".gitignore": "*.log\n/in/deep/no.py\n", "in/deep/no.py": "1", "in/deep/a.log": "1", "in/deep/b.py": "1"}
    )
    assert found(root / "in" / "deep") == ["a.log", "b.py", "no.py"], "no work tree: the files above are not ours"
    git(root, "init", "-q")
    (root / ".git" / "info" / "exclude").write_text("in/deep/b.py\n")
    assert found(root / "in" / "deep") == []


def test_an_ignored_root_is_read_when_it_is_named(tree: Tree) -> None:
    root = tree({".gitignore": "build/\n", "build/a.py": "1"})
    git(root, "init", "-q")
    assert found(root / "build") == ["a.py"]


def test_a_linked_work_tree_and_a_submodule_find_their_exclude_file(tree: Tree) -> None:
    root = tree({"main/a.py": "1", "main/b.py": "1"})
    main = root / "main"
    git(main, "init", "-q")
    git(main, "add", ".")
    git(main, "commit", "-qm", "1")
    git(main, "worktree", "add", "-q", "../linked")
    git(main, "clone", "-q", "--separate-git-dir", str(root / "elsewhere"), ".", "../separate")
    (main / ".git" / "info" / "exclude").write_text("a.py\n")
    (root / "elsewhere" / "info" / "exclude").write_text("b.py\n")
    assert (root / "linked" / ".git").is_file()
    assert found(root / "linked") == ["b.py"]
    assert found(root / "separate") == ["a.py"]


def test_an_ignore_file_that_cannot_be_used_counts_as_absent_and_is_told(tree: Tree) -> None:
    root = tree({"a/.gitignore": "*.py".encode("utf-16"), "a/x.py": "1", "b/.gitignore/x": "1", "b/x.py": "1"})
    os.symlink("../a/x.py", root / "c.gitignore")
    os.mkfifo(root / ".ignore")
    source = FileSource(root)
    assert [entry.path for entry in source.scan()] == ["a/.gitignore", "a/x.py", "b/.gitignore/x", "b/x.py"]
    assert len(source.notes) == 3
    assert any(f"{root}/a/.gitignore are not used: it is not UTF-8" in note for note in source.notes)
    source.scan()
    assert len(source.notes) == 3, "of the last scan only"


def test_a_hostile_glob_takes_no_time(tree: Tree) -> None:
    root = tree({".gitignore": "*a*a*a*a*a*a*a*a*a*a*a*b\n" + "*" * 60 + "c\n", "a" * 200: "1"})
    assert found(root) == [".gitignore", "a" * 200]
