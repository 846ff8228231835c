"""Files of text that are on the disk when they are said to be."""

from __future__ import annotations

import os
from collections.abc import Iterable

from qidf.errors import SourceError


def put(path: str, lines: Iterable[str]) -> None:
    """Write lines (with their ends) to a file, and wait until they are on the disk."""
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())


def write(path: str | os.PathLike[str], lines: Iterable[str]) -> None:
    """Write a file whole or not at all: beside it, then in its place.

    Raises
    ------
    SourceError
        It can't be written, or something stands there that is no file: a device would be replaced by one.
    """
    name = os.fspath(path)
    if os.path.exists(name) and not os.path.isfile(name):
        raise SourceError(f"can't write {name}: not a file")
    beside = f"{name}.{os.getpid()}"
    try:
        put(beside, lines)
        os.replace(beside, name)
    except OSError as error:
        raise SourceError(f"can't write {name}: {error.strerror or error}") from None
    finally:
        if os.path.exists(beside):
            os.unlink(beside)
