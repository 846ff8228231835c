"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from qidf.errors import SourceError
from qidf.lab.files import write


def test_a_file_is_replaced_when_the_new_one_is_whole(tmp_path: Path) -> None:
    place = tmp_path / "a.txt"
    write(place, ["one\n"])

    def breaks() -> Iterator[str]:
        yield "two\n"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(place, breaks())
    assert place.read_text() == "one\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    write(place, ["three\n"])
    assert place.read_text() == "three\n"


def test_what_is_no_file_stays_what_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(SourceError, match="not a file"):
            write(tmp_path / name, ["x"])
    assert (tmp_path / "pipe").is_fifo()
    with pytest.raises(SourceError, match="can't write"):
        write(tmp_path / "nowhere" / "a.txt", ["x"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe"]
