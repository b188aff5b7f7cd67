"""``ragsweep ablate``: the effect of each part of a config, and of each of its parameters."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ragsweep.commands.command_line import RUN, Parser, add_path, ignore_closed_pipe, usual_metrics
from ragsweep.core.errors import ConfigError, RagsweepError, nearest
from ragsweep.core.results import COMPLETE, Result
from ragsweep.core.secrets import MASK, refuse_secrets
from ragsweep.evaluation.experiment import Experiment
from ragsweep.report.evidence import pair_words
from ragsweep.report.numbers import amount, change_with_interval
from ragsweep.report.tables import weighted_note
from ragsweep.report.terminal import Terminal
from ragsweep.stats.comparable import OF_NO_MATTER, factors, shared_metrics
from ragsweep.stats.comparison import find_margin
from ragsweep.stats.inference.differences import compare_amounts, transform_amounts
from ragsweep.stats.inference.matrix import score_matrix
from ragsweep.stats.inference.shrinkage import posterior
from ragsweep.stats.verdict import pair_verdict
from ragsweep.sweep import sweeping
from ragsweep.sweep.composing.command import choices, compose_jobs, read_command
from ragsweep.sweep.concluding.recorded_runs import find_run, open_ledger
from ragsweep.sweep.running.session import Session, open_session

_ABOUT = """Rerun a config with one change at a time: every option of its parts that needs no further model, every
number to its neighbouring values. It is a sweep like any other, resumed by the same command, with RUN's config first;
at the end the changes are ranked by effect, with simultaneous intervals. Changes that are invalid or change no result
are omitted. The cases are written to sweeps/ablate_RUN.yaml, which can be edited."""

RUNGS: Mapping[str, Sequence[float]] = {
    "top_k": (1, 3, 5, 8, 12, 20, 30, 50),
    "depth": (20, 50, 100, 200, 500),
    "size": (50, 100, 200, 300, 400, 600, 800, 1000, 1200, 1600, 2000, 3000),
    "overlap": (0, 20, 50, 100, 200, 400),
    "k": (10, 20, 40, 60, 80, 120),
    "k1": (0.5, 0.8, 1.2, 1.5, 1.8, 2.5),
    "b": (0, 0.3, 0.6, 0.75, 0.9, 1),
    "alpha": tuple(n / 10 for n in range(11)),
    "mix": (0, 0.1, 0.2, 0.4, 0.6, 0.8, 1),
    "candidates": (10, 20, 30, 50, 75, 100, 200),
    "ef_search": (20, 40, 64, 128, 200, 400),
    "temperature": (0, 0.3, 0.7, 1),
}
"""Last word of a parameter's name -> values used in practice; the adjacent ones are its neighbours."""

OPTIONS: Mapping[str, Sequence[str]] = {
    "retriever": ("hybrid_rrf", "hybrid_convex", "vector", "bm25"),
    "reranker": ("none", "late_interaction"),
    "chunker": ("recursive", "fixed_size", "sentence_window"),
    "prompt": ("default", "concise", "cite"),
}
"""Group -> interchangeable options: those that need no further model and no service."""

KEPT = {("chunker", "none"), ("retriever", "none")}
"""Options that depend on the texts or disable retrieval, and are not exchanged."""

AREAS = ("top_k", "depth", "context_budget", "chunker.", "retriever.", "reranker.", "llm.", "router.", "query.")
"""Groups with the parameters of a system; other groups belong to the golden set and its measurement."""

CHANCE = frozenset({"seed", "replicate"})

Overrides = tuple[str, ...]

_LEGS = "retriever.legs"
_SINGLE = ("bm25", "vector")
_HYBRID = ("hybrid_rrf", "hybrid_convex")
_NOT_THE_CONFIG = ("by", "name", "sweeps", "plan", "rerun", "timeout", "max_failures")
"""Operational keys, which change no result."""
_FOLDER = Path("sweeps")


@dataclass(frozen=True)
class AblationCase:
    """One config: the factor in which it differs from the ablated config, and all of its overrides."""

    factor: str
    overrides: Overrides


@dataclass(frozen=True)
class Ablation:
    """The cases to run: the config itself first, then one change at a time; and omissions with reasons."""

    cases: tuple[AblationCase, ...]
    impossible: Mapping[str, str]  # change -> why it is invalid
    idle: tuple[str, ...]  # changes that change no result
    hydra: tuple[str, ...]  # overrides for Hydra, such as a launcher
    same: bool  # whether the config composed now equals the recorded one


