from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from qidf.kernels import COMPILED

Run = Callable[..., subprocess.CompletedProcess[str]]
KEYS = {"rank", "id", "path", "start_line", "end_line", "score", "snippet"}


def test_plain_output_when_piped(qidf: Run, index: Path) -> None:
    done = qidf("search", "getUserById users", "--index", index, "-k", "1")
    assert done.returncode == 0
    assert done.stderr == ""
    assert re.match(r" 1  users\.py:8-12  \d+\.\d{4}\n", done.stdout)
    assert "     8 │ def getUserById(self, user_id):\n" in done.stdout
    assert "\x1b" not in done.stdout


def test_json_schema(qidf: Run, index: Path) -> None:
    done = qidf("search", "parse the config file", "--index", index, "--json")
    hits = json.loads(done.stdout)
    assert done.stdout.isascii()
    assert [hit["rank"] for hit in hits] == list(range(1, len(hits) + 1))
    assert hits[0]["id"] == hits[0]["path"] == "config.py"
    for hit in hits:
        assert set(hit) == KEYS
        assert hit["end_line"] - hit["start_line"] == hit["snippet"].count("\n")
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)


def test_same_as_the_python_api(qidf: Run, index: Path) -> None:
    import qidf as library

    done = qidf(
        "search", "config retries", "--index", index, "--json", "--q", "0.5", "--a", "0", "--k1", "2", "--b", "0"
    )
    hits = library.Index.open(index).search("config retries", q=0.5, a=0, k1=2, b=0)
    assert [(hit["id"], hit["score"]) for hit in json.loads(done.stdout)] == [(hit.id, hit.score) for hit in hits]


def test_explain_under_each_hit(qidf: Run, index: Path) -> None:
    done = qidf("search", "config backoff zorglub", "--index", index, "--explain")
    assert re.search(r"^    (config|backoff) \+\d\.\d{4}", done.stdout, re.MULTILINE)
    done = qidf("search", "config backoff zorglub", "--index", index, "--explain", "--json")
    for hit in json.loads(done.stdout):
        assert set(hit) == KEYS | {"terms"}
        total = 0.0
        for term in hit["terms"]:
            total += term["contribution"]
        assert total == hit["score"]


@pytest.mark.parametrize("query", ["", "  ", "?!", "zorglub", "zorglub frobnicate"])
def test_no_hits_is_no_error(qidf: Run, index: Path, query: str) -> None:
    done = qidf("search", query, "--index", index)
    assert (done.returncode, done.stdout) == (0, "")
    said = "no word of the query is in the index: zorglub" if "z" in query else "the query holds no word"
    assert done.stderr.startswith(f"qidf: {said}")
    assert json.loads(qidf("search", query, "--index", index, "--json").stdout) == []


def test_some_unknown_words_are_named(qidf: Run, index: Path) -> None:
    done = qidf("search", "config zorglub", "--index", index)
    assert done.stdout
    assert done.stderr == "qidf: not in the index: zorglub\n"


def test_query_that_looks_like_an_option(qidf: Run, index: Path) -> None:
    assert qidf("search", "--index", index, "--", "--config").returncode == 0


# which index is asked


