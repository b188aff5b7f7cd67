"""Simulate scores with known true means, and count the configs that each rule wrongly calls better than the baseline.

Part "choice" of planted.py. The first config is the baseline, the config in use today.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from doc_pages import table
from planted import paired_t
from planted_scores import (
    Draw,
    Make,
    Planted,
    around,
    at_random,
    far_worse,
    graded,
    label,
    of_any_spread,
    of_families,
    one_better,
    rare,
    right_or_wrong,
    zipf,
)
from ragsweep.stats.inference.best import winner
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.paired_tests import holm, randomisation
from ragsweep.stats.inference.rare_losses import chance_of_no_gain, largest_loss, losses_are_seen, rare_losses
from ragsweep.stats.inference.resampling import bound, cluster_scores, needed_p_value
from ragsweep.stats.inference.shrinkage import Posterior, posterior
from ragsweep.stats.verdict import LIKELY

Doubles = NDArray[np.float64]
RESAMPLES = 1999
BEFORE, FEWER = "before", 4
"""The former rule is applied to one replication in this many."""
LOSS = 0.005
"""Expected loss against the choice, below which a cheaper config replaces it."""

# --- layouts ---------------------------------------------------------------------------------------------------------


class Layout(NamedTuple):
    name: str
    draw: Draw


def truths(configs: int) -> dict[str, Doubles]:
    return {
        "equal": np.zeros(configs),
        "one +.05": one_better(configs, 0.05),
        "one +.10": one_better(configs, 0.1),
        "±.05 around today's": around(configs),
        "today's best, others down to -.10": np.linspace(0, -0.1, configs),
    }


def layouts() -> Iterator[Layout]:
    questions: dict[str, tuple[Make, list[int]]] = {f"n={n}": (graded, [1] * n) for n in (100, 200)}
    others: dict[str, tuple[Make, list[int]]] = {
        "40 documents of 5": (graded, [5] * 40),
        "60 Zipf documents, n=202": (graded, zipf(60, 200)),
        "right or wrong, n=100": (right_or_wrong, [1] * 100),
    }
    for configs, kinds in ((5, questions), (12, questions | others)):
        for kind, (make, sizes) in kinds.items():
            for name, truth in truths(configs).items():
                yield Layout(f"{configs}, {kind}: {name}", partial(make, truth, sizes))
            yield Layout(f"{configs}, {kind}: {RANDOM}", partial(at_random, make, configs, 0.04, sizes))
        yield Layout(f"{configs}, n=100: {ANY}", partial(of_any_spread, configs, 100))
    for count, by in ((1, 0.3), (4, 0.3), (6, 0.1), (6, 0.3)):
        truth = far_worse(12, count, by)
        yield Layout(f"12, n=100: equal, {count} worse by {by:.2f}", partial(graded, truth, [1] * 100))
    yield Layout("4 families of 3, n=100: equal", partial(of_families, 0.0, 100))
    yield Layout(FAMILIES, partial(of_families, 0.04, 100))
    for configs, n, loss, share in RARE:
        yield Layout(f"{configs}, n={n}: losses of {loss} on {share:.0%}", partial(rare, configs, n, loss, share))


RANDOM, ANY, FAMILIES = "random, sd .04", "random, sd .003 to .25", "4 families of 3, n=100: sd .04"
RARE = ((3, 60, 0.4, 0.03), (12, 60, 0.4, 0.03), (12, 120, 0.4, 0.03), (12, 300, 0.4, 0.03), (12, 300, 0.3, 0.08))

# --- rules -----------------------------------------------------------------------------------------------------------

Rule = Callable[[Matrix], int | None]


def before(matrix: Matrix) -> int | None:
    """Return the best config whose simultaneous interval excludes 0, if exact tests and rare losses permit."""
    differences, baseline = matrix.values - matrix.values[0], matrix.values[0]
    found = bound(cluster_scores(differences, matrix.clusters), RESAMPLES)
    allowed, loss = needed_p_value(found.critical, found.degrees), largest_loss(baseline, "", falls=True)
    for row in np.argsort(-found.means, kind="stable").tolist():
        if found.low[row] > 0:
            gains, clusters = differences[row], matrix.clusters
            survives = losses_are_seen(gains, clusters) or chance_of_no_gain(gains, clusters, loss) < allowed
            if survives and randomisation(gains[None], clusters)[0] < 0.05:
                return int(row)
    return None


def best_by(p_value: Callable[[Matrix, int], float], matrix: Matrix) -> int | None:
    """Return the config with the best mean if its two-sided p-value against the first config is below .05."""
    best = winner(matrix)
    return best if best and p_value(matrix, best) < 0.05 else None


def by_holm(matrix: Matrix) -> int | None:
    """Return the config with the highest mean of those that are better by a paired t test with Holm's correction."""
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


