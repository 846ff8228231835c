"""Where the dictionary of an engine stands, and whether it is that engine's. Knows engines by their URLs alone.

It stands in the user's cache folder, by a name made of the index's place and field: an index that somebody else's
library made, or that is on a server, is no place to write into.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from typing import TYPE_CHECKING

from qidf.errors import EngineWarning, IndexCorruptError, IndexMismatchError

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


def identity(engine: Engine) -> str:
    """Return the name of an engine's index: its URL with a real path, without options; empty where there is none."""
    scheme, _, rest = engine.url.partition(":")
    rest = rest.partition("?")[0]
    if scheme not in SCHEMES or IN_MEMORY in rest:  # of a client that was handed over the server is not known
        return ""
    if scheme.endswith(("+http", "+https")):
        return f"{scheme}:{rest}"
    path, sharp, field = rest.partition("#")
    field = str(getattr(engine, "field", field))
    return f"{scheme}:{os.path.realpath(os.path.expanduser(path))}{sharp or ('#' if field else '')}{field}"


def path_of(engine: Engine) -> str:
    """Return where the dictionary of an engine stands; empty for an index in memory."""
    from platformdirs import user_cache_dir

    name = identity(engine)
    if not name:
        return ""
    key = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    return os.path.join(user_cache_dir("qidf", appauthor=False), "identifiers", f"{key}.qidf")


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
        message = f"queries are not expanded: {error} (qidf dictionary build --engine {engine.url})"
        warnings.warn(message, EngineWarning, stacklevel=3)
        return None
    return dictionary


def check(dictionary: Dictionary, engine: Engine) -> None:
    """Raise ValueError if a dictionary is another index's, another field's, or of another analyzer."""
    about = dictionary.about
    if about.engine != identity(engine):
        raise ValueError(f"the dictionary at {dictionary.path} is that of {about.engine}")
    if about.analyzer != engine.analyzer:
        raise ValueError(
            f"the dictionary at {dictionary.path} is of the analyzer {about.analyzer!r}, not {engine.analyzer!r}"
        )
