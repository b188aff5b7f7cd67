"""``ragsweep ablate``: the effect of each part of a config, and of each of its parameters."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ragsweep.commands.ablate.cases import Ablation, prepare, with_value
from ragsweep.commands.command_line import RUN, Parser, add_path, find_record, open_ledger, until_closed, usual_metrics
from ragsweep.core.results import COMPLETE, Result
from ragsweep.report.changes import aligned, difference, word
from ragsweep.report.numbers import amount
from ragsweep.report.terminal import Terminal
from ragsweep.stats.comparable import factors, shared_metrics
from ragsweep.stats.inference.differences import compare_with_baseline
from ragsweep.stats.inference.matrix import score_matrix

_ABOUT = """Run a config again with one thing changed at a time: every option of its parts that needs no further model,
every number to the values next to it. It is a sweep like any other, resumed by the same command, whose first config is
RUN's; at the end the changes are listed by how much they matter, with intervals that hold for all of them together.
What changes no result, or cannot be, is left out. The cases are written to sweeps/ablate_RUN.yaml, to be edited."""


def read(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command's options; raises ConfigError, in one line, for what means nothing."""
    parser = Parser(prog="ragsweep ablate", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("run", metavar="RUN", help=RUN)
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="set in every case; several values (retriever.k=20,40) are tried in the place of a parameter's neighbours",
    )
    parser.add_argument("--factor", action="append", help="change only this part or parameter; several times")
    parser.add_argument("--metric", help="what the changes are ordered by (the objective)")
    parser.add_argument("--plan", action="store_true", help="show the cases and what they would cost; run nothing")
    parser.add_argument("--config-dir", "-cd", help="folder of further options, as it was given for RUN")
    add_path(parser)
    return parser.parse_intermixed_args(list(arguments))


def tell(results: Sequence[Result], metric: str | None, terminal: Terminal) -> None:
    """List the changes by how much they matter; the first result is the config that is ablated."""
    if len(results) < 2:
        terminal.line("ablate", "nothing was measured that the config could be compared with")
        return
    name = shared_metrics(results, [metric] if metric else None, usual_metrics(results))[0]
    matrix, unit = score_matrix(results, name), results[0].summaries[name].unit
    found = compare_with_baseline(matrix, 0)
    mean = amount(float(matrix.values[0].mean()), unit) if matrix.questions else "-"
    terminal.line("ablate", f"{name} is {mean}; with one thing changed, on {len(matrix.questions):,} questions"
                            f" (intervals that hold for all {len(results) - 1} together):")  # fmt: skip
    order = np.argsort(-np.abs(np.nan_to_num(found.estimate)), kind="stable")
    changed = [", ".join(map(str, factors(results[0], other))) or other.name for other in results]
    for line in aligned([[word(found, n), changed[n], difference(found, n, unit)] for n in order.tolist() if n]):
        terminal.line("", line)


_FOLDER = Path("sweeps")


def ablate(arguments: Sequence[str]) -> int:
    """Run ``ragsweep ablate``; return the exit status: that of the sweep."""
    from ragsweep.sweep import sweeping
    from ragsweep.sweep.command import read_command

    given, terminal = read(arguments), Terminal.current()
    run, result = find_record(given.path, given.run)
    found = prepare(_kept_in(given.path, result), given.overrides, given.factor, given.config_dir)
    until_closed(lambda: _show(found, terminal))
    if given.plan:
        jobs = tuple((*case.overrides, "plan=true") for case in found.cases)
        return sweeping.run(replace(read_command(found.hydra, False, given.config_dir), multirun=True, jobs=jobs))
    name = write(found, run)
    command = read_command([f"sweeps={name}", *found.hydra], True, given.config_dir)
    status = sweeping.run(command)
    results = _results(given.path, command.jobs)
    if results and results[0].overrides == command.jobs[0]:
        tell(results, given.metric, terminal)
    return status


def _kept_in(path: str, result: Result) -> Result:
    """Have an ablation kept where its run is kept; the default needs no words."""
    if path == ".ragsweep":
        return result
    return replace(result, overrides=with_value(result.overrides, f"store.path={path}"))


def _show(found: Ablation, terminal: Terminal) -> int:
    """Print the cases, and the omissions."""
    factors = dict.fromkeys(case.factor for case in found.cases[1:])
    terminal.line("ablate", f"{len(found.cases) - 1} changes, one at a time, of {', '.join(factors)}")
    for change, why in found.impossible.items():
        terminal.line("left out", f"{change}: {why}")
    if found.idle:
        terminal.line("left out", f"{', '.join(found.idle)}: would change no result")
    if not found.same:
        terminal.line("note", "what the run's config makes now is not what was recorded: code, data or defaults are"
                              " others; the changes are compared with what it makes now")  # fmt: skip
    return 0


def write(found: Ablation, run: str) -> str:
    """Write the cases as a named sweep of this folder, and return its name; a file of other content is left alone."""
    _FOLDER.mkdir(exist_ok=True)
    for number in range(1, 1000):
        name = f"ablate_{run[:8]}" + (f"_{number}" if number > 1 else "")
        path, text = _FOLDER / f"{name}.yaml", _text(found, name, run)
        if not path.exists() or path.read_text(encoding="utf-8") == text:
            break
    path.write_text(text, encoding="utf-8")
    return name


def _text(found: Ablation, name: str, run: str) -> str:
    """Write a sweep file: every case in full, so that each can be read, and changed, by itself."""
    lines = [
        "# @package _global_",
        f"# python run.py -m sweeps={name}",
        f"# What does each part of run {run} add, and each parameter? One change at a time around it.",
        "hydra:", "  mode: MULTIRUN", "  sweeper:", "    cases:",
    ]  # fmt: skip
    for case in found.cases:
        overrides = json.dumps(case.overrides, ensure_ascii=False).replace("${", "\\\\${")
        lines.append(f"      - {overrides} # {case.factor or 'the config itself'}")
    return "\n".join(lines) + "\n"


def _results(path: str, jobs: Sequence[tuple[str, ...]]) -> list[Result]:
    """Read what the sweep of these jobs measured, from the last time that it was run."""
    ledger = open_ledger(path)
    sweep = next(one for one in reversed(ledger.sweeps()) if one.jobs == tuple(jobs))
    outcomes = [record.outcome for record in ledger.records(sweep.id)]
    return [one for one in outcomes if isinstance(one, Result) and one.state == COMPLETE]
