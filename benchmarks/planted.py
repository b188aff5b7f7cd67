"""Plant a truth in per-question scores and count what each decision rule makes of it.

    RAGSWEEP_COLLECTIONS=... python benchmarks/planted.py [--replications 2000] [--jobs 2] [--write]
    python benchmarks/planted.py --part decisions [...]; --part power [...]; --part choice [...]

Synthetic scores, and real ones of a small sweep over scifact and python_faq_en (left out without the folder). The same
scores for every rule; 1,999 resamples a replication instead of 10,000. Prints the tables; --write puts them into
docs/measurements.md between the markers. Deterministic: replication r of a scenario has a seed of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray
from ragsweep.stats.inference.recommending import (
    AS_GOOD,
    BETTER,
    MARGIN,
    NONE,
    ConfigCost,
    Pairs,
    Recommendation,
    recommend,
)
from scipy.special import stdtr

from doc_pages import fill, table
from planted_scores import Planted, Scenario, decisions, drawn_from, normal, one_better, planted, real, synthetic
from ragsweep.stats.comparison import SET_LEVEL
from ragsweep.stats.inference.best import selection_bias, winner
from ragsweep.stats.inference.confidence_set import model_confidence_set
from ragsweep.stats.inference.differences import Differences, compare_with_baseline
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.max_t import student_quantile
from ragsweep.stats.inference.paired_tests import holm, wilcoxon
from ragsweep.stats.inference.power import POWER, each_level, estimate_power
from ragsweep.stats.inference.rare_losses import WIDEST
from ragsweep.stats.inference.slices import by_slice, reversals

Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]
RESAMPLES = 1999


def argmax(matrix: Matrix) -> Flags:
    """Keep the highest mean: what every peer reports."""
    return np.arange(len(matrix.values)) == winner(matrix)


def median(matrix: Matrix) -> Flags:
    """Keep whose mean is at least the median of the means: a median pruner."""
    means = matrix.values.mean(axis=1)
    return np.asarray(means >= np.median(means))


def z_bound(matrix: Matrix) -> Flags:
    """Keep whose own upper 95 % bound reaches the highest mean: one arm at a time, unpaired."""
    means = matrix.values.mean(axis=1)
    errors = matrix.values.std(axis=1, ddof=1) / np.sqrt(matrix.values.shape[1])
    return np.asarray(means + 1.645 * errors >= means.max())


def paired_t(differences: Doubles) -> Doubles:
    """Return the two-sided p-value of each row's mean, questions taken as independent; 1 where nothing differs."""
    t, degrees = paired_statistics(differences)
    return np.asarray(2 * stdtr(degrees, -np.abs(t)))


def paired_statistics(differences: Doubles) -> tuple[Doubles, int]:
    """Return the t statistic of each row's mean and the degrees of freedom; 0 where a row has no spread."""
    errors = differences.std(axis=1, ddof=1) / np.sqrt(differences.shape[1])
    return np.where(errors > 0, differences.mean(axis=1) / np.where(errors > 0, errors, 1), 0), differences.shape[1] - 1


Test = Callable[[Doubles], Doubles]
TESTS: Mapping[str, Test] = {
    "paired t": paired_t,
    "Wilcoxon": lambda differences: wilcoxon(differences).p,
    "Wilcoxon, Holm": lambda differences: holm(wilcoxon(differences).p),
}
"""How peers compare configs with one of them: p-values of rows of differences."""


def not_worse(test: Test, matrix: Matrix) -> Flags:
    """Keep what a test does not tell from the highest mean."""
    best = winner(matrix)
    others = np.arange(len(matrix.values)) != best
    kept = ~others
    kept[others] = test(matrix.values[others] - matrix.values[best]) >= 0.05
    return kept


RULES: Mapping[str, Callable[[Matrix], Flags]] = {
    "argmax": argmax,
    "median of points": median,
    "single-arm z": z_bound,
    **{name: partial(not_worse, test) for name, test in TESTS.items()},
    "ours: range": lambda matrix: model_confidence_set(matrix, resamples=RESAMPLES).mask,
}

CLAIMS = ("highest mean", *TESTS, "ours: max-T")


def told(of_set: Doubles, shown: Differences) -> Flags:
    """Keep whom the verdict of a sweep calls perhaps the best: the set in step with the differences from the first."""
    kept = of_set > 1 - SET_LEVEL
    kept[0] = not shown.better.any()
    return kept


