"""Histograms of retrieval: scores of the first chunk and of the whole context, and numbers of results."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.question_results import QuestionResults
from ragsweep.core.results import Result
from ragsweep.report.document import Block, Charts
from ragsweep.report.page.figures import ACCENT, INK, MUTED, Figure, as_list

Group = tuple[str, NDArray[np.float64], str]
"""A name, values and a colour."""

BARS = 24


def histogram_items(chosen: Sequence[Result]) -> Iterator[Block]:
    """Yield histograms by config; configs with equal values share one.

    A config that gets the same number of results for every question has no histogram of these numbers.
    """
    note = "Questions without evidence should have low scores; where they do, min_score can cut them off."
    columns = ("top_score", "first_evidence_rank", "evidence", "context")
    yield from _charts(chosen, columns, scores_of_first, note, "Scores of the first chunk")
    note = "On the scale of the retriever or reranker; a min_score cuts off all to its left."
    yield from _charts(chosen, ("context_scores",), scores_of_context, note, "Scores of all chunks of the context")
    note = "The length of the ranking: how many results each question got."
    varied = [one for one in chosen if len(set(_finite(one.questions, "retrieved").tolist())) > 1]
    yield from _charts(varied, ("retrieved",), numbers_of_results, note, "Numbers of results")


def _charts(
    chosen: Sequence[Result], columns: Sequence[str], draw: Callable[[Result], Figure], note: str, title: str
) -> Iterator[Block]:
    measured = [
        one
        for one in chosen
        if all(name in one.questions for name in columns) and len(_finite(one.questions, columns[0]))
    ]
    distinct = {str(one.questions[columns[0]]): one for one in reversed(measured)}
    if distinct:
        options = [{"label": one.name, "figure": draw(one)} for one in reversed(distinct.values())]
        yield Charts(options, note, title)


def scores_of_first(result: Result) -> Figure:
    """Plot the score of each question's first chunk, by whether the evidence is in the context."""
    columns = result.questions
    scores = np.array(columns["top_score"], dtype=np.float64)
    ranks, evidence = np.array(columns["first_evidence_rank"]), np.array(columns["evidence"])
    depth = np.array([len(context or ()) for context in columns["context"]])
    found, missed = (ranks > 0) & (ranks <= depth), (ranks == 0) | (ranks > depth)  # neither if a question failed
    groups = [
        ("evidence in the context", scores[(evidence > 0) & found], ACCENT),
        ("evidence missed", scores[(evidence > 0) & missed], MUTED),
        ("no evidence exists", scores[evidence == 0], INK),
    ]
    return _histogram(groups, "score of the first chunk", "questions")


def scores_of_context(result: Result) -> Figure:
    """Plot the scores of all chunks of all contexts, first chunks as a separate group."""
    rows = [row or [] for row in result.questions["context_scores"]]
    first = np.array([row[0] for row in rows if row], dtype=np.float64)
    others = np.array([score for row in rows for score in row[1:]], dtype=np.float64)
    return _histogram([("first chunk", first, ACCENT), ("further chunks", others, MUTED)], "score", "chunks")


def numbers_of_results(result: Result) -> Figure:
    """Plot the distribution of the number of results per question."""
    counts = _finite(result.questions, "retrieved")
    width = math.ceil((counts.max() - counts.min() + 1) / BARS)
    return _histogram([("questions", counts, ACCENT)], "results", "questions", float(width))


def _finite(questions: QuestionResults, column: str) -> NDArray[np.float64]:
    """Return the finite numbers of a column, including the items of lists."""
    values: Sequence[Any] = questions.get(column) or ()
    flat = [item for value in values for item in (value if isinstance(value, list | tuple) else [value])]
    numbers = np.array(flat, dtype=np.float64)
    return numbers[np.isfinite(numbers)]


def _histogram(groups: Sequence[Group], title: str, counted: str, width: float = 0.0) -> Figure:
    """Plot groups as stacked bars of equal width; ``width`` 0 makes about BARS bars."""
    measured = [(name, values[np.isfinite(values)], colour) for name, values, colour in groups]
    known = np.concatenate([values for _, values, _ in measured])
    step = width or float(np.ptp(known)) / BARS or 1.0
    start = float(known.min()) - (0.5 if width else 0.0)  # whole numbers are in the middle of their bars
    look = {"xbins": {"start": start, "end": float(known.max()) + step, "size": step}, "opacity": 0.85}
    traces = [
        {"type": "histogram", "name": name, "x": as_list(values), "marker": {"color": colour}, **look}
        for name, values, colour in measured
        if len(values)
    ]
    axes = {"xaxis": {"title": {"text": title}}, "yaxis": {"title": {"text": counted}}}
    return {"data": traces, "layout": {"barmode": "stack", "showlegend": len(traces) > 1, "height": 320, **axes}}