def ablate(arguments: Sequence[str]) -> int:
    """Run ``ragsweep ablate``; return the exit status: that of the sweep."""
    parser = Parser("ragsweep ablate", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("run", metavar="RUN", help=RUN)
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="set in every case; several values (retriever.k=20,40) replace a parameter's neighbours",
    )
    parser.add_argument(
        "--factor", action="append", help="change only this part or parameter; may be given several times"
    )
    parser.add_argument("--metric", help="metric that orders the changes (default: the objective)")
    parser.add_argument("--plan", action="store_true", help="show the cases and their cost; run nothing")
    parser.add_argument("--config-dir", "-cd", help="folder of further options, as given for RUN")
    add_path(parser)
    options, terminal = parser.parse_intermixed_args(list(arguments)), Terminal.current()
    found = find_run(options.path, options.run)
    run, result = found.run or found.typed.replace("#", "-"), found.result
    if options.path != ".ragsweep":  # results belong to the store of the run
        result = replace(result, overrides=with_value(result.overrides, f"store.path={options.path}"))
    ablation = prepare(result, options.overrides, options.factor, options.config_dir)
    with ignore_closed_pipe():
        _show_cases(ablation, terminal)
    if options.plan:
        jobs = tuple((*case.overrides, "plan=true") for case in ablation.cases)
        command = read_command(ablation.hydra, False, options.config_dir)
        return sweeping.run(replace(command, multirun=True, jobs=jobs)).status
    name = write_sweep(ablation, run)
    command = read_command([f"sweeps={name}", *ablation.hydra], True, options.config_dir)
    outcome = sweeping.run(command)
    records = open_ledger(options.path).records(outcome.sweep) if outcome.sweep else []
    measured = {
        record.job: record.outcome
        for record in records
        if isinstance(record.outcome, Result) and record.outcome.state == COMPLETE
    }
    if 0 in measured:
        show_changes(list(measured.values()), options.metric, terminal)
    return outcome.status


def _show_cases(ablation: Ablation, terminal: Terminal) -> None:
    """Print the factors, and the omissions."""
    changed = dict.fromkeys(case.factor for case in ablation.cases[1:])
    terminal.line("ablate", f"{len(ablation.cases) - 1} changes, one at a time, of {', '.join(changed)}")
    for change, why in ablation.impossible.items():
        terminal.line("left out", f"{change}: {why}")
    if ablation.idle:
        terminal.line("left out", f"{', '.join(ablation.idle)}: would change no result")
    if not ablation.same:
        terminal.line(
            "note",
            "code, data or defaults have changed since the run: its config now has another result, which the changes"
            " are compared with",
        )


def write_sweep(ablation: Ablation, run: str) -> str:
    """Write the cases as a named sweep of this folder, and return its name; never overwrite a file of other content.

    Every case is written in full, so that each can be read and edited alone.
    """
    _FOLDER.mkdir(exist_ok=True)
    for number in range(1, 1000):
        name = f"ablate_{run[:8]}" + (f"_{number}" if number > 1 else "")
        lines = [
            "# @package _global_",
            f"# python run.py -m sweeps={name}",
            f"# What does each part of run {run} add, and each parameter? One change at a time around it.",
            "baseline: 1",
            "hydra:",
            "  mode: MULTIRUN",
            "  sweeper:",
            "    cases:",
        ]
        for case in ablation.cases:
            overrides = json.dumps(case.overrides, ensure_ascii=False).replace("${", "\\\\${")
            lines.append(f"      - {overrides} # {case.factor or 'the config itself'}")
        path, text = _FOLDER / f"{name}.yaml", "\n".join(lines) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") == text:
            break
    path.write_text(text, encoding="utf-8")
    return name


