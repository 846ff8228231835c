from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
POSIX = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


def assert_one_line(done: subprocess.CompletedProcess[str], pattern: str) -> None:
    """Exit status 2, nothing on standard output, and exactly one line that begins and goes on as it should."""
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(rf"qidf: error: {pattern}\n", done.stderr), done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--q", "foo"], "q must be a number, 'hapax' or 'auto', got 'foo'"),
        (["--q", "nan"], "q must be a number, 'hapax' or 'auto', got 'nan'"),
        (["--q", "inf"], "q must be a number, 'hapax' or 'auto', got 'inf'"),
        (["--q", "-1e9"], "q must keep .*"),
        (["-k", "0"], "k must be an integer of at least 1, got 0"),
        (["-k", "-3"], "k must be an integer of at least 1, got -3"),
        (["-k", "1.5"], r"invalid value for '-k': '1\.5' is not a valid integer \(see qidf search --help\)"),
        (["--b", "2"], "b must be .* got 2.0"),
        (["--b", "nan"], "b must be .* got nan"),
        (["--k1", "-1"], "k1 must be .* got -1.0"),
        (["--k1", "inf"], "k1 must be .* got inf"),
        (["--a", "nan"], "a must be .* got nan"),
        (["--a", "-1"], "a must be .* got -1.0"),
        (["--a", "x"], "invalid value for '--a': 'x' is not a valid float .*"),
        (["--odds", "even"], "invalid value for '--odds': 'even' is not one of 'lucene', 'robertson', 'atire', .*"),
        (["--frobnicate"], r"no such option.*--frobnicate.* \(see qidf search --help\)"),
    ],
)
def test_bad_arguments(index: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    from qidf.cli import main

    status = main(["search", "config", "--index", str(index), *arguments])
    captured = capsys.readouterr()
    assert_one_line(subprocess.CompletedProcess([], status, captured.out, captured.err), message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search"], r"missing argument 'QUERY' \(see qidf search --help\)"),
        (["frobnicate"], r"no such command 'frobnicate'.*\(see qidf --help\)"),
        (["search", "x", "/no/such/place"], "no such file or directory: /no/such/place"),
        (["search", "x", "--index", "/no/such/index"], r"no index at /no/such/index \(make one: qidf index .*\)"),
        (["index", "/no/such/place"], "no such file or directory: /no/such/place"),
        (["index", "--analyzer", "magic"], "analyzer must be one of code, standard, simple, word, got 'magic'"),
        (["index", "--memory", "0"], r"memory must be at least 1 \(MiB\), got 0"),
        (["profile", "--index", "/no/such/index"], "no index at /no/such/index .*"),
        (["profile", "/no\x1b[31m/such\nplace"], r"no such file or directory: /no␛\[31m/such place"),
        (["explain", "x", "y", "--index", "/no/such/index"], "no index at /no/such/index .*"),
        (["search", "x", "--index", ""], "no index at .*"),
    ],
)  # fmt: skip
def test_bad_places(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    from qidf.cli import main

    status = main(arguments)
    captured = capsys.readouterr()
    assert_one_line(subprocess.CompletedProcess([], status, captured.out, captured.err), message)


def test_bad_arguments_are_told_before_anything_is_built(qidf: Run, own_tree: Path, tmp_path: Path) -> None:
    done = qidf("search", "x", own_tree, "--index", tmp_path / "idx", "--q", "foo")
    assert_one_line(done, "q must be a number, 'hapax' or 'auto', got 'foo'")
    assert not (tmp_path / "idx").exists()


def test_file_that_is_no_collection(qidf: Run, own_tree: Path) -> None:
    assert_one_line(qidf("index", own_tree / "users.py"), "can't read documents from .*users.py: give a directory, .*")


def test_empty_collection_tells_what_was_skipped(qidf: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "a.bin").write_bytes(b"\0")
    done = qidf("index", tmp_path / "empty", "--index", tmp_path / "idx")
    assert_one_line(done, r"nothing to index in .*/empty \(skipped 1 binary\)")
    assert not (tmp_path / "idx").exists()


def test_bad_line_of_jsonl(qidf: Run, tmp_path: Path) -> None:
    (tmp_path / "docs.jsonl").write_text('{"id": "a", "text": "b"}\n{"id"\n')
    done = qidf("index", tmp_path / "docs.jsonl", "--index", tmp_path / "idx")
    assert_one_line(done, ".*docs.jsonl.*2.*")
    assert not (tmp_path / "idx").exists()


def test_unknown_document(qidf: Run, tree: Path, index: Path) -> None:
    done = qidf("explain", "config", "no/such.py", "--index", index)
    where = re.escape(str(tree))
    assert_one_line(done, rf"no document 'no/such\.py' in the index at .*; IDs are paths below {where}")


def test_index_of_another_place(qidf: Run, own_tree: Path, index: Path) -> None:
    assert_one_line(qidf("search", "config", own_tree, "--index", index), "the index at .* was made from .*, not .*")


def test_folder_that_holds_other_things(qidf: Run, own_tree: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("precious")
    done = qidf("index", own_tree, "--index", tmp_path / "home")
    assert_one_line(done, ".* is not empty and holds no index .*")
    assert (tmp_path / "home" / "thesis.tex").read_text() == "precious"


# damaged indexes


@pytest.fixture
def own_index(own_tree: Path, tmp_path: Path) -> Path:
    from qidf.index.refresh import refresh

    refresh(own_tree, tmp_path / "idx")
    return tmp_path / "idx"


def test_another_version(qidf: Run, own_index: Path) -> None:
    manifest = own_index / "manifest.json"
    head, _, body = manifest.read_bytes().partition(b"\n")
    manifest.write_bytes(json.dumps({**json.loads(head), "qidf index format": 99}).encode() + b"\n" + body)
    done = qidf("search", "config", "--index", own_index)
    assert_one_line(done, r"the index at .* has format 99, this version of qidf reads \d+ and older \(.*--rebuild\)")


@pytest.mark.parametrize("name", ["manifest.json", "*.qidf"])
@pytest.mark.parametrize("keep", [0.0, 0.3, 0.99])
def test_truncated(qidf: Run, own_tree: Path, own_index: Path, name: str, keep: float) -> None:
    [file] = own_index.glob(name)
    data = file.read_bytes()
    file.write_bytes(data[: int(keep * len(data))])
    done = qidf("search", "config", "--index", own_index)
    assert_one_line(done, ".*(damaged|truncated).*--rebuild.*")
    assert (
        "config.py"
        in qidf("index", own_tree, "--index", own_index, "--rebuild").stdout
        + qidf("search", "config", "--index", own_index).stdout
    )


def test_missing_segment(qidf: Run, own_index: Path) -> None:
    for file in own_index.glob("*.qidf"):
        file.unlink()
    assert_one_line(qidf("search", "config", "--index", own_index), r".* is damaged: it is missing \(.*--rebuild\)")


def test_flipped_bytes_give_an_error_or_the_right_answer(own_index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import random

    from qidf.cli import main

    def answer() -> tuple[int, str, str]:
        status = main(["search", "config file retries", "--index", str(own_index), "--json"])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    _, right, _ = answer()
    [file] = own_index.glob("*.qidf")
    data = file.read_bytes()
    random.seed(7)
    failed = 0
    for position in random.sample(range(len(data)), 150):
        broken = bytearray(data)
        broken[position] ^= 1 << random.randrange(8)
        file.unlink()  # the old map stays whole
        file.write_bytes(broken)
        status, out, err = answer()
        if status:
            failed += 1
            assert_one_line(subprocess.CompletedProcess([], status, out, err), ".*(damaged|format).*--rebuild.*")
        else:
            assert out == right
    assert failed > 20


# rights and room


def obey_permissions() -> None:
    """In a child of root: give up the power to ignore permission bits."""
    if os.geteuid() == 0:
        import ctypes

        libc = ctypes.CDLL(None)
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")


@pytest.fixture
def forbid() -> Iterator[Callable[[Path, int], None]]:
    changed: list[tuple[Path, int]] = []

    def forbid(path: Path, mode: int) -> None:
        changed.append((path, path.stat().st_mode))
        path.chmod(mode)

    yield forbid
    for path, mode in changed:
        path.chmod(mode)


@linux
def test_no_right_to_read(qidf: Run, own_tree: Path, own_index: Path, forbid: Callable[[Path, int], None]) -> None:
    [segment] = own_index.glob("*.qidf")
    forbid(segment, 0)
    done = qidf("search", "config", "--index", own_index, preexec_fn=obey_permissions)
    assert_one_line(done, ".*Permission denied.*")
    forbid(own_index / "manifest.json", 0)
    done = qidf("search", "config", "--index", own_index, preexec_fn=obey_permissions)
    assert_one_line(done, "can't read .*manifest.json: Permission denied.*")
    forbid(own_tree, 0)
    done = qidf("index", own_tree, "--index", own_index, preexec_fn=obey_permissions)
    assert_one_line(done, "can't list the directory .*: Permission denied.*")


@linux
def test_no_right_to_write(
    qidf: Run, own_tree: Path, own_index: Path, tmp_path: Path, forbid: Callable[[Path, int], None]
) -> None:
    (own_tree / "new.py").write_text("config of another kind\n")
    for file in own_index.iterdir():
        forbid(file, 0o444)
    forbid(own_index, 0o555)
    done = qidf("index", own_tree, "--index", own_index, preexec_fn=obey_permissions)
    assert_one_line(done, "can't write the index at .*: Permission denied .*")
    done = qidf("search", "config", own_tree, "--index", own_index, preexec_fn=obey_permissions)
    assert done.returncode == 0  # answers from what is there
    assert "config.py" in done.stdout
    assert re.fullmatch("qidf: answering from the index as it stands, .*Permission denied.*\n", done.stderr)
    closed = tmp_path / "closed"
    closed.mkdir()
    forbid(closed, 0o555)
    done = qidf("search", "config", own_tree, "--index", closed / "idx", preexec_fn=obey_permissions)
    assert_one_line(done, "can't write the index at .*: Permission denied .*")


def limit_file_size() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))


def ample(root: Path) -> Path:
    for i in range(30):
        (root / f"{i}.txt").write_text(" ".join(f"word{i}x{j}" for j in range(400)))
    return root


@POSIX
def test_no_room_leaves_nothing_half_written(qidf: Run, own_tree: Path, own_index: Path, tmp_path: Path) -> None:
    ample(own_tree)
    env = {"PYTHONDONTWRITEBYTECODE": "1"}
    done = qidf("index", own_tree, "--index", tmp_path / "new", preexec_fn=limit_file_size, env=env)
    assert_one_line(done, "can't write the index at .*: File too large .*")
    assert not (tmp_path / "new").exists()
    before = {file.name: file.read_bytes() for file in own_index.iterdir()}
    done = qidf("index", own_tree, "--index", own_index, preexec_fn=limit_file_size, env=env)
    assert_one_line(done, "can't write the index at .*: File too large .*")
    assert {file.name: file.read_bytes() for file in own_index.iterdir()} == before
    done = qidf("search", "config", own_tree, "--index", own_index, preexec_fn=limit_file_size, env=env)
    assert done.returncode == 0
    assert "config.py" in done.stdout
    assert "answering from the index as it stands" in done.stderr


@linux
def test_full_disk(qidf: Run, own_tree: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    try:
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("can't mount a tmpfs here")
    except OSError:
        pytest.skip("no mount command")
    try:
        done = qidf("index", ample(own_tree), "--index", disk / "idx")
        assert_one_line(
            done,
            r"not enough disk for the index at .*: it may take .* MB, and .* MB are free \(.*--index DIR\)",
        )
        assert os.listdir(disk) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


# whatever else happens


@POSIX
def test_interrupt_is_one_line(qidf: Run, index: Path) -> None:
    script = (
        "import signal, sys; from qidf.cli import main; from qidf import Index\n"
        # To this very thread: os.kill may reach one of numpy's, and the main one runs on until it hears of it.
        "Index.search = lambda *a, **k: signal.raise_signal(signal.SIGINT)\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    done = qidf("search", "x", "--index", index, command=("-c", script))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "qidf: error: interrupted\n")


@POSIX
def test_interrupted_build_leaves_nothing(environment: dict[str, str], tmp_path: Path) -> None:
    import time

    root = tmp_path / "big"
    root.mkdir()
    text = "\n".join(f"some words on line {i} of many more identifier_{i}" for i in range(15_000))
    for i in range(60):
        (root / f"{i}.txt").write_text(text)
    child = subprocess.Popen(
        [sys.executable, "-m", "qidf", "index", str(root), "--index", str(tmp_path / "idx")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
    )  # fmt: skip
    deadline = time.monotonic() + 20
    while not (tmp_path / "idx").exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out, err) == (130, b"", b"qidf: error: interrupted\n")
    assert not (tmp_path / "idx").exists()


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (MemoryError(), 2, "out of memory"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(28, "No space left on device", "/some/file"), 2, "/some/file: No space left on device"),
        (ZeroDivisionError("division\nby zero"), 2, "unexpected ZeroDivisionError: division by zero .*"),
        (RecursionError("too deep"), 2, "unexpected RecursionError: too deep .*"),
    ],
)
def test_any_exception_is_one_line(
    index: Path,
    error: BaseException,
    status: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from qidf.cli import main
    from qidf.index import Index

    def fail(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(Index, "search", fail)
    assert main(["search", "x", "--index", str(index)]) == status
    assert re.fullmatch(rf"qidf: error: {message}\n", capsys.readouterr().err)
