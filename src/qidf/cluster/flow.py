"""A search from a client to its server and back: rewritten, sent, and sent as it was where the server refuses.

What a wrapped client and the proxy do alike. Yields what is to be sent, and knows not how.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeAlias

from qidf.cluster.rewriter import Outcome, Rewriter
from qidf.cluster.searches import Bodies
from qidf.cluster.steps import Asked
from qidf.rewriting import Note

_log = logging.getLogger("qidf")


class Sent(NamedTuple):
    """The search itself, to be sent with this body."""

    body: Any


class Report(NamedTuple):
    """What became of a search, or of the searches of one request.

    Attributes
    ----------
    index : str
        The expression of the indices, as in the request's path.
    rewritten : bool
        Whether the answer is that of a rewritten body.
    error : str
        What failed, so that the body went as it came; else empty.
    notes : tuple of Note
        What was left as it was, and what to look at again.
    """

    index: str  # type: ignore[assignment]  # hides tuple.index, which nobody asks of a report
    rewritten: bool
    error: str
    notes: tuple[Note, ...]

    def __str__(self) -> str:
        where = f"search of {self.index or 'all indices'}"
        notes = "; ".join(f"{note.path}: {note.reason}" if note.path else note.reason for note in self.notes)
        if self.error:
            return f"{where} went without q-IDF: {self.error}"
        return f"{where} {'rewritten' if self.rewritten else 'left as it is'}{notes and f' ({notes})'}"


Reporter: TypeAlias = Callable[[Report], None]


def log(report: Report) -> None:
    """Tell the logger `qidf` what became of a search: a failure as a warning, anything else for debugging."""
    _log.log(logging.WARNING if report.error else logging.DEBUG, "%s", report)


def flow(
    rewriter: Rewriter,
    index: str,
    parts: Bodies,
    original: Any,
    refusal: Callable[[Any, Sequence[Outcome]], str],
    report: Reporter,
) -> Generator[Asked | Sent, Any, Any]:
    """Return the server's answer to a search.

    Parameters
    ----------
    parts : Bodies
        Of `original`, the body as it came.
    refusal : callable
        Returns why an answer, or an exception in its place, is the server's refusal; empty where it is none.
    """
    outcomes = yield from rewriter.steps(parts.searches)
    notes = tuple(dict.fromkeys(note for outcome in outcomes for note in outcome.notes))
    error = next((outcome.error for outcome in outcomes if outcome.error), "")
    if any(outcome.changed for outcome in outcomes):
        try:
            answer = yield Sent(parts.joined(outcomes))
        except Exception as failure:
            why = refusal(failure, outcomes)
            if not why:
                raise
        else:
            why = refusal(answer, outcomes)
            if not why:
                report(Report(index, True, error, notes))
                return answer
        error = f"the server refused the rewritten body: {why}"
    report(Report(index, False, error, notes))
    return (yield Sent(original))


def refused_items(answer: Any, outcomes: Sequence[Outcome]) -> str:
    """Return why a `_msearch`, answered as a whole, refused a rewritten search; empty if it did not."""
    answers = answer.get("responses") if isinstance(answer, dict) else None
    for one, outcome in zip(answers if isinstance(answers, list) else (), outcomes, strict=False):
        if outcome.changed and isinstance(one, dict) and "error" in one:
            return f"status {one.get('status', 'unknown')}"
    return ""
