"""``ragsweep power``: the smallest difference this golden set can show, and the questions for a smaller one."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ragsweep.commands.command_line import (
    METRIC,
    RUN,
    Parser,
    RecordedRun,
    add_path,
    find_run,
    ignore_closed_pipe,
    open_ledger,
    sweep_results,
    usual_metrics,
)
from ragsweep.core.errors import ConfigError
from ragsweep.core.results import COMPLETE, Result
from ragsweep.report.numbers import amount
from ragsweep.report.tables import Row, log_table, to_json
from ragsweep.report.terminal import Terminal
from ragsweep.stats.calibration import Noise
from ragsweep.stats.comparable import check_same_questions, check_whole, factors, shared_metrics
from ragsweep.stats.inference.differences import compare_with_baseline
from ragsweep.stats.inference.matrix import score_matrix
from ragsweep.stats.inference.power import LEVEL, POWER, each_level, estimate_power, noise_floor, shared_level

FORMAT = "ragsweep.power/1"
EFFECT = 0.02
"""A difference worth finding: two points of a share, or two hundredths of the mean of an amount."""
CORRELATION = 0.8
"""The assumed correlation of two configs' scores, which spread alike, where only one config is given."""
REPEATED = (".replicate", ".seed")

_ABOUT = """Show how small a true difference between two configs this golden set would find in four of five cases, at
95 % confidence, and how many questions would find a given one. Two runs show how much differences spread from question
to question; with one run that is assumed. Among many configs a difference must be larger to be shown: for runs of one
sweep it is judged as the sweep judges it, or for as many configs as --configs names. --repeat names further runs of the
first config with another replicate or seed: how far chance alone moves its scores."""


def power(arguments: Sequence[str]) -> int:
    """Run ``ragsweep power``; return the exit status: 0 done, 2 bad input."""
    options = _read(arguments)
    runs = [find_run(options.path, run) for run in options.runs]
    repeats = [find_run(options.path, run) for run in options.repeat]
    if len(runs) == 2 and _is_repeat(runs[0].result, runs[1].result):
        runs, repeats = runs[:1], [runs[1], *repeats]
    results = [run.result for run in (*runs, *repeats)]
    for result in results:
        check_same_questions(results[0], result)
        check_whole(result)
    metrics = shared_metrics(results, options.metric, usual_metrics(results))
    siblings = [] if options.configs else _siblings(options.path, runs)
    configs = options.configs or max(len(siblings) - 1, 1)
    repeated = [runs[0].result, *(run.result for run in repeats)]
    rows, noise = list[Row](), list[tuple[str, str]]()
    for metric in metrics:
        floors = noise_floor([np.array(result.outcomes[metric], dtype=np.float64) for result in repeated])
        row = _row([run.result for run in runs], metric, options.effect, _level(siblings, metric, configs))
        rows.append({**row, "noise_floor": max((floor.of_the_mean for floor in floors), default=math.nan)})
        noise += [("noise", f"{metric}: {_noise_text(floor, row['unit'])}") for floor in floors]
    with ignore_closed_pipe():
        if options.json:
            document = {
                "format": FORMAT,
                "runs": [run.run for run in runs],
                "repeats": [run.run for run in repeats],
                "power": POWER,
                "confidence_level": LEVEL,
                "configs": configs,
                "assumed_correlation": CORRELATION if len(runs) == 1 else None,
                "table": log_table(rows),
            }
            print(to_json(document))
            return 0
        terminal, facts = Terminal.current(), results[0].dataset
        terminal.line("power", f'"{facts.name}", {facts.questions:,} questions: {" and ".join(map(str, runs))}')
        if len(runs) == 1:
            terminal.line("assumed", f"another config's scores spread as these do and correlate with them at"
                                     f" {CORRELATION}; name a second run to measure it instead")  # fmt: skip
        compared = f"the {len(siblings)} configs of their sweep" if siblings else f"{configs} compared with one"
        terminal.aligned([_cells(row, compared if configs > 1 else "") for row in rows])
        if not repeats and (results[0].usage or "answer" in results[0].outcomes):
            noise = [("noise", "not measured: name repetitions (another replicate or seed) with --repeat")]
        elif not repeats:
            noise = [("noise", "none: no stage of this config is random, it scores the same again")]
        terminal.lines(noise)
    return 0


