"""Whether an index was made by this user: a mark in its manifest that only this user's key can make.

A manifest names the folder that passages are read from. In an index that came from somebody else that is their choice,
and it could be any folder of yours; so files are read only where the mark is right, or the caller names the folder.
Knows a key and bytes; knows nothing of documents.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Sequence

_BYTES = 32


def mark(root: str, segments: Sequence[str]) -> str:
    """Return the mark of an index over `root`; empty where no key can be kept, and then nobody's index is trusted."""
    key = _key(make=True)
    return _sign(key, root, segments) if key else ""


def made_here(root: str, segments: Sequence[str], mark: str) -> bool:
    """Return whether `mark` is one that this user's key made for this root and these segments."""
    key = _key(make=False) if mark else None
    return key is not None and hmac.compare_digest(_sign(key, root, segments).encode(), mark.encode("utf-8", "replace"))


def _sign(key: bytes, root: str, segments: Sequence[str]) -> str:
    signed = json.dumps([root, *segments]).encode()
    return hashlib.blake2b(signed, key=key, digest_size=16).hexdigest()


def _key(*, make: bool) -> bytes | None:
    """Return this user's key, made at the first index. None if there is none, or none can be made."""
    # Not by platformdirs, whose import would take a fifth of a search's time.
    data = os.environ.get("XDG_DATA_HOME", "") or os.path.join(os.path.expanduser("~"), ".local", "share")
    folder = os.path.join(data, "qidf")
    path = os.path.join(folder, "key")
    for _ in range(2):
        try:
            with open(path, "rb") as file:
                key = file.read(_BYTES + 1)
            return key if len(key) == _BYTES else None
        except FileNotFoundError:
            if not make or not _make(folder, path):
                return None
        except OSError:
            return None
    return None


def _make(folder: str, path: str) -> bool:
    """Write a key that nobody else can read; whoever comes second reads that of the first."""
    aside = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        os.makedirs(folder, exist_ok=True)
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(handle, "wb") as file:
                file.write(os.urandom(_BYTES))
            try:
                os.link(aside, path)
            except FileExistsError:
                pass
            except OSError:  # a file system without hard links
                os.replace(aside, path)
                return True
        finally:
            if os.path.lexists(aside):
                os.unlink(aside)
    except OSError:
        return False
    return True
