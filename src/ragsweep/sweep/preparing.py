"""Check and plan all configs of a command, before its first job."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from optuna_sweeper.settings import SearchSettings
from ragsweep.core.errors import ConfigError, InputError, RagsweepError, nearest
from ragsweep.core.identity import Node
from ragsweep.core.results import objectives
from ragsweep.evaluation.corpus_language import language_lines
from ragsweep.evaluation.cost_estimate import plan_costs
from ragsweep.evaluation.experiment import Experiment, dtype_lines, repeated_lines
from ragsweep.evaluation.metric_trial import find_faults
from ragsweep.evaluation.question_table import tabulate
from ragsweep.parts.targets import ENFORCE
from ragsweep.services.usage import LIMITS
from ragsweep.stages.graph import Charge, Plan
from ragsweep.stages.shards import check_compute
from ragsweep.stats.comparable import computed_otherwise
from ragsweep.sweep.composing.compose import main_config
from ragsweep.sweep.composing.composition_errors import one_sentence, options_with
from ragsweep.sweep.composing.search_settings import is_own, trial_names
from ragsweep.sweep.composing.settings import (
    check_command,
    check_form,
    check_labels_measured,
    check_shown,
    read_sweep_labels,
)
from ragsweep.sweep.concluding.recorded_runs import find_recorded
from ragsweep.sweep.racing import WHERE
from ragsweep.sweep.running.sweep_race import SweepRace, prepare_race
from ragsweep.sweep.searching.search_plan import bound_search

if TYPE_CHECKING:
    from ragsweep.core.results import HumanLabel
    from ragsweep.report.terminal import Terminal
    from ragsweep.sweep.composing.command import Command
    from ragsweep.sweep.composing.job import Job
    from ragsweep.sweep.running.session import Session


OF_COMMAND = ("store", "tracking", "compute", "finalists", "max_failures", "plan", "progress")
"""Settings that apply to a whole command and must be equal in all its jobs."""

OF_CHOICE = ("constraints", "recommend")
"""Settings that determine which config a sweep chooses; they must also be equal in all its jobs."""


@dataclass(frozen=True)
class Prepared:
    """A checked command, ready to run: its experiments, plan and race, and the lines to show before the first job."""

    command: Command
    experiments: Sequence[Experiment]
    planned: Plan
    race: SweepRace | None
    nodes: Sequence[Node]  # nodes that may be computed
    facts: Sequence[tuple[str, str]]  # label and text of each line


def check_jobs(command: Command, configs: Sequence[Mapping[str, Any]]) -> list[HumanLabel]:
    """Check the form of all configs of a command, and the settings that they must share; return the human labels.

    No dataset or model is loaded. Raises ConfigError for an invalid setting, and InputError for unreadable labels.
    """
    for values in configs:
        check_form(values, main_config())
        check_command(values)
    for key in (*OF_COMMAND, *OF_CHOICE):
        if any(values[key] != configs[0][key] for values in configs):
            raise ConfigError(f"{key}: cannot differ within a sweep; run one command for each value")
    check_compute(configs[0]["compute"], command.in_process or not command.multirun)
    return read_sweep_labels(configs)


def prepare(command: Command, session: Session, jobs: Sequence[Job], labels: Sequence[HumanLabel]) -> Prepared:
    """Build every config of a command, check it against its dataset, and plan the computations of all configs.

    For a search, only the first experiment is kept, and the plan is an upper bound on the work of all trials. For a
    sweeper other than ours, the plan covers only the first experiment. Raises a RagsweepError if any config is invalid.
    """
    configs, possible, bound = [job.config.values for job in jobs], list[Node](), None
    experiments = prepare_jobs(session, jobs)
    if (command.searching or command.race is not None) and not all(map(objectives, configs)):
        raise ConfigError("objective: a search or a race needs a metric, got null; set objective=NAME")
    groups = [tabulate(one.dataset.golden.questions).groups for one in experiments]
    check_shown(configs, [label for label in groups[0] if all(label in group for group in groups)])
    check_labels_measured(labels, {metric.name: metric for one in experiments for metric in one.metrics})
    _check_enforced(command, experiments)
    race = _prepare_race(session, command, experiments)
    facts = [*language_lines(experiments, session.builder.build), *dtype_lines(experiments)]
    facts += [] if command.searching else repeated_lines(experiments)
    if command.searching:
        command = with_directions(command, configs[0], experiments[0])
        possible = [node for one in experiments[1:] for node in one.nodes]
        bound = bound_search(session, command, experiments)
        # Overrides identify a search. Finalists matter only at its end, so a resumed search may change their number.
        command = replace(command, overrides=tuple(o for o in command.overrides if not o.startswith("finalists=")))
        del experiments[1:]  # the other jobs only checked that each searched value can be composed
    planned = plan_costs(experiments, session.evaluator.executor)
    return Prepared(command, experiments, bound or planned, race, [*planned.needed, *possible], facts)


def without_done(prepared: Prepared, session: Session, done: Collection[int]) -> Prepared:
    """Return ``prepared`` (of a grid) with the plan and nodes of the jobs whose numbers are not in ``done``."""
    left = [experiment for number, experiment in enumerate(prepared.experiments) if number not in done]
    planned = plan_costs(left, session.evaluator.executor)
    return replace(prepared, planned=planned, nodes=planned.needed)


def with_directions(command: Command, config: Mapping[str, Any], first: Experiment) -> Command:
    """Return a search's command with a direction, "maximize" or "minimize", for each objective.

    For a sweeper other than ours, return ``command`` unchanged.

    Raises ConfigError for a number of directions that differs from the number of objectives, a direction that is
    unknown or contradicts its metric, a constraint on a metric that is not measured, an unknown limit of the budget, or
    another invalid setting.
    """
    settings = dict(command.search or {})
    if not is_own(settings):
        return command
    names, typed = objectives(config), settings.get("direction")
    higher = {metric.name: metric.higher_is_better for metric in first.metrics}
    listed = [None] * len(names) if typed is None else typed if isinstance(typed, list) else [typed]
    if len(listed) != len(names):
        raise ConfigError(
            f"hydra.sweeper.direction: must have one direction per objective ({len(names)}), got {len(listed)}; list"
            " one for each, or omit the key"
        )
    directions = [_direction(name, higher[name], direction) for name, direction in zip(names, listed, strict=True)]
    settings["direction"] = directions if len(directions) > 1 else directions[0]
    with one_sentence():  # without the race, which `_prepare_race` checks
        read = SearchSettings.read({key: value for key, value in settings.items() if key not in ("_target_", "race")})
    for constraint in read.constraints:
        if constraint.name not in higher:
            near = nearest(constraint.name, higher)
            raise ConfigError(f'hydra.sweeper.constraints: no metric "{constraint.name}" is measured{near}')
    for name in read.stop.budget:
        if name not in LIMITS:
            where = f"hydra.sweeper.stop.budget{name and '.'}{name}"
            raise ConfigError(f"{where}: must name a limit ({', '.join(LIMITS)}), as in {{budget: {{calls: 100}}}}")
    return replace(command, search=settings)


def _direction(name: str, higher: bool | None, typed: str | None) -> str:
    direction = {True: "maximize", False: "minimize", None: typed}[higher]
    if direction is None:
        raise ConfigError(
            f"objective={name}: has no direction; set hydra.sweeper.direction to minimize or maximize, or to a list"
            " with one direction for each objective"
        )
    if typed not in (direction, None):
        better = "higher" if higher else "lower"
        raise ConfigError(
            f"objective={name} is better when {better}, but its direction (hydra.sweeper.direction) is {typed}; set it"
            f" to {direction}, or omit the key"
        )
    return direction


def prepare_jobs(session: Session, jobs: Sequence[Job]) -> list[Experiment]:
    """Prepare the experiments of all jobs, store each in its job, and return them.

    If any job is invalid, raise one RagsweepError with the distinct messages of all invalid jobs.
    """
    experiments, faults = [], dict[str, RagsweepError]()
    for job in jobs:
        try:
            job.experiment = session.prepare(job)
            experiments.append(job.experiment)
        except RagsweepError as fault:
            faults[str(fault)] = fault
    if faults:
        kind = type(next(iter(faults.values())))
        raise kind("\n".join(faults))
    return experiments


def _check_enforced(command: Command, experiments: Sequence[Experiment]) -> None:
    """Raise ConfigError for an enforced target whose metric is neither in a config nor in an option of ``metrics``."""
    folders = command.composer.folders(command.overrides)
    measured = {metric.name for one in experiments for metric in one.metrics}
    enforcing = (one for one in experiments if (one.config.get("targets") or {}).get(ENFORCE))
    for name in (name for one in enforcing for name in one.targets if name not in measured):
        if not options_with(f"metrics.{name}", folders):
            raise ConfigError(f"targets.{name}: no config measures this metric{nearest(name, measured)}")


def _prepare_race(session: Session, command: Command, experiments: Sequence[Experiment]) -> SweepRace | None:
    if command.race is None:
        return None
    if session.evaluator.executor.store is None:
        raise ConfigError(
            f"{WHERE}: a race re-reads the results of earlier rungs, which are not stored; set store.stages=true, and"
            " store.path to a writable folder"
        )
    if len(names := objectives(experiments[0].config)) > 1:
        raise ConfigError(f"{WHERE}: a race compares one number, but objective has {len(names)} metrics; give it one")
    if (command.search or {}).get("constraints"):
        raise ConfigError(
            f"{WHERE}: a race drops configs by the objective alone, so it could drop every config that meets"
            " hydra.sweeper.constraints; use only one of these settings"
        )
    settings = session.builder.build(command.race, WHERE).value
    configs = trial_names(command.search) if command.search else experiments
    return prepare_race(settings, experiments, len(configs))


def baseline_notes(declared: object, session: Session, experiments: Sequence[Experiment]) -> Iterator[str]:
    """Check a ``declared`` baseline that names a recorded result, and yield notes on it.

    For any other declaration, nothing is checked or yielded. Raises InputError if the result is not found, was
    evaluated on different questions or documents, or lacks an objective.
    """
    found = find_recorded(declared, session.ledger)
    if found is None:
        return
    experiment = experiments[0]
    asked, before = experiment.dataset, found.result.run.dataset
    if (before.golden_digest, before.corpus_digest) != (asked.golden.digest, asked.corpus.digest):
        raise InputError(
            f'baseline={declared}: was evaluated on different questions or documents ("{before.name}",'
            f" {before.questions:,} questions); declare the baseline by overrides, so that this sweep evaluates it"
        )
    if lacking := [name for name in objectives(experiment.config) if name not in found.result.summaries.metrics]:
        raise InputError(
            f"baseline={declared}: its result lacks {' and '.join(lacking)}, which this sweep compares; declare the"
            " baseline by overrides, so that this sweep evaluates it"
        )
    run = found.result.run
    now = (replace(run, parameters=one.parameters, addresses=one.graph.addresses) for one in experiments)
    if any(computed_otherwise(run, one) for one in now):
        yield (
            f"baseline={declared}: has the same settings but was computed with another dtype, or other versions of"
            " models or libraries; declare the baseline by overrides, so that this sweep evaluates it"
        )


def try_metrics(experiments: Sequence[Experiment], terminal: Terminal) -> None:
    """Print a warning for each metric that fails on a trial question; its failed scores will be NaN."""
    faults: dict[str, str] = {}
    for one in {(*map(id, e.metrics), e.graph.answer is None, e.graph.route is None): e for e in experiments}.values():
        answered, routed = one.graph.answer is not None, one.graph.route is not None
        stages = [*one.graph.latency, *(["query"] if one.graph.query else []), *(["generate"] if answered else [])]
        faults |= find_faults(one.metrics, one.dataset, answered=answered, routed=routed, stages=stages)
    for name, fault in faults.items():
        text = f"the metric {name} fails on a trial question: {fault}; correct the metric, or failed scores are NaN"
        terminal.line("warning", text)


def check_keys(nodes: Sequence[Node]) -> None:
    """Raise one ConfigError that lists every missing API key of the services that ``nodes`` call."""
    faults: dict[str, None] = {}
    for check in (node.check for node in nodes if node.check):
        try:
            check()
        except ConfigError as fault:
            faults[str(fault)] = None
    if faults:
        raise ConfigError("\n".join(faults))


def plan_as_json(planned: Plan) -> dict[str, object]:
    """Return a plan as JSON-compatible values, with null for unknown values."""
    stages = {
        stage: {"asked": count.asked, "distinct": count.distinct, "stored": count.stored}
        | ({"rows": count.rows} if count.rows else {})
        | (_charge_as_json(count.charge) if count.charge.calls else {})
        for stage, count in planned.stages.items()
    }
    seconds = None if planned.unmeasured else planned.total.seconds
    charge = {**_charge_as_json(planned.charge), "currency": planned.currency or None}
    charge["not_estimated"] = sorted(planned.not_estimated)
    return {"configs": planned.configs, "upper": planned.upper, "stages": stages, "seconds": seconds, **charge}


def _charge_as_json(charge: Charge) -> dict[str, object]:
    counts = {name: getattr(charge, name) for name in ("calls", "tokens", "most_tokens")}
    whole = {name: math.ceil(count) for name, count in counts.items() if not math.isnan(count)}
    return {name: None if math.isnan(one) else one for name, one in {**vars(charge), **whole}.items()}
