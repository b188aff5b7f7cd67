"""Run an ablation as a sweep, and report the effect of each change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ragsweep.commands.ablate.arguments import read
from ragsweep.commands.ablate.overrides import with_value
from ragsweep.commands.ablate.preparing import Ablation, prepare
from ragsweep.commands.ablate.telling import tell
from ragsweep.commands.command_line import find_record, open_ledger, until_closed
from ragsweep.core.results import COMPLETE, Result
from ragsweep.report.terminal import Terminal

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
