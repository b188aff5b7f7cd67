"""Time the inference over a large sweep.

    python benchmarks/inference.py [--configs 1000] [--questions 500]

One pass: differences of all configs from the first one with max-T intervals, both tests and Holm, the probability of
being the best, and the optimism of the best. Bar: 1 s for 1,000 configs x 500 questions x 10,000 resamples. Then the
stepwise set of 200 configs (bar: 10 s), and of all of them, with the resamples that so many configs are given. The
first pass also draws the clusters; the second one finds them drawn, as a second metric of the same sweep does.
"""

import argparse
import os
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from ragsweep.stats.inference.best import selection_bias
from ragsweep.stats.inference.differences import affordable, all_pairs, compare_with_baseline
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.resampling import RESAMPLES

BAR, SET_BAR = 1.0, 10.0


def scores(configs: int, questions: int) -> Matrix:
    """Make scores: half of the configs are equal, half are a little worse, and the last one is better by .03."""
    generator = np.random.default_rng(0)
    values = generator.normal(0.5, 0.36, questions) + generator.normal(0, 0.18, (configs, questions))
    values += np.linspace(-0.1, 0.1, configs).clip(max=0)[:, None]
    values[-1] += 0.03
    names = tuple(str(question) for question in range(questions))
    rows = tuple(f"c{config}" for config in range(configs))
    return Matrix(values, np.arange(questions), rows, names, "score", True, questions)


def timed(what: str, work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    took = time.perf_counter() - began
    print(f"{what}: {took:.2f} s")
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--configs", type=int, default=1000)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--passes", type=int, default=3)
    given = parser.parse_args()
    matrix = scores(given.configs, given.questions)
    print(f"{given.configs:,} configs x {given.questions} questions, {os.cpu_count()} cores, {RESAMPLES:,} resamples")
    totals = []
    for number in range(1, given.passes + 1):
        parts = [
            timed("  differences, tests, Holm", lambda: compare_with_baseline(matrix, 0)),
            timed("  optimism", lambda: selection_bias(matrix)),
        ]
        totals.append(sum(parts))
        print(f"pass {number}: {totals[-1]:.2f} s")
    few = min(totals[1:] or totals)
    print(f"one pass: {totals[0]:.2f} s the first time, then {few:.2f} s (bar {BAR:g} s)")
    part = matrix.select_configs(range(0, given.configs, max(given.configs // 200, 1)))
    for one, bar in ((part, f" (bar {SET_BAR:g} s)"), (matrix, "")):
        count = len(one.values)
        drawn = f"{affordable(count, RESAMPLES):,} resamples"
        timed(f"all pairs of {count:,} configs, {drawn}{bar}", partial(all_pairs, one))


if __name__ == "__main__":
    main()
