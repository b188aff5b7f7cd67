"""Race configs with a known best one; count how often each rule drops it, and the saved questions.

    RAGSWEEP_COLLECTIONS=... python benchmarks/racing.py [--replications 2000] [--jobs 2] [--write]

256 questions in blocks of 16. Synthetic scores, and real ones of a small sweep over scifact and python_faq_en (left
out without the folder). All rules get the same scores. Prints the tables; --write puts them into docs/measurements.md
between the markers. Bars: with four configs of which the best leads by .02, betting drops it in at most 5 % of the
races; with .05 it saves at least 20 % of the questions, with .10 at least 45 %; in all other scenarios,
it drops the best in at most 5 %. Deterministic: each replication has its own seed.
"""

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from planted_scores import (
    Planted,
    Scenario,
    clustered,
    label,
    normal,
    one_better,
    planted,
    real,
    resampled,
    shuffled,
    tied,
)
from racing_rules import BLOCK, INTERLEAVED, ONE_BY_ONE, RULES, SPENT, Drop, Stop, blocks
from tables import keep_results

Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]
QUESTIONS = 256
WHOLE = "no race"
REAL = ("scifact", "python_faq")
LEVEL = 0.05
BARS = {"4, best by .02": (5.0, 0.0), "4, best by .05": (5.0, 20.0), "4, best by .10": (5.0, 45.0)}


def bounded(draw: Callable[[np.random.Generator], Planted], generator: np.random.Generator) -> Planted:
    """Clip scores to within .5 of a question's mean (1 score in 800), so that differences are at most 1."""
    drawn = draw(generator)
    middle = drawn.matrix.values.mean(axis=0)
    values = middle + (drawn.matrix.values - middle).clip(-0.5, 0.5)
    return planted(values, drawn.truth, drawn.matrix.clusters, drawn.labels)


def large_documents(generator: np.random.Generator) -> Planted:
    """The best config gains .15 on documents of 15 questions and loses .12 on those of one: .02 on average."""
    sizes = [15] * 9 + [1] * (QUESTIONS - 135)
    source = np.repeat(generator.permutation(len(sizes)), sizes)
    drawn = normal(np.zeros(4), QUESTIONS, generator).matrix.values
    gain = np.where(np.repeat(np.array(sizes) > 1, sizes), 0.15, -0.12)
    drawn[-1] += gain
    return planted(drawn, np.array([0.5, 0.5, 0.5, 0.5 + gain.mean()]), source)


def opposed(gain: float, generator: np.random.Generator) -> Planted:
    """Each config is strong in one of four categories (.3) and weak in the next; categories take turns.

    Scores are clipped more often here: in one category at the top as often as in the other at the bottom.
    """
    drawn = normal(one_better(4, gain), QUESTIONS, generator)
    category = np.arange(QUESTIONS) % 4
    values = drawn.matrix.values
    for config in range(4):
        values[config] += np.where(category == config, 0.3, 0) - np.where(category == (config + 1) % 4, 0.3, 0)
    return planted(values, drawn.truth)


def scenarios() -> list[Scenario]:
    gains = (("4 equal", 0.0), ("4, best by .02", 0.02), ("4, best by .05", 0.05), ("4, best by .10", 0.10))
    found = [Scenario(name, partial(bounded, partial(normal, one_better(4, gain), QUESTIONS))) for name, gain in gains]
    spread = np.linspace(-0.15, 0, 16)
    return [
        *found,
        Scenario("16, spread 0 to .15", partial(bounded, partial(normal, spread, QUESTIONS))),
        Scenario("4, best by .05, ties", partial(tied, one_better(4, 0.05), QUESTIONS), continuous=False),
        Scenario("4, best by .10, ties", partial(tied, one_better(4, 0.10), QUESTIONS), continuous=False),
        Scenario("4, best by .02, from documents of 15 questions", partial(bounded, large_documents)),
        Scenario("4 equal, 86 sources of 3", partial(bounded, partial(sources, 0.0))),
        Scenario("4, best by .10, 86 sources of 3", partial(bounded, partial(sources, 0.1))),
        Scenario("4, best by .02, categories opposed", partial(bounded, partial(opposed, 0.02))),
    ]


