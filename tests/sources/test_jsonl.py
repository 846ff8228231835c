from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from qidf.errors import SourceError
from qidf.sources import Document, FileEntry, jsonl
from qidf.sources.jsonl import JsonlSource


def write(folder: Path, data: str | bytes, name: str = "x.jsonl") -> Path:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize(
    ("line", "document"),
    [
        ('{"id": "a", "text": "t"}', Document("a", "t")),
        ('{"_id": "a", "text": "t", "title": "", "metadata": {}}', Document("a", "t")),
        ('{"_id": "b", "id": "a", "text": "t", "title": "T"}', Document("a", "T\nt")),
        ('{"id": 7, "text": "", "path": "a/b.py", "line": 12}', Document("7", "", "a/b.py", 12)),
        ('{"id": "a", "text": "t", "score": NaN, "line": null, "path": null, "title": null}', Document("a", "t")),
        ('\ufeff{"id": "é☃", "text": "\\u00e9\\ud83d\\ude00"}\r', Document("é☃", "é😀")),
        ('{"id": "a", "text": "x\\ud800y"}', Document("a", "x\ufffdy")),
        ('{"id": "a", "text": "l\\u2028m\u2028n"}', Document("a", "l\u2028m\u2028n")),
    ],
)
@pytest.mark.parametrize("end", ["", "\n", "\n\n  \n"])
def test_a_line_is_a_document(tmp_path: Path, line: str, document: Document, end: str) -> None:
    assert list(JsonlSource(write(tmp_path, line + end)).documents()) == [document]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON: "),
        ("{'id': 1}", "not JSON: "),
        ('{"id": ' + "9" * 5000 + "}", "not JSON: "),
        ("[" * 200_000, "not JSON"),
        ("[1]", "expected an object with id and text, got an array"),
        ("3.5", "got a number"),
        ("null", "got null"),
        ('{"text": "t"}', 'no id: expected "id" or "_id", a string or an integer'),
        ('{"id": null, "text": "t"}', "no id"),
        ('{"id": "", "text": "t"}', '"id": expected a string that is not empty'),
        ('{"_id": 1.5, "text": "t"}', '"_id": expected a string or an integer, got a number'),
        ('{"id": true, "text": "t"}', '"id": expected a string or an integer, got a boolean'),
        ('{"id": "a"}', 'no text: expected "text", a string'),
        ('{"id": "a", "text": ["t"]}', '"text": expected a string, got an array'),
        ('{"id": "a", "text": "t", "title": 1}', '"title": expected a string, got a number'),
        ('{"id": "a", "text": "t", "path": {}}', '"path": expected a string, got an object'),
        ('{"id": "a", "text": "t", "line": 0}', '"line": expected an integer of 1 or more, got 0'),
        ('{"id": "a", "text": "t", "line": "1"}', '"line": expected an integer of 1 or more, got a string'),
        ('{"id": "a", "text": "t", "line": true}', '"line": expected an integer of 1 or more, got a boolean'),
        (b'{"id": "a", "text": "caf\xe9"}', "invalid UTF-8 at byte 25"),
    ],
)
def test_an_error_names_file_line_and_what_was_expected(tmp_path: Path, line: str | bytes, said: str) -> None:
    data = b'{"id": 1, "text": "t"}\n\n' + (line if isinstance(line, bytes) else line.encode()) + b"\n"
    path = write(tmp_path, data)
    documents = JsonlSource(path).documents()
    assert next(documents).id == "1"
    with pytest.raises(SourceError) as caught:
        next(documents)
    assert str(caught.value).startswith(f"{path}, line 3: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_line_too_long_is_an_error_and_not_a_full_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE", 1024**2)
    line = b'{"id": 1, "text": "%s"}'
    exact = line % (b"x" * (1024**2 - len(line) + 2))
    assert len(list(JsonlSource(write(tmp_path, exact)).documents())) == 1
    for data, name in ((exact + b" ", "x.jsonl"), (gzip.compress(b" " * 50 * 1024**2), "x.jsonl.gz")):
        with pytest.raises(SourceError, match="line 1: longer than 1 MiB"):
            list(JsonlSource(write(tmp_path, data, name)).documents())


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.ndjson.gz"])
def test_gzip(tmp_path: Path, name: str) -> None:
    data = b"".join(b'{"id": %d, "text": "t%d"}\n' % (i, i * i) for i in range(5000))
    packed = gzip.compress(data)
    path = write(tmp_path, packed, name)
    assert [document.text for document in JsonlSource(path).documents()] == [f"t{i * i}" for i in range(5000)]
    flipped = packed[:5000] + bytes([packed[5000] ^ 0xFF]) + packed[5001:]
    for broken in (packed[: len(packed) // 2], data, flipped, packed[:-3]):
        path.write_bytes(broken)
        with pytest.raises(SourceError, match=f"{name}, (after )?line "):
            list(JsonlSource(path).documents())


def test_scan_lists_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, '{"id": 1, "text": "t"}')
    source = JsonlSource(path)
    status = path.stat()
    assert source.scan() == [FileEntry("x.jsonl", status.st_size, status.st_mtime_ns, status.st_ino)]
    assert len(list(source.documents(source.scan()))) == 1
    assert list(source.documents([])) == []
    assert (source.root, source.skipped, source.summary(), source.notes) == (path.resolve(), {}, "", [])
    path.unlink()
    for act in (source.scan, lambda: list(source.documents())):
        with pytest.raises(SourceError, match=r"can't read .*x.jsonl: No such file"):
            act()


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.jsonl")
    for path in (tmp_path / "fifo.jsonl", tmp_path):
        with pytest.raises(SourceError, match=r"not a file: .*; give a file of JSON lines"):
            JsonlSource(path)