PEERS: Mapping[str, Rule] = {
    BEFORE: before,
    "highest mean": winner,
    "paired t, Holm": by_holm,
    "highest mean, paired t": partial(best_by, paired),
    "highest mean, Welch's t": partial(best_by, welch),
}


# --- counts ----------------------------------------------------------------------------------------------------------

OURS, LAYOUT = "ragsweep", "configs, questions: true means"
BINS = (0.0, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0 + 1e-9)


@dataclass
class Counts:
    """Counts of the rules' decisions over the replications of one layout."""

    name: str
    replications: int
    false: dict[str, int] = field(default_factory=lambda: dict.fromkeys((OURS, *PEERS), 0))
    true: dict[str, int] = field(default_factory=lambda: dict.fromkeys((OURS, *PEERS), 0))
    regrets: list[tuple[float, float, float, float]] = field(default_factory=list)
    choices: list[tuple[float, float]] = field(default_factory=list)  # P(better than baseline); 1 if so, .5 if equal
    vetoed: int = 0

    def count(self, rule: str, row: int | None, truth: Doubles) -> None:
        if row:
            better = truth[row] > truth[0] + 1e-12
            self.true[rule] += bool(better)
            self.false[rule] += not better


def of_best(values: Doubles, truth: Doubles) -> float:
    """Return the mean loss, against the true best, of the configs that tie for the largest value."""
    return float(truth.max() - truth[values >= values.max() - 1e-9].mean())


def choose(counts: Counts, found: Posterior, drawn: Planted, prices: Doubles) -> None:
    """Count the choice, and the cheapest of the configs whose expected loss against it is small.

    Costs are the ``prices``, which are independent of quality, and then costs that rise with quality.
    """
    matrix, truth = drawn.matrix, drawn.truth
    choice = int(found.means.argmax())
    if choice:
        chance, survives = found.probability_better(choice, 0), True
        if chance > LIKELY:
            loss = largest_loss(matrix.values[0], "", falls=True)
            survives = rare_losses(matrix.values[choice] - matrix.values[0], matrix.clusters, loss).survives
            counts.count(OURS, choice if survives else None, truth)
        counts.vetoed += not survives
        gain = truth[choice] - truth[0]
        counts.choices.append((chance, 0.5 if abs(gain) < 1e-12 else float(gain > 0)))
    near = found.means > found.means[choice] - LOSS  # the expected loss is at least the difference of the means
    near[near] = [found.expected_loss(row, choice) < LOSS for row in np.flatnonzero(near).tolist()]
    cheapest = [int(np.where(near, costs, np.inf).argmin()) for costs in (prices, truth + 1e-6 * prices)]
    observed = matrix.values.mean(axis=1)
    saved = [float(truth.max() - truth[row]) for row in cheapest]
    counts.regrets.append((of_best(observed, truth), of_best(found.means, truth), saved[0], saved[1]))


