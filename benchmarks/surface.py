"""Search a real response surface with a known optimum; count the trials until a config within .002 of it.

    RAGSWEEP_COLLECTIONS=... python benchmarks/surface.py [--seeds 20] [--trials 200] [--store FOLDER] [--write]

The surface, from benchmarks/surface_scores.py, is the nDCG@10 of 7,813 configs on 505 claims. Our plugin's space, study
and samplers get their values from this table; no job is launched. For comparison, the same samplers search without
conditional parameters, as in Hydra's former plugin, which also counts repeated draws. Then the batches of the
searches are raced. Prints the tables; --write puts them, and a plot, into docs/measurements.md.
"""

import argparse
import hashlib
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from doc_pages import DOCS
from optuna_sweeper.open_study import open_study
from optuna_sweeper.signatures import Signature
from optuna_sweeper.space import Space
from optuna_sweeper.storage import open_storage
from optuna_sweeper.study import StudyPlan
from optuna_sweeper.trials import TrialOutcome
from racing_rules import blocks
from ragsweep.sweep.racing import Betting
from surface_scores import DEFAULT, Surface, conditional, surface, unconditional
from tables import keep_results

NEAR = 0.002
BATCH = 8
TPE = {"name": "tpe", "n_startup_trials": 10, "n_ei_candidates": 24, "multivariate": True, "group": True}
GP = {"name": "gp", "n_startup_trials": 10, "deterministic_objective": True}
Values = Mapping[str, str]


def ours(
    sampler: Mapping[str, Any], space: Space, found: Surface, seed: int, trials: int, batch: int = 1
) -> Iterator[list[Values]]:
    """Search with our study; yield the evaluated configs of each batch."""
    first = tuple(f"{name}={value}" for name, value in DEFAULT.items())
    point, _ = space.split_config({name: yaml.safe_load(value) for name, value in DEFAULT.items()})
    placed = space.optuna_values(point)
    asked = StudyPlan("surface", ("maximize",), "surface", {**sampler, "seed": seed}, trials, ((first, placed),))
    study = open_study(asked, space, open_storage(None))
    while taken := study.batch(batch, _sign):
        drawn: list[Values] = [dict(line.split("=", 1) for line in one.overrides) for one in taken]
        for one, values in zip(taken, drawn, strict=True):
            study.finish(one, TrialOutcome((found.value(conditional(), values),)))
        yield drawn


def _sign(overrides: Sequence[str]) -> Signature:
    return Signature(hashlib.sha256(json.dumps(sorted(overrides)).encode()).hexdigest())


def former(sampler: str, found: Surface, seed: int, trials: int) -> Iterator[list[Values]]:
    """Search like Hydra's former plugin: without conditional parameters, and counting repeated draws."""
    import optuna

    space, study = (
        unconditional(),
        optuna.create_study(direction="maximize", sampler=getattr(optuna.samplers, sampler)(seed=seed)),
    )
    for _ in range(trials):
        trial = study.ask()
        values = space.suggest(trial)
        study.tell(trial, found.value(conditional(), values))
        yield [values]


Searching = Callable[[Surface, int, int], Iterator[list[Values]]]


def plugin(sampler: Mapping[str, Any], make: Callable[[], Space]) -> Searching:
    return lambda found, seed, trials: ours(sampler, make(), found, seed, trials)


METHODS: Mapping[str, Searching] = {
    "tpe": plugin(TPE, conditional),
    "tpe, no conditions": plugin(TPE, unconditional),
    "tpe, former plugin": partial(former, "TPESampler"),
    "random": plugin({"name": "random"}, conditional),
    "random, former plugin": partial(former, "RandomSampler"),
    "gp": plugin(GP, conditional),
    "gp, no conditions": plugin(GP, unconditional),
}
SLOW = ("gp",)


@dataclass
class Needed:
    """Number of trials of each seed until the optimum; None if it was not reached."""

    trials: list[int | None] = field(default_factory=list)
    best: list[float] = field(default_factory=list)  # at the end, or when a config reached the optimum