@dataclass
class Decided:
    """What came of one rule's recommendations."""

    made: int = 0
    worse: int = 0  # truly worse than today's
    loss: float = 0.0  # against the true best
    saved: int = 0  # cheaper than today's, and truly no worse
    cheapest: int = 0  # of those that are truly no worse than today's


def highest(drawn: Planted) -> int | None:
    """What every peer recommends."""
    return winner(drawn.matrix)


def cheapest_of_the_set(drawn: Planted, of_set: Doubles) -> int | None:
    """The cheapest that cannot be told from the best: absence of evidence taken for equality."""
    return int(np.where(of_set > 0.05, drawn.costs, np.inf).argmin())


def ours(drawn: Planted, shown: Differences) -> Recommendation:
    cost = ConfigCost(drawn.costs, drawn.costs < drawn.costs[0], drawn.costs > drawn.costs[0])
    return recommend(Pairs(drawn.matrix), shown, {"context_tokens": cost}, {}, MARGIN)


def better_by_t(drawn: Planted) -> int | None:
    """The highest mean, where a paired t test without correction finds it better than today's."""
    best = winner(drawn.matrix)
    differences = drawn.matrix.values[[best]] - drawn.matrix.values[0]
    return best if differences.mean() > 0 and paired_t(differences)[0] < 0.05 else None


DECISIONS = ("ours", "highest mean", "paired t", "cheapest of the set")
REVERSALS = ("paired t", "ours")


@dataclass
class Tally:
    """Counts over the replications of one scenario."""

    scenario: Scenario
    several: bool = False  # more than one config is the best
    false: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RULES, 0))
    left_out: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RULES, 0))
    named: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RULES, 0))
    size: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RULES, 0))
    claimed_falsely: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CLAIMS, 0))
    claimed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CLAIMS, 0))
    covered: int = 0
    unmarked: int = 0  # all intervals hold that have no note
    alone: int = 0  # each config's Student's t interval by itself
    unbounded: int = 0
    luck: float = 0.0  # how much better the winner looked than it is
    foretold: float = 0.0  # and was said to look
    decided: dict[str, Decided] = field(default_factory=lambda: {rule: Decided() for rule in DECISIONS})
    kinds: dict[str, int] = field(default_factory=lambda: dict.fromkeys((BETTER, AS_GOOD, NONE), 0))
    untold: int = 0  # one of the best is not among those that are said to be perhaps the best
    reversal: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REVERSALS, 0))
    false_reversal: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REVERSALS, 0))
    replications: int = 0

    def share(self, count: float) -> float:
        return 100 * count / self.replications


def run(scenario: Scenario, replications: int) -> Tally:
    tally = Tally(scenario)
    name = [ord(letter) for letter in scenario.name]
    for replication in range(replications):
        score(scenario.draw(np.random.default_rng([replication, *name])), tally)
    return tally


def score_decisions(drawn: Planted, tally: Tally) -> None:
    """Recommend by each rule, and hold what is recommended against the truth."""
    shown = compare_with_baseline(drawn.matrix, 0, resamples=RESAMPLES)
    of_set = model_confidence_set(drawn.matrix, resamples=RESAMPLES).p_values
    found = ours(drawn, shown)
    tally.replications += 1
    tally.kinds[found.kind] += 1
    rules = (found.config, highest(drawn), better_by_t(drawn), cheapest_of_the_set(drawn, of_set))
    chosen = zip(DECISIONS, rules, strict=True)
    tally.untold += not told(of_set, shown)[drawn.truth >= drawn.truth.max() - 1e-12].all()
    fine = drawn.truth >= drawn.truth[0] - 1e-12
    for rule, row in chosen:
        if row is not None:
            one = tally.decided[rule]
            one.made += 1
            one.worse += not fine[row]
            one.loss += drawn.truth.max() - drawn.truth[row]
            one.saved += bool(fine[row] and drawn.costs[row] < drawn.costs[0])
            one.cheapest += bool(drawn.costs[row] == drawn.costs[fine].min())


