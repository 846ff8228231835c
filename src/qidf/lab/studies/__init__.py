"""The studies: what is measured on each collection, and what is said over all of them.

A study has `measure`, of one collection, which gives a cell that JSON can hold, and `tables`, of all cells.
`qidf.lab.running` keeps them.
"""

from __future__ import annotations

from qidf.lab.studies import analyzers, budgets, expansion, scaling, weights
from qidf.lab.studies.base import Cell, Settings, Study, Table

STUDIES = {
    "weights": Study("q, the hapax predictor, auto, idf^γ, DFR-DPH", weights.measure, weights.tables, version=2),
    "analyzers": Study("analyzers, each with BM25, the best q and auto", analyzers.measure, analyzers.tables),
    "scaling": Study("the same queries among more and more documents", scaling.measure, scaling.tables),
    "budgets": Study("what fits into a budget of tokens", budgets.measure, budgets.tables),
    "expansion": Study("identifiers added to a frozen index's queries", expansion.measure, expansion.tables),
}
"""By name."""

__all__ = ["STUDIES", "Cell", "Settings", "Study", "Table"]
