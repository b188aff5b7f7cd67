"""``ragsweep ablate``: the effects of the parts and the parameters of a config, changed one at a time."""

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np

from ragsweep.commands.ablation_cases import OPTIONS, Ablation, AblationCase, around, key_of, with_change, with_value
from ragsweep.commands.command_line import (
    RUN,
    Parser,
    add_path,
    print_blocks,
    print_document,
    usual_metrics,
    write_document,
)
from ragsweep.core.errors import ConfigError, RagsweepError, nearest
from ragsweep.core.plurals import counted
from ragsweep.core.results import Result, Run, objectives
from ragsweep.core.secrets import MASK, refuse_secrets
from ragsweep.evaluation.experiment import Experiment
from ragsweep.golden.partition import ALL
from ragsweep.records.ledger import results_by_job
from ragsweep.report.document import Document, Section, Statement, Table, lines
from ragsweep.report.numbers import amount, change_with_interval
from ragsweep.report.tables import weighted_note
from ragsweep.report.terminal import Terminal
from ragsweep.report.verdict import pair_words
from ragsweep.stats.choice import find_tolerance
from ragsweep.stats.comparable import changes_scores, factors, is_scored, shared_metrics
from ragsweep.stats.compare_configs import deciding_metric
from ragsweep.stats.inference.differences import compare_amounts
from ragsweep.stats.inference.matrix import score_matrix, transform_amounts
from ragsweep.stats.inference.shrinkage import posterior
from ragsweep.stats.verdict import pair_verdict
from ragsweep.sweep import sweeping
from ragsweep.sweep.composing.command import Command, choices, compose_jobs, read_command
from ragsweep.sweep.concluding.recorded_runs import find_run, open_ledger
from ragsweep.sweep.running.session import Session, open_session

_ABOUT = """Rerun a config with one change at a time. The retriever, reranker, chunker and prompt are each replaced by
options that need no additional model; each number is replaced by its neighbouring values. These configs are run as a
sweep, RUN's config first; repeating the command resumes the sweep. At the end, the changes are ranked by effect, with
simultaneous intervals. Changes that are invalid or change no result are omitted. The cases are written to
sweeps/ablate_RUN.yaml, which can be edited."""

_NOT_THE_CONFIG = ("baseline", "by", "name", "sweeps", "plan", "rerun", "timeout", "max_failures")
"""Keys of overrides that the cases omit: they change no result, or `_base` restores their effect (``sweeps``)."""
_FOLDER = Path("sweeps")


def ablate(arguments: Sequence[str]) -> int:
    """Run ``ragsweep ablate``; return the exit status of the sweep or, with ``--plan``, of the plan.

    Raises RagsweepError for bad input, and for an ablation in which no change is left to run.
    """
    parser = Parser("ragsweep ablate", description=_ABOUT)
    parser.add_argument("run", metavar="RUN", help=RUN)
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="override for every case; several values (retriever.k=20,40) replace the neighbouring values",
    )
    parser.add_argument("--factor", action="append", help="change only this part or parameter; can be repeated")
    parser.add_argument("--metric", help="metric by which the changes are ordered (default: the objective)")
    parser.add_argument("--plan", action="store_true", help="show the cases and their cost; run nothing")
    parser.add_argument("--config-dir", "-cd", help="the folder of additional options that RUN used")
    add_path(parser)
    options = parser.parse_intermixed_args(list(arguments))
    found = find_run(options.path, options.run)
    run, result = found.run or found.typed, found.result
    elsewhere = "store.path" in map(key_of, result.run.overrides)  # the store may have been moved
    if elsewhere or options.path != os.environ.get("RAGSWEEP_STORE", ".ragsweep"):  # the cases use the store of the run
        overrides = with_value(result.run.overrides, f"store.path={options.path}")
        result = replace(result, run=replace(result.run, overrides=overrides))
    ablation = prepare(result, options.overrides, options.factor, options.config_dir, options.metric)
    print_blocks(lines(_cases(ablation)))
    if options.plan:
        jobs = tuple((*case.overrides, "plan=true") for case in ablation.cases)
        command = read_command(ablation.hydra, False, options.config_dir)
        return sweeping.run(replace(command, multirun=True, jobs=jobs)).status
    name = write_sweep(ablation, run)
    command = read_command([f"sweeps={name}", *ablation.hydra], True, options.config_dir)
    outcome = sweeping.run(command)
    records = open_ledger(options.path).records(outcome.sweep) if outcome.sweep else []
    measured = results_by_job(records)
    if 0 in measured:
        print_document(changes_document(list(measured.values()), options.metric))
    return outcome.status


