"""What was read so far of an index's spellings: a SQLite file, so that a build goes on where it was interrupted.

Each transaction adds the counts of some documents together with the place where reading goes on, so that a kill at any
moment loses no more than the last of them. Knows terms and parts; knows no engine.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from qidf.errors import QidfError

FORMAT = 1
_CUT = "\x1f"

_TABLES = """
CREATE TABLE IF NOT EXISTS spelled (term BLOB, parts BLOB, size INT, n INT, PRIMARY KEY (term, parts)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS words (word BLOB PRIMARY KEY, n INT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS analyzed (name BLOB PRIMARY KEY, term BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS state (format INT, made_from TEXT, documents INT, place TEXT);
"""

_BEST = """
SELECT size, term, parts FROM (
    SELECT size, term, parts, row_number() OVER (PARTITION BY term ORDER BY n DESC, parts DESC) AS place FROM {}
) WHERE place = 1 ORDER BY size, term
"""
"""Each term with the parts that it is spelled with most often, in the order of a dictionary."""

_AS_ANALYZED = """(
    SELECT analyzed.term AS term, parts, max(size) AS size, sum(n) AS n
    FROM spelled JOIN analyzed ON spelled.term = analyzed.name WHERE analyzed.term != x'' GROUP BY analyzed.term, parts
)"""


class Collected:
    """The spellings of an index's terms, as far as they were read.

    Parameters
    ----------
    path : str, default none
        Of the file; without one it is in memory.
    made_from : str, default none
        What is read, in any words. A file that was made from something else is begun anew.
    fresh : bool, default False
        Begin anew in any case.

    Raises
    ------
    QidfError
        Another process writes to the file, or there is no room for it.

    Attributes
    ----------
    documents : int
        How many were added; one that was written again meanwhile counts twice.
    place : JSON
        Where to go on reading, as `add` was given it; None at the beginning.
    """

    def __init__(self, path: str = "", made_from: str = "", *, fresh: bool = False) -> None:
        self.path = path
        self.documents, self.place = 0, None
        if path:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            if fresh and os.path.exists(path):
                os.unlink(path)
        try:
            self._open(made_from)
        except sqlite3.OperationalError as error:
            raise self._refused(error) from None
        except sqlite3.DatabaseError:  # something else, or damaged: what it held can be read again
            self._connection.close()
            os.unlink(path)
            self._open(made_from)

    def _open(self, made_from: str) -> None:
        self._connection = sqlite3.connect(self.path or ":memory:", timeout=0.5, isolation_level=None)
        run = self._connection.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("BEGIN EXCLUSIVE")
        try:
            for statement in _TABLES.split(";"):
                run(statement)
            known = run("SELECT format, made_from, documents, place FROM state").fetchone()
            if known and known[:2] == (FORMAT, made_from):
                self.documents, self.place = known[2], json.loads(known[3])
            else:
                for table in ("spelled", "words", "analyzed", "state"):
                    run(f"DELETE FROM {table}")
                run("INSERT INTO state VALUES (?, ?, 0, 'null')", (FORMAT, made_from))
            run("COMMIT")
        except BaseException:
            self._rolled_back()
            raise

    def clear(self) -> None:
        """Begin anew."""
        with self._transaction() as run:
            for table in ("spelled", "words", "analyzed"):
                run.execute(f"DELETE FROM {table}")
            self._go_on(run, 0, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._connection.close()

    def add(
        self, spelled: Mapping[str, Mapping[tuple[str, ...], int]], words: Mapping[str, int], documents: int, place: Any
    ) -> None:
        """Add what some documents show: all of it or nothing.

        Parameters
        ----------
        spelled : mapping of str to {parts: n}
            How often each term was spelled with which parts.
        words : mapping of str to int
            In how many of the documents each word stands, alone or as a part.
        documents : int
        place : JSON
            Where to go on reading, behind these documents.
        """
        self._check_space()
        rows = sorted(
            (_bytes(term), _bytes(_CUT.join(parts)), len(set(parts)), n)
            for term, own in spelled.items()
            for parts, n in own.items()
        )
        with self._transaction() as run:
            run.executemany(
                "INSERT INTO spelled VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n", rows
            )
            run.executemany(
                "INSERT INTO words VALUES (?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n",
                sorted((_bytes(word), n) for word, n in words.items()),
            )
            self._go_on(run, self.documents + documents, place)

    def _go_on(self, run: sqlite3.Cursor, documents: int, place: Any) -> None:
        run.execute("UPDATE state SET documents = ?, place = ?", (documents, json.dumps(place)))
        self.documents, self.place = documents, place

    def analyze(self, analyze: Callable[[list[str]], Mapping[str, str]], at_once: int) -> None:
        """Say what an analyzer makes of each name: {name: term}, without those that it does not leave whole.

        Names that were analyzed before are not asked about again.
        """
        asked = "SELECT DISTINCT term FROM spelled WHERE term NOT IN (SELECT name FROM analyzed) LIMIT ?"
        while names := [_text(row[0]) for row in self._connection.execute(asked, (at_once,))]:
            found = analyze(names)
            with self._transaction() as run:
                run.executemany(
                    "INSERT INTO analyzed VALUES (?, ?)",
                    ((_bytes(name), _bytes(found.get(name, ""))) for name in names),
                )

    def terms(self, *, analyzed: bool = False) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield each term with the parts that it is spelled with most often, by their number, then by its bytes.

        With `analyzed` the terms are those of `analyze`.
        """
        for _, term, parts in self._connection.execute(_BEST.format(_AS_ANALYZED if analyzed else "spelled")):
            yield _text(term), tuple(_text(parts).split(_CUT))

    def dfs(self) -> dict[str, int]:
        """Return {word: number of documents that hold it}, alone or as a part."""
        return {_text(word): n for word, n in self._connection.execute("SELECT word, n FROM words")}

    def nbytes(self) -> int:
        """Return how many bytes a dictionary of these terms takes at most."""
        found = self._connection.execute("SELECT sum(length(term) + 5 * size + 4) FROM spelled").fetchone()
        return int(found[0] or 0) * 5 // 4 + (1 << 20)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Cursor]:
        cursor = self._connection.cursor()
        try:
            cursor.execute("BEGIN IMMEDIATE")
            yield cursor
            cursor.execute("COMMIT")
        except sqlite3.OperationalError as error:
            self._rolled_back()
            raise self._refused(error) from None
        except BaseException:
            self._rolled_back()
            raise

    def _rolled_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _refused(self, error: sqlite3.OperationalError) -> QidfError:
        if "locked" in str(error):
            return QidfError(f"{self.path} is being written: another 'qidf dictionary build' of this index is at work")
        return QidfError(f"{self.path or 'what was read'} can't be kept: {error}")

    def _check_space(self) -> None:
        """Raise QidfError if what is to come may not fit, while what is there is whole."""
        if not self.path:
            return
        free, needed = shutil.disk_usage(os.path.dirname(os.path.abspath(self.path))).free, 64 << 20
        if free < needed:
            raise QidfError(f"{self.path} has {free:,} bytes left to grow, and takes {needed:,}: free some, and go on")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
