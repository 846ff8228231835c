"""`watch`: an index that follows a directory, whatever happens to it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qidf.errors import QidfError
from qidf.index import Index
from qidf.index.watch import watch

PATIENCE = 30.0


class Watched:
    """A watch in a thread, and what it told."""

    def __init__(self, path: Path, place: Path) -> None:
        self.place = place
        self.told: list[Any] = []
        self.errors: list[str] = []
        self.stop = threading.Event()
        self.thread = threading.Thread(
            target=watch,
            args=(path, place),
            kwargs={
                "on_refresh": self.told.append,
                "on_error": lambda error: self.errors.append(str(error)),
                "stop": self.stop,
            },
        )
        self.thread.start()
        self.wait(lambda: bool(self.told))

    def wait(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while not condition():
            assert self.thread.is_alive()
            assert time.monotonic() < until, (self.told, self.errors)
            time.sleep(0.02)

    def wait_for(self, query: str, ids: set[str]) -> None:
        self.wait(lambda: {hit.id for hit in Index.open(self.place).search(query, 9999)} == ids)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "src").mkdir(parents=True)
    (root / "a.py").write_text("alpha")
    (root / "src" / "b.py").write_text("beta")
    return root


@pytest.fixture
def watched(tree: Path, tmp_path: Path) -> Iterator[Watched]:
    one = Watched(tree, tmp_path / "index")
    yield one
    one.stop.set()
    one.thread.join(PATIENCE)
    assert not one.thread.is_alive()


def test_edits_renames_and_deleted_folders_are_followed(tree: Path, watched: Watched) -> None:
    watched.wait_for("alpha", {"a.py"})
    (tree / "a.py").write_text("alpha omega")
    watched.wait_for("omega", {"a.py"})
    (tree / "new" / "deep").mkdir(parents=True)
    (tree / "new" / "deep" / "c.py").write_text("omega")
    watched.wait_for("omega", {"a.py", "new/deep/c.py"})
    (tree / "new").rename(tree / "other")
    watched.wait_for("omega", {"a.py", "other/deep/c.py"})
    shutil.rmtree(tree / "other")
    watched.wait_for("omega", {"a.py"})
    (tree / ".gitignore").write_text("src/\n")
    watched.wait_for("beta", set())
    assert watched.errors == []


def test_the_folder_itself_may_go_away_and_come_back(tree: Path, watched: Watched) -> None:
    tree.rename(tree.with_name("elsewhere"))
    watched.wait(lambda: not tree.exists())
    time.sleep(1.5)
    assert {hit.id for hit in Index.open(watched.place).search("beta")} == {"src/b.py"}, "the last commit stands"
    tree.mkdir()
    (tree / "z.py").write_text("zeta beta")
    watched.wait_for("zeta beta", {"z.py"})
    (tree / "z.py").write_text("zeta eta")
    watched.wait_for("eta", {"z.py"})


def test_a_switch_of_thousands_of_files_is_followed(tree: Path, watched: Watched) -> None:
    for i in range(5000):
        (tree / "src" / f"{i}.py").write_text(f"first number{i}")
    watched.wait_for("first", {f"src/{i}.py" for i in range(5000)})
    for i in range(5000):
        new = tree / "src" / f"{i}.new"
        new.write_text(f"second number{i}")
        new.rename(tree / "src" / f"{i}.py")
    watched.wait_for("second", {f"src/{i}.py" for i in range(5000)})
    assert Index.open(watched.place).search("first") == []


def test_a_file_of_json_lines_is_followed_when_it_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "docs.jsonl"
    file.write_text(json.dumps({"id": "1", "text": "alpha"}))
    one = Watched(file, tmp_path / "index")
    try:
        (tmp_path / "aside").write_text(json.dumps({"id": "2", "text": "alpha"}))
        (tmp_path / "aside").replace(file)
        one.wait_for("alpha", {"2"})
        file.write_text("no json")
        one.wait(lambda: bool(one.errors))
        assert "line 1" in one.errors[0]
        file.write_text(json.dumps({"id": "3", "text": "alpha"}))
        one.wait_for("alpha", {"3"})
    finally:
        one.stop.set()
        one.thread.join(PATIENCE)


def test_without_events_it_looks_now_and_then(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import watchfiles

    def none(*_: Any, **__: Any) -> Iterator[Any]:
        raise OSError("OS file watch limit reached")
        yield

    monkeypatch.setattr(watchfiles, "watch", none)
    monkeypatch.setattr("qidf.index.watch._POLL", 0.05)
    notes: list[str] = []
    stop = threading.Event()
    options: dict[str, Any] = {"on_refresh": lambda _: None, "on_error": lambda _: None, "on_note": notes.append}
    thread = threading.Thread(target=watch, args=(tree, tmp_path / "index"), kwargs={**options, "stop": stop})
    thread.start()
    try:
        until = time.monotonic() + PATIENCE
        while not notes and time.monotonic() < until:
            time.sleep(0.01)
        assert "watch limit" in notes[0]
        (tree / "a.py").write_text("omega")
        while not Index.open(tmp_path / "index").search("omega") and time.monotonic() < until:
            time.sleep(0.01)
        assert [hit.id for hit in Index.open(tmp_path / "index").search("omega")] == ["a.py"]
    finally:
        stop.set()
        thread.join(PATIENCE)


def test_without_watchfiles_it_says_how_to_install_it(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(QidfError, match=r"pip install 'qidf\[watch\]'"):
        watch(tree, tmp_path / "index", on_refresh=lambda _: None, on_error=lambda _: None)


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_the_command_tells_each_refresh_and_ends_with_an_interrupt(tree: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "qidf",
        "index",
        str(tree),
        "--index",
        str(tmp_path / "index"),
        "--watch",
        "--json",
    ]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["documents"] == 2
        time.sleep(1)
        (tree / "c.py").write_text("gamma")
        told = json.loads(process.stdout.readline())
        assert (told["documents"], told["added"]) == (3, 1)
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert rest == ""
    assert "watching" in errors
    assert errors.strip().endswith("interrupted")
    assert Index.open(tmp_path / "index").documents == 3
