"""The exceptions a user of qidf can meet. Each message says what, where, and what to do next."""

from __future__ import annotations


class QidfError(Exception):
    """Base of every error that qidf raises on purpose; the command line prints it on one line and exits with 2."""


class SourceError(QidfError):
    """Documents can't be read: a missing path, a bad line of JSONL, nothing left to index."""


class IndexNotFoundError(QidfError):
    """There is no index at the given place."""


class IndexCorruptError(QidfError):
    """A file of the index is truncated, damaged or not ours."""


class IndexMismatchError(QidfError):
    """The index is whole, but was made by another version, with another analyzer, or from another place."""


class IndexLockedError(QidfError):
    """Another process writes to the index."""


class EngineError(QidfError):
    """An engine can't be reached, read or asked: a library that is missing, a field that does not exist."""


class EngineWarning(UserWarning):
    """An engine could not do all of what was asked, and did what it could."""


class DictionaryCorruptError(IndexCorruptError):
    """An identifier dictionary is truncated, damaged or not ours; 'qidf dictionary build' makes it again."""


class EngineCorruptError(IndexCorruptError):
    """A file of an index that another library made is truncated or damaged; that library must make it again."""


class AnalyzerWarning(UserWarning):
    """Most terms of a query are unknown to the index: it was probably made with another analyzer."""