def simulate(layout: Layout, replications: int) -> Counts:
    counts = Counts(layout.name, replications)
    for replication in range(replications):
        generator = np.random.default_rng([replication, *map(ord, layout.name)])
        drawn = layout.draw(generator)
        choose(counts, posterior(drawn.matrix), drawn, generator.random(len(drawn.truth)))
        for name, rule in PEERS.items():
            if name != BEFORE or replication % FEWER == 0:
                counts.count(name, rule(drawn.matrix), drawn.truth)
    return counts


# --- tables ----------------------------------------------------------------------------------------------------------


def share(count: float, of: int) -> str:
    return f"{100 * count / of:.1f}" if of else "-"


def by_rule(title: str, found: Sequence[Counts], kind: str) -> list[str]:
    def cells(one: Counts) -> list[str]:
        counts = getattr(one, kind)
        return [
            share(counts[rule], -(-one.replications // FEWER) if rule == BEFORE else one.replications)
            for rule in counts
        ]

    return table(title, [LAYOUT, OURS, *PEERS], [[label(one.name), *cells(one)] for one in found])


def regret(found: Sequence[Counts]) -> list[str]:
    def cells(one: Counts) -> list[str]:
        each = np.array(one.regrets)
        highest, chosen, *saved = each.mean(axis=0).tolist()
        errors = 2 * (each - each[:, :1]).std(axis=0) / np.sqrt(len(each))
        more = [
            f"{value - highest:+.4f} ± {error:.4f}" for value, error in zip([chosen, *saved], errors[1:], strict=True)
        ]
        return [label(one.name), f"{highest:.4f}", *more]

    head = [LAYOUT, "highest mean", "CHOICE", "cheapest, costs by chance", "cheapest, costs rise with quality"]
    title = (
        "**Regret**: by how much the true mean of the highest observed mean is below that of the best; how much more it"
        f" is of the CHOICE (at most 0), and of the cheapest config within an expected loss of {LOSS} (at most {LOSS}),"
        " with two standard errors"
    )
    return table(title, head, [cells(one) for one in found])


GROUPS: Mapping[str, Callable[[str], bool]] = {
    ANY: lambda name: ANY in name,
    RANDOM: lambda name: RANDOM in name,
    FAMILIES: lambda name: name == FAMILIES,
    "fixed, some config better or worse": lambda name: any(word in name for word in ("one +", "±", "best")),
}


def reliability(found: Sequence[Counts]) -> list[str]:
    rows = []
    for group, belongs in GROUPS.items():
        choices = np.array([choice for one in found if belongs(one.name) for choice in one.choices]).reshape(-1, 2)
        for low, high in pairwise(BINS):
            inside = choices[(choices[:, 0] >= low) & (choices[:, 0] < high)]
            if len(inside):
                chance, better = inside.mean(axis=0).tolist()
                error = 2 * np.sqrt(better * (1 - better) / len(inside))
                rows.append(
                    [
                        group,
                        f"{low:.2f} to {min(high, 1):.2f}",
                        f"{len(inside):,}",
                        f"{chance:.3f}",
                        f"{better:.3f} ± {error:.3f}",
                    ]
                )
    head = ["true means", "P(CHOICE better than the baseline)", "choices", "mean P", "truly better, ties count half"]
    title = "**Calibration**: of choices other than the baseline, how many are truly better (of .90 to .95: .88 to .97)"
    return table(title, head, rows)


def report_choice(replications: int, pool: Executor, only: str = "") -> list[str]:
    """Return the tables of the layouts whose names contain a text."""
    chosen = [layout for layout in layouts() if only in layout.name]
    found = list(pool.map(partial(simulate, replications=replications), chosen))
    equal = "**Called better than the baseline and truly not**: ragsweep at most 5"
    right = "**Called better than the baseline and truly better**"
    veto = [[label(one.name), share(one.vetoed, one.replications)] for one in found if one.vetoed]
    return [
        *by_rule(equal, found, "false"),
        *by_rule(right, [one for one in found if any(one.true.values())], "true"),
        *regret(found),
        *reliability(found),
        *table("**Likely or shown better, but rare losses may undo the lead**", [LAYOUT, "share"], veto),
    ]
