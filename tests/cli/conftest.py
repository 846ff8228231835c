from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from qidf.cli.index import SLOWER

FILES = {
    "users.py": '''"""Users and where they are kept."""
import json


class UserStore:
    """Keeps users in memory."""

    def getUserById(self, user_id):
        """Return the user, None if there is none."""
        return self.users.get(user_id)

    def save(self, path):
        with open(path, "w") as file:
            json.dump(self.users, file)
''',
    "config.py": '''"""Read the config file."""


def parse_config(path):
    """Parse the config file at path into a dictionary."""
    with open(path) as file:
        return dict(line.split("=", 1) for line in file if "=" in line)


def default_config():
    return {"retries": 3, "backoff": 0.5}
''',
    "net/retry.go": """package net

// Retry calls f until it succeeds, with exponential backoff between the calls.
func Retry(f func() error, retries int) error {
\tfor i := 0; i < retries; i++ {
\t\tif err := f(); err == nil {
\t\t\treturn nil
\t\t}
\t\tsleep(backoff(i))
\t}
\treturn errTooManyRetries
}
""",
    "notes.md": "# Notes\n\nThe config file holds the retries. getUserById is slow: a cache would help.\n",
}


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of child processes: a cache folder and byte code of their own, no colors asked for, warnings as errors."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "QIDF", "COV", "NO_COLOR", "COLUMNS"))}
    place = tmp_path_factory.mktemp("environment")
    return {
        **keep,
        "PYTHONPYCACHEPREFIX": str(place / "pyc"),
        "PYTHONWARNINGS": "error",
        "XDG_CACHE_HOME": str(place / "cache"),
        "HOME": str(place),
        "TERM": "xterm-256color",
    }


@pytest.fixture(scope="session")
def qidf(environment: dict[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `qidf` as a process: qidf("search", "x", cwd=…) → CompletedProcess with text."""

    def run(
        *arguments: str | bytes | Path,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        preexec_fn: Callable[[], object] | None = None,
        command: tuple[str, ...] = ("-m", "qidf"),
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, *command, *arguments],
            cwd=cwd,
            env={**environment, **(env or {})},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            preexec_fn=preexec_fn,
            check=False,
        )
        out, err = done.stdout.decode(), done.stderr.decode()
        assert "Traceback" not in err
        assert "Exception ignored" not in err
        err = err.replace(f"qidf: {SLOWER}\n", "")  # where the suite runs on plain Python
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    return run


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small collection nobody changes."""
    return make_tree(tmp_path_factory.mktemp("tree") / "project")


@pytest.fixture
def own_tree(tmp_path: Path) -> Path:
    """A small collection to change at will."""
    return make_tree(tmp_path / "project")


@pytest.fixture(scope="session")
def index(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index of `tree`, nobody changes it either."""
    from qidf.index.refresh import refresh

    place = tmp_path_factory.mktemp("index") / "idx"
    refresh(tree, place)
    return place


def make_tree(root: Path) -> Path:
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        os.utime(root / name, (1_600_000_000, 1_600_000_000))  # a file just written counts as changing still
    return root
