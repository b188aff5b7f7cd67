"""Run a command: check and plan all its configs, hand them to Hydra, and close what was opened, however it ends."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence

from omegaconf import DictConfig

from ragsweep.core.errors import ConfigError, RagsweepError, TrackingError
from ragsweep.core.identity import Node
from ragsweep.core.objectives import objectives
from ragsweep.core.secrets import mask_text
from ragsweep.evaluation import scoring
from ragsweep.evaluation.evaluator import Experiment
from ragsweep.evaluation.foretelling import foretell
from ragsweep.report.terminal import Terminal
from ragsweep.stages.graph import Charge, Plan, plan, walk
from ragsweep.sweep import finalists, mirroring, races, searching
from ragsweep.sweep.app import Job, Session, session
from ragsweep.sweep.composition import Command, compose_jobs
from ragsweep.sweep.handing import hand_over
from ragsweep.sweep.jobs import Partial, TargetsMissed
from ragsweep.sweep.multirun import Multirun, Search
from ragsweep.sweep.plain import resolved_at


def run(command: Command) -> int:
    """Do what was typed; return the exit status."""
    configs = compose_jobs(command)
    _check(configs)
    own, terminal, possible = session(configs[0]), Terminal.current(), list[Node]()
    own.services.meter.reset()  # a budget is one command's, in each of its processes
    experiments = _prepare(own, command, configs)
    race = _race(own, command, experiments)
    if command.searching:
        command = searching.settled(command, configs[0], experiments[0])
        possible = [node for one in experiments[1:] for node in walk([wanted.node for wanted in one.wanted])]
        del experiments[1:]  # the others only show that what is searched is possible
    planned = plan([experiment.wanted for experiment in experiments], own.evaluator.executor)
    foretell(planned, experiments, own.evaluator.executor)
    if configs[0].plan == "json":
        print(json.dumps(_plain(planned)))
        return 0
    if configs[0].plan:
        terminal.plan_table(planned)
        return 0
    _check_keys([*_missing(planned, experiments), *possible])
    kept, tracker = own.ledger, own.tracker(configs[0])
    if risk := tracker.risk():
        terminal.line("warning", risk)
    tracker.check()
    _try_metrics(experiments, terminal)
    if not command.multirun:
        terminal.plan(planned)
        status = _single(command)
    else:
        kind = Search if command.searching else Multirun
        signatures = [experiment.signature for experiment in experiments]
        status = kind(command, configs[0], kept, tracker, terminal, race).run(signatures, planned)
    mirroring.end_abandoned(kept, tracker, terminal)
    return status


def _missing(planned: Plan, experiments: Sequence[Experiment]) -> list[Node]:
    """List the nodes of which something must be computed."""
    nodes = walk([one.node for experiment in experiments for one in experiment.wanted])
    found = [(node, planned.missing.get(node.address)) for node in nodes]
    return [node for node, rows in found if rows is not None and (rows or node.kind == "whole")]


def _check_keys(nodes: Sequence[Node]) -> None:
    """Raise ConfigError, before anything is computed, for all keys that computing these nodes needs and are missing."""
    faults: dict[str, None] = {}
    for check in (node.check for node in nodes if node.check):
        try:
            check()
        except ConfigError as fault:
            faults[str(fault)] = None
    if faults:
        raise ConfigError("\n".join(faults))


def _try_metrics(experiments: Sequence[Experiment], terminal: Terminal) -> None:
    """Warn of metrics that fail on one question, before anything is paid for."""
    found: dict[str, str] = {}
    for one in {tuple(map(id, one.metrics)): one for one in experiments}.values():
        graph = one.graph
        found |= scoring.faults(one.metrics, one.dataset, graph.answer is not None, graph.route is not None)
    for name, fault in found.items():
        terminal.line("warning", f"the metric {name}, tried on one question, fails: {fault}; where it fails it is NaN")


def _check(configs: Sequence[DictConfig]) -> None:
    """Refuse settings of the command as a whole that mean nothing."""
    config = configs[0]
    finalists.check(config.finalists)
    if config.plan not in (True, False, "json"):
        raise ConfigError(f"plan: must be true, false or json, given {config.plan!r}")
    if not isinstance(config.rerun, bool):
        raise ConfigError(f"rerun: must be true or false, given {config.rerun!r}")
    if config.questions.until is not None:
        raise ConfigError(
            "questions.until: is set by a race, rung by rung (hydra/sweeper/race=betting); dataset.limit draws a sample"
        )
    for key in ("timeout", "max_failures"):
        value = config[key]
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value <= 0):
            raise ConfigError(f"{key}: must be a number above 0, or null, given {value!r}")
    # Where results are kept cannot differ within a sweep: they would not be found again.
    for key in ("store", "tracking"):
        first = resolved_at(config, key)
        if any(resolved_at(other, key) != first for other in configs):
            raise ConfigError(f"{key}: cannot differ within a sweep")


def _race(own: Session, command: Command, experiments: Sequence[Experiment]) -> races.Start | None:
    """Lay out the race that the sweeper runs; None where it runs none."""
    if command.race is None:
        return None
    if own.evaluator.executor.store is None:
        raise ConfigError("store.stages=false: a race asks again what was asked before; let it be stored")
    if len(named := objectives(experiments[0].config)) > 1:
        raise ConfigError(f"hydra.sweeper.race: a race is about one number, and objective names {len(named)}")
    if (command.search or {}).get("constraints"):
        raise ConfigError(
            "hydra.sweeper.race: drops by the objective alone, so that none that keeps hydra.sweeper.constraints might"
            " be left; give one of the two"
        )
    rule = own.builder.build(command.race, "hydra.sweeper.race").value
    return races.started(
        rule, experiments, len(searching.names(command.search)) if command.search else len(experiments)
    )


def _prepare(own: Session, command: Command, configs: Sequence[DictConfig]) -> list[Experiment]:
    """Check every config before the first one starts; all faults at once, each said once."""
    experiments, faults = [], {}
    for config, name, overrides in zip(configs, command.names(), command.jobs, strict=True):
        try:
            experiments.append(own.prepare(Job(config, name, overrides, searching=command.searching)))
            own.checked[overrides] = experiments[-1]
        except RagsweepError as fault:
            faults[str(fault)] = fault
    if faults:
        kind = type(next(iter(faults.values())))
        raise kind("\n".join(faults))
    return experiments


def _plain(planned: Plan) -> dict[str, object]:
    stages = {
        stage: {"asked": count.asked, "distinct": count.distinct, "stored": count.stored}
        | ({"rows": count.rows} if count.rows else {})
        | (_charged(count.charge) if count.charge.calls else {})
        for stage, count in planned.stages.items()
    }
    seconds = None if planned.untold else planned.total.seconds
    currency = {"currency": planned.currency or None}
    return {"configs": planned.configs, "stages": stages, "seconds": seconds} | _charged(planned.charge) | currency


def _charged(charge: Charge) -> dict[str, object]:
    """Say what calls cost, with null for what is unknown."""
    calls, tokens, money = (
        None if math.isnan(value) else value for value in (charge.calls, charge.tokens, charge.money)
    )
    whole = [value if value is None else math.ceil(value) for value in (calls, tokens)]
    return {"calls": whole[0], "tokens": whole[1], "money": money, "estimated": charge.estimated}


def _single(command: Command) -> int:
    try:
        hand_over(command)
    except TrackingError as fault:  # the place was there when the command began, and the result is kept
        print(f"ragsweep: in the ledger, but not in MLflow: {fault}", file=sys.stderr)
        return 1
    except (Partial, TargetsMissed):  # which the table says
        return 1
    except RagsweepError:
        raise
    except Exception as fault:
        said = mask_text(f"{type(fault).__name__}: {fault}")
        print(f"ragsweep: {said}; the traceback is in the job's log", file=sys.stderr)
        return 1
    return 0
