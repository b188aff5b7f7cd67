"""Race the configs of a command: who is asked the next questions, and who is dropped and written down as dropped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ragsweep.core.errors import ConfigError
from ragsweep.core.results import COMPLETE, DROPPED, RACING, Result
from ragsweep.evaluation.evaluator import Experiment
from ragsweep.records.ledger import Ledger, Sweep
from ragsweep.report.terminal import Terminal
from ragsweep.sweep.race_loop import Rung
from ragsweep.sweep.racing import Betting
from ragsweep.sweep.recording import Records
from ragsweep.sweep.rungs import KEY, Course, course
from ragsweep.sweep.session import RunContext

Scores = Mapping[str, Sequence[float]]
"""Of each config, by the number of its job: one a question in the order of asking, as far as it was asked."""

FREE = "nothing is asked by question here (no llm, no judge): a race would save nothing, and all configs are run whole"


class Start(NamedTuple):
    """What the configs of a race have in common, and whether a question costs anything: an answer, a verdict."""

    course: Course
    costs: bool
    rule: Race

    def bound(self, context: RunContext) -> Race:
        """Return the rule, which from here on decides about the configs of a running sweep."""
        assert context.sweep
        self.rule.held = Held(context, context.sweep, self)
        return self.rule


@dataclass
class Held:
    """The configs that a race decides about."""

    context: RunContext
    sweep: Sweep
    start: Start

    @property
    def ledger(self) -> Ledger:
        """The ledger that scores are read from."""
        return self.context.ledger

    @property
    def terminal(self) -> Terminal:
        """Where the race is reported."""
        return self.context.terminal

    @property
    def course(self) -> Course:
        """The questions in the order of asking, and the metric."""
        return self.start.course

    def results(self) -> dict[int, Result]:
        """Read what is known of each config, by the number of its job."""
        found = {record.job: record.outcome for record in self.ledger.raced(self.sweep.id)}
        return {job: one for job, one in found.items() if isinstance(one, Result)}

    def scores(self, result: Result, asked: int) -> list[float]:
        """Return a config's scores of the first questions, in the order of asking; less where it was dropped before."""
        known = dict(zip(result.outcomes["question_id"], result.outcomes[self.course.metric.name], strict=True))
        told = asked if result.state == COMPLETE else min(asked, len(known))
        return [float(known[question]) for question in self.course.questions[:told]]

    def drop(self, job: int, result: Result, facts: Mapping[str, Any]) -> None:
        """Write a config down as dropped, show it, and track it."""
        gone = replace(result, state=DROPPED, race={**result.race, **facts})
        context = self.context
        records = Records(self.ledger, context.tracker, self.sweep, job, secrets=context.secrets)
        records.keep_dropped(gone, self.terminal)


def started(race: Race, experiments: Sequence[Experiment], configs: int) -> Start:
    """Lay out a race.

    Args:
        race: The rule, as the config names it.
        experiments: The configs that race, or of a search some of them.
        configs: How many configs race in all.

    Raises:
        ConfigError: It cannot be raced: there is one config only, they are asked different questions or have different
            objectives, the objective is no mean that has a direction, or the rule's settings do not fit it.
    """
    first, where = experiments[0], "hydra.sweeper.race"
    if configs < 2:
        raise ConfigError(f"{where}: there is one config only, and nothing for it to race with; sweep over more")
    for one in experiments:
        for key in ("seed", "objective"):
            if one.config[key] != first.config[key]:
                raise ConfigError(f"{key}: cannot differ in a race")
        if one.dataset.golden.digest != first.dataset.golden.digest:
            raise ConfigError(f"{where}: all configs must be asked the same questions; {one.name} is asked others")
    laid = course(first)
    if laid.metric.quantile is not None or laid.metric.higher_is_better is None:
        kind = "is a quantile, no mean" if laid.metric.quantile is not None else "has no direction"
        raise ConfigError(
            f"{where}: objective={laid.metric.name} {kind}, and cannot be raced; choose another objective"
        )
    race.check_course(laid)
    return Start(laid, any(one.graph.asked for one in experiments), race)


