"""Read the chunks that recorded configs have retrieved, and measure which share of them is judged."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ragsweep.core.errors import RagsweepError
from ragsweep.core.results import Result
from ragsweep.core.types import Corpus
from ragsweep.evaluation.config_graph import chunks_of
from ragsweep.evaluation.question_table import ChunkNames, chunk_place, has_evidence
from ragsweep.golden.judged_spans import DocumentSpan, difference_bounds, judged_share, locate_labels
from ragsweep.report.numbers import number, signed
from ragsweep.stages.graph import Wanted, plan
from ragsweep.sweep.composing.job import Job, PlainConfig
from ragsweep.sweep.running.session import Session


class Retrieved(NamedTuple):
    """Retrieved chunks by question id: their names, the best first; ``whole`` is false if chunks may be missing."""

    chunks: Mapping[str, Sequence[str]]
    whole: bool = True


def read_retrieved(session: Session, result: Result, depth: int) -> Retrieved:
    """Return a config's first ``depth`` retrieved chunks per question, without computing anything.

    The contexts in the record are returned if the config's ``top_k`` guarantees enough chunks. They are also returned
    if its rankings are not stored or cannot be found; ``whole`` is then false, and there may be fewer than ``depth``
    chunks.
    """
    columns = result.questions
    contexts = {name: found[:depth] for name, found in zip(columns["question_id"], columns["context"], strict=True)}
    if int(result.run.config["top_k"]) >= depth and not result.run.config.get("context_budget"):
        return Retrieved(contexts)
    values = dict(result.run.config)
    try:
        graph = session.prepare(Job(PlainConfig(values, values, {}), result.name, result.run.overrides)).graph
    except RagsweepError:
        return Retrieved(contexts, whole=False)
    searched = [n for n, count in enumerate(columns["retrieved"]) if count > 0]  # NaN: the search failed
    texts = columns.get("query", columns["question"])
    rows, executor = [texts[n] for n in searched], session.evaluator.executor
    if plan([[Wanted(graph.ranking, rows), Wanted(graph.chunks, ())]], executor).missing:
        return Retrieved(contexts, whole=False)
    found = executor.get(graph.ranking, rows).positions[:, :depth]
    named = ChunkNames(chunks_of(graph, executor.get)).of(found)
    return Retrieved(contexts | {columns["question_id"][n]: names for n, names in zip(searched, named, strict=True)})


def places_of(chunks: Mapping[str, Sequence[str]], corpus: Corpus) -> dict[str, list[DocumentSpan]]:
    """Return the span of each named chunk, by question; chunks that are not in the corpus are left out."""
    return {
        question: [
            DocumentSpan(corpus.ids[place[0]], *place[1:]) for one in names if (place := chunk_place(corpus, one))
        ]
        for question, names in chunks.items()
    }


class JudgedContexts(NamedTuple):
    """The share of judged chunks among the first ``depth`` chunks of two configs' contexts.

    ``low`` and ``high`` bound the difference in nDCG if each unjudged chunk is irrelevant or has grade 1.
    """

    depth: int
    share: float
    low: float
    high: float

    def __str__(self) -> str:
        """Describe the share and the bounds in one sentence."""
        share = f"judged@{self.depth}: {number(100 * self.share)} % of both configs' chunks"
        if self.low == self.high:
            return f"{share}; the rest cannot change the difference in ndcg@{self.depth}"
        bounds = f"between {signed(self.low)} and {signed(self.high)}"
        return f"{share}; depending on the rest, the difference in ndcg@{self.depth} is {bounds}"


def judged_contexts(session: Session, before: Result, after: Result) -> JudgedContexts | None:
    """Measure the judged share of two configs' contexts; None if the dataset has changed, or no chunk is found."""
    dataset = session.recorded_dataset(before)
    if dataset is None or dataset.golden.digest not in (before.run.dataset.golden_digest, before.run.dataset.undivided):
        return None
    depth = min(int(one.run.config["top_k"]) for one in (before, after))
    found = [places_of(read_retrieved(session, one, depth).chunks, dataset.corpus) for one in (before, after)]
    counts, bounds, weights = [], [], []
    for question in dataset.golden.questions:
        if has_evidence(question) and all(question.id in some for some in found):
            contexts = [some[question.id] for some in found]
            labels = locate_labels(question.evidence, question.distractors, dataset.corpus)
            counts.append(judged_share(contexts, labels))
            bounds.append(difference_bounds(contexts[0], contexts[1], labels, depth))
            weights.append(question.weight or 1.0)
    judged, chunks = np.sum(counts, axis=0) if counts else (0, 0)
    if not chunks:
        return None
    low, high = np.average(bounds, axis=0, weights=weights).tolist()
    return JudgedContexts(depth, float(judged / chunks), low, high)
