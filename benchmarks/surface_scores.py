"""A real response surface: every config of a space of 7,813, on every question of scifact's train claims.

The product ranks each leg, stage by stage, as in a sweep; the rankings are fused and scored here with the product's
functions, all questions at once. benchmarks/surface.py searches the surface.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optuna_sweeper.space import Space, read_space
from ragsweep.core.types import Chunks, Rankings
from ragsweep.evaluation.evaluator import Evaluator
from ragsweep.evaluation.evidence import cover, view
from ragsweep.evaluation.experiment import Experiment
from ragsweep.evaluation.question_table import tabulate
from ragsweep.golden.clusters import clusters
from ragsweep.parts.fusion import convex, reciprocal_rank
from ragsweep.parts.metrics import Ndcg
from ragsweep.stages.executor import Executor
from ragsweep.stages.store import Store
from ragsweep.sweep.composing.command import compose_jobs, read_command
from ragsweep.sweep.composing.job import Job
from ragsweep.sweep.running.session import Session

Doubles = NDArray[np.float64]
Key = tuple[str, ...]
HYBRIDS = "retriever=hybrid_rrf,hybrid_convex"
WORDS = "retriever=bm25,hybrid_rrf,hybrid_convex"
PARAMS: Mapping[str, object] = {
    "retriever": "hybrid_rrf,hybrid_convex,bm25,vector",
    "k1": {"over": "range(0.6,2.2,0.3)", "when": WORDS},
    "b": {"over": "range(0.15,1,0.15)", "when": WORDS},
    "k": {"over": "range(10,100,10)", "when": "retriever=hybrid_rrf"},
    "alpha": {"over": "range(0,1.05,0.05)", "when": "retriever=hybrid_convex"},
    "normalisation": {"over": "min_max,z_score,theoretical", "when": "retriever=hybrid_convex"},
    "depth": {"over": "50,100,200", "when": HYBRIDS},
}
DEFAULT = {"retriever": "hybrid_rrf", "k1": "1.5", "b": "0.75", "k": "60", "depth": "100"}
DEEPEST = 200
LOWEST = [0.0, -1.0]  # lowest scores of BM25 and of cosine similarity


@cache
def conditional() -> Space:
    """Return the space as our plugin reads it."""
    return read_space([], PARAMS)


@cache
def unconditional() -> Space:
    """Return the space with the same parameters, none of them conditional."""
    return read_space([], {name: one["over"] if isinstance(one, Mapping) else one for name, one in PARAMS.items()})


def key(space: Space, values: Mapping[str, str]) -> Key:
    """Return the key of a config: the values that affect it, without others that a search may have set."""
    kept: dict[str, str] = {}
    for one in space.parameters:
        if one.exists(kept):
            kept[one.name] = values[one.name]
    return tuple(f"{name}={value}" for name, value in kept.items())


@dataclass(frozen=True, eq=False)
class Surface:
    """The scores of every config on every question, and the clusters of the questions."""

    rows: Mapping[Key, int]
    scores: NDArray[np.float32]  # (configs, questions)
    clusters: tuple[str, ...]

    @cached_property
    def means(self) -> Doubles:
        return self.scores.mean(axis=1, dtype=np.float64)

    @property
    def optimum(self) -> float:
        return float(self.means.max())

    def row(self, space: Space, values: Mapping[str, str]) -> int:
        return self.rows[key(space, values)]

    def value(self, space: Space, values: Mapping[str, str]) -> float:
        return float(self.means[self.row(space, values)])


def surface(folder: Path) -> Surface:
    """Compute the surface, or read it from the folder, where stages are stored as well."""
    kept, points = folder / "surface.npz", [key(conditional(), point) for point in conditional().points()]
    if not kept.exists():
        folder.mkdir(parents=True, exist_ok=True)
        made = _Made(folder)
        table = dict(made.all())
        np.savez(kept, scores=np.stack([table[point] for point in points]), clusters=np.array(made.clusters))
        made.check(table)
    with np.load(kept) as read:
        rows = {point: row for row, point in enumerate(points)}
        return Surface(rows, read["scores"], tuple(read["clusters"].tolist()))


class _Made:
    """The rankings of the legs, and the scores of the configs made from them."""

    def __init__(self, folder: Path) -> None:
        collection = Path(os.environ["RAGSWEEP_COLLECTIONS"]) / "scifact"
        self.given = ["dataset=beir", f"dataset.path={collection}", "dataset.split=train_from_claims", "chunker=none"]
        self.session = Session(Evaluator(Executor(Store(folder / "stages", print))), folder=folder)
        first = self.prepare("retriever=vector", f"depth={DEEPEST}")
        self.questions = tabulate(first.dataset.golden.questions)
        self.clusters = clusters(first.dataset.golden.questions)
        get = self.session.evaluator.executor.get
        chunks = Chunks(first.dataset.corpus, get(first.graph.chunks))
        self.coverage = cover(chunks, first.dataset.golden, first.threshold, get(first.graph.counts)["tokens"])
        self.vector = self.ranked(first)

    def prepare(self, *overrides: str) -> Experiment:
        command = read_command([*self.given, *overrides], multirun=False)
        return self.session.prepare(Job(compose_jobs(command)[0].config, command.names()[0], tuple(overrides)))

    def ranked(self, experiment: Experiment) -> Rankings:
        found: Rankings = self.session.evaluator.executor.get(experiment.graph.ranking, self.questions.queries)
        return found

    def scored(self, rankings: Rankings) -> NDArray[np.float32]:
        return Ndcg(10).score(view(self.coverage, rankings, 10)).values.astype(np.float32)

    def all(self) -> Iterator[tuple[Key, NDArray[np.float32]]]:
        space = conditional()
        listed = {one.name: one.domain.listed() or () for one in space.parameters}
        yield ("retriever=vector",), self.scored(self.vector)
        for k1, b in product(listed["k1"], listed["b"]):
            given = ["retriever=bm25", f"retriever.k1={k1}", f"retriever.b={b}", f"depth={DEEPEST}"]
            words = self.ranked(self.prepare(*given))
            point = {"k1": k1, "b": b}
            yield key(space, {"retriever": "bm25", **point}), self.scored(words)
            for depth in listed["depth"]:
                legs = [words.first(int(depth)), self.vector.first(int(depth))]
                for k in listed["k"]:
                    fused = reciprocal_rank(legs, int(k), depth=int(depth))
                    yield key(space, {"retriever": "hybrid_rrf", **point, "k": k, "depth": depth}), self.scored(fused)
                for alpha, rule in product(listed["alpha"], listed["normalisation"]):
                    fused = convex(legs, [1 - float(alpha), float(alpha)], int(depth), rule, LOWEST)
                    named = {"alpha": alpha, "normalisation": rule, "depth": depth}
                    yield key(space, {"retriever": "hybrid_convex", **point, **named}), self.scored(fused)

    def check(self, table: Mapping[Key, NDArray[np.float32]]) -> None:
        """Compare the scores of a few configs with those of the product; raise RuntimeError if they differ."""
        space = conditional()
        hybrid = {"k1": "0.9", "b": "0.6", "depth": "50"}
        for values in (
            {"retriever": "bm25", "k1": "1.5", "b": "0.75"},
            {"retriever": "hybrid_rrf", **hybrid, "k": "30"},
            {"retriever": "hybrid_convex", **hybrid, "alpha": "0.35", "normalisation": "theoretical"},
        ):
            alone = values["retriever"] == "bm25"
            typed = [
                line if line.startswith(("retriever=", "depth=")) else
                f"retriever.legs.bm25.{line}" if line.startswith(("k1=", "b=")) and not alone else f"retriever.{line}"
                for line in key(space, values)
            ]  # fmt: skip
            said = self.session.evaluator.evaluate(self.prepare(*typed)).questions["ndcg_at_10"]
            apart = float(np.abs(np.asarray(said) - table[key(space, values)]).max())
            if apart > 1e-6:
                raise RuntimeError(f"{' '.join(typed)}: {apart:g} apart from what the product measures")


__all__ = ["DEFAULT", "PARAMS", "Surface", "conditional", "key", "surface", "unconditional"]
