"""Simulate scores with known true means, and count the right and wrong decisions of each rule.

    RAGSWEEP_COLLECTIONS=... python benchmarks/planted.py [--replications 2000] [--jobs 2] [--write]
    python benchmarks/planted.py --part power [...]; --part choice [...]

Synthetic scores, and real ones of a small sweep over scifact and python_faq_en (left out without the folder). All rules
get the same scores; a replication has 1,999 resamples instead of 10,000. Prints the tables; --write puts them into
benchmarks/results/ and docs/measurements.md. Deterministic: each replication of a scenario has its own seed.
"""

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
from scipy.special import stdtr

from doc_pages import table
from planted_scores import Planted, Scenario, drawn_from, label, normal, one_better, planted, real, synthetic
from ragsweep.stats.inference.best import selection_bias, winner
from ragsweep.stats.inference.differences import all_pairs, compare_with_baseline
from ragsweep.stats.inference.estimates import POWER
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.paired_tests import holm, wilcoxon
from ragsweep.stats.inference.power import each_level, estimate_power
from ragsweep.stats.inference.resampling import student_quantile
from ragsweep.stats.inference.slices import by_slice, reversals
from tables import keep_results

Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]
RESAMPLES = 1999


def argmax(matrix: Matrix) -> Flags:
    """Keep only the config with the highest mean, which other tools report."""
    return np.arange(len(matrix.values)) == winner(matrix)


def median(matrix: Matrix) -> Flags:
    """Keep the configs whose mean is at least the median of the means, like a median pruner."""
    means = matrix.values.mean(axis=1)
    return np.asarray(means >= np.median(means))


def z_bound(matrix: Matrix) -> Flags:
    """Keep the configs whose own, unpaired upper 95 % bound reaches the highest mean."""
    means = matrix.values.mean(axis=1)
    errors = matrix.values.std(axis=1, ddof=1) / np.sqrt(matrix.values.shape[1])
    return np.asarray(means + 1.645 * errors >= means.max())


def paired_t(differences: Doubles) -> Doubles:
    """Return the two-sided p-value of each row's mean, with independent questions; 1 for rows without differences."""
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
"""Tests by which other tools compare configs with one of them: p-values of rows of differences."""


def not_worse(test: Test, matrix: Matrix) -> Flags:
    """Keep the configs that do not differ significantly from the config with the highest mean."""
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
    "ragsweep: all pairs": lambda matrix: all_pairs(matrix, resamples=RESAMPLES).may_be_best,
}

CLAIMS = ("highest mean", *TESTS, "ragsweep: max-T")


REVERSALS = ("paired t", "ragsweep")


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
    unmarked: int = 0  # all intervals without a note cover the true value
    alone: int = 0  # all separate Student's t intervals cover the true value
    luck: float = 0.0  # excess of the winner's mean over its true mean
    foretold: float = 0.0  # estimate of this excess
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


def score(drawn: Planted, tally: Tally) -> None:
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


def score_claims(drawn: Planted, tally: Tally) -> None:
    """Compare all configs with the first; count claims that a config is better, and intervals that cover."""
    differences = drawn.matrix.values - drawn.matrix.values[0]
    truth = drawn.truth - drawn.truth[0]
    found = compare_with_baseline(drawn.matrix, 0, resamples=RESAMPLES)
    up = differences[1:].mean(axis=1) > 0
    claims = {name: np.append(False, up & (test(differences[1:]) < 0.05)) for name, test in TESTS.items()}
    claims |= {"highest mean": argmax(drawn.matrix) & (np.arange(len(truth)) > 0), "ragsweep: max-T": found.better}
    for name, claim in claims.items():
        tally.claimed_falsely[name] += bool((claim & (truth <= 1e-12)).any())
        tally.claimed[name] += bool(claim[truth.argmax()])
    held = (found.low <= truth + 1e-12) & (truth <= found.high + 1e-12)
    tally.covered += bool(held.all())
    tally.unmarked += bool((held | [note != "" for note in found.notes]).all())
    tally.alone += bool((paired_t(differences - truth[:, None])[1:] >= 0.05).all())


