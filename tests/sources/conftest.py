from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

Tree = Callable[[dict[str, str | bytes]], Path]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Writes files, given by path and content, below a fresh directory and returns it."""

    def write(files: dict[str, str | bytes]) -> Path:
        root = tmp_path / "root"
        root.mkdir(exist_ok=True)
        for path, content in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content if isinstance(content, bytes) else content.encode())
        return root

    return write


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A directory that every user may enter, unlike tmp_path."""
    path = Path(tempfile.mkdtemp(prefix="qidf-test-"))
    path.chmod(0o755)
    yield path.resolve()
    shutil.rmtree(path)


@pytest.fixture
def unprivileged() -> Callable[[], AbstractContextManager[None]]:
    """Permissions hold inside the context, also when root runs the tests."""

    @contextmanager
    def as_nobody() -> Iterator[None]:
        if os.geteuid() != 0:
            yield
            return
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)

    return as_nobody
