"""`apply` on folders: what bm25s loads after it, going back, being killed, and what can't be done."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qidf.engines import bm25s as engine
from qidf.engines import rescale
from qidf.errors import EngineError, IndexCorruptError, IndexLockedError, IndexNotFoundError
from tests.engines.bm25s_folder import METHODS, ask, load_folder, retriever, save, texts

ARGUMENT = {
    "lucene": lambda n, N: 1 + (N - n + 0.5) / (n + 0.5),
    "robertson": lambda n, N: max(1.0, (N - n + 0.5) / (n + 0.5)),
    "atire": lambda n, N: N / n,
    "bm25l": lambda n, N: (N + 1) / (n + 0.5),
    "bm25+": lambda n, N: (N + 1) / n,
}
QUERY = "word1 word5 word5 word17 only7 everywhere common"


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != rescale.LOCK}


def patched(method: str, idf_method: str, q: float, documents: list[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a retriever that bm25s itself built with idf_q in place of its idf."""
    import bm25s

    def idf_q(df: int, N: int) -> float:
        return float((ARGUMENT[idf_method](df, N) ** (1 - q) - 1) / (1 - q))

    with monkeypatch.context() as patch:
        patch.setattr(bm25s, "_select_idf_scorer", lambda name: idf_q)
        return retriever(documents, method=method, idf_method=idf_method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("idf_method", METHODS)
@pytest.mark.parametrize("q", [0.05, 1.5])
def test_scores_are_those_bm25s_builds_with_this_idf(
    method: str, idf_method: str, q: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = texts()
    folder = save(tmp_path / "saved", documents, method=method, idf_method=idf_method)
    done = rescale.apply(folder, q)
    assert (done.q, done.was, done.exact) == (q, 1.0, True)
    expected = patched(method, idf_method, q, documents, monkeypatch)
    loaded = load_folder(folder)
    order = [expected.vocab_dict[term] for term in loaded.vocab_dict if term]
    columns = np.concatenate(
        [expected.scores["data"][expected.scores["indptr"][t] : expected.scores["indptr"][t + 1]] for t in order]
    )
    np.testing.assert_allclose(loaded.scores["data"], columns, rtol=2e-6, atol=1e-7)
    if method in ("bm25l", "bm25+"):
        np.testing.assert_allclose(loaded.nonoccurrence_array, expected.nonoccurrence_array[order], rtol=1e-6)
    for (_, ours), (_, theirs) in zip(ask(loaded, QUERY), ask(expected, QUERY), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_going_back_is_exact(method: str, tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", texts(), method=method)
    before = snapshot(folder)
    rescale.apply(folder, 0.05)
    assert snapshot(folder) != before
    second = rescale.apply(folder, 0.4)
    assert (second.was, second.exact) == (0.05, True)
    done = rescale.apply(folder, 1)
    assert (done.q, done.was, done.exact, done.original) == (1.0, 0.4, True, "")
    assert snapshot(folder) == before


def test_two_steps_give_what_one_gives(tmp_path: Path) -> None:
    one, two = (save(tmp_path / name, texts()) for name in ("one", "two"))
    shutil.copytree(one, two, dirs_exist_ok=True)  # bm25s numbers its terms anew each time
    rescale.apply(one, 0.4)
    rescale.apply(two, 0.05)
    rescale.apply(two, "0.4")
    assert (one / engine.DATA).read_bytes() == (two / engine.DATA).read_bytes()


def test_without_a_backup_going_back_costs_a_last_bit(tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", texts(), method="bm25l")
    before = snapshot(folder)
    done = rescale.apply(folder, 0.05, backup=False)
    assert done.original == ""
    assert not list(folder.glob(f"{rescale.BACKUP}*"))
    done = rescale.apply(folder, 1)
    assert not done.exact
    after = snapshot(folder)
    assert after.keys() == before.keys()
    old, new = (np.frombuffer(files[engine.DATA][128:], "<f4") for files in (before, after))
    np.testing.assert_allclose(new, old, rtol=3e-7)
    assert after[engine.NONOCCURRENCE] == before[engine.NONOCCURRENCE]


def test_a_folder_saved_again_counts_as_q_1(tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", texts())
    rescale.apply(folder, 0.05)
    assert rescale.current_q(folder) == 0.05
    save(folder, texts(seed=2))
    assert rescale.current_q(folder) == 1.0
    before = snapshot(folder)
    done = rescale.apply(folder, 0.3)
    assert (done.was, done.exact) == (1.0, True)
    assert rescale.apply(folder, 1).exact
    after = snapshot(folder)
    assert {name: after[name] for name in before if name in after} == after
    assert after[engine.DATA] == before[engine.DATA]


def test_saved_again_and_set_to_1_forgets_the_old_original(tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", texts())
    rescale.apply(folder, 0.05)
    save(folder, texts(seed=2))
    data = (folder / engine.DATA).read_bytes()
    done = rescale.apply(folder, 1)
    assert (done.q, done.was, done.scores) == (1.0, 1.0, 0)
    assert (folder / engine.DATA).read_bytes() == data
    assert not list(folder.glob(f"{rescale.BACKUP}*"))


def test_a_moved_or_copied_folder_keeps_its_q(tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", texts(), method="bm25+")
    before = snapshot(folder)
    rescale.apply(folder, 0.05)
    shutil.copytree(folder, tmp_path / "copy")
    os.rename(folder, tmp_path / "moved")
    for name in ("copy", "moved"):
        assert rescale.current_q(tmp_path / name) == 0.05
        assert rescale.apply(tmp_path / name, 1).exact
        assert snapshot(tmp_path / name) == before


@pytest.mark.parametrize("method", ["lucene", "bm25+"])
def test_a_copy_leaves_the_folder_alone(method: str, tmp_path: Path) -> None:
    documents = texts()
    folder = save(tmp_path / "saved", documents, method=method, corpus=documents)
    before = snapshot(folder)
    done = rescale.apply(folder, 0.05, out=tmp_path / "new" / "copy")
    assert snapshot(folder) == before
    copy = tmp_path / "new" / "copy"
    assert rescale.current_q(copy) == 0.05
    assert {path.name for path in copy.iterdir()} == {*before, rescale.STATE}
    rescale.apply(folder, 0.05)
    assert (copy / engine.DATA).read_bytes() == (folder / engine.DATA).read_bytes()
    assert ask(load_folder(copy), QUERY) == ask(load_folder(folder), QUERY)
    assert done.folder == str(copy)
    back = rescale.apply(folder, 1, out=tmp_path / "back")
    assert back.exact
    assert snapshot(tmp_path / "back") == before


def test_hapax_is_worked_out(tmp_path: Path) -> None:
    documents = texts()
    folder = save(tmp_path / "saved", documents)
    tokens = [text.split() for text in documents]
    holders = [sum(term in row for row in tokens) for term in {term for row in tokens for term in row}]
    density = holders.count(1) / sum(map(len, tokens))
    assert rescale.apply(folder, "hapax").q == pytest.approx(max(0.05, 1 - 7.28 * density))


def test_nothing_to_do_is_said(tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", texts())
    before = snapshot(folder)
    assert rescale.apply(folder, 1).scores == 0
    assert snapshot(folder) == before
    rescale.apply(folder, 0.5)
    before = snapshot(folder)
    assert rescale.apply(folder, 0.5).scores == 0
    assert snapshot(folder) == before


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_widths(dtype: str, tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", texts(), dtype=dtype)
    before = snapshot(folder)
    rescale.apply(folder, 0.8)
    assert load_folder(folder).scores["data"].dtype == dtype
    rescale.apply(folder, 1)
    assert snapshot(folder) == before


# What can't be done


def damage(name: str, content: bytes | None) -> Any:
    def change(folder: Path) -> None:
        if content is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(content)

    return change


def parameters(**changes: Any) -> Any:
    def change(folder: Path) -> None:
        path = folder / engine.PARAMETERS
        values = {**json.loads(path.read_text()), **changes}
        path.write_text(json.dumps({name: value for name, value in values.items() if value is not None}))

    return change


def array(name: str, edit: Any) -> Any:
    def change(folder: Path) -> None:
        np.save(folder / name, edit(np.load(folder / name)))

    return change


def pickled(folder: Path) -> None:
    np.save(folder / engine.DATA, np.array([{}, "x"], dtype=object), allow_pickle=True)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (damage(engine.PARAMETERS, None), EngineError, "not a folder that bm25s saved"),
        (damage(engine.PARAMETERS, b"{"), IndexCorruptError, "damaged"),
        (damage(engine.PARAMETERS, b"[]"), EngineError, "version of bm25s"),
        (damage(engine.VOCABULARY, None), EngineError, "vocab.index.json is missing"),
        (damage(engine.DATA, None), EngineError, "data.csc.index.npy is missing"),
        (damage(engine.DATA, b"\x93NUMPY"), IndexCorruptError, "damaged"),
        (damage(engine.DATA, b"PK\x03\x04 an archive"), IndexCorruptError, "damaged"),
        (pickled, IndexCorruptError, "damaged or no array of numbers"),
        (damage(engine.INDPTR, b""), IndexCorruptError, "damaged"),
        (damage(engine.NONOCCURRENCE, None), EngineError, "missing"),
        (damage(rescale.STATE, b"{}"), EngineError, "not what `qidf apply` wrote"),
        (parameters(method=None), EngineError, "version of bm25s"),
        (parameters(method="tfidf"), EngineError, "method must be one of"),
        (parameters(k1="high"), IndexCorruptError, "k1 must be a number"),
        (parameters(k1=float("nan")), IndexCorruptError, "k1 must be a number"),
        (parameters(b=1.5), IndexCorruptError, "b must be in"),
        (parameters(num_docs=60.5), IndexCorruptError, "num_docs whole"),
        (parameters(num_docs=3), IndexCorruptError, "more documents than there are"),
        (array(engine.DATA, lambda a: a[:-1]), IndexCorruptError, "scores, but"),
        (array(engine.DATA, lambda a: a.astype(int)), IndexCorruptError, "must be floats"),
        (array(engine.DATA, lambda a: a.reshape(1, -1)), IndexCorruptError, "one dimension"),
        (array(engine.DATA, lambda a: a * np.random.default_rng(0).random(len(a))), ValueError, "not the scores of"),
        (array(engine.INDPTR, lambda a: a[::-1]), IndexCorruptError, "offsets"),
        (array(engine.INDPTR, lambda a: a[:-1]), IndexCorruptError, "offsets"),
        (array(engine.NONOCCURRENCE, lambda a: a[:-1]), EngineError, "shape"),
    ],
)
def test_errors_are_clear_and_change_nothing(change: Any, error: type, message: str, tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", texts(), method="bm25+")
    change(folder)
    before = snapshot(folder)
    for out in (None, tmp_path / "copy"):
        with pytest.raises(error, match=message) as raised:
            rescale.apply(folder, 0.05, out=out)
        assert "\n" not in str(raised.value)
        assert snapshot(folder) == before
        assert not (tmp_path / "copy").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"saved"}


@pytest.mark.parametrize(
    ("q", "message"), [("auto", "how each query is written"), ("x", "must be a number"), (float("nan"), "number")]
)
def test_what_q_can_not_be(q: Any, message: str, tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", texts())
    before = snapshot(folder)
    with pytest.raises(ValueError, match=message):
        rescale.apply(folder, q)
    assert snapshot(folder) == before


@pytest.mark.parametrize("q", [-30, 1e36, 1e50])
def test_a_q_too_extreme_for_the_floats_changes_nothing(q: float, tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", texts())
    before = snapshot(folder)
    with pytest.raises(ValueError, match="beyond what float32"):
        rescale.apply(folder, q)
    assert snapshot(folder) == before


@pytest.mark.parametrize("stop", [1, 2])
def test_interrupted_while_the_original_is_put_back(stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save(tmp_path / "saved", texts(), method="bm25+")
    before = snapshot(folder)
    rescale.apply(folder, 0.05)
    keep, calls = rescale._keep, 0

    def interrupted(path: Path, kept: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == stop:
            raise KeyboardInterrupt
        keep(path, kept)

    with monkeypatch.context() as patch:
        patch.setattr(rescale, "_keep", interrupted)
        with pytest.raises(KeyboardInterrupt):
            rescale.apply(folder, 1)
    rescale.apply(folder, 0.5)
    assert rescale.apply(folder, 1).exact
    assert snapshot(folder) == before


def test_opening_while_another_applies_pairs_scores_with_their_q(tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", texts(200))
    top = {1.0: float(np.max(engine.read_scores(folder).data))}
    for q in (0.05, 0.4):
        rescale.apply(folder, q)
        top[q] = float(np.max(engine.read_scores(folder).data))
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        for _ in range(500):
            scores = engine.read_scores(folder)
            assert float(np.max(scores.data)) == top[scores.q]
        process.kill()


def test_where_a_copy_can_not_go(tmp_path: Path) -> None:
    folder = save(tmp_path / "saved", texts())
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    with pytest.raises(EngineError, match="not an empty folder"):
        rescale.apply(folder, 0.5, out=tmp_path / "full")
    for inside in (folder, folder / "copy"):
        with pytest.raises(ValueError, match="outside"):
            rescale.apply(folder, 0.5, out=inside)
    with pytest.raises(IndexNotFoundError, match="no folder"):
        rescale.apply(tmp_path / "none", 0.5)


def test_one_apply_at_a_time(tmp_path: Path) -> None:
    from filelock import FileLock

    folder = save(tmp_path / "saved", texts())
    with FileLock(folder / rescale.LOCK), pytest.raises(IndexLockedError, match="another qidf apply"):
        rescale.apply(folder, 0.5)
    rescale.apply(folder, 0.5)


# Being killed


PROGRAM = """
import sys
from qidf.engines import rescale
import filelock
print("ready", flush=True)
for q in (0.05, 0.4, 1) * 1000:
    rescale.apply(sys.argv[1], q)
"""


def test_killed_at_any_moment_leaves_a_whole_folder(tmp_path: Path) -> None:
    """Whatever moment it is killed at, the scores are those of one q, bm25s loads them, and the next run goes on."""
    documents = texts(200)
    folder = save(tmp_path / "saved", documents, method="bm25l")
    before = snapshot(folder)
    whole = {}
    for q in (0.05, 0.4):
        rescale.apply(folder, q, out=tmp_path / str(q))
        whole[q] = (tmp_path / str(q) / engine.DATA).read_bytes()
    whole[1.0] = before[engine.DATA]
    chance = random.Random(7)
    seen = set()
    for _ in range(20):
        with subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(chance.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
            process.wait()
        q = rescale.current_q(folder)
        assert (folder / engine.DATA).read_bytes() == whole[q]
        ask(load_folder(folder), QUERY)
        seen.add(q)
    assert len(seen) > 1
    assert rescale.apply(folder, 1).exact
    assert snapshot(folder) == before


@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_interrupted_at_any_call_the_old_state_stands(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save(tmp_path / "saved", texts(), method="bm25+")
    before = snapshot(folder)
    real: dict[str, Any] = {"write": np.lib.format.write_array_header_1_0, "fsync": os.fsync, "rename": os.replace}
    for stop in range(12):
        left = stop

        def fail(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(28, "No space left on device")
            return real[call](*arguments, **options)

        with monkeypatch.context() as patch:
            if call == "write":
                patch.setattr(np.lib.format, "write_array_header_1_0", fail)

            else:
                patch.setattr(os, "fsync" if call == "fsync" else "replace", fail)
            try:
                rescale.apply(folder, 0.05)
                failed = False
            except OSError:
                failed = True
        q = rescale.current_q(folder)
        assert not list(folder.glob("qidf-new.*"))
        if q == 1.0:
            assert snapshot(folder).items() >= before.items()
        assert rescale.apply(folder, 1).exact
        assert snapshot(folder) == before
        if not failed:
            return
    pytest.fail("it never got through")
