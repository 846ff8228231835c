"""The bytes of one regular file, and their text. Knows nothing of directories, ignore rules or documents."""

from __future__ import annotations

import codecs
import errno
import os
import stat

SNIFFED = 8192
"""A NUL among this many first bytes makes a file binary."""

_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose little-endian mark begins alike
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CP1252 = bytes(range(256)).decode("cp1252", "replace")


class UnfitError(Exception):
    """A file is no text for us; `reason` is a key of `FileSource.skipped`, the message tells more."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason = reason


def read_regular(path: str, max_bytes: int) -> bytes:
    """Read a regular file whole, without following a symlink, waiting for a FIFO or touching a device.

    Raises
    ------
    UnfitError
        For the reason `symlink`, `not a file`, `too large` (more than `max_bytes`) or `unreadable`.
    """
    try:
        fd = os.open(path, _FLAGS)
    except OSError as e:
        if e.errno == errno.ELOOP:
            raise UnfitError("symlink", "it is a symlink") from e
        if e.errno == errno.ENXIO:  # a socket, or a device without a driver
            raise UnfitError("not a file", "it is not a regular file") from e
        raise UnfitError("unreadable", e.strerror or str(e)) from e
    except ValueError as e:  # a NUL or a surrogate that stands for no byte
        raise UnfitError("unreadable", "no file can have this name") from e
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise UnfitError("not a file", "it is not a regular file")
        data = os.read(fd, min(status.st_size, max_bytes) + 1)
        while len(data) <= max_bytes and (more := os.read(fd, max_bytes + 1 - len(data))):
            data += more
    except OSError as e:
        raise UnfitError("unreadable", e.strerror or str(e)) from e
    finally:
        os.close(fd)
    if len(data) > max_bytes:
        raise UnfitError("too large", f"it is larger than {max_bytes} bytes")
    return data


def decode(data: bytes) -> str:
    r"""Decode a file's bytes, whatever they are.

    UTF-16 and UTF-32 are known by their byte order mark. All else is read as UTF-8 (a mark is cut), and each byte that
    is not UTF-8 as the Windows-1252 character it stands for, the superset of Latin-1 in which Western legacy code is
    written: `caf\xe9` is found as `café`, and one broken byte spoils nothing around it. Line ends stay as they are.

    Raises
    ------
    UnfitError
        `binary`: a NUL in the first 8,192 bytes (characters, after a UTF-16 or UTF-32 mark).
    """
    for bom, codec in _BOMS:
        if data.startswith(bom):
            text = data[len(bom) :].decode(codec, "replace")
            if text.find("\0", 0, SNIFFED) >= 0:
                raise UnfitError("binary", "it is binary")
            return text
    if data.find(b"\0", 0, SNIFFED) >= 0:
        raise UnfitError("binary", "it is binary")
    return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "qidf.cp1252")


def _as_cp1252(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(_CP1252[byte] for byte in error.object[error.start : error.end]), error.end


codecs.register_error("qidf.cp1252", _as_cp1252)
