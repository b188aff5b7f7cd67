"""Plant a truth, choose a config, and compare what each rule calls better than today's config with that truth.

Part "choice" of planted.py. The first config is today's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr

from doc_pages import table
from planted import paired_t
from planted_scores import Draw, Planted, one_better, planted, tied
from ragsweep.stats.inference.best import winner
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.max_t import max_t_intervals, needed_p_value
from ragsweep.stats.inference.paired_tests import holm, randomisation
from ragsweep.stats.inference.rare_losses import chance_of_no_gain, largest_loss, losses_are_seen, rare_losses
from ragsweep.stats.inference.shrinkage import posterior

Doubles = NDArray[np.float64]
RESAMPLES = 1999
BETTER = 0.90
"""Probability above which a config is called better than today's."""
LOSS = 0.005
"""Expected loss against the choice below which a cheaper config takes its place."""
SPREAD, SHARED, ICC = 0.5, 0.8, 0.3
"""Of latent scores: standard deviation, share of the variance common to configs, share common to a document."""

# --- layouts ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def latent_means() -> tuple[Doubles, Doubles]:
    """Return means of scores cut at 0 and 1, and the latent means that give them."""
    latent = np.linspace(-0.5, 1.5, 2001)
    low, high = -latent / SPREAD, (1 - latent) / SPREAD
    density = np.exp(-np.square([low, high]) / 2) / np.sqrt(2 * np.pi)
    cut = latent * (ndtr(high) - ndtr(low)) + SPREAD * (density[0] - density[1]) + 1 - ndtr(high)
    return cut, latent


def graded(truth: Doubles, sizes: Sequence[int], generator: np.random.Generator) -> Planted:
    """Scores cut at 0 and 1 around .5, of questions in documents of these sizes; differences have an sd of about .25."""
    source = np.repeat(np.arange(len(sizes)), sizes)
    alone = ICC if max(sizes) > 1 else 0.0

    def drawn(rows: int, share: float) -> Doubles:
        documents = generator.normal(0, SPREAD * np.sqrt(share * alone), (rows, len(sizes)))
        return documents[:, source] + generator.normal(0, SPREAD * np.sqrt(share * (1 - alone)), (rows, len(source)))

    latent = np.interp(0.5 + truth, *latent_means())
    values = latent[:, None] + drawn(1, SHARED) + drawn(len(truth), 1 - SHARED)
    return planted(values.clip(0, 1), 0.5 + truth, source)


def right_or_wrong(truth: Doubles, sizes: Sequence[int], generator: np.random.Generator) -> Planted:
    """Hit or miss; the worst config only departs from what all share, the better ones win misses."""
    return tied(truth - truth.min(), len(sizes), generator)


def rare(configs: int, questions: int, loss: float, share: float, generator: np.random.Generator) -> Planted:
    """Equal configs: each gains a little on 40 % of the questions and loses much on few, against the first one."""
    place = generator.random((configs - 1, questions))
    gains = np.where(place < share, -loss, np.where(place < share + 0.4, loss * share / 0.4, 0.0))
    return planted(0.6 + np.vstack([np.zeros(questions), gains]), np.full(configs, 0.6))


Make = Callable[[Doubles, Sequence[int], np.random.Generator], Planted]


def at_random(make: Make, configs: int, spread: float, sizes: Sequence[int], generator: np.random.Generator) -> Planted:
    return make(generator.normal(0, spread, configs), sizes, generator)


def around(configs: int) -> Doubles:
    """Spread true means evenly from -.05 to .05, one in the middle first."""
    others = np.linspace(-0.05, 0.05, configs)
    middle = (configs - 1) // 2
    return np.array([others[middle], *np.delete(others, middle)])


class Layout(NamedTuple):
    name: str
    draw: Draw


def zipf(documents: int, questions: int) -> list[int]:
    """Sizes proportional to 1 / rank, at least 1."""
    ranks = 1 / np.arange(1, documents + 1)
    return np.maximum(1, np.round(questions * ranks / ranks.sum())).astype(int).tolist()