def needed(method: Searching, found: Surface, seed: int, trials: int) -> tuple[int | None, float]:
    """Search until a config lies within .002 of the optimum."""
    best, count = 0.0, 0
    for batch in method(found, seed, trials):
        for values in batch:
            count += 1
            best = max(best, found.value(conditional(), values))
            if best >= found.optimum - NEAR:
                return count, best
    return None, best


def quartiles(given: Sequence[int | None]) -> list[str]:
    """Return the quartiles; searches that did not reach the optimum count as later than all others."""
    ordered = sorted(float("inf") if one is None else one for one in given)
    places = [ordered[round(share * (len(ordered) - 1))] for share in (0.25, 0.5, 0.75)]
    return ["never" if value == float("inf") else f"{value:.0f}" for value in places]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]]


# --- racing ------------------------------------------------------------------------------------------------------


@dataclass
class Raced:
    """Results of racing the batches of the searches."""

    batches: int = 0
    asked: int = 0
    whole: int = 0
    lost: int = 0  # batches whose best config was dropped
    searches: int = 0
    missed: int = 0  # searches that dropped their best config
    short: list[float] = field(default_factory=list)  # by how much the best kept config is worse


def raced(found: Surface, batches: Sequence[Sequence[Values]], tally: Raced) -> None:
    """Race each batch against the best earlier config, which has been evaluated on all questions."""
    rule, generator = Betting(), np.random.default_rng(0)
    names = np.array(found.clusters)
    order = np.argsort(
        generator.permutation(len(set(found.clusters)))[np.unique(names, return_inverse=True)[1]], kind="stable"
    )
    groups = names[order].tolist()
    ends, scores = list(accumulate(blocks(groups))), found.scores[:, order]
    leader, best = None, None
    for batch in batches:
        rows = [found.row(conditional(), values) for values in batch]
        best = max([*rows, *([] if best is None else [best])], key=found.means.__getitem__)
        kept = _kept(rule, scores, rows, leader, groups, ends, tally)
        tally.batches += 1
        tally.lost += int(max(rows, key=found.means.__getitem__) == best and best not in kept)
        leader = max([*kept, *([] if leader is None else [leader])], key=found.means.__getitem__)
    tally.searches += 1
    assert leader is not None
    assert best is not None
    tally.missed += int(found.means[leader] < found.means[best])
    tally.short.append(float(found.means[best] - found.means[leader]))


def _kept(
    rule: Betting,
    scores: Any,
    rows: Sequence[int],
    leader: int | None,
    groups: list[str],
    ends: list[int],
    tally: Raced,
) -> list[int]:
    """Evaluate block by block; return the configs that were evaluated on all questions."""
    asked = {row: len(groups) for row in [*rows, *([leader] if leader is not None else [])]}
    alive = [row for row in rows if row != leader]
    for end in ends[:-1]:
        given = {str(row): scores[row, : min(until, end)].astype(float) for row, until in asked.items()}
        dropped = rule.decide(given, groups).dropped
        gone = [row for row in alive if str(row) in dropped]
        asked |= dict.fromkeys(gone, end)
        alive = [row for row in alive if row not in gone]
        if len(alive) + (leader is not None) <= 1:
            break
    tally.asked += sum(until for row, until in asked.items() if row != leader)
    tally.whole += sum(len(groups) for row in asked if row != leader)
    return alive


