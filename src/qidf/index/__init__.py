"""The embedded index: built from documents, kept in a directory, searched with weighted terms."""

from qidf.index.search import Explanation, Hit, Index, TermExplanation

__all__ = ["Explanation", "Hit", "Index", "TermExplanation"]