def score_slices(drawn: Planted, tally: Tally) -> None:
    overall = compare_with_baseline(drawn.matrix, 0, resamples=RESAMPLES)
    slices = by_slice(drawn.matrix, {"slice": drawn.labels}, 0, resamples=RESAMPLES)
    found = {"ragsweep": {(one.config, one.value) for one in reversals(overall, slices)},
             "paired t": reversals_by_t(drawn)}  # fmt: skip
    right = (len(drawn.truth) - 1, "slice 4")
    for rule, named in found.items():
        tally.reversal[rule] += right in named
        tally.false_reversal[rule] += bool(named - {right})


def reversals_by_t(drawn: Planted) -> set[tuple[int, str]]:
    """Find configs that are better on average and worse in a slice, by uncorrected paired t tests."""
    differences, labels = drawn.matrix.values - drawn.matrix.values[0], np.array(drawn.labels)

    def differing(part: Doubles, sign: float) -> Flags:
        return np.asarray((sign * part.mean(axis=1) > 0) & (paired_t(part) < 0.05))

    better = differing(differences, 1)
    return {(row, value) for value in set(drawn.labels)
            for row in np.flatnonzero(better & differing(differences[:, labels == value], -1)).tolist()}  # fmt: skip


def by_rule(title: str, tallies: Sequence[Tally], count: Callable[[Tally, str], str]) -> list[str]:
    rows = [[label(tally.scenario.name), *(count(tally, rule) for rule in RULES)] for tally in tallies]
    return table(title, ["", *RULES], rows)


def foretold(replications: int) -> list[str]:
    """Return a table of how often a difference of the predicted size is shown, in a sweep where one config has it."""
    designs = [(graded, 2, 30), (graded, 2, 60), (graded, 12, 60), (graded, 2, 100), (graded, 10, 100),
               (graded, 50, 100), (right_or_wrong, 2, 60), (right_or_wrong, 2, 100), (right_or_wrong, 2, 200),
               (right_or_wrong, 10, 200)]  # fmt: skip
    rows = []
    for draw, configs, questions in designs:
        equal = (draw(configs, questions, 0.0, np.random.default_rng([7, n])) for n in range(50))
        effects = np.nanmean([_foretold(one) for one in equal], axis=0)
        shown = [
            np.mean([bool(compare_with_baseline(one, 0, resamples=RESAMPLES).better[-1]) for one in planted])
            for effect in effects
            for planted in [(draw(configs, questions, effect, np.random.default_rng([8, n]))
                             for n in range(replications))]
        ]  # fmt: skip
        rows.append([draw.__name__.replace("_", " "), str(configs), str(questions), f"{effects[0]:.3f}",
                     f"{100 * shown[0]:.0f}", f"{effects[1]:.3f}", f"{100 * shown[1]:.0f}",
                     f"{effects[1] / effects[0]:.2f}"])  # fmt: skip
    return table("**A difference of the predicted size**: how often `better` is claimed (75 to 85) where the prediction"
                 " takes the observed spread and no more, and where it counts the spread that gains bring, and how much"
                 " larger that makes it",
                 ["scores", "configs", "questions", "by the spread", "shown", "predicted", "shown", "ratio"],
                 rows)  # fmt: skip


def graded(configs: int, questions: int, effect: float, generator: np.random.Generator) -> Matrix:
    """Draw normal scores; the last config is better."""
    return normal(one_better(configs, effect), questions, generator).matrix


def right_or_wrong(configs: int, questions: int, effect: float, generator: np.random.Generator) -> Matrix:
    """Draw answers, 60 % right; each config redraws a fifth, and the last config is right on further questions."""
    values = np.tile(generator.random(questions) < 0.6, (configs, 1))
    values = np.where(
        generator.random((configs, questions)) < 0.2, generator.random((configs, questions)) < 0.6, values
    )
    values[-1] |= generator.random(questions) < effect / 0.4
    return planted(values.astype(float), np.zeros(configs)).matrix


def _foretold(drawn: Matrix) -> tuple[float, float]:
    """Return the detectable difference by the observed spread alone, and the predicted one; NaN if unknown."""
    level = each_level(compare_with_baseline(drawn, 0, resamples=RESAMPLES))
    found = estimate_power(drawn, level=level)
    degrees = drawn.values.shape[1] - 1
    factor = student_quantile((1 + level) / 2, degrees) + student_quantile(POWER, degrees)
    return float(np.nanmedian(found.spread[1:])) / np.sqrt(drawn.values.shape[1]) * factor, found.typical


