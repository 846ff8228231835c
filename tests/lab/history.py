"""A git work tree made by hand, commit by commit."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

_WHO = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
}


class Work:
    """A work tree; `commit` writes files (None removes one) and commits everything."""

    def __init__(self, path: Path) -> None:
        self.path = path
        subprocess.run(["git", "init", "--quiet", "-b", "main", str(path)], check=True, env=_WHO)

    def git(self, *arguments: str) -> str:
        """Run git and return what it printed."""
        command = ["git", "-C", str(self.path), *arguments]
        return subprocess.run(command, check=True, env=_WHO, capture_output=True, text=True).stdout

    def commit(self, message: str, files: Mapping[str, str | None]) -> str:
        """Return the id of the commit."""
        for name, text in files.items():
            place = self.path / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                place.unlink()
            else:
                place.write_text(text)
        self.git("add", "-A")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD").strip()