def sources(gain: float, generator: np.random.Generator) -> Planted:
    """Give 86 sources three questions each, except for the last, which has one."""
    drawn = clustered(one_better(4, gain), 86, generator)
    return planted(drawn.matrix.values[:, :QUESTIONS], drawn.truth, drawn.matrix.clusters[:QUESTIONS])


def reordered(pool: Doubles, generator: np.random.Generator) -> Planted:
    """Use each real question once, in random order; the true means are those over all questions."""
    return planted(pool[:, generator.permutation(pool.shape[1])], pool.mean(axis=1))


def drawn_from(name: str, pool: Doubles) -> list[Scenario]:
    return [
        Scenario(f"{name}, 1 of 16 by .05", partial(shuffled, pool, QUESTIONS, 0.05), continuous=False),
        Scenario(f"{name} as it is", partial(resampled, pool, QUESTIONS), continuous=False),
        Scenario(f"{name}, all {pool.shape[1]} of its own", partial(reordered, pool), continuous=False),
    ]


def race(values: Doubles, clusters: Numbers, ends: Sequence[int], drop: Drop) -> Numbers:
    """Evaluate all configs block by block; return the number of evaluated questions of each."""
    asked = np.full(len(values), values.shape[1])
    for end in ends[:-1]:
        asked[drop(values[:, :end], np.minimum(asked, end), clusters[:end])] = end
        if (asked == values.shape[1]).sum() == 1:
            break
    return asked


def one_by_one(values: Doubles, clusters: Numbers, ends: Sequence[int], stop: Stop) -> Numbers:
    """Evaluate one config after another, and stop a config that falls behind the best earlier one."""
    asked, best = np.full(len(values), values.shape[1]), 0
    for row in range(1, len(values)):
        asked[row] = stop(values[best] - values[row], clusters, ends[:-1])
        if asked[row] == values.shape[1] and values[row].mean() > values[best].mean():
            best = row
    return asked


@dataclass
class Tally:
    """Sums over the replications of one scenario, by rule."""

    scenario: Scenario
    replications: int
    lost: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RULES, 0))
    saved: dict[str, float] = field(default_factory=lambda: dict.fromkeys(RULES, 0.0))
    short: dict[str, float] = field(default_factory=lambda: dict.fromkeys((*RULES, WHOLE), 0.0))

    def share(self, count: float) -> float:
        return 100 * count / self.replications

    def add(self, rule: str, drawn: Planted, asked: Numbers) -> None:
        """Count one race; of several best configs, the last one counts as the best."""
        values, truth = drawn.matrix.values, drawn.truth
        whole = asked == values.shape[1]
        winner = int(np.where(whole, values.mean(axis=1), -np.inf).argmax())
        self.short[rule] += float(truth.max() - truth[winner])
        if rule != WHOLE:
            self.lost[rule] += not whole[np.flatnonzero(truth >= truth.max() - 1e-12)[-1]]
            self.saved[rule] += 1 - asked.mean() / values.shape[1]


def run(scenario: Scenario, replications: int) -> Tally:
    tally = Tally(scenario, replications)
    name = [ord(letter) for letter in scenario.name]
    for replication in range(replications):
        generator = np.random.default_rng([replication, *name])
        drawn = mixed(scenario.draw(generator), generator)
        values, clusters = drawn.matrix.values, drawn.matrix.clusters
        ends = {block: list(accumulate(blocks(clusters.tolist(), block))) for block in (BLOCK, SPENT)}
        for rule, (block, drop) in INTERLEAVED.items():
            tally.add(rule, drawn, race(values, clusters, ends[block], drop))
        for rule, stop in ONE_BY_ONE.items():
            tally.add(rule, drawn, one_by_one(values, clusters, ends[BLOCK], stop))
        tally.add(WHOLE, drawn, np.full(len(values), values.shape[1]))
    return tally