def score(drawn: Planted, tally: Tally) -> None:
    if drawn.costs is not None:
        return score_decisions(drawn, tally)
    best = drawn.truth >= drawn.truth.max() - 1e-12
    tally.several = bool(best.sum() > 1)
    tally.replications += 1
    for name, rule in RULES.items():
        kept = rule(drawn.matrix)
        alone = kept.sum() == 1
        tally.left_out[name] += not kept[best].all()
        tally.false[name] += bool(alone and (tally.several or not kept[best].any()))
        tally.named[name] += bool(alone and not tally.several and kept[best].all())
        tally.size[name] += int(kept.sum())
    score_claims(drawn, tally)
    told = selection_bias(drawn.matrix)
    tally.luck += told.observed - drawn.truth[told.winner]
    tally.foretold += told.optimism
    if drawn.labels:
        score_slices(drawn, tally)
    return None


def score_claims(drawn: Planted, tally: Tally) -> None:
    """Compare all with the first config: what is claimed to be better, and do the intervals hold?"""
    differences = drawn.matrix.values - drawn.matrix.values[0]
    truth = drawn.truth - drawn.truth[0]
    found = compare_with_baseline(drawn.matrix, 0, resamples=RESAMPLES)
    up = differences[1:].mean(axis=1) > 0
    claims = {name: np.append(False, up & (test(differences[1:]) < 0.05)) for name, test in TESTS.items()}
    claims |= {"highest mean": argmax(drawn.matrix) & (np.arange(len(truth)) > 0), "ours: max-T": found.better}
    for name, claim in claims.items():
        tally.claimed_falsely[name] += bool((claim & (truth <= 1e-12)).any())
        tally.claimed[name] += bool(claim[truth.argmax()])
    held = (found.low <= truth + 1e-12) & (truth <= found.high + 1e-12)
    tally.covered += bool(held.all())
    tally.unmarked += bool((held | [note != "" for note in found.notes]).all())
    tally.alone += bool((paired_t(differences - truth[:, None])[1:] >= 0.05).all())
    tally.unbounded += not np.isfinite(found.low).all()


def score_slices(drawn: Planted, tally: Tally) -> None:
    overall = compare_with_baseline(drawn.matrix, 0, resamples=RESAMPLES)
    slices = by_slice(drawn.matrix, {"slice": drawn.labels}, 0, resamples=RESAMPLES)
    found = {"ours": {(one.config, one.value) for one in reversals(overall, slices)},
             "paired t": reversals_by_t(drawn)}  # fmt: skip
    right = (len(drawn.truth) - 1, "slice 4")
    for rule, named in found.items():
        tally.reversal[rule] += right in named
        tally.false_reversal[rule] += bool(named - {right})


def reversals_by_t(drawn: Planted) -> set[tuple[int, str]]:
    """Find what is better on average and worse in a slice by paired t tests, none of them corrected."""
    differences, labels = drawn.matrix.values - drawn.matrix.values[0], np.array(drawn.labels)

    def differing(part: Doubles, sign: float) -> Flags:
        return np.asarray((sign * part.mean(axis=1) > 0) & (paired_t(part) < 0.05))

    better = differing(differences, 1)
    return {(row, value) for value in set(drawn.labels)
            for row in np.flatnonzero(better & differing(differences[:, labels == value], -1)).tolist()}  # fmt: skip


def by_rule(title: str, tallies: Sequence[Tally], count: Callable[[Tally, str], str]) -> list[str]:
    rows = [[tally.scenario.name, *(count(tally, rule) for rule in RULES)] for tally in tallies]
    return table(title, ["", *RULES], rows)


def report_decisions(tallies: Sequence[Tally]) -> list[str]:
    def cells(tally: Tally) -> list[str]:
        row = [tally.scenario.name, *(f"{tally.share(count):.0f}" for count in tally.kinds.values())]
        row += [f"{tally.share(one.worse):.1f}" for one in tally.decided.values()]
        row += [f"{one.loss / one.made:.3f}" if one.made else "-" for one in tally.decided.values()]
        mine = tally.decided["ours"]
        return [
            *row,
            f"{tally.share(mine.saved):.0f}",
            f"{tally.share(mine.cheapest):.0f}",
            f"{tally.share(tally.untold):.1f}",
        ]

    head = ["", "better", "as good and cheaper", "none", *(f"worse: {rule}" for rule in DECISIONS),
            *(f"loss: {rule}" for rule in DECISIONS), "saved", "all", "left out"]  # fmt: skip
    title = (
        "**What is recommended**: its kind; how often it is truly worse than today's (ours: at most 5); what it loses"
        " against the true best, in scores, where one is recommended (ours: at most .005 more than the highest mean);"
        " how often ours costs less than today's and is truly no worse, and is the cheapest of those (flat, n=300: at"
        " least 60); how often one of the best is not among those that are said to be perhaps the best"
    )
    return table(title, head, [cells(tally) for tally in tallies])


