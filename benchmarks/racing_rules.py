"""The rules that benchmarks/racing.py compares: to drop configs of a race, or to stop a single config."""

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ragsweep.stats.inference.confidence_sequence import betting, cluster_differences, evidence
from ragsweep.stats.inference.paired_tests import wilcoxon
from ragsweep.sweep.racing import Betting

Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]
Drop = Callable[[Doubles, Numbers, Numbers], list[int]]
"""Maps scores so far (configs, questions), numbers of evaluated questions, and clusters to the rows to drop."""

ALPHA = 0.05
BLOCK = 16
SPENT, LOOKS = 32, 7
"""With 256 questions in blocks of 32 there are seven looks before the last question."""
PATHS = 1_000_000


CAUTION = 0.5
"""Bound on the bets of the empirical Bernstein capital, as Waudby-Smith and Ramdas choose it."""


def empirical_bernstein(sums: Doubles, sizes: Doubles, margin: float, spread: float, level: float) -> Doubles:
    """Return the logarithm of the capital after each cluster: (rows, clusters).

    The predictable plug-in empirical Bernstein process (Waudby-Smith and Ramdas, JRSS B 86, 2024, theorem 2),
    one-sided, on the mean difference of each cluster. Arguments as for ``betting``.
    """

    def shifted(running: Doubles, first: float) -> Doubles:
        return np.concatenate([np.full((len(running), 1), first), running[:, :-1]], axis=1)

    shares = (sums / np.maximum(sizes, 1.0) + spread) / (2 * spread)
    counts = np.cumsum(sizes > 0, axis=1)
    means = (0.5 + np.where(sizes > 0, shares, 0.0).cumsum(axis=1)) / (counts + 1)
    variances = (0.25 + np.where(sizes > 0, np.square(shares - means), 0.0).cumsum(axis=1)) / (counts + 1)
    before, spreads = shifted(means, 0.5), shifted(variances, 0.25)
    count = np.maximum(counts, 1)
    bets = np.minimum(np.sqrt(2 * np.log(1 / (1 - level)) / (spreads * count * np.log1p(count))), CAUTION)
    paid = np.square(shares - before) * (-np.log1p(-bets) - bets)
    gained = bets * (shares - (margin + spread) / (2 * spread)) - paid
    return np.where(sizes > 0, gained, 0.0).cumsum(axis=1)


class Bernstein(Betting):
    """The rule `Betting` with the empirical Bernstein capital."""

    def _capital(self, sums: Doubles, sizes: Doubles) -> Doubles:
        return empirical_bernstein(sums, sizes, self.margin, self.spread, self.level)


def blocks(groups: Sequence[Hashable], size: int = BLOCK) -> list[int]:
    """Divide questions, given by their clusters in order, into blocks of whole clusters; return the blocks' lengths."""
    lengths, length = [], 0
    for position, group in enumerate(groups, start=1):
        length += 1
        if position == len(groups) or (length >= size and groups[position] != group):
            lengths.append(length)
            length = 0
    return lengths


def by(rule: Betting) -> Drop:
    """Apply one of our own rules, as a sweep does."""

    def drop(values: Doubles, asked: Numbers, clusters: Numbers) -> list[int]:
        scores = {str(row): line[: asked[row]] for row, line in enumerate(values)}
        apart = len(clusters) == clusters[-1] + 1
        return [int(name) for name in rule.decide(scores, None if apart else clusters.tolist()).dropped]  # type: ignore[arg-type]

    return drop


def median(values: Doubles, asked: Numbers, clusters: Numbers) -> list[int]:
    """Drop configs whose mean so far is below the median of the running ones."""
    running = np.flatnonzero(asked == values.shape[1])
    means = values[running].mean(axis=1)
    return running[means < np.median(means)].tolist() if len(running) > 1 else []


def signed_ranks(values: Doubles, asked: Numbers, clusters: Numbers) -> list[int]:
    """Drop configs worse than the highest mean by Wilcoxon's one-sided test at .1, Optuna's default."""
    running = np.flatnonzero(asked == values.shape[1])
    means = values[running].mean(axis=1)
    found = wilcoxon(values[running] - values[running[means.argmax()]]).p / 2 < 0.1
    return running[found & (means < means.max())].tolist()


def spending(values: Doubles, asked: Numbers, clusters: Numbers) -> list[int]:
    """Drop configs worse than the highest mean by z-tests at seven looks, which spend 5 % in equal parts."""
    configs, questions = values.shape
    if questions // SPENT > LOOKS:
        return []
    running = np.flatnonzero(asked == questions)
    means = values[running].mean(axis=1)
    apart = values[running[means.argmax()]] - values[running]
    errors = apart.std(axis=1, ddof=1) / np.sqrt(questions)
    limit = boundaries(ALPHA / (configs - 1))[questions // SPENT - 1]
    return running[apart.mean(axis=1) > np.maximum(limit * errors, 1e-9)].tolist()


@lru_cache
def boundaries(alpha: float) -> tuple[float, ...]:
    """Return limits for z at seven equal looks, each first exceeded by chance at rate alpha / 7 (Lan and DeMets)."""
    generator = np.random.default_rng(0)
    sums, found = np.zeros(PATHS, dtype=np.float32), []
    for look in range(1, LOOKS + 1):
        sums += generator.standard_normal(len(sums), dtype=np.float32)
        spent = round(alpha / LOOKS * PATHS)
        limit = np.partition(sums, len(sums) - spent)[len(sums) - spent]
        found.append(float(limit) / look**0.5)
        sums = sums[sums < limit]
    return tuple(found)


INTERLEAVED: dict[str, tuple[int, Drop]] = {
    "betting": (BLOCK, by(Betting())),
    "betting, margin .01": (BLOCK, by(Betting(margin=0.01))),
    "empirical Bernstein": (BLOCK, by(Bernstein())),
    "z-tests, alpha spending": (SPENT, spending),
    "Wilcoxon": (BLOCK, signed_ranks),
    "median": (BLOCK, median),
}
"""Name -> number of questions in a block, and the rule."""

Stop = Callable[[Doubles, Numbers, Sequence[int]], int]
"""Maps deficits against the best earlier config (questions,), clusters and looks to the questions used."""


def stopped_by_betting(behind: Doubles, clusters: Numbers, looks: Sequence[int]) -> int:
    """Stop at the first look that finds a capital of 20 against the config."""
    reached = evidence(betting(*cluster_differences(behind[None, :], clusters)))[0] >= -np.log(ALPHA)
    return next((look for look in looks if reached[clusters[look - 1]] and behind[:look].mean() > 0), len(behind))


def stopped_by_wilcoxon(behind: Doubles, clusters: Numbers, looks: Sequence[int]) -> int:
    """Stop at the first look at which the config is worse by Wilcoxon's test at .1: Optuna's WilcoxonPruner by default.

    Optuna tests after every question and splits differences of 0; here, tests follow blocks and omit these differences.
    """
    for look in looks:
        part = behind[:look]
        if part.mean() > 0 and wilcoxon(part[None, :]).p[0] / 2 < 0.1:
            return look
    return len(behind)


ONE_BY_ONE: dict[str, Stop] = {
    "betting, one by one": stopped_by_betting,
    "WilcoxonPruner": stopped_by_wilcoxon,
}
RULES = (*INTERLEAVED, *ONE_BY_ONE)
