"""``ragsweep power``: the smallest difference this golden set can show, and the questions for a smaller one."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ragsweep.commands.command_line import (
    METRIC,
    RUN,
    Named,
    Parser,
    add_path,
    find_record,
    find_siblings,
    until_closed,
    usual_metrics,
)
from ragsweep.core.errors import ConfigError
from ragsweep.core.results import COMPLETE, Result
from ragsweep.report.changes import aligned, table
from ragsweep.report.numbers import amount
from ragsweep.report.terminal import Terminal
from ragsweep.stats.calibration import Noise
from ragsweep.stats.comparable import check_same_questions, check_whole, factors, shared_metrics
from ragsweep.stats.inference.differences import compare_with_baseline
from ragsweep.stats.inference.matrix import Matrix, score_matrix
from ragsweep.stats.inference.power import LEVEL, POWER, Power, each_level, estimate_power, noise_floor, shared_level

FORMAT = "ragsweep.power/1"
EFFECT = 0.02
"""A difference worth finding: two points of a share, or two hundredths of the mean of an amount."""
CORRELATION = 0.8
"""What is assumed of two configs where one is known: that their scores correlate so, and spread alike."""
REPEATED = (".replicate", ".seed")

_ABOUT = """Say how small a true difference between two configs this golden set would find in four of five cases, at
95 % confidence, and how many questions would find a given one. Two runs show how much differences spread from question
to question; with one run that is assumed. Among many configs a difference must be larger to be shown: for runs of one
sweep it is judged as the sweep judges it, or for as many configs as --configs says. --repeat names further runs of the
first config with another replicate or seed: how far chance alone moves its scores."""


@dataclass(frozen=True)
class Compared:
    """How many configs are compared with one, and the results of their sweep where that is where they come from."""

    count: int
    siblings: Sequence[Result]

    def level(self, metric: str) -> float:
        """Return the level of each comparison so that all hold together: in a sweep by its own critical value."""
        whole = [one for one in self.siblings if one.state == COMPLETE and metric in one.summaries]
        if len(whole) < 2:
            return shared_level(self.count, LEVEL)
        matrix = score_matrix(whole, metric)
        critical = compare_with_baseline(matrix, 0).critical
        return each_level(critical, len(np.unique(matrix.clusters))) if critical > 0 else LEVEL

    def __str__(self) -> str:
        """Describe the configs of the comparison."""
        return (
            f"the {len(self.siblings)} configs of their sweep" if self.siblings else f"{self.count} compared with one"
        )


@dataclass(frozen=True)
class Sight:
    """The differences that one metric can show."""

    metric: str
    unit: str
    effect: float
    power: Power
    needed: int | None
    floor: tuple[Noise, ...]


def power(arguments: Sequence[str]) -> int:
    """Run ``ragsweep power``; return the exit status: 0 done, 2 bad input."""
    parser = Parser(prog="ragsweep power", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("runs", nargs="+", metavar="RUN", help=RUN)
    parser.add_argument("--metric", action="append", help=METRIC)
    parser.add_argument("--effect", type=float, metavar="X", help="a difference worth finding (.02; 2%% of an amount)")
    parser.add_argument("--configs", type=int, metavar="N", help="that are compared with one (as many as in the sweep)")
    parser.add_argument("--repeat", action="append", metavar="RUN", help="the first config once more")
    parser.add_argument("--json", action="store_true", help="for programs")
    add_path(parser)
    given = parser.parse_args(list(arguments))
    _check(given.runs, given.effect, given.configs)
    runs = [Named(*find_record(given.path, run)) for run in given.runs]
    repeats = [Named(*find_record(given.path, run)) for run in given.repeat or ()]
    if len(runs) == 2 and _repeated(runs[0].result, runs[1].result):
        runs, repeats = runs[:1], [runs[1], *repeats]
    results = [run.result for run in (*runs, *repeats)]
    for other in results:
        check_same_questions(results[0], other)
        check_whole(other)
    metrics = shared_metrics(results, given.metric, usual_metrics(results))
    siblings = [] if given.configs else find_siblings(given.path, [run.run for run in runs])
    compared = Compared(given.configs or max(len(siblings) - 1, 1), siblings)
    found = [_sight(metric, runs, repeats, given.effect, compared) for metric in metrics]

    def tell() -> int:
        if given.json:
            print(_as_json(runs, repeats, compared.count, found))
        else:
            _show(runs, repeats, compared, found)
        return 0

    return until_closed(tell)


def _check(runs: Sequence[str], effect: float | None, configs: int | None) -> None:
    if len(runs) > 2:
        raise ConfigError(f"power: takes one run or two, given {len(runs)}; repetitions go into --repeat")
    if effect is not None and not (effect > 0 and math.isfinite(effect)):
        raise ConfigError(f"--effect: must be above 0, given {effect:g}")
    if configs is not None and configs < 1:
        raise ConfigError(f"--configs: must be at least 1, given {configs}")


def _repeated(one: Result, other: Result) -> bool:
    """Return whether two results are of one config, computed anew: only a replicate or a seed differs."""
    differing = factors(one, other)
    return bool(differing) and all(factor.name.endswith(REPEATED) for factor in differing)


def _sight(
    metric: str, runs: Sequence[Named], repeats: Sequence[Named], effect: float | None, compared: Compared
) -> Sight:
    matrix = score_matrix([run.result for run in runs], metric)
    unit = runs[0].result.summaries[metric].unit
    mean = float(matrix.values[0].mean()) if matrix.questions else math.nan
    wanted = effect if effect is not None else EFFECT if not unit else EFFECT * abs(mean)
    known = matrix if len(runs) == 2 else _assumed(matrix)
    found = estimate_power(known, level=compared.level(metric))
    floor = noise_floor([_scores(run.result, metric) for run in (runs[0], *repeats)])
    return Sight(metric, unit, wanted, found, found.questions_for(wanted), floor)


def _assumed(matrix: Matrix) -> Matrix:
    """Make differences of one config's scores: spread as those of two like it would be, were they so correlated."""
    alone = matrix.values[0]
    return replace(
        matrix, values=np.stack([np.zeros_like(alone), alone * math.sqrt(2 * (1 - CORRELATION))]), configs=("", "")
    )


