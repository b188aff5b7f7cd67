"""The savings of a race, computed from the records of its configs."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from ragsweep.core.results import DROPPED, Result, Summaries


class Saved(NamedTuple):
    """The questions, calls and money (NaN if unknown) that a race saves.

    ``of`` is the number of questions times the number of configs. Calls and money are extrapolated from the evaluated
    questions of each dropped config to its other questions. ``needed`` is the number of calls that the sweep would
    need without a race.
    """

    questions: int
    of: int
    calls: float
    needed: float
    money: float


def dropped(results: Sequence[Result]) -> list[Result]:
    """List the configs that a race has dropped."""
    return [result for result in results if result.run.state == DROPPED]


def saved(results: Sequence[Result]) -> Saved:
    """Compute the savings of a race from the results of all its configs."""
    gone, questions = dropped(results), results[0].run.dataset.questions
    rest = [(one, one.run.race["of"] / one.run.race["asked"] - 1) for one in gone if one.run.race["asked"]]
    calls = sum(_spent(one.summaries, "calls") * more for one, more in rest)
    money = sum(_spent(one.summaries, "money") * more for one, more in rest if _spent(one.summaries, "calls"))
    needed = sum(_spent(one.summaries, "calls") for one in results) + calls
    left = sum(one.run.race["of"] - one.run.race["asked"] for one in gone)
    return Saved(left, questions * len(results), calls, needed, money)


def _spent(summaries: Summaries, what: str) -> float:
    """Sum the ``calls`` or the ``money`` of all stages of a result; money is NaN if partly unknown."""
    unknown = 0.0 if what == "calls" else math.nan
    return float(sum(usage.get(what, unknown) for usage in summaries.usage.values() if usage.get("calls")))