def races(found: Surface, given: argparse.Namespace) -> Raced:
    """Race the batches of searches that are half as long; races that ``--store`` contains are not repeated."""
    kept = Path(given.store) / f"raced_{given.races}_{given.trials}.json" if given.store else None
    if kept and kept.exists():
        return Raced(**json.loads(kept.read_text()))
    tally = Raced()
    for seed in range(given.races):
        raced(found, list(ours(TPE, conditional(), found, seed, given.trials // 2, BATCH)), tally)
    if kept:
        kept.write_text(json.dumps(vars(tally)))
    return tally


# --- report ------------------------------------------------------------------------------------------------------


def report(found: Surface, came: Mapping[str, Needed], tally: Raced | None, trials: int) -> list[str]:
    near = int((found.means >= found.optimum - NEAR).sum())
    rows = []
    for name, one in came.items():
        never = sum(each is None for each in one.trials) / len(one.trials)
        behind = found.optimum - float(np.median(one.best))
        rows.append([name, str(len(one.trials)), *quartiles(one.trials), f"{never:.0%}", f"{behind:.4f}"])
    head = [
        "sampler",
        "seeds",
        "a quarter after",
        "half after",
        "three quarters after",
        f"none in {trials} trials",
        "behind the optimum then",
    ]
    lines = [
        f"{len(found.rows):,} configs on {found.scores.shape[1]} questions; the best has {found.optimum:.4f}, and"
        f" {near} lie within {NEAR:g} of it ({near / len(found.rows):.1%}). Trials until one of these is found:",
        "",
        *table(head, rows),
    ]
    if tally:
        saved = 1 - tally.asked / tally.whole
        lines += [
            "",
            f"Raced (`tpe`, batches of {BATCH} against the best so far, {tally.searches} searches, {tally.batches}"
            f" batches): {saved:.0%} of the questions saved; what was better than all before was"
            f" dropped in {tally.lost} of {tally.batches} batches, and {tally.missed} of {tally.searches} searches"
            f" ended without the best config that they had seen (at worst {max(tally.short):.4f} behind).",
        ]
    return [*lines, ""]


def plot(came: Mapping[str, Needed], trials: int) -> None:
    """Plot the share of seeds that reached the optimum, by trials."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for name, one in came.items():
        there = np.sort([each for each in one.trials if each is not None])
        shares = np.arange(1, len(there) + 1) / len(one.trials)
        style = "-" if "," not in name else "--" if "no conditions" in name else ":"
        color = {"tpe": "C0", "random": "C7", "gp": "C1"}[name.partition(",")[0]]
        axes.step(
            [0, *there, trials],
            [0, *shares, shares[-1] if len(shares) else 0],
            style,
            where="post",
            color=color,
            label=name,
        )
    axes.set(
        xlabel="trials", ylabel=f"share of searches within {NEAR:g} of the optimum", xlim=(0, trials), ylim=(0, 1.02)
    )
    axes.legend(frameon=False)
    figure.savefig(DOCS / "search_surface.png", dpi=110)


def searched(found: Surface, given: argparse.Namespace) -> dict[str, Needed]:
    """Search with every sampler; searches that ``--store`` contains are not repeated."""
    kept = Path(given.store) / f"searched_{given.trials}.json" if given.store else None
    came = {name: Needed() for name in METHODS}
    if kept and kept.exists():
        came |= {name: Needed(**one) for name, one in json.loads(kept.read_text()).items()}
    for name, method in METHODS.items():
        wanted = given.slow_seeds if name.startswith(SLOW) else given.seeds
        begun = time.process_time()
        for seed in range(len(came[name].trials), wanted):
            count, best = needed(method, found, seed, given.trials)
            came[name].trials.append(count)
            came[name].best.append(best)
            if kept:
                kept.write_text(json.dumps({each: vars(one) for each, one in came.items()}))
        print(f"{name}: {came[name].trials}, {time.process_time() - begun:.0f} s", file=sys.stderr, flush=True)
    return came


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--slow-seeds", type=int, default=20, help="seeds of gp, whose draws take a second")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--races", type=int, default=20, help="searches that are raced")
    parser.add_argument("--store", default="", help="where stages and the surface are kept; else a temporary folder")
    parser.add_argument("--write", action="store_true", help="put the tables and the plot into docs/")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory() as temporary:
        found = surface(Path(given.store or temporary))
    came = {name: one for name, one in searched(found, given).items() if one.trials}
    tally = races(found, given) if given.races else None
    lines = report(found, came, tally, given.trials)
    print("\n".join(lines))
    if given.write:
        keep_results("surface", lines)
        plot(came, given.trials)


if __name__ == "__main__":
    main()
