"""Collections out of history: which commits ask, what they ask for, and that nothing leaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from qidf.errors import SourceError
from qidf.lab.commits import clean_message, collect
from tests.lab.history import Work


@pytest.fixture
def work(tmp_path: Path) -> Work:
    work = Work(tmp_path / "work")
    work.commit("Begin", {f"{name}.py": f"{name} = 1\n" for name in "abcdef"} | {"tests/test_a.py": "test\n"})
    return work


def test_a_message_asks_for_the_files_that_it_changed(work: Work) -> None:
    id = work.commit("Teach a to count (#12)\n\nSigned-off-by: A <a@example.org>", {"a.py": "a = secret_of_tomorrow\n"})
    collection = collect(work.path)
    assert collection.queries == {id[:12]: "Teach a to count"}
    assert collection.relevant == {id[:12]: ["a.py"]}
    assert sorted(document.id for document in collection.documents) == [f"{name}.py" for name in "abcdef"]
    assert not any("secret" in document.text for document in collection.documents)


@pytest.mark.parametrize(
    ("message", "files", "reason"),
    [
        ("Too short", {"a.py": "2\n"}, "fewer than 3 words"),
        ('Revert "Teach a to count"', {"a.py": "2\n"}, "revert"),
        ("Bump lodash from 1 to 2", {"a.py": "2\n"}, "revert"),
        ("Change far too many files", {f"{name}.py": "2\n" for name in "abcde"}, "more than 4"),
        ("Change nothing but a test", {"tests/test_a.py": "2\n"}, "none or more"),
        ("Change nothing but some prose", {"README.md": "2\n"}, "none or more"),
        ("Add a file that is new", {"g.py": "2\n"}, "new"),
    ],
)
def test_commits_that_ask_nothing_are_counted(
    work: Work, message: str, files: dict[str, str | None], reason: str
) -> None:
    kept = work.commit("Teach b to count, too", {"b.py": "b = 2\n", "tests/test_a.py": "more\n", "h.py": "new\n"})
    work.commit(message, files)
    collection = collect(work.path)
    assert collection.relevant == {kept[:12]: ["b.py"]}
    assert [(reason in own, n) for own, n in collection.skipped.items()] == [(True, 1)]


def test_merges_ask_nothing_and_their_branches_do(work: Work) -> None:
    work.commit("Stand on the main line", {"c.py": "0\n"})
    work.git("checkout", "--quiet", "-b", "side")
    side = work.commit("Change a on the side", {"a.py": "2\n"})
    work.git("checkout", "--quiet", "main")
    main = work.commit("Change b on main", {"b.py": "2\n"})
    work.git("merge", "--quiet", "--no-ff", "-m", "Merge the side into main", "side")
    collection = collect(work.path, commits=1000)
    assert {side[:12], main[:12]} <= set(collection.queries)
    assert len(collection.queries) == 3


def test_no_more_than_asked_for_from_the_tree_on(work: Work) -> None:
    ids = [work.commit(f"Change number {i} of a", {"a.py": f"a = {i}\n"})[:12] for i in range(9)]
    collection = collect(work.path, commits=2)
    assert list(collection.queries) == ids[5:7]  # the base is four commits back
    assert [d.text for d in collection.documents if d.id == "a.py"] == ["a = 4\n"]
    assert collection.about["base"][:12] == ids[4]


def test_a_short_history_is_not_asked_of_its_first_commit(tmp_path: Path) -> None:
    work = Work(tmp_path / "work")
    work.commit("Begin with one file", {"a.py": "0\n"})
    for i in range(20):
        work.commit(f"Add the file number {i}", {f"b{i}.py": "0\n"})
    for i in range(20):
        work.commit(f"Change the file number {i}", {f"b{i}.py": "1\n"})
    collection = collect(work.path)
    assert len(collection.documents) >= 10
    assert len(collection.queries) >= 15


def test_a_bare_and_a_shallow_clone(work: Work, tmp_path: Path) -> None:
    for i in range(9):
        work.commit(f"Change number {i} of a", {"a.py": f"a = {i}\n"})
    work.git("clone", "--quiet", "--bare", str(work.path), str(tmp_path / "bare.git"))
    assert collect(tmp_path / "bare.git").queries == collect(work.path).queries
    work.git("clone", "--quiet", "--depth=3", f"file://{work.path}", str(tmp_path / "shallow"))
    shallow = collect(tmp_path / "shallow")
    assert len(shallow.queries) == 2
    assert "shallow" in shallow.notes[0]
    work.git("clone", "--quiet", "--depth=1", f"file://{work.path}", str(tmp_path / "flat"))
    with pytest.raises(SourceError, match=r"no history to ask questions of .*unshallow"):
        collect(tmp_path / "flat")


def test_a_file_name_that_would_break_the_judgments(work: Work) -> None:
    work.commit("Name a file strangely", {"x\ty.py": "x\n"})
    work.commit("Stand between the two", {"README.md": "2\n"})
    id = work.commit("Change the strange file", {"x\ty.py": "y\n"})
    collection = collect(work.path, commits=1)
    assert collection.relevant == {id[:12]: ["x%09y.py"]}
    assert "x%09y.py" in {document.id for document in collection.documents}


def test_messages_without_trailers_and_numbers() -> None:
    message = "Fix the cache (#12, #13)\n\nIt was slow, see GH-7 and #9.\n\n"
    message += "Co-authored-by: B <b@c>\nFixes: #4\nchange-id: I1\n"
    assert clean_message(message) == "Fix the cache\n\nIt was slow, see  and ."


def test_messages_written_to_take_long_take_no_time() -> None:
    assert clean_message(f"Fix ({'#1111111' * 1000}") == f"Fix ({'#1111111' * 999}"
    assert clean_message(f"Fix{' ' * 100_000}it (#1,  #2, a/b#3)") == f"Fix{' ' * 100_000}it"