def show_changes(results: Sequence[Result], metric: str | None, terminal: Terminal) -> None:
    """List the changes by the size of their effect; the first result is the ablated config."""
    if len(results) < 2:
        terminal.line("ablate", "no changed config was measured, so there is nothing to compare")
        return
    name = shared_metrics(results, [metric] if metric else None, usual_metrics(results))[0]
    matrix, unit = score_matrix(results, name), results[0].summaries[name].unit
    found, compared = compare_amounts(matrix, 0, unit), transform_amounts(matrix, unit)
    beliefs, margin = posterior(compared), find_margin(results[0].config, matrix, unit)
    mean = amount(float(matrix.values[0].mean()), unit) if matrix.questions else "-"
    weighted = f", {note}" if (note := weighted_note(results[0])) else ""
    terminal.line(
        "ablate",
        f"{name} is {mean}; with one thing changed, on {len(matrix.questions):,} questions"
        f"{weighted} (intervals that hold for all {len(results) - 1} together):",
    )
    terminal.aligned(
        [
            [
                pair_words(pair_verdict(found, n, beliefs, margin), unit, found.ratios),
                ", ".join(map(str, factors(results[0], results[n]))) or results[n].name,
                change_with_interval(
                    float(found.estimate[n]), float(found.low[n]), float(found.high[n]), unit, found.ratios
                ),
            ]
            for n in np.argsort(-np.abs(np.nan_to_num(found.estimate)), kind="stable").tolist()
            if n
        ]
    )


def prepare(result: Result, typed: Sequence[str], wanted: Sequence[str] | None, config_dir: str | None) -> Ablation:
    """Find the cases around a recorded config, as composed now.

    Raises:
        RagsweepError: The config cannot be composed any more, or nothing is left to change.
    """
    refuse_secrets(typed)
    experiment = experiments(config_dir)
    base, given = _base(result, experiment), dict[str, list[str]]()
    hydra = tuple(line for line in typed if key_of(line).partition(".")[0].partition("/")[0] == "hydra")
    for line in typed:
        if line in hydra:
            continue
        key, values = key_of(line), choices(line)
        if len(values) > 1:
            given[key] = [value.partition("=")[2] for value in values]
        elif key in OPTIONS:
            base = with_option(base, key, result.parameters.get(key, ""), values[0].partition("=")[2])
        else:
            base = with_value(base, values[0])
    own = experiment(base)
    chosen = {key_of(line): line.partition("=")[2] for line in base}
    options = {group: chosen.get(group, result.parameters.get(group, "")) for group in OPTIONS}
    parameters = {**own.parameters, **{group: option for group, option in options.items() if option}}
    signatures, cases, impossible, idle = {own.signature}, [AblationCase("", base)], dict[str, str](), list[str]()
    for case in around(base, parameters, given, wanted):
        change = next(line for line in reversed(case.overrides) if key_of(line) == case.factor)
        try:
            signature = experiment(case.overrides).signature
        except RagsweepError as fault:
            impossible[change] = str(fault).splitlines()[0]
            continue
        if signature in signatures:
            idle.append(change)
        else:
            signatures.add(signature)
            cases.append(case)
    if len(cases) == 1:
        reasons = [f"{change}: {why}" for change, why in impossible.items()]
        reasons += [f"{change}: changes no result" for change in idle]
        fact = "nothing can be changed in this config that would change a result"
        raise RagsweepError("\n".join([f"{fact}:", *reasons]) if reasons else fact)
    return Ablation(tuple(cases), impossible, tuple(idle), hydra, own.signature == result.signature)


def experiments(config_dir: str | None) -> Callable[[Overrides], Experiment]:
    """Return a function that composes and checks configs on one session.

    The function raises a RagsweepError for a config that cannot run.
    """
    session: Session | None = None

    def experiment(overrides: Overrides) -> Experiment:
        nonlocal session
        job = compose_jobs(read_command(overrides, multirun=False, config_dir=config_dir))[0]
        session = session or open_session(job.config.values, Terminal.current())
        return session.prepare(job)

    return experiment


def _base(result: Result, experiment: Callable[[Overrides], Experiment]) -> Overrides:
    """Return a recorded config as overrides: the given ones, and those that undo changed defaults."""
    base: Overrides = tuple(line for line in result.overrides if key_of(line) not in _NOT_THE_CONFIG)
    now = experiment(base).parameters
    for name, value in result.parameters.items():
        moved = now.get(name, value) != value and not name.startswith(OF_NO_MATTER)
        if moved and MASK not in value:
            base = with_value(base, f"{name}={value}")
    return base or (f"top_k={result.parameters['top_k']}",)  # a case must have an override


