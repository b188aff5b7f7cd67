"""The stage that writes the search query of each question."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from ragsweep.core.identity import BuiltPart, Node, Rows, Spec, StageContext, content_hash, key_check
from ragsweep.core.types import Answer, Request, Scores
from ragsweep.evaluation.answering import Packed, answers_in, ask_all, cacheable_answers, read_question_key
from ragsweep.evaluation.config_graph import ConfigGraph
from ragsweep.evaluation.questions import QuestionTable, tabulate
from ragsweep.stages.executor import Executor


def query_node(query: BuiltPart) -> Node:
    """Write the query of every question; rows are keys of the question's wording."""

    def compute(work: StageContext, rows: Rows) -> Packed:
        asked = list(map(read_question_key, rows))
        contents = {key: Request(one.text, (), one.history) for key, one in zip(rows, asked, strict=True)}
        return ask_all(work, rows, contents, query.value.write)

    return Node(
        "query",
        _read_spec(query),
        (),
        compute,
        "rows",
        result=np.ndarray,
        cacheable=cacheable_answers,
        check=key_check(query.value),
    )


def _read_spec(query: BuiltPart) -> Spec:
    """Drop a part's nested parts for other purposes from its spec: they cannot change a query."""
    spec, parameters = query.spec, dict(query.spec.parameters)
    for name, unread in getattr(query.value, "UNREAD", {}).items():
        if isinstance(parameters.get(name), Spec):
            parameters[name] = parameters[name].without(*unread)
    return Spec(spec.target, spec.version, parameters, spec.files)


def write_queries(
    executor: Executor, graph: ConfigGraph, known: QuestionTable
) -> tuple[list[Answer] | None, QuestionTable]:
    """Have a query written for every question with a history; one that failed is searched for with its text.

    Returns:
        The queries, one a question and empty where none was written, or None where the config writes none; and the
        questions as they are searched for.
    """
    if graph.query is None:
        return None, known
    rows = known.conversations.tolist()
    found = iter(answers_in(executor.get(graph.query, [known.wordings[n] for n in rows])) if rows else ())
    chosen = set(rows)
    queries = [next(found) if n in chosen else Answer() for n in range(len(known.questions))]
    texts = [text if one.failed or not one.text else one.text for text, one in zip(known.texts, queries, strict=True)]
    return queries, tabulate(known.questions, known.routed, json.dumps(texts))


def without_lost(scores: Scores, queries: Sequence[Answer] | None) -> Scores:
    """Drop the scores of questions whose query could not be written: another text was searched."""
    lost = {n: one.failed for n, one in enumerate(queries or ()) if one.failed}
    if not lost:
        return scores
    values = scores.values.copy()
    values[list(lost)] = np.nan
    reasons = [lost.get(n, reason) for n, reason in enumerate(scores.reasons.tolist())]
    return Scores(values, np.array(reasons, dtype=np.str_))


def ranking_key(graph: ConfigGraph, known: QuestionTable) -> str:
    """Return the address of the rankings; where queries were written, one that stands for these, too."""
    return content_hash([graph.ranking.address, known.written]) if known.written else graph.ranking.address