def _read(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command's options; raises ConfigError, in one line, for what means nothing."""
    parser = Parser("ragsweep power", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("runs", nargs="+", metavar="RUN", help=RUN)
    parser.add_argument("--metric", action="append", help=METRIC)
    parser.add_argument("--effect", type=float, metavar="X", help="a difference worth finding (.02; 2%% of an amount)")
    parser.add_argument("--configs", type=int, metavar="N", help="that are compared with one (as many as in the sweep)")
    parser.add_argument("--repeat", action="append", default=[], metavar="RUN", help="the first config once more")
    parser.add_argument("--json", action="store_true", help="for programs")
    add_path(parser)
    options = parser.parse_args(arguments)
    if len(options.runs) > 2:
        raise ConfigError(f"power: takes one run or two, given {len(options.runs)}; repetitions go into --repeat")
    if options.effect is not None and not (options.effect > 0 and math.isfinite(options.effect)):
        raise ConfigError(f"--effect: must be above 0, given {options.effect:g}")
    if options.configs is not None and options.configs < 1:
        raise ConfigError(f"--configs: must be at least 1, given {options.configs}")
    return options


def _is_repeat(first: Result, second: Result) -> bool:
    """Return whether two results are of one config, computed anew: only a replicate or a seed differs."""
    differing = factors(first, second)
    return bool(differing) and all(factor.name.endswith(REPEATED) for factor in differing)


def _siblings(path: str, runs: Sequence[RecordedRun]) -> list[Result]:
    """Read the results of the sweep that all runs belong to; none where there is no such sweep."""
    ledger = open_ledger(path)
    sweep, *others = {record.sweep for run in runs for record in ledger.of_run(run.run)}
    return [] if others or sweep is None else sweep_results(ledger, sweep)


def _level(siblings: Sequence[Result], metric: str, configs: int) -> float:
    """Return the level of each comparison so that all hold together: in a sweep by its own critical value."""
    whole = [result for result in siblings if result.state == COMPLETE and metric in result.summaries]
    if len(whole) < 2:
        return shared_level(configs, LEVEL)
    return each_level(compare_with_baseline(score_matrix(whole, metric), 0))


def _row(results: Sequence[Result], metric: str, effect: float | None, level: float) -> Row:
    """Return the differences that one metric can show."""
    matrix, unit = score_matrix(results, metric), results[0].summaries[metric].unit
    scores = matrix.values[0]
    if effect is None:
        mean = float(scores.mean()) if matrix.questions else math.nan
        effect = EFFECT * abs(mean) if unit else EFFECT
    if len(results) == 1:  # differences that spread as those of two configs so correlated would
        differences = np.stack([np.zeros_like(scores), scores * math.sqrt(2 * (1 - CORRELATION))])
        matrix = replace(matrix, values=differences, configs=("", ""))
    found = estimate_power(matrix, level=level)
    return {
        "metric": metric,
        "detectable": found.typical,
        "detectable_alone": found.alone,
        "effect": effect,
        "questions_needed": found.questions_for(effect),
        "questions": found.questions,
        "clusters": found.clusters,
        "spread": float(found.spread[1]),
        "note": found.note,
        "unit": unit,
    }


def _cells(row: Row, compared: str) -> list[str]:
    unit = row["unit"]
    if math.isnan(row["detectable"]):
        return [row["metric"], row["note"], "", ""]
    alone = f"; between two configs alone, of {amount(row['detectable_alone'], unit)}"
    needed = f"{row['questions_needed']:,}" if row["questions_needed"] else "unknown how many"
    clusters = f" in {row['clusters']:,} clusters" if row["clusters"] != row["questions"] else ""
    return [
        row["metric"],
        f"sees differences of {amount(row['detectable'], unit)} or more"
        + (f" among {compared}{alone}" if compared else ""),
        f"to see {amount(row['effect'], unit)}: {needed} questions",
        f"has {row['questions']:,}{clusters}",
    ]


def _noise_text(noise: Noise, unit: str) -> str:
    if math.isnan(noise.spread):
        return f"{noise.n} questions that both scored; two are needed"
    return (
        f"means that differ by less than {amount(noise.of_the_mean, unit)} cannot be told from chance in one run;"
        f" {noise.changed:.0%} of {noise.n:,} questions changed"
    )
