"""Race the configs of a sweep: which of them are asked the next questions, and which are dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ragsweep.core.errors import ConfigError
from ragsweep.core.results import COMPLETE, DROPPED, RACING, Result
from ragsweep.evaluation.evaluator import Experiment
from ragsweep.records.ledger import Sweep
from ragsweep.sweep.race_loop import Rung
from ragsweep.sweep.race_plan import KEY, RacePlan, race_plan
from ragsweep.sweep.racing import Betting
from ragsweep.sweep.recording import OutcomeWriter
from ragsweep.sweep.session import RunContext

_WHERE = "hydra.sweeper.race"
FREE = "nothing is asked by question here (no llm, no judge): a race would save nothing, and all configs are run whole"


class PreparedRace(NamedTuple):
    """A race that was checked against its configs."""

    plan: RacePlan
    has_cost: bool  # a question costs an answer or a verdict
    rule: BettingRace

    def bound(self, context: RunContext) -> BettingRace:
        """Return the rule, which from here on decides about the configs of a running sweep."""
        assert context.sweep
        self.rule.context = RaceContext(context, context.sweep, self)
        return self.rule


@dataclass
class RaceContext:
    """The running sweep whose configs race."""

    run: RunContext
    sweep: Sweep
    race: PreparedRace

    def results(self) -> dict[int, Result]:
        """Read the results of each config so far, by the number of its job."""
        found = {record.job: record.outcome for record in self.run.ledger.raced(self.sweep.id)}
        return {job: one for job, one in found.items() if isinstance(one, Result)}

    def scores(self, result: Result, count: int) -> list[float]:
        """Return a config's scores of the first questions in the order of asking; fewer where it was dropped before."""
        plan = self.race.plan
        known = dict(zip(result.outcomes["question_id"], result.outcomes[plan.metric.name], strict=True))
        count = count if result.state == COMPLETE else min(count, len(known))
        return [float(known[question]) for question in plan.questions[:count]]

    def drop(self, job: int, result: Result, facts: Mapping[str, Any]) -> None:
        """Write down, show and track that a config is dropped."""
        run = self.run
        records = OutcomeWriter(run.ledger, run.tracker, self.sweep, job, secrets=run.secrets)
        records.keep_dropped(replace(result, state=DROPPED, race={**result.race, **facts}), run.terminal)


def prepare_race(rule: BettingRace, experiments: Sequence[Experiment], configs: int) -> PreparedRace:
    """Check a race and return its plan.

    Args:
        rule: As configured.
        experiments: The configs that race, or of a search some of them.
        configs: How many configs race in all.

    Raises:
        ConfigError: There is one config only, the configs have different questions or objectives, the objective is no
            mean with a direction, or the rule's settings do not fit it.
    """
    first = experiments[0]
    if configs < 2:
        raise ConfigError(f"{_WHERE}: there is one config only, and nothing for it to race with; sweep over more")
    for one in experiments:
        for key in ("seed", "objective"):
            if one.config[key] != first.config[key]:
                raise ConfigError(f"{key}: cannot differ in a race")
        if one.dataset.golden.digest != first.dataset.golden.digest:
            raise ConfigError(f"{_WHERE}: all configs must be asked the same questions; {one.name} is asked others")
    plan = race_plan(first)
    name, quantile = plan.metric.name, plan.metric.quantile
    if quantile is not None or plan.metric.higher_is_better is None:
        kind = "is a quantile, no mean" if quantile is not None else "has no direction"
        raise ConfigError(f"{_WHERE}: objective={name} {kind}, and cannot be raced; choose another objective")
    rule.check_plan(plan)
    return PreparedRace(plan, any(one.graph.asked for one in experiments), rule)