def around(
    base: Sequence[str],
    parameters: Mapping[str, str],
    given: Mapping[str, Sequence[str]],
    wanted: Sequence[str] | None = None,
) -> list[AblationCase]:
    """Change one thing at a time: options first, then parameters, each to its neighbours.

    Args:
        base: The overrides of the config.
        parameters: The config, flattened.
        given: Factor -> values that replace its neighbours.
        wanted: The only factors to change; the name of a part includes its parameters. None for all.

    Raises:
        ConfigError: A wanted factor is unknown, or nothing is left to change.
    """
    values: dict[str, Sequence[str]] = {}
    for group in OPTIONS:
        values[group] = other_options(group, parameters.get(group, "")) if group in parameters else ()
    for name, value in parameters.items():
        if name not in OPTIONS:
            values[name] = neighbours(name, value)
    values = {name: found for name, found in values.items() if found} | dict(given)
    for name in wanted or ():
        if not any(f"{factor}.".startswith(f"{name}.") for factor in values):
            raise ConfigError(f'--factor: nothing to change in "{name}"{nearest(name, values)}')
    return [
        AblationCase(
            factor,
            with_option(base, factor, parameters.get(factor, ""), value)
            if factor in OPTIONS
            else with_value(base, f"{factor}={value}"),
        )
        for factor, found in values.items()
        if wanted is None or any(f"{factor}.".startswith(f"{name}.") for name in wanted)
        for value in found
    ]


def neighbours(name: str, value: str) -> list[str]:
    """Return the neighbouring values of a numeric parameter, as typed; none for other values."""
    last = name.rpartition(".")[2]
    if not name.startswith(AREAS) or last in CHANCE:
        return []
    try:
        number = float(value)
    except ValueError:
        return []
    if not math.isfinite(number):
        return []
    if rungs := RUNGS.get(last):
        found = [rung for rung in rungs if rung < number][-1:] + [rung for rung in rungs if rung > number][:1]
    elif 0 < number < 1:  # a share: a tenth less and a tenth more
        found = [share for share in (round(number - 0.1, 10), round(number + 0.1, 10)) if 0 <= share <= 1]
    elif number <= 1:
        found = [number + 1]
    else:
        found = [number // 2 if value.isdigit() else number / 2, number * 2]
    return [f"{one:g}" for one in found]


def other_options(group: str, option: str) -> list[str]:
    """Return the alternatives to a group's option; a reranker can only be removed."""
    if (group, option) in KEPT:
        return []
    if group == "reranker" and option != "none":
        return ["none"]
    return [name for name in OPTIONS.get(group, ()) if name != option]


def key_of(line: str) -> str:
    """Return the key or the group that an override sets."""
    return line.partition("=")[0].lstrip("+~")


def with_value(base: Sequence[str], line: str) -> Overrides:
    """Set a parameter, replacing any override that sets it."""
    return (*(kept for kept in base if key_of(kept) != key_of(line)), line)


def with_option(base: Sequence[str], group: str, before: str, option: str) -> Overrides:
    """Replace the option of a group.

    The settings of the replaced option are removed, but a leg common to both retrievers keeps its own.
    """
    others = [line for line in base if not _belongs(key_of(line), group)]
    carried = _carried(base, before, option) if group == "retriever" else ()
    return (*others, f"{group}={option}", *carried)


def _belongs(key: str, group: str) -> bool:
    """Return whether an override sets a group, a key of its option, or a nested key."""
    package = key.partition("@")[2]
    return key == group or key.startswith((f"{group}.", f"{group}/", f"{group}@")) or package.startswith(f"{group}.")


def _carried(base: Sequence[str], before: str, option: str) -> Iterator[str]:
    """Carry over the settings of a retriever that becomes a leg, or of a leg that becomes the retriever."""
    for line in base:
        key, _, value = line.partition("=")
        sign, name = key[: len(key) - len(key_of(line))], key_of(line)
        if option in _HYBRID and before in _HYBRID and _LEGS in key:
            yield line
        elif option in _SINGLE and before in _HYBRID and f"{_LEGS}.{option}." in key:
            within = key.rpartition(f"{_LEGS}.{option}.")[2]
            yield f"{key.partition('@')[0]}={value}" if "@" in key else f"{sign}retriever.{within}={value}"
        elif option in _HYBRID and before in _SINGLE and name.startswith("retriever."):
            yield f"{sign}{_LEGS}.{before}.{name.removeprefix('retriever.')}={value}"
        elif option in _HYBRID and before in _SINGLE and name == "retriever/index":
            yield f"retriever/index@{_LEGS}.{before}.index={value}"