def truths(configs: int) -> dict[str, Doubles]:
    return {"equal": np.zeros(configs), "one +.05": one_better(configs, 0.05), "one +.10": one_better(configs, 0.1),
            "±.05": around(configs), "today's best": np.linspace(0, -0.1, configs)}  # fmt: skip


def layouts() -> Iterator[Layout]:
    questions = {f"n={n}": (graded, [1] * n) for n in (100, 200)}
    others = {"40 documents of 5": (graded, [5] * 40), "Zipf documents": (graded, zipf(60, 200)),
              "right or wrong, n=100": (right_or_wrong, [1] * 100)}  # fmt: skip
    for configs, kinds in ((5, questions), (12, questions | others)):
        for kind, (make, sizes) in kinds.items():
            for name, truth in truths(configs).items():
                yield Layout(f"{configs} configs, {kind}: {name}", partial(make, truth, sizes))
            yield Layout(f"{configs} configs, {kind}: random, sd .04", partial(at_random, make, configs, 0.04, sizes))
    for configs, n, loss, share in ((3, 60, 0.4, 0.03), (12, 60, 0.4, 0.03), (12, 120, 0.4, 0.03), (12, 300, 0.4, 0.03), (12, 300, 0.3, 0.08)):
        yield Layout(f"{configs} configs, n={n}, losses of {loss} on {share:.0%}", partial(rare, configs, n, loss, share))


# --- rules -----------------------------------------------------------------------------------------------------------

Rule = Callable[[Matrix], int | None]


def highest(matrix: Matrix) -> int | None:
    """Name the highest mean."""
    return winner(matrix)


def before(matrix: Matrix) -> int | None:
    """Name the highest mean of the configs whose simultaneous interval excludes 0, after exact tests and the guard."""
    differences, baseline = matrix.values - matrix.values[0], matrix.values[0]
    found = max_t_intervals(differences, matrix.clusters, resamples=RESAMPLES)
    allowed, loss = needed_p_value(found.critical, found.degrees, 0.95), largest_loss(baseline, falls=True)
    for row in np.argsort(-found.means, kind="stable").tolist():
        if found.low[row] > 0:
            gains = differences[row]
            seen = losses_are_seen(gains, matrix.clusters)
            if seen or chance_of_no_gain(gains, matrix.clusters, loss) < allowed:
                if randomisation(gains[None], matrix.clusters)[0] < 0.05:
                    return int(row)
    return None


def best_by(p_value: Callable[[Matrix, int], float], matrix: Matrix) -> int | None:
    """Name the highest mean where a two-sided p-value of its difference from the first config is below .05."""
    best = winner(matrix)
    return best if best and p_value(matrix, best) < 0.05 else None


def by_holm(matrix: Matrix) -> int | None:
    """Name the highest mean of the configs that are better by a paired t test after Holm's correction."""
    differences = matrix.values[1:] - matrix.values[0]
    means = differences.mean(axis=1)
    shown = (holm(paired_t(differences)) < 0.05) & (means > 0)
    return int(np.where(shown, means, -np.inf).argmax()) + 1 if shown.any() else None


def paired(matrix: Matrix, row: int) -> float:
    return float(paired_t(matrix.values[[row]] - matrix.values[0])[0])


def welch(matrix: Matrix, row: int) -> float:
    first, second = matrix.values[0], matrix.values[row]
    parts = np.array([first.var(ddof=1), second.var(ddof=1)]) / len(first)
    degrees = parts.sum() ** 2 / (np.square(parts).sum() / (len(first) - 1)) if parts.any() else 1.0
    return float(2 * stdtr(degrees, -abs(second.mean() - first.mean()) / np.sqrt(parts.sum() or 1.0)))


PEERS: dict[str, Rule] = {
    "before": before,
    "highest mean": highest,
    "paired t, Holm": by_holm,
    "best by paired t": partial(best_by, paired),
    "best by Welch": partial(best_by, welch),
}