def write_sweep(ablation: Ablation, run: str) -> str:
    """Write the cases as a named sweep in the folder ``sweeps`` and return the name of the sweep.

    If a file with this name has other content, a number is appended to the name. Every case lists all its overrides, so
    that it can be read and edited without the other cases. Raises InputError if the file cannot be written.
    """
    for number in count(1):
        name = f"ablate_{re.sub('[# ]', '-', run[:8])}" + (f"_{number}" if number > 1 else "")
        lines = [
            "# @package _global_",
            f"# python run.py -m sweeps={name}",
            f"# What does each part and each parameter of run {run} contribute? Each case has one change.",
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
    write_document(path, text, "make this path writable, or run in another folder")
    return name


def prepare(
    result: Result,
    typed: Sequence[str],
    wanted: Sequence[str] | None,
    config_dir: str | None,
    metric: str | None = None,
) -> Ablation:
    """Plan the ablation of a recorded config; its cases are composed with the current code, data and defaults.

    ``typed`` are overrides for every case; several values for a parameter are tried instead of its neighbouring values.
    ``wanted`` are the factors to change (None: all), ``config_dir`` is a folder of additional options, and ``metric``
    is the metric that orders the changes (None: the objective).

    Raises:
        RagsweepError: The config can no longer be composed or lacks the metric, the metric cannot rank configs, a
            wanted factor has no other value, several values are given for a factor that is not wanted, an override
            contains a secret, or no change is left.
    """
    refuse_secrets(typed)
    hydra = tuple(line for line in typed if key_of(line).partition(".")[0].partition("/")[0] == "hydra")
    searched = tuple(line for line in hydra if key_of(line) == "hydra.searchpath")
    experiment = experiments(config_dir, searched)
    base, given = _base(result.run, experiment), dict[str, list[str]]()
    same = experiment(base).signature == result.run.signature  # before typed overrides, which may change results
    for line in sorted((one for one in typed if one not in hydra), key=lambda one: "." in key_of(one)):  # options first
        key, values = key_of(line), choices(line, config_dir, searched)
        if len(values) > 1:
            given[key] = [value.partition("=")[2] for value in values]
        elif values[0].startswith(f"{key}="):
            base = with_change(base, result.run.parameters, key, values[0].partition("=")[2])
        else:
            base = with_value(base, values[0])
    own = experiment(base)
    if metric and metric not in (names := [one.name for one in own.metrics]):
        raise ConfigError(f'--metric: no metric "{metric}" in this config{nearest(metric, names)}')
    if metric and metric in result.summaries.metrics and result.summaries.metrics[metric].n_scored:
        shared_metrics([result], [metric], ())  # reject a quantile now, not after all cases have run
    chosen = {key_of(line): line.partition("=")[2] for line in base}
    options = {group: chosen.get(group, result.run.parameters.get(group, "")) for group in OPTIONS}
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
        fact = "no change is left to run; give other values, such as top_k=3,10, and omit --factor"
        raise RagsweepError("\n".join([f"{fact}:", *reasons]) if reasons else fact)
    return Ablation(tuple(cases), impossible, tuple(idle), hydra, same)


def experiments(config_dir: str | None, searched: tuple[str, ...] = ()) -> Callable[[tuple[str, ...]], Experiment]:
    """Return a function that composes a config from overrides and checks it; all calls share one session.

    ``searched`` contains the override of ``hydra.searchpath``, if any.

    The function raises a RagsweepError for a config that cannot run.
    """
    session: Session | None = None
    command: Command | None = None

    def experiment(overrides: tuple[str, ...]) -> Experiment:
        nonlocal session, command
        command = read_command([*overrides, *searched], multirun=False, config_dir=config_dir, before=command)
        job = compose_jobs(command)[0]
        session = session or open_session(job.config.values, Terminal.current())
        return session.prepare(job)

    return experiment


def _base(run: Run, experiment: Callable[[tuple[str, ...]], Experiment]) -> tuple[str, ...]:
    """Return a recorded config as overrides: the recorded overrides, and overrides that restore changed defaults."""
    base: tuple[str, ...] = tuple(line for line in run.overrides if key_of(line) not in _NOT_THE_CONFIG)
    keys = list(map(key_of, base))
    for group in dict.fromkeys(key.partition(".")[0] for key in keys):
        if group not in keys and group in run.parameters:  # chosen by default, or by the file of a named sweep
            base = (f"{group}={run.parameters[group]}", *base)
    now = experiment(base)
    measured = {metric.name for metric in now.metrics}
    for name, value in run.parameters.items():
        counts = measured.issuperset(objectives(run.config)) if name == "objective" else changes_scores(name)
        if now.parameters.get(name, value) != value and counts and MASK not in value:
            base = with_value(base, f"{name}={value}")
    if run.dataset.partition != ALL and run.parameters.get("partition") != run.dataset.partition:
        base = with_value(base, f"partition={run.dataset.partition}")  # chosen by the search, which is not repeated
    return base or (f"top_k={run.parameters['top_k']}",)  # a case must have an override


def _cases(ablation: Ablation) -> Iterator[Statement]:
    changed, count = list(dict.fromkeys(case.factor for case in ablation.cases[1:])), len(ablation.cases) - 1
    text = f"{counted(count, 'change')}, one at a time, of {', '.join(changed)}"
    yield Statement("ablate", text, {"changes": count, "factors": changed})
    for change, why in ablation.impossible.items():
        yield Statement("left out", f"{change}: {why}")
    if ablation.idle:
        yield Statement("left out", f"without effect: {', '.join(ablation.idle)}")
    if not ablation.same:
        yield Statement(
            "note",
            "code, data or defaults have changed since the run: the changes are compared with the config's new result",
        )


def changes_document(results: Sequence[Result], metric: str | None) -> Document:
    """Build the document of the effects that the changes have on a metric, the largest effect first.

    ``results[0]`` is the ablated config. If ``metric`` is None, the objective is used. Configs with too few scores of
    the metric are left out. If the ablated config or all changed configs are left out, the document states that the
    effects cannot be compared.
    """
    decisive, ablated = metric or deciding_metric(results), results[0]
    results = [one for one in results if not decisive or is_scored(one, decisive)]
    own = bool(results) and results[0] is ablated
    if not own or len(results) < 2:
        why = "no changed config has enough scores" if own else "the config itself has too few scores"
        none = Statement("ablate", f"no effect can be compared: {why}; correct the failures above and try again")
        return Document("ablate", [Section([lines(none)])])
    name = shared_metrics(results, [decisive] if decisive else None, usual_metrics(results))[0]
    matrix, unit = score_matrix(results, name), results[0].summaries.metrics[name].unit
    found, compared = compare_amounts(matrix, 0, unit), transform_amounts(matrix, unit)
    beliefs, margin = posterior(compared), find_tolerance(results[0].run.config, "margin", matrix, unit)
    mean = amount(float(matrix.values[0].mean()), unit) if matrix.questions else "-"
    weighted = f", {note}" if (note := weighted_note(results[0], matrix.questions)) else ""
    text = (
        f"{name} is {mean}; with one change each, on {counted(len(matrix.questions), 'question')}{weighted}"
        f" ({counted(len(results) - 1, 'change')}, simultaneous intervals):"
    )
    rows = []
    for n in np.argsort(-np.abs(np.nan_to_num(found.estimate)), kind="stable").tolist():
        if n:
            words = pair_words(pair_verdict(found, n, beliefs, margin), unit, found.ratios)
            change = ", ".join(map(str, factors(results[0], results[n]))) or results[n].name
            rows.append([words, change, change_with_interval(*found.interval(n), unit, found.ratios)])
    head = Statement("ablate", text, {"questions": len(matrix.questions), "changes": len(results) - 1})
    table = Table(("verdict", "change", "difference"), rows, headed=False)
    return Document("ablate", [Section([lines(head), table])])
