"""Where the dictionary of an engine stands, and whether it is that engine's. Knows engines by their URLs alone.

It stands in the user's cache folder, by a name made of the index's place and field: an index that somebody else's
library made, or that is on a server, is no place to write into.
"""

from __future__ import annotations

import hashlib
import os
import threading
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from qidf.errors import DictionaryCorruptError, EngineWarning, IndexCorruptError, IndexMismatchError, QidfError

if TYPE_CHECKING:
    from qidf.engines.base import Engine
    from qidf.expansion.dictionary import Dictionary

IN_MEMORY = "(in memory)"
SCHEMES = (
    "qidf",
    "bm25s",
    "tantivy",
    "lucene",
    *(f"{kind}+{how}" for kind in ("opensearch", "elasticsearch") for how in ("http", "https")),
)


def _folder() -> str:
    from platformdirs import user_cache_dir

    return os.path.join(user_cache_dir("qidf", appauthor=False), "identifiers")


def identity(engine: Engine) -> str:
    """Return the name of an engine's index: its URL with a real path, without options; empty where there is none."""
    scheme, _, rest = engine.url.partition(":")
    rest = rest.partition("?")[0]
    if scheme not in SCHEMES or IN_MEMORY in rest:  # of a client that was handed over the server is not known
        return ""
    path, sharp, field = rest.partition("#")
    field = str(getattr(engine, "field", field))  # of a server what an alias stands for
    if scheme.endswith(("+http", "+https")):
        return f"{scheme}:{path}#{field}"
    return f"{scheme}:{os.path.realpath(os.path.expanduser(path))}{sharp or ('#' if field else '')}{field}"


def path_of(engine: Engine) -> str:
    """Return where the dictionary of an engine stands; empty for an index in memory."""
    name = identity(engine)
    return _path(name) if name else ""


def _path(name: str) -> str:
    """Return where the dictionary of an index of that identity stands."""
    key = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    return os.path.join(_folder(), f"{key}.qidf")


def of_engine(engine: Engine) -> Dictionary | None:
    """Return the dictionary of an engine, None if there is none or none is needed: `code` takes identifiers apart.

    One that can't be read is a warning: the query goes as it is.
    """
    path = path_of(engine) if engine.analyzer != "code" else ""
    if not path or not os.path.exists(path):
        return None
    from qidf.expansion.dictionary import Dictionary

    try:
        dictionary = Dictionary(path)
        check(dictionary, engine)
    except (IndexCorruptError, IndexMismatchError, ValueError) as error:
        warn(engine, error, stacklevel=4)
        return None
    return dictionary


def required(engine: Engine) -> Dictionary:
    """Return the dictionary of an engine; whatever is wrong with it is an error.

    Raises
    ------
    QidfError, ValueError
        There is none, none is needed, or it is damaged or another's.
    """
    check_needed(engine)
    if engine.dictionary is not None:
        return engine.dictionary
    path = path_of(engine)
    if not path or not os.path.exists(path):
        raise QidfError(f"{engine.url} has no dictionary: qidf dictionary build --engine {engine.url}")
    from qidf.expansion.dictionary import Dictionary

    dictionary = Dictionary(path)
    check(dictionary, engine)
    return dictionary


def check_needed(engine: Engine) -> None:
    """Raise QidfError if an engine's index holds the parts of its identifiers."""
    if engine.analyzer == "code":
        raise QidfError(f"{engine.url} needs no dictionary: it takes identifiers apart already (analyzer code)")


def warn(engine: Engine, error: Exception, stacklevel: int) -> None:
    """Say that an engine's queries go as they are, and why."""
    message = f"queries are not expanded: {error} (qidf dictionary build --engine {engine.url})"
    warnings.warn(message, EngineWarning, stacklevel=stacklevel)


def check(dictionary: Dictionary, engine: Engine) -> None:
    """Raise ValueError if a dictionary is another index's, another field's, or of another analyzer."""
    about = dictionary.about
    _check_identity(dictionary, identity(engine))
    if about.analyzer != engine.analyzer:
        raise ValueError(
            f"the dictionary at {dictionary.path} is of the analyzer {about.analyzer!r}, not {engine.analyzer!r}"
        )


def _check_identity(dictionary: Dictionary, name: str) -> None:
    if dictionary.about.engine != name:
        raise ValueError(f"the dictionary at {dictionary.path} is that of {dictionary.about.engine}")


def _address(server: str) -> str:
    """Return a server's address as an engine's URL has it: with a port, without credentials."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}:{parts.port or (443 if parts.scheme.endswith('https') else 80)}"


class Dictionaries:
    """The dictionaries of a server's fields, found as `qidf dictionary build` left them. Threads may share one.

    They are read into memory; one that was made anew meanwhile is read anew.

    Parameters
    ----------
    servers : iterable of str
        The server's address as an engine's URL begins: `opensearch+https://HOST:9200`; several if it has several.
        Credentials in it are not looked at.
    files : iterable of str
        Dictionaries that stand elsewhere, or were made through another address; they go by their index and field.

    Raises
    ------
    DictionaryCorruptError
        One of `files` is missing, damaged or something else.
    ValueError
        `files` is no list.
    """

    def __init__(self, servers: Iterable[str] = (), files: Iterable[str] = ()) -> None:
        if isinstance(files, str | os.PathLike):
            raise ValueError(f"dictionaries must be a list of files, got {files!r}")
        self._servers = tuple(dict.fromkeys(map(_address, servers)))
        self._opened: dict[str, tuple[tuple[int, int, int], Dictionary]] = {}
        self._lock = threading.Lock()
        self._files: dict[tuple[str, str], str] = {}
        for path in files:
            address, _, field = self._open(path).about.engine.rpartition("#")
            self._files[address.rpartition("/")[2], field] = path

    def __bool__(self) -> bool:
        """Whether there is one at all, of any index."""
        try:
            return bool(self._files) or any(name.endswith(".qidf") for name in os.listdir(_folder()))
        except OSError:
            return False

    def find(self, names: Sequence[str], field: str, analyzer: str) -> Dictionary | None:
        """Return the dictionary of a field, None if there is none that was made with this analyzer.

        Parameters
        ----------
        names : sequence of str
            What the index may have been called when it was made.
        field : str
        analyzer : str
            As an engine tells it.

        Raises
        ------
        DictionaryCorruptError, ValueError
            There is one, and it is damaged or another's.
        """
        for name in names:
            identities = [f"{server}/{name}#{field}" for server in self._servers]
            places = {_path(identity): identity for identity in identities}
            if (name, field) in self._files:
                places = {self._files[name, field]: "", **places}
            for path, identity in places.items():
                if not os.path.exists(path):
                    continue
                found = self._open(path)
                if identity:  # a file that was named goes by its index and field
                    _check_identity(found, identity)
                if found.about.analyzer == analyzer:
                    return found
        return None

    def _open(self, path: str) -> Dictionary:
        from qidf.expansion.dictionary import Dictionary

        try:
            status = os.stat(path)
        except OSError as error:
            raise DictionaryCorruptError(f"{path} can't be read: {error.strerror}") from None
        stamp = status.st_mtime_ns, status.st_ino, status.st_size
        with self._lock:
            opened = self._opened.get(path)
        if opened is None or opened[0] != stamp:
            opened = stamp, Dictionary(path, in_memory=True)
            with self._lock:
                self._opened[path] = opened
        return opened[1]