def _scores(result: Result, metric: str) -> Any:
    return np.array(result.outcomes[metric], dtype=np.float64)


def _show(runs: Sequence[Named], repeats: Sequence[Named], compared: Compared, found: Sequence[Sight]) -> None:
    terminal, facts = Terminal.current(), runs[0].result.dataset
    terminal.line(
        "power", f'"{facts.name}", {facts.questions:,} questions: {" and ".join(_named(run) for run in runs)}'
    )
    if len(runs) == 1:
        terminal.line("assumed", f"another config's scores spread as these do and correlate with them at {CORRELATION};"
                                 " name a second run to measure it instead")  # fmt: skip
    for line in aligned([_cells(one, compared) for one in found]):
        terminal.line("", line)
    for one in found:
        for noise in one.floor:
            terminal.line("noise", f"{one.metric}: {_noise(noise, one.unit)}")
    if not repeats:
        terminal.line("noise", _untold(runs[0].result))


def _named(run: Named) -> str:
    return f"{run.result.name} ({run.run[:8]})"


def _cells(one: Sight, compared: Compared) -> list[str]:
    seen, unit = one.power.typical, one.unit
    if math.isnan(seen):
        return [one.metric, one.power.note, "", ""]
    together = f" in {one.power.clusters:,} clusters" if one.power.clusters != one.power.questions else ""
    return [
        one.metric,
        f"sees differences of {amount(seen, unit)} or more"
        + (
            f" among {compared}; between two configs alone, of {amount(one.power.alone, unit)}"
            if compared.count > 1
            else ""
        ),
        f"to see {amount(one.effect, unit)}: {f'{one.needed:,}' if one.needed else 'unknown how many'} questions",
        f"has {one.power.questions:,}{together}",
    ]


def _noise(noise: Noise, unit: str) -> str:
    if math.isnan(noise.spread):
        return f"{noise.n} questions that both scored; two are needed"
    return (
        f"means that differ by less than {amount(noise.of_the_mean, unit)} cannot be told from chance in one run;"
        f" {noise.changed:.0%} of {noise.n:,} questions changed"
    )


def _untold(result: Result) -> str:
    if result.usage or "answer" in result.outcomes:
        return "not measured: name repetitions (another replicate or seed) with --repeat"
    return "none: no stage of this config is random, it scores the same again"


def _as_json(runs: Sequence[Named], repeats: Sequence[Named], configs: int, found: Sequence[Sight]) -> str:
    rows = [
        {
            "metric": one.metric,
            "detectable": one.power.typical,
            "detectable_alone": one.power.alone,
            "effect": one.effect,
            "questions_needed": one.needed,
            "questions": one.power.questions,
            "clusters": one.power.clusters,
            "spread": float(one.power.spread[1]),
            "noise_floor": max((noise.of_the_mean for noise in one.floor), default=math.nan),
            "note": one.power.note,
        }
        for one in found
    ]
    document = {
        "format": FORMAT,
        "runs": [run.run for run in runs],
        "repeats": [run.run for run in repeats],
        "power": POWER,
        "confidence_level": LEVEL,
        "configs": configs,
        "assumed_correlation": CORRELATION if len(runs) == 1 else None,
        "table": table(rows),
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
