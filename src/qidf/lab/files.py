"""Files of text that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable

from qidf.errors import SourceError


def write(path: str | os.PathLike[str], lines: Iterable[str]) -> None:
    """Write lines (with their ends) beside the file, and put them in its place when they are on the disk.

    Raises
    ------
    SourceError
        It can't be written.
    """
    name = os.fspath(path)
    beside = f"{name}.{os.getpid()}"
    try:
        with open(beside, "w", encoding="utf-8") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, name)
    except OSError as error:
        raise SourceError(f"can't write {name}: {error.strerror or error}") from None
    finally:
        if os.path.exists(beside):
            os.unlink(beside)
