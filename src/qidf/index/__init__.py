"""The embedded index: built from documents, kept in a directory, searched with weighted terms."""

from qidf.index.explain import Explanation, TermExplanation
from qidf.index.search import Hit, Index

__all__ = ["Explanation", "Hit", "Index", "TermExplanation"]