def foretold(replications: int) -> list[str]:
    """How often a difference as large as foretold is shown: among all configs of a sweep, one of which has it."""
    designs = [(graded, 2, 30), (graded, 2, 60), (graded, 12, 60), (graded, 2, 100), (graded, 10, 100),
               (graded, 50, 100), (right_or_wrong, 2, 60), (right_or_wrong, 2, 100), (right_or_wrong, 2, 200),
               (right_or_wrong, 10, 200)]  # fmt: skip
    rows = []
    for draw, configs, questions in designs:
        effects = np.mean([_foretold(draw(configs, questions, 0.0, np.random.default_rng([7, n]))) for n in range(50)],
                          axis=0)  # fmt: skip
        shown = [
            np.mean([bool(compare_with_baseline(one, 0, resamples=RESAMPLES).better[-1]) for one in planted])
            for effect in effects
            for planted in [(draw(configs, questions, effect, np.random.default_rng([8, n]))
                             for n in range(replications))]
        ]  # fmt: skip
        rows.append([draw.__name__.replace("_", " "), str(configs), str(questions), f"{effects[0]:.3f}",
                     f"{100 * shown[0]:.0f}", f"{effects[1]:.3f}", f"{100 * shown[1]:.0f}",
                     f"{effects[1] / effects[0]:.2f}"])  # fmt: skip
    return table("**A difference as large as foretold**: how often `better` is claimed (75 to 85) where the prediction"
                 " takes the observed spread and no more, and where it counts the spread that gains bring and the guard"
                 " against unseen losses, and how much larger that makes it",
                 ["scores", "configs", "questions", "by the spread", "shown", "foretold", "shown", "ratio"],
                 rows)  # fmt: skip


def graded(configs: int, questions: int, effect: float, generator: np.random.Generator) -> Matrix:
    """Normal scores; the last config is better."""
    return normal(one_better(configs, effect), questions, generator).matrix


def right_or_wrong(configs: int, questions: int, effect: float, generator: np.random.Generator) -> Matrix:
    """60 % right; a fifth of each config's answers is drawn anew, and the last one is right on further questions."""
    values = np.tile(generator.random(questions) < 0.6, (configs, 1))
    values = np.where(
        generator.random((configs, questions)) < 0.2, generator.random((configs, questions)) < 0.6, values
    )
    values[-1] |= generator.random(questions) < effect / 0.4
    return planted(values.astype(float), np.zeros(configs)).matrix


def _foretold(drawn: Matrix) -> tuple[float, float]:
    """Return the difference that is foretold without the guard, and with it."""
    level = each_level(compare_with_baseline(drawn, 0, resamples=RESAMPLES))
    found = estimate_power(drawn, level=level, guarded=np.ones(len(drawn.values), dtype=bool))
    degrees = drawn.values.shape[1] - 1
    factor = student_quantile((1 + level) / 2, degrees) + student_quantile(POWER, degrees)
    plain = float(np.median(found.spread[1:])) / np.sqrt(drawn.values.shape[1]) * factor
    return plain, found.typical if np.isfinite(found.typical) else WIDEST * plain


