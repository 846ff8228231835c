"""What was read so far of an index's spellings: a SQLite file, so that a build goes on where it was interrupted.

Each transaction adds the counts of some documents together with a checkpoint, behind which reading goes on, so that a
kill at any moment loses no more than the last of them. Knows terms and parts; knows no engine.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from qidf.errors import QidfError
from qidf.index.store import check_space

FORMAT = 1
_ROOM = 64 << 20  # bytes that a transaction may take
_CUT = "\x1f"

_TABLES = """
CREATE TABLE spelled (term BLOB, parts BLOB, size INT, n INT, PRIMARY KEY (term, parts)) WITHOUT ROWID;
CREATE TABLE words (word BLOB PRIMARY KEY, n INT) WITHOUT ROWID;
CREATE TABLE analyzed (name BLOB PRIMARY KEY, term BLOB) WITHOUT ROWID;
CREATE TABLE state (made_from TEXT, documents INT, checkpoint TEXT);
"""

_BEST = """
SELECT size, term, parts FROM (
    SELECT size, term, parts, row_number() OVER (PARTITION BY term ORDER BY n DESC, parts DESC) AS rank FROM {}
) WHERE rank = 1 ORDER BY size, term
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
        Of the file; without one it is a temporary one, gone at the end.
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
    checkpoint : JSON
        As `add` was given it; None at the beginning.
    """

    def __init__(self, path: str = "", made_from: str = "", *, fresh: bool = False) -> None:
        self.path = path
        self.documents, self.checkpoint = 0, None
        if path:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        try:
            self._open(made_from, fresh)
        except sqlite3.OperationalError as error:
            raise self.refused(error) from None
        except (sqlite3.DatabaseError, ValueError, TypeError):  # something else: what it held can be read again
            os.unlink(path)
            self._open(made_from, fresh)

    def _open(self, made_from: str, fresh: bool) -> None:
        self._connection = sqlite3.connect(self.path, timeout=0.5, isolation_level=None)
        try:
            run = self._connection.execute
            run("PRAGMA locking_mode = EXCLUSIVE")
            run("BEGIN EXCLUSIVE")
            known = None
            if run("PRAGMA user_version").fetchone() == (FORMAT,) and not fresh:
                known = run("SELECT documents, checkpoint FROM state WHERE made_from = ?", (made_from,)).fetchone()
            if known is None:
                for (table,) in run("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                    run(f'DROP TABLE "{table}"')
                for statement in _TABLES.split(";"):
                    run(statement)
                run("INSERT INTO state VALUES (?, 0, 'null')", (made_from,))
                run(f"PRAGMA user_version = {FORMAT}")
            else:
                self.documents, self.checkpoint = int(known[0]), json.loads(known[1])
            run("COMMIT")
        except BaseException:
            self._connection.close()
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
        self,
        spelled: Mapping[str, Mapping[tuple[str, ...], int]],
        words: Mapping[str, int],
        documents: int,
        checkpoint: Any,
    ) -> None:
        """Add what some documents show: all of it or nothing.

        Parameters
        ----------
        spelled : mapping of str to {parts: n}
            How often each term was spelled with which parts.
        words : mapping of str to int
            In how many of the documents each word stands, alone or as a part.
        documents : int
        checkpoint : JSON
            Behind these documents.
        """
        if self.path:  # while what is there is whole
            check_space(self.path, _ROOM, "spellings", "free some space, and go on")
        rows = sorted(
            (_bytes(term), _bytes(_CUT.join(parts)), len(set(parts)), n)
            for term, own in spelled.items()
            for parts, n in own.items()
        )
        with self._transaction() as run:
            run.executemany(
                "INSERT INTO spelled VALUES (?, ?, ?, ?) ON CONFLICT (term, parts) DO UPDATE SET n = n + excluded.n",
                rows,
            )
            run.executemany(
                "INSERT INTO words VALUES (?, ?) ON CONFLICT (word) DO UPDATE SET n = n + excluded.n",
                sorted((_bytes(word), n) for word, n in words.items()),
            )
            self._go_on(run, self.documents + documents, checkpoint)

    def _go_on(self, run: sqlite3.Cursor, documents: int, checkpoint: Any) -> None:
        run.execute("UPDATE state SET documents = ?, checkpoint = ?", (documents, json.dumps(checkpoint)))
        self.documents, self.checkpoint = documents, checkpoint

    def analyze(self, analyze: Callable[[list[str]], Mapping[str, str]], at_once: int) -> None:
        """Say what an analyzer makes of each name: {name: term}, without those that it does not leave whole.

        Names that were analyzed before are not asked about again.
        """
        asked = """SELECT DISTINCT spelled.term FROM spelled LEFT JOIN analyzed ON spelled.term = analyzed.name
            WHERE spelled.term > ? AND analyzed.name IS NULL ORDER BY spelled.term LIMIT ?"""
        last = ""
        while names := [_text(row[0]) for row in self._connection.execute(asked, (_bytes(last), at_once))]:
            last = names[-1]
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

    def sizes(self) -> tuple[int, int, int]:
        """Return how many terms there are at most, their bytes, and their parts."""
        terms, size, parts = self._connection.execute(
            "SELECT count(*), sum(length(term)), sum(size) FROM spelled"
        ).fetchone()
        return terms, size or 0, parts or 0

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Cursor]:
        cursor = self._connection.cursor()
        try:
            cursor.execute("BEGIN IMMEDIATE")
            yield cursor
            cursor.execute("COMMIT")
        except sqlite3.OperationalError as error:
            self._rolled_back()
            raise self.refused(error) from None
        except BaseException:
            self._rolled_back()
            raise

    def _rolled_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def refused(self, error: sqlite3.OperationalError) -> QidfError:
        """Return the error for what SQLite could not do: another writes, or there is no room."""
        if "locked" in str(error):
            return QidfError(f"{self.path} is being written: another 'qidf dictionary build' of this index is at work")
        return QidfError(f"what was read can't be kept{self.path and ' in '}{self.path}: {error}")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
