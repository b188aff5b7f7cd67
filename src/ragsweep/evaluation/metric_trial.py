"""Try third-party metrics on one question, before any stage is computed or any service is called."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ragsweep.core.trust import is_ours
from ragsweep.core.types import (
    Answer,
    Answers,
    Chunks,
    Corpus,
    Dataset,
    EvaluationView,
    GoldenSet,
    JudgedMetric,
    Judgement,
    Metric,
    Passage,
    Question,
    Rankings,
    Route,
    Spans,
)
from ragsweep.evaluation.evidence import cover, view
from ragsweep.evaluation.scoring import try_metric

EXCERPT = 2000
"""Maximum length, in characters, of an excerpt from the beginning of a document."""


def find_faults(
    metrics: Sequence[Metric], dataset: Dataset, *, answered: bool, routed: bool, stages: Sequence[str] = ("retrieve",)
) -> dict[str, str]:
    """Score one question with perfect retrieval and a perfect answer; map the names of failing metrics to their errors.

    No stage is computed, and no service or judge is called. ``answered`` is true if the config has answers, and
    ``routed`` is true if it has a router; ``stages`` are the stages with latency. Built-in metrics are not tried. The
    result is empty if there are no questions. A RagsweepError of a metric is re-raised.
    """
    foreign = [metric for metric in metrics if not is_ours(metric)]
    if not foreign or not dataset.golden.questions:
        return {}
    judgements = {
        metric.name: [Judgement(1.0 if metric.bounds[1] is None else metric.bounds[1])]
        for metric in metrics
        if isinstance(metric, JudgedMetric)
    }
    latency = {stage: np.array([0.01]) for stage in stages}
    example = replace(_example(dataset, answered, routed), judgements=judgements, latency=latency)
    outcomes = {metric.name: try_metric(metric, example) for metric in foreign}
    return {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, str)}


def _example(dataset: Dataset, answered: bool, routed: bool) -> EvaluationView:
    """Return a view of one question, with excerpts of its evidence or, if it has none, of the first document."""
    questions, documents = dataset.golden.questions, dataset.corpus
    question = next((one for one in questions if one.evidence and one.needs_retrieval), questions[0])
    texts = _excerpts(question, documents) or {documents.ids[0]: documents.texts[0][:EXCERPT]}
    count = len(texts)
    ends = np.array([len(text) for text in texts.values()], dtype=np.int64)
    spans = Spans(np.arange(count, dtype=np.int32), np.zeros(count, dtype=np.int64), ends)
    chunks = Chunks(Corpus(list(texts), [""] * count, list(texts.values())), spans)
    golden = GoldenSet((replace(question, evidence=tuple(replace(one, start=None) for one in question.evidence)),))
    ranking = Rankings(np.arange(count, dtype=np.int32)[None, :], np.linspace(0.9, 0.1, count, dtype=np.float32)[None])
    example = view(cover(chunks, golden), ranking, count)
    passages = tuple(Passage(name, text) for name, text in texts.items())
    answer = Answer(" ".join(question.expected[:1]) or passages[0].text)
    answers = Answers([answer], [passages], np.zeros(1, dtype=np.int64)) if answered else None
    return replace(example, answers=answers, routes=[Route()] if routed else None)


def _excerpts(question: Question, corpus: Corpus) -> dict[str, str]:
    """Return, by id, an excerpt of each labelled document: the anchors or, for a label without one, the beginning."""
    texts: dict[str, str] = {}
    for one in question.evidence:
        whole = corpus.texts[corpus.position[one.document]][:EXCERPT] if one.document in corpus.position else ""
        texts[one.document] = " ".join(filter(None, [texts.get(one.document), one.anchor or whole]))
    return texts