class Race(ABC):
    """What the races of a config have in common: blocks of questions, and who is still in it."""

    VERSION = "1"
    OPERATIONAL: tuple[str, ...] = ()
    key = KEY

    def __init__(self, block: int) -> None:
        self.block = block
        self.held: Held | None = None

    @property
    def _now(self) -> Held:
        assert self.held, "a race decides about the configs of a sweep that is running"
        return self.held

    @abstractmethod
    def ahead(self, scores: Scores, course: Course) -> Mapping[str, float]:
        """Name who is to be dropped, and by how much the best is ahead of it at least (NaN: nobody knows)."""

    @property
    @abstractmethod
    def facts(self) -> dict[str, str]:
        """What is kept with who is dropped: the "rule" and its "guarantee"."""

    def check_course(self, course: Course) -> None:
        """Refuse what cannot be raced. Raises ConfigError."""
        if not 1 <= self.block < len(course.questions):
            raise ConfigError(
                f"hydra.sweeper.race.block: must be at least 1 and less than the {len(course.questions)} questions,"
                f" given {self.block}"
            )

    def begin(self, jobs: Sequence[int]) -> Rung:
        """Say how far the first rung goes: after an interruption, as far as all have come that are still in it."""
        now = self._now
        if not now.start.costs:
            now.terminal.line("race", FREE)
            return Rung(None)
        known = now.results()
        gone = tuple(job for job in jobs if job in known and known[job].state == DROPPED)
        left = [job for job in jobs if job not in gone]
        come = [known[job].race["asked"] if job in known and known[job].state == RACING else 0 for job in left]
        whole = sum(one.state == COMPLETE for job, one in known.items() if job not in left)
        if len(left) + whole < 2:
            return Rung(None, gone)
        return Rung(self._next(now.course, max(min(come, default=0) - self.block, 0)), gone)

    def look(self, until: int, returned: Mapping[int, Any]) -> Rung:
        """Drop who need not be asked any further."""
        now = self._now
        known, asked = now.results(), now.course.first(until)
        scores = {str(job): now.scores(one, asked) for job, one in known.items()}
        running = {job for job in returned if job in known and known[job].state == RACING}  # what is whole stays so
        behind = {job: ahead for job, ahead in self.ahead(scores, now.course).items() if int(job) in running}
        for job, ahead in behind.items():
            now.drop(int(job), known[int(job)], {"ahead": ahead, **self.facts})
        rivals = [one for job, one in known.items() if str(job) not in behind and one.state in (RACING, COMPLETE)]
        self._say(now, asked, len(returned), list(behind))
        until_next = self._next(now.course, asked) if len(rivals) > 1 else None
        return Rung(until_next, tuple(map(int, behind)))

    def end(self, returned: Mapping[int, Any]) -> None:
        """Say so where nobody was dropped: what whole configs returned is in the ledger."""
        now = self._now
        now.ledger.forget_unread()
        if now.start.costs and all(one.state != DROPPED for one in now.results().values()):
            now.terminal.line("race", f"nobody was dropped so far, and no question saved; {self.facts['guarantee']}")

    def _next(self, course: Course, asked: int) -> int | None:
        """Return how far the next rung goes; None where that is all questions."""
        until = course.first(asked + self.block)
        return until if until < len(course.questions) else None

    def _say(self, now: Held, asked: int, configs: int, dropped: Sequence[str]) -> None:
        gone = f", {len(dropped)} dropped" if dropped else ""
        now.terminal.line("race", f"{asked:,} of {len(now.course.questions):,} questions · {configs} configs{gone}")


class BettingRace(Race):
    """Drop who is shown to be worse than the best, by bets that may be looked at at any time (see racing.Betting)."""

    def __init__(self, margin: float = 0.0, level: float = 0.95, block: int = 16) -> None:
        """Set up the race; arguments as of Betting."""
        super().__init__(block)
        self.margin, self.level = margin, level

    def check_course(self, course: Course) -> None:
        """Refuse what cannot be raced: a metric without bounds, a margin as large as they are apart."""
        super().check_course(course)
        if None in course.metric.bounds:
            raise ConfigError(
                f"hydra.sweeper.race: {course.metric.name} has no bounds, and cannot be raced; choose another objective"
            )
        try:
            self._rule(course).check()
        except ConfigError as fault:
            raise ConfigError(f"hydra.sweeper.race.{fault}") from None

    def ahead(self, scores: Scores, course: Course) -> Mapping[str, float]:
        """Bet against each config."""
        return self._rule(course).look(scores, course.clusters).behind

    @property
    def facts(self) -> dict[str, str]:
        """Name the rule and what it promises."""
        return {"rule": "betting", "guarantee": Betting(self.margin, self.level).guarantee}

    def _rule(self, course: Course) -> Betting:
        low, high = course.metric.bounds
        assert low is not None
        assert high is not None
        return Betting(self.margin, self.level, self.block, high - low, bool(course.metric.higher_is_better))