def report(tallies: Sequence[Tally], replications: int) -> list[str]:
    nulls = [tally for tally in tallies if tally.several]
    singles = [tally for tally in tallies if not tally.several]
    claims = [[label(tally.scenario.name),
               *(f"{tally.share(tally.claimed_falsely[rule]):.1f}" for rule in CLAIMS),
               *("-" if tally.several else f"{tally.share(tally.claimed[rule]):.0f}" for rule in CLAIMS),
               f"{tally.share(tally.alone):.1f}", f"{tally.share(tally.covered):.1f}",
               f"{tally.share(tally.unmarked):.1f}"] for tally in tallies]  # fmt: skip
    lucks = [[label(tally.scenario.name), f"{tally.luck / tally.replications:+.4f}",
              f"{tally.foretold / tally.replications:+.4f}",
              f"{(tally.foretold - tally.luck) / tally.replications:+.4f}"] for tally in tallies]  # fmt: skip
    opposed = [tally for tally in tallies if tally.scenario.slices]
    return [
        f"{replications:,} replications, {RESAMPLES:,} resamples each. In per cent unless stated otherwise.",
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
               " better; all intervals cover together (93 to 97; with ties at least 93): Student's t of each config"
               " alone, ragsweep's, and those of ragsweep's that have no note",
               ["", *(f"false: {rule}" for rule in CLAIMS), *(f"found: {rule}" for rule in CLAIMS),
                "covered: separate t intervals", "covered: ragsweep", "covered: without a note"], claims),
        *table("**How much better the highest mean looks than it is** (in scores; peers report it as it is, so that the"
               " first column is their error; the last column within .005)", ["", "true", "predicted", "error"], lucks),
        *table("**Better on average, worse in one of five slices**: found; claimed of another slice or config",
               ["", *(f"found: {rule}" for rule in REVERSALS), *(f"false: {rule}" for rule in REVERSALS)],
               [[label(tally.scenario.name), *(f"{tally.share(tally.reversal[rule]):.0f}" for rule in REVERSALS),
                 *(f"{tally.share(tally.false_reversal[rule]):.1f}" for rule in REVERSALS)] for tally in opposed]),
        "",
    ]  # fmt: skip


def rule_lines(given: argparse.Namespace) -> list[str]:
    """Return the tables of the rules, on simulated scores and, if there are collections, on real ones."""
    scenarios = synthetic()
    if "RAGSWEEP_COLLECTIONS" in os.environ:
        with tempfile.TemporaryDirectory() as folder:
            for name, collection in (("scifact", "scifact"), ("python_faq", "python_faq_en")):
                scenarios += drawn_from(name, real(collection, given.store or folder))
    tallies, began = [], time.perf_counter()
    chosen = [one for one in scenarios if given.only in one.name]
    with ProcessPoolExecutor(given.jobs) as pool:
        for tally in pool.map(partial(run, replications=given.replications), chosen):
            tallies.append(tally)
            print(f"{tally.scenario.name}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
    return report(tallies, given.replications)


def power_lines(given: argparse.Namespace) -> list[str]:
    return [f"{given.replications:,} replications. In per cent, differences in scores.",
            *foretold(given.replications), ""]  # fmt: skip


def choice_lines(given: argparse.Namespace) -> list[str]:
    from planted_choice import report_choice  # which imports this module

    with ProcessPoolExecutor(given.jobs) as pool:
        found = report_choice(given.replications, pool, given.only)
    return [f"{given.replications:,} replications. In per cent, regrets in scores.", *found, ""]


PARTS: Mapping[str, tuple[str, Callable[[argparse.Namespace], list[str]]]] = {
    "rules": ("planted", rule_lines),
    "power": ("power", power_lines),
    "choice": ("choice", choice_lines),
}
"""Name of a part -> its file in benchmarks/results/, and the function that returns its lines."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--replications", type=int, default=2000)
    parser.add_argument("--store", default="", help="where the real sweeps are kept; a temporary folder by default")
    parser.add_argument("--only", default="", help="scenarios whose names contain this text")
    parser.add_argument("--jobs", type=int, default=1, help="processes, a scenario each; the tables are the same")
    parser.add_argument("--part", choices=tuple(PARTS), default="rules", help="which tables")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/ and docs/measurements.md")
    given = parser.parse_args()
    name, lines_of = PARTS[given.part]
    lines = lines_of(given)
    print("\n".join(lines))
    if given.write:
        keep_results(name, lines)


if __name__ == "__main__":
    main()