def report(tallies: Sequence[Tally], replications: int) -> list[str]:
    nulls = [tally for tally in tallies if tally.several]
    singles = [tally for tally in tallies if not tally.several]
    claims = [[tally.scenario.name,
               *(f"{tally.share(tally.claimed_falsely[rule]):.1f}" for rule in CLAIMS),
               *("-" if tally.several else f"{tally.share(tally.claimed[rule]):.0f}" for rule in CLAIMS),
               f"{tally.share(tally.alone):.1f}", f"{tally.share(tally.covered):.1f}",
               f"{tally.share(tally.unmarked):.1f}", str(tally.unbounded)] for tally in tallies]  # fmt: skip
    lucks = [[tally.scenario.name, f"{tally.luck / tally.replications:+.4f}",
              f"{tally.foretold / tally.replications:+.4f}",
              f"{(tally.foretold - tally.luck) / tally.replications:+.4f}"] for tally in tallies]  # fmt: skip
    opposed = [tally for tally in tallies if tally.scenario.slices]
    return [
        f"{replications:,} replications, {RESAMPLES:,} resamples each. In per cent where nothing else is said.",
        *by_rule("**Several are equally best: one of the best is declared worse** (at most 6.5)", nulls,
                 lambda tally, rule: f"{tally.share(tally.left_out[rule]):.1f}"),
        *by_rule("**Several are equally best: one alone is named** (a false winner)", nulls,
                 lambda tally, rule: f"{tally.share(tally.false[rule]):.1f}"),
        *by_rule("**One is the best: another one is named** (a false winner)", singles,
                 lambda tally, rule: f"{tally.share(tally.false[rule]):.1f}"),
        *by_rule("**One is the best: it is not in the set** (a missed winner; at most 6.5)", singles,
                 lambda tally, rule: f"{tally.share(tally.left_out[rule]):.1f}"),
        *by_rule("**One is the best: it is named alone** (power)", singles,
                 lambda tally, rule: f"{tally.share(tally.named[rule]):.0f}"),
        *by_rule("**How many configs are kept**, on average", tallies,
                 lambda tally, rule: f"{tally.size[rule] / tally.replications:.1f}"),
        *table("**Against the first config**: some config is claimed to be better and is not; the best is found to be"
               " better; all intervals hold together (93 to 97; with ties at least 93): Student's t of each config by"
               " itself, ours, and those of ours that have no note; infinite intervals",
               ["", *(f"false: {rule}" for rule in CLAIMS), *(f"found: {rule}" for rule in CLAIMS),
                "hold: t, each alone", "hold: ours", "without a note", "infinite"], claims),
        *table("**How much better the highest mean looks than it is** (in scores; peers report it as it is, so that the"
               " first column is their error; the last column within .005)", ["", "true", "foretold", "error"], lucks),
        *table("**Better on average, worse in one of five slices**: found; said of another slice or config",
               ["", *(f"found: {rule}" for rule in REVERSALS), *(f"false: {rule}" for rule in REVERSALS)],
               [[tally.scenario.name, *(f"{tally.share(tally.reversal[rule]):.0f}" for rule in REVERSALS),
                 *(f"{tally.share(tally.false_reversal[rule]):.1f}" for rule in REVERSALS)] for tally in opposed]),
        "",
    ]  # fmt: skip


def write_choice(given: argparse.Namespace) -> None:
    from planted_choice import report_choice  # which imports this module

    with ProcessPoolExecutor(given.jobs) as pool:
        found = report_choice(given.replications, pool, given.only)
    lines = [f"{given.replications:,} replications. In per cent, regrets in scores.", *found, ""]
    print("\n".join(lines))
    if given.write:
        fill("measurements.md", given.part, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--replications", type=int, default=2000)
    parser.add_argument("--store", default="", help="where the real sweeps are kept; a temporary folder by default")
    parser.add_argument("--only", default="", help="scenarios whose names hold this text")
    parser.add_argument("--jobs", type=int, default=1, help="processes, a scenario each; the tables are the same")
    parser.add_argument(
        "--part", choices=("rules", "decisions", "power", "choice"), default="rules", help="which tables"
    )
    parser.add_argument("--write", action="store_true", help="put the tables into docs/measurements.md")
    given = parser.parse_args()
    if given.part == "choice":
        return write_choice(given)
    scenarios = {"rules": synthetic, "decisions": decisions, "power": list}[given.part]()
    if "RAGSWEEP_COLLECTIONS" in os.environ and given.part == "rules":
        with tempfile.TemporaryDirectory() as folder:
            for name, collection in (("scifact", "scifact"), ("python_faq", "python_faq_en")):
                scenarios += drawn_from(name, real(collection, given.store or folder))
    tallies, began = [], time.perf_counter()
    chosen = [one for one in scenarios if given.only in one.name]
    with ProcessPoolExecutor(given.jobs) as pool:
        for tally in pool.map(partial(run, replications=given.replications), chosen):
            tallies.append(tally)
            print(f"{tally.scenario.name}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
    if given.part == "decisions":
        lines = [
            f"{given.replications:,} replications, {RESAMPLES:,} resamples each. In per cent, losses in scores.",
            *report_decisions(tallies),
            "",
        ]
    elif given.part == "power":
        lines = [f"{given.replications:,} replications. In per cent, differences in scores.",
                 *foretold(given.replications), ""]  # fmt: skip
    else:
        lines = report(tallies, given.replications)
    print("\n".join(lines))
    if given.write:
        fill("measurements.md", "planted" if given.part == "rules" else given.part, lines)
    return None


if __name__ == "__main__":
    main()