def mixed(drawn: Planted, generator: np.random.Generator) -> Planted:
    """Shuffle the configs, because the order matters if they are evaluated one after another."""
    rows = generator.permutation(len(drawn.truth))
    return planted(drawn.matrix.values[rows], drawn.truth[rows], drawn.matrix.clusters)


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [f"| {' | '.join(row)} |" for row in [["", *head], ["---"] * (len(head) + 1), *rows]]
    return ["", title, "", *cells]


def report(tallies: Sequence[Tally]) -> list[str]:
    lost = [[label(one.scenario.name), *(f"{one.share(one.lost[rule]):.1f}" for rule in RULES)] for one in tallies]
    saved = [[label(one.scenario.name), *(f"{one.share(one.saved[rule]):.0f}" for rule in RULES)] for one in tallies]
    short = [[label(one.scenario.name), *(f"{one.share(one.short[rule]) / 100:.4f}" for rule in (WHOLE, *RULES))]
             for one in tallies]  # fmt: skip
    races = " or ".join(f"{count:,}" for count in sorted({one.replications for one in tallies}, reverse=True))
    fewer = " (the fewer where scores are real)" if "or" in races else ""
    return [
        f"{races} races{fewer} of {QUESTIONS} questions each unless stated otherwise, in blocks of {BLOCK}.",
        *table("**The best is lost**, in per cent (where several are, a certain one of them)", RULES, lost),
        *table("**Questions saved**, in per cent of all questions times configs", RULES, saved),
        *table("**How far the highest mean in the end is from the best**, in true scores", (WHOLE, *RULES), short),
        "",
    ]


def held(tally: Tally) -> bool:
    """Print any bars of a scenario; return whether betting meets them, by default 5 % and three Monte Carlo errors."""
    chance = 300 * (LEVEL * (1 - LEVEL) / tally.replications) ** 0.5
    most, least = BARS.get(tally.scenario.name, (100 * LEVEL + chance, 0.0))
    lost, saved = tally.share(tally.lost["betting"]), tally.share(tally.saved["betting"])
    if tally.scenario.name in BARS:
        print(f"bar: {tally.scenario.name}: lost {lost:.1f} (at most {most:g}), saved {saved:.1f} (at least {least:g})")
    return lost <= most and saved >= least


def chosen(only: str, store: str) -> list[Scenario]:
    found = scenarios()
    if "RAGSWEEP_COLLECTIONS" in os.environ:
        with tempfile.TemporaryDirectory() as folder:
            for name, collection in zip(REAL, ("scifact", "python_faq_en"), strict=True):
                found += drawn_from(name, real(collection, store or folder))
    return [one for one in found if re.search(only, one.name)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--replications", type=int, default=2000)
    parser.add_argument(
        "--real", type=int, default=100, help="replications where scores are real: sixteen configs each"
    )
    parser.add_argument("--store", default="", help="where the real sweeps are kept; a temporary folder by default")
    parser.add_argument("--only", default="", help="scenarios whose names match: they have tables of their own")
    parser.add_argument("--jobs", type=int, default=1, help="processes, a scenario each; the tables are the same")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/ and docs/measurements.md")
    given = parser.parse_args()
    tallies, began = [], time.perf_counter()
    with ProcessPoolExecutor(given.jobs) as pool:
        found = chosen(given.only, given.store)
        counts = [given.real if one.name.startswith(REAL) else given.replications for one in found]
        for tally in pool.map(run, found, counts):
            tallies.append(tally)
            print(f"{tally.scenario.name}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
    lines = report(tallies)
    print("\n".join(lines))
    if given.write:
        keep_results("racing-by-type" if given.only else "racing", lines)
    broken = [tally.scenario.name for tally in tallies if not held(tally)]
    sys.exit(f"a bar is missed: {', '.join(broken)}" if broken else 0)


if __name__ == "__main__":
    main()