def test_path_is_indexed_in_the_cache_folder_and_refreshed(qidf: Run, own_tree: Path, tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    first = qidf("search", "getUserById users", "-k", "1", cwd=own_tree, env=env)
    assert "users.py:8" in first.stdout
    assert first.stderr == "qidf: indexed 4 documents\n"
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["qidf"]
    assert sorted(path.name for path in own_tree.iterdir()) == ["config.py", "net", "notes.md", "users.py"]
    second = qidf("search", "getUserById users", "-k", "1", own_tree, env=env)
    assert (second.stdout, second.stderr) == (first.stdout, "")
    (own_tree / "new.py").write_text("def quuxify(): pass\n")
    stale = qidf("search", "quuxify", "--no-refresh", own_tree, env=env)
    assert (stale.stdout, stale.returncode) == ("", 0)
    third = qidf("search", "quuxify", own_tree, env=env)
    assert "new.py:1" in third.stdout
    assert "1 added" in third.stderr


def test_path_with_index_keeps_path_indexed_there(qidf: Run, own_tree: Path, tmp_path: Path) -> None:
    place = tmp_path / "idx"
    assert "users.py" in qidf("search", "getUserById", own_tree, "--index", place).stdout
    (own_tree / "new.py").write_text("def quuxify(): pass\n")
    assert qidf("search", "quuxify", "--index", place).stdout == ""  # alone: as it stands
    assert "new.py" in qidf("search", "quuxify", own_tree, "--index", place).stdout


def test_index_inside_its_own_path_stays_out_of_it(qidf: Run, own_tree: Path) -> None:
    place = own_tree / "made" / "idx"
    assert "4 documents" in qidf("index", own_tree, "--index", place).stdout
    assert qidf("index", own_tree, "--index", place).stdout.startswith("up to date: 4 documents")


def test_no_refresh_without_an_index(qidf: Run, own_tree: Path) -> None:
    done = qidf("search", "x", own_tree, "--no-refresh")
    assert done.returncode == 2
    assert done.stderr == f"qidf: error: no index of {own_tree} yet (leave out --no-refresh to build it)\n"


def test_search_while_another_process_writes(qidf: Run, own_tree: Path, tmp_path: Path) -> None:
    from filelock import FileLock

    place = tmp_path / "idx"
    qidf("index", own_tree, "--index", place)
    (own_tree / "users.py").write_text("class UserStore: pass\n")
    with FileLock(place / "write.lock"):
        done = qidf("search", "UserStore", own_tree, "--index", place)
        locked = qidf("index", own_tree, "--index", place)
    assert done.returncode == 0
    assert "users.py:1" in done.stdout
    assert "(changed since indexed)" in done.stdout
    assert "answering from the index as it stands" in done.stderr
    assert locked.returncode == 2
    assert "another process writes" in locked.stderr


# files that are not what was indexed


def test_changed_and_gone_files_are_told(qidf: Run, own_tree: Path, tmp_path: Path) -> None:
    place = tmp_path / "idx"
    qidf("index", own_tree, "--index", place)
    (own_tree / "users.py").write_text("\n\n\nusers are gone; getUserById stays\n")
    (own_tree / "notes.md").unlink()
    done = qidf("search", "getUserById", "--index", place)
    assert re.search(r"users\.py:4  [\d.]+  \(changed since indexed\)", done.stdout)
    assert re.search(r"notes\.md  [\d.]+  \(gone since indexed\)", done.stdout)
    done = qidf("search", "getUserById", "--index", place, "--json")
    hits = {hit["id"]: hit for hit in json.loads(done.stdout)}
    assert set(hits["notes.md"]) == KEYS
    assert [hits["notes.md"][key] for key in ("start_line", "end_line", "snippet")] == [None, None, None]
    assert hits["users.py"]["start_line"] == 4
    assert "qidf: changed since indexed: users.py" in done.stderr
    assert "qidf: no snippet, gone since indexed: notes.md" in done.stderr


def test_file_that_became_a_folder_or_binary(qidf: Run, own_tree: Path, tmp_path: Path) -> None:
    place = tmp_path / "idx"
    qidf("index", own_tree, "--index", place)
    (own_tree / "users.py").unlink()
    (own_tree / "users.py").mkdir()
    (own_tree / "notes.md").write_bytes(b"\0\0\0")
    done = qidf("search", "getUserById", "--index", place)
    assert done.returncode == 0
    assert done.stdout.count("(can't be read any more") == 2


def test_jsonl_snippets_need_store(qidf: Run, tmp_path: Path) -> None:
    source = tmp_path / "docs.jsonl"
    source.write_text(json.dumps({"id": "one", "text": "alpha\nbeta gamma", "path": "x.py", "line": 10}) + "\n")
    done = qidf("search", "beta", source, "--index", tmp_path / "a")
    assert "(text not stored; index with --store)" in done.stdout
    qidf("index", source, "--store", "--index", tmp_path / "b")
    [hit] = json.loads(qidf("search", "beta", source, "--index", tmp_path / "b", "--json").stdout)
    assert (hit["path"], hit["start_line"], hit["snippet"]) == ("x.py", 11, "beta gamma")


# what reaches the terminal


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    root = tmp_path / "hostile"
    root.mkdir()
    (root / "esc\x1b[31m\nname.py").write_text("needle \x1b]0;owned\x07 \x1b[2J \x9b31m \u202e evil\x7f\n")
    try:
        (Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9.py"))).write_text("needle latin name\n")
    except OSError:
        pytest.skip("the file system takes UTF-8 names only")
    (root / "漢字.py").write_text("# needle 漢字 " + "漢" * 300 + "\n")
    (root / "long.txt").write_text("x " * 900 + "needle " + "y " * 900)
    return root


def test_hostile_text_and_names_are_harmless(qidf: Run, hostile: Path, tmp_path: Path) -> None:
    done = qidf("search", "needle", hostile, "--index", tmp_path / "idx")
    assert done.returncode == 0
    assert done.stdout.count(" │ ") == 4
    for character in done.stdout + done.stderr:
        assert character == "\n" or character.isprintable(), repr(character)
    assert "esc␛[31m␊name.py" in done.stdout
    assert "caf�.py" in done.stdout
    assert max(map(len, done.stdout.splitlines())) < 300
    done = qidf("search", "needle", hostile, "--index", tmp_path / "idx", "--json")
    assert done.stdout.isascii()
    hits = json.loads(done.stdout)
    assert {os.fsencode(hit["id"]) for hit in hits} == set(map(os.fsencode, os.listdir(hostile)))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_any_encoding_of_the_output(qidf: Run, hostile: Path, tmp_path: Path, encoding: str) -> None:
    script = (
        "import subprocess, sys; r = subprocess.run(sys.argv[1:], capture_output=True); print(r.returncode, r.stderr)"
    )
    done = qidf(
        sys.executable, "-m", "qidf", "search", "needle", hostile, "--index", tmp_path / "idx",
        command=("-c", script), env={"PYTHONIOENCODING": encoding},
    )  # fmt: skip
    assert done.stdout.startswith("0 ")


def terminal(
    environment: dict[str, str], columns: int, arguments: list[str], env: dict[str, str] | None = None
) -> tuple[str, int]:
    """Run qidf with a terminal of this width as its standard output and error."""
    pty = pytest.importorskip("pty")
    import fcntl
    import struct
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    child = subprocess.Popen(
        [sys.executable, "-m", "qidf", *arguments],
        stdin=slave, stdout=slave, stderr=slave, env={**environment, **(env or {})},
    )  # fmt: skip
    os.close(slave)
    data = b""
    while True:
        try:
            piece = os.read(master, 1 << 16)
        except OSError:
            break
        if not piece:
            break
        data += piece
    os.close(master)
    return data.decode().replace("\r\n", "\n"), child.wait(30)


ANSI = re.compile(r"\x1b\[[\d;]*m")


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_fits_the_terminal(
    environment: dict[str, str], hostile: Path, tree: Path, tmp_path: Path, index: Path, columns: int
) -> None:
    from qidf.cli.output import cells
    from qidf.index.refresh import refresh

    refresh(hostile, tmp_path / "idx")
    for query, place in (("needle", tmp_path / "idx"), ("config file retries backoff", index)):
        out, status = terminal(environment, columns, ["search", query, "--index", str(place), "--explain"])
        assert status == 0
        assert "\x1b[1;31m" in out
        assert max(cells(line) for line in ANSI.sub("", out).splitlines()) <= columns
        plain, _ = terminal(environment, columns, ["search", query, "--index", str(place)], {"NO_COLOR": "1"})
        assert "\x1b" not in plain


def test_progress_is_shown_on_a_terminal_only(environment: dict[str, str], own_tree: Path, tmp_path: Path) -> None:
    out, status = terminal(environment, 100, ["index", str(own_tree), "--index", str(tmp_path / "idx")])
    assert status == 0
    assert "indexing" in out
    assert "indexed 4 documents" in out


# processes


def test_head_closes_the_pipe_silently(environment: dict[str, str], tmp_path: Path) -> None:
    root = tmp_path / "many"
    root.mkdir()
    for i in range(600):
        (root / f"{i}.py").write_text("needle " + "and much more text than a pipe holds " * 20)
    command = f'"{sys.executable}" -m qidf search needle "{root}" --index "{tmp_path}/idx" -k 600 2>err | head -1'
    done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, check=True)
    assert done.stdout.count(b"\n") == 1
    assert (tmp_path / "err").read_text() == "qidf: indexed 600 documents\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("what", [["search", "config", "--index", "INDEX"], ["--help"], ["--version"]])
def test_output_on_a_full_disk(environment: dict[str, str], index: Path, what: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "qidf", *(str(index) if word == "INDEX" else word for word in what)],
            stdout=full, stderr=subprocess.PIPE, env=environment, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == b"qidf: error: No space left on device\n"


@pytest.mark.skipif(not COMPILED, reason="plain Python kernels need numpy")
def test_search_imports_nothing_heavy(qidf: Run, index: Path) -> None:
    script = (
        "import sys; from qidf.cli import main; status = main(sys.argv[1:])\n"
        "print(status, *sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = qidf("search", "getUserById zorglub", "--index", index, command=("-c", script))
    assert "users.py:8" in done.stdout
    status, *loaded = done.stderr.splitlines()[-1].split()
    assert status == "0"
    assert not {"numpy", "rich", "pathspec", "platformdirs", "filelock"} & set(loaded)
    assert not {"asyncio", "email", "multiprocessing", "ssl", "unittest", "importlib_metadata", "http"} & set(loaded)
    strangers = {name for name in loaded if name not in sys.stdlib_module_names and not name.startswith("_")}
    assert strangers - {"cython_runtime", "sitecustomize", "usercustomize"} == {"click", "qidf"}


def test_search_is_quick(qidf: Run, index: Path) -> None:
    qidf("search", "getUserById", "--index", index)  # byte code is written once
    times = []
    for _ in range(5):
        started = time.perf_counter()
        qidf("search", "getUserById", "--index", index)
        times.append(time.perf_counter() - started)
    assert min(times) < 0.5  # 0.09 s on an idle machine; the limit is for a busy one
