"""What is read of git repositories, by real ones."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import GeneratorType

import pytest

from qidf.errors import SourceError
from qidf.lab.git import Repository, is_repository
from tests.lab.history import Work


@pytest.fixture
def work(tmp_path: Path) -> Work:
    work = Work(tmp_path / "work")
    work.commit("First files", {"a.py": "one = 1\n", "été/b c.py": "two = 2\n"})
    work.commit("Change one file\n\nBecause.", {"a.py": "one = 11\n"})
    return work


def test_trees_and_contents(work: Work) -> None:
    repository = Repository(work.path)
    blobs = repository.tree(repository.head)
    assert [(blob.path, blob.size) for blob in blobs] == [("a.py", 9), ("été/b c.py", 8)]
    assert list(repository.read([blobs[1].oid, "0" * 40, blobs[0].oid])) == [b"two = 2\n", None, b"one = 11\n"]


def test_commits_after_a_base_newest_first(work: Work) -> None:
    repository = Repository(work.path)
    first = repository.mainline(10)[-1]
    work.commit("Add and remove", {"c.py": "three\n", "a.py": None})
    later = Repository(work.path)
    newest, older = later.commits(first, later.head)
    assert (newest.message.strip(), sorted(newest.changes)) == ("Add and remove", [("A", "c.py"), ("D", "a.py")])
    assert (older.message.strip(), older.changes) == ("Change one file\n\nBecause.", [("M", "a.py")])


def test_symlinks_and_submodules_are_no_files(work: Work) -> None:
    os.symlink("/etc/passwd", work.path / "link.py")
    work.commit("Add a link", {})
    repository = Repository(work.path)
    assert [blob.path for blob in repository.tree(repository.head)] == ["a.py", "été/b c.py"]


def test_a_bare_clone_reads_as_its_original(work: Work, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    work.git("clone", "--quiet", "--bare", str(work.path), str(bare))
    assert is_repository(bare)
    assert not is_repository(work.path)
    ours, theirs = Repository(work.path), Repository(bare)
    assert ours.tree(ours.head) == theirs.tree(theirs.head)
    assert ours.is_shallow is theirs.is_shallow is False


def test_a_linked_work_tree_is_a_repository(work: Work, tmp_path: Path) -> None:
    work.git("worktree", "add", "--quiet", str(tmp_path / "linked"))
    assert Repository(tmp_path / "linked").head == Repository(work.path).head


def test_a_stranger_s_configuration_runs_nothing(work: Work, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {touched}\n")
    script.chmod(0o755)
    signed = work.git("cat-file", "commit", "HEAD").replace(
        "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n iQ\n -----END PGP SIGNATURE-----\n\n", 1
    )
    (tmp_path / "signed").write_text(signed)
    work.git("reset", "--soft", work.git("hash-object", "-t", "commit", "-w", str(tmp_path / "signed")).strip())
    work.git("config", "log.showSignature", "true")
    keys = ("core.fsmonitor", "core.pager", "diff.external", "core.sshCommand", "diff.own.textconv", "gpg.program")
    for key in keys:
        work.git("config", key, str(script))
    (work.path / ".git" / "info" / "attributes").write_text("*.py diff=own\n")
    repository = Repository(work.path)
    list(repository.commits(repository.mainline(2)[-1], repository.head))
    list(repository.read(blob.oid for blob in repository.tree(repository.head)))
    assert not touched.exists()


def test_what_is_no_repository_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no git repository at"):
        Repository(tmp_path / "nowhere")
    with pytest.raises(SourceError, match="not a git repository"):
        Repository(tmp_path)
    subprocess.run(["git", "init", "--quiet", str(tmp_path / "empty")], check=True)
    with pytest.raises(SourceError, match="no commit"):
        Repository(tmp_path / "empty")


def test_a_message_may_hold_anything(work: Work) -> None:
    message = "Say \x1e and \x1f\n\n:100644 100644 a b M\x1fid\ttab\x1e\nand more"
    id = work.commit(message, {"a.py": "one = 3\n"})
    work.commit("Nothing at all", {})
    repository = Repository(work.path)
    nothing, odd, *_ = repository.commits(repository.mainline(9)[-1], repository.head)
    assert (nothing.message.strip(), nothing.changes) == ("Nothing at all", [])
    assert (odd.id, odd.message.strip(), odd.changes) == (id, message, [("M", "a.py")])


def test_a_repository_that_breaks_off_is_an_error(work: Work) -> None:
    repository = Repository(work.path)
    oids = [blob.oid for blob in repository.tree(repository.head)]
    reading = repository.read(oids * 2)
    assert isinstance(reading, GeneratorType)
    next(reading)
    assert reading.gi_frame is not None
    reading.gi_frame.f_locals["process"].kill()
    with pytest.raises(SourceError, match="git stopped while reading"):
        list(reading)
