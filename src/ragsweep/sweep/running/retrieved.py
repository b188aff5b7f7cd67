"""Read the chunks that recorded configs retrieved, and measure the share of these chunks that have labels."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ragsweep.core.errors import ConfigError, RagsweepError
from ragsweep.core.results import Result
from ragsweep.core.secrets import MASK
from ragsweep.core.types import Corpus
from ragsweep.evaluation.config_graph import chunks_of
from ragsweep.evaluation.evidence_places import copied_places
from ragsweep.evaluation.question_table import ChunkNames, chunk_place
from ragsweep.golden.judged_spans import DocumentSpan, difference_bounds, judged_share, locate_labels
from ragsweep.report.numbers import number, signed
from ragsweep.report.terminal import Terminal
from ragsweep.stages.graph import Wanted, plan
from ragsweep.stages.shards import LOCAL
from ragsweep.sweep.composing.job import Job, PlainConfig
from ragsweep.sweep.running.session import Session, open_session


class Retrieved(NamedTuple):
    """Retrieved chunks: question id -> names, best first. ``whole`` is false if chunks may be missing."""

    chunks: Mapping[str, Sequence[str]]
    whole: bool = True


def open_recorded(result: Result, path: str, compute: str = LOCAL) -> Session:
    """Open a session on the store at ``path``, with the object store that ``result`` was computed with, if any.

    If the object store cannot be opened, or if its URL is masked in the ledger, the session has only the local store.
    """
    remote, store = (result.run.config.get("store") or {}).get("remote"), {"path": path, "stages": True}
    shared = {} if MASK in str(remote) else {"remote": remote}
    try:
        return open_session({"store": {**store, **shared}, "compute": compute}, Terminal.current())
    except ConfigError as fault:
        session = open_session({"store": store, "compute": compute}, Terminal.current())
        session.evaluator.executor.listener.warned(f"{fault}; continuing with the local store only")
        return session


def read_retrieved(session: Session, result: Result, depth: int) -> Retrieved:
    """Return a config's first ``depth`` retrieved chunks per question, without computing anything.

    If the config has no ``context_budget`` and its ``top_k`` is at least ``depth``, return the recorded contexts.
    Otherwise, return the stored rankings. If the rankings are missing, or if the config can no longer be prepared with
    its corpus, return the recorded contexts, which may have fewer than ``depth`` chunks, and set ``whole`` to false.
    """
    columns = result.questions
    contexts = {name: found[:depth] for name, found in zip(columns["question_id"], columns["context"], strict=True)}
    if int(result.run.config["top_k"]) >= depth and not result.run.config.get("context_budget"):
        return Retrieved(contexts)
    values = dict(result.run.config)
    try:
        experiment = session.prepare(Job(PlainConfig(values, values, {}), result.name, result.run.overrides))
    except RagsweepError:
        return Retrieved(contexts, whole=False)
    if experiment.dataset.corpus.digest != result.run.dataset.corpus_digest:  # its rankings have other chunks
        return Retrieved(contexts, whole=False)
    graph = experiment.graph
    searched = [n for n, count in enumerate(columns["retrieved"]) if count > 0]  # NaN: the search failed
    texts = columns.get("query", columns["question"])
    rows, executor = [texts[n] for n in searched], session.evaluator.executor
    if plan([[Wanted(graph.ranking, rows), Wanted(graph.chunks, ())]], executor).missing:
        return Retrieved(contexts, whole=False)
    found = executor.get(graph.ranking, rows).positions[:, :depth]
    named = ChunkNames(chunks_of(graph, executor.get)).of(found)
    return Retrieved(contexts | {columns["question_id"][n]: names for n, names in zip(searched, named, strict=True)})


def places_of(chunks: Mapping[str, Sequence[str]], corpus: Corpus) -> dict[str, list[DocumentSpan]]:
    """Map the id of each question to the spans of its chunks, without chunks that are not in the corpus."""
    return {
        question: [
            DocumentSpan(corpus.ids[place[0]], *place[1:]) for one in names if (place := chunk_place(corpus, one))
        ]
        for question, names in chunks.items()
    }


class JudgedContexts(NamedTuple):
    """The share (0 to 1) of judged chunks among the first ``depth`` chunks of two configs' contexts.

    ``low`` and ``high`` are the bounds of the difference in mean nDCG at ``depth``, the second config minus the first,
    if each unjudged chunk may be irrelevant or have grade 1.
    """

    depth: int
    share: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return one sentence with the share and the bounds."""
        share = f"judged@{self.depth}: {number(100 * self.share)} % of both configs' chunks"
        if self.low == self.high:
            return f"{share}; the rest cannot change the difference in ndcg@{self.depth}"
        bounds = f"between {signed(self.low)} and {signed(self.high)}"
        return f"{share}; depending on the rest, the difference in ndcg@{self.depth} is {bounds}"


def judged_contexts(session: Session, before: Result, after: Result) -> JudgedContexts | None:
    """Measure the share of judged chunks in two configs' contexts, each cut to the smaller ``top_k`` of the two.

    Return None if the dataset cannot be loaded or has changed, or if no chunk retrieved for a question with evidence is
    in the corpus.
    """
    dataset = session.recorded_dataset(before)
    if dataset is None or dataset.golden.digest not in (before.run.dataset.golden_digest, before.run.dataset.undivided):
        return None
    depth = min(int(one.run.config["top_k"]) for one in (before, after))
    found = [places_of(read_retrieved(session, one, depth).chunks, dataset.corpus) for one in (before, after)]
    copies = copied_places(dataset.corpus, dataset.golden)
    counts, bounds, weights = [], [], []
    for question in dataset.golden.questions:
        if question.relevant and all(question.id in some for some in found):
            contexts = [some[question.id] for some in found]
            labels = locate_labels(question.evidence, question.distractors, dataset.corpus, copies)
            counts.append(judged_share(contexts, labels))
            bounds.append(difference_bounds(contexts[0], contexts[1], labels, depth))
            weights.append(question.weight or 1.0)
    judged, chunks = np.sum(counts, axis=0) if counts else (0, 0)
    if not chunks:
        return None
    low, high = np.average(bounds, axis=0, weights=weights).tolist()
    return JudgedContexts(depth, float(judged / chunks), low, high)