class BettingRace:
    """Drop configs that are shown to be worse than the best, by bets that hold at any time (see racing.Betting)."""

    VERSION = "1"
    OPERATIONAL: tuple[str, ...] = ()
    key = KEY

    def __init__(self, margin: float = 0.0, level: float = 0.95, block: int = 16) -> None:
        """Set up the race; arguments as of Betting."""
        self.margin, self.level, self.block = margin, level, block
        self.context: RaceContext | None = None

    @property
    def facts(self) -> dict[str, str]:
        """The rule and its guarantee, which are kept with a dropped config."""
        return {"rule": "betting", "guarantee": Betting(self.margin, self.level).guarantee}

    def check_plan(self, plan: RacePlan) -> None:
        """Raise ConfigError for a block, a metric or a margin that cannot be raced."""
        if not 1 <= self.block < len(plan.questions):
            raise ConfigError(
                f"{_WHERE}.block: must be at least 1 and less than the {len(plan.questions)} questions,"
                f" given {self.block}"
            )
        if None in plan.metric.bounds:
            raise ConfigError(
                f"{_WHERE}: {plan.metric.name} has no bounds, and cannot be raced; choose another objective"
            )
        try:
            self._rule(plan).check()
        except ConfigError as fault:
            raise ConfigError(f"{_WHERE}.{fault}") from None

    def begin(self, jobs: Sequence[int]) -> Rung:
        """Return the first rung: after an interruption, the last one that all remaining configs have completed."""
        now = self._running
        if not now.race.has_cost:
            now.run.terminal.line("race", FREE)
            return Rung(None)
        known = now.results()
        dropped = tuple(job for job in jobs if job in known and known[job].state == DROPPED)
        left = [job for job in jobs if job not in dropped]
        reached = [known[job].race["asked"] if job in known and known[job].state == RACING else 0 for job in left]
        whole = sum(one.state == COMPLETE for job, one in known.items() if job not in left)
        if len(left) + whole < 2:
            return Rung(None, dropped)
        return Rung(self._next(now.race.plan, max(min(reached, default=0) - self.block, 0)), dropped)

    def decide(self, until: int, returned: Mapping[int, Any]) -> Rung:
        """Drop the configs whose deficit is shown, and return the next rung."""
        now = self._running
        known, count = now.results(), now.race.plan.count(until)
        scores = {str(job): now.scores(one, count) for job, one in known.items()}
        running = {job for job in returned if job in known and known[job].state == RACING}
        deficits = self._rule(now.race.plan).decide(scores, now.race.plan.clusters).deficit
        dropped = {int(job): deficit for job, deficit in deficits.items() if int(job) in running}
        for job, deficit in dropped.items():
            now.drop(job, known[job], {"ahead": deficit, **self.facts})
        rivals = [job for job, one in known.items() if job not in dropped and one.state in (RACING, COMPLETE)]
        total, gone = len(now.race.plan.questions), f", {len(dropped)} dropped" if dropped else ""
        now.run.terminal.line("race", f"{count:,} of {total:,} questions · {len(returned)} configs{gone}")
        return Rung(self._next(now.race.plan, count) if len(rivals) > 1 else None, tuple(dropped))

    def end(self, returned: Mapping[int, Any]) -> None:
        """Report a race without a drop; the results of whole configs are in the ledger."""
        now = self._running
        now.run.ledger.drop_unused()
        if now.race.has_cost and all(one.state != DROPPED for one in now.results().values()):
            text = f"nobody was dropped so far, and no question saved; {self.facts['guarantee']}"
            now.run.terminal.line("race", text)

    @property
    def _running(self) -> RaceContext:
        assert self.context, "a race decides about the configs of a sweep that is running"
        return self.context

    def _next(self, plan: RacePlan, count: int) -> int | None:
        """Return how far the next rung goes; None where that is all questions."""
        until = plan.count(count + self.block)
        return until if until < len(plan.questions) else None

    def _rule(self, plan: RacePlan) -> Betting:
        low, high = plan.metric.bounds
        assert low is not None
        assert high is not None
        return Betting(self.margin, self.level, high - low, bool(plan.metric.higher_is_better))
