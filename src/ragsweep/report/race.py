"""Report a race's savings and its guarantee."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ragsweep.core.results import DROPPED, Result
from ragsweep.report.naming import short
from ragsweep.report.numbers import number

MOST_NAMED = 12


class Saved(NamedTuple):
    """Savings of a race: questions (of all questions times configs), calls, and money; NaN where unknown.

    Calls and money extrapolate the cost of the evaluated questions to the others. ``needed`` is the number of calls
    without a race.
    """

    questions: int
    of: int
    calls: float
    needed: float
    money: float


def dropped(results: Sequence[Result]) -> list[Result]:
    """List the configs that a race has dropped."""
    return [result for result in results if result.state == DROPPED]


def saved(results: Sequence[Result]) -> Saved:
    """Sum a race's savings from its records."""
    gone, questions = dropped(results), results[0].dataset.questions
    rest = [(one, one.race["of"] / one.race["asked"] - 1) for one in gone if one.race["asked"]]
    calls = sum(_spent(one, "calls") * more for one, more in rest)
    money = sum(_spent(one, "money") * more for one, more in rest if _spent(one, "calls"))
    needed = sum(_spent(one, "calls") for one in results) + calls
    left = sum(one.race["of"] - one.race["asked"] for one in gone)
    return Saved(left, questions * len(results), calls, needed, money)


def race_facts(results: Sequence[Result]) -> dict[str, Any]:
    """Return a race's savings as facts of the sweep; none if no config was dropped."""
    gone = dropped(results)
    if not gone:
        return {}
    facts = {"rule": gone[0].race["rule"], "guarantee": gone[0].race["guarantee"], "dropped": len(gone)}
    return {"race": {**facts, **_amounts(results)}}


def race_numbers(results: Sequence[Result]) -> dict[str, float]:
    """Return a race's savings as metrics of the parent run."""
    amounts = _amounts(results) if dropped(results) else {}
    return {f"race/{name}": value for name, value in amounts.items() if math.isfinite(value)}


def _amounts(results: Sequence[Result]) -> dict[str, float]:
    found = saved(results)
    return {"questions_saved": found.questions, "calls_saved": found.calls, "money_saved": found.money}


def race_lines(results: Sequence[Result]) -> Iterator[tuple[str, str]]:
    """Yield the dropped configs, the savings, and the guarantee; nothing if none was dropped."""
    gone = dropped(results)
    if not gone:
        return
    for result in gone[:MOST_NAMED]:
        asked, of, ahead = (result.race[key] for key in ("asked", "of", "ahead"))
        behind = f"; the best is ahead by {number(ahead)} at least" if math.isfinite(ahead) else ""
        yield "dropped", f"{short(result.name)}: after {asked:,} of {of:,} questions{behind}"
    if len(gone) > MOST_NAMED:
        yield "", f"and {len(gone) - MOST_NAMED} more; see results.csv"
    found, currency = saved(results), (gone[0].config.get("prices") or {}).get("currency", "")
    cost = "; none of them is a call to a service, so that it saved no money"
    if found.needed:
        known = found.money and math.isfinite(found.money)
        money = f" and {currency} {found.money:.2f}".replace("  ", " ") if known else ""
        cost = f", about {found.calls:,.0f} of {found.needed:,.0f} calls{money}"
    share = found.questions / found.of
    yield "race", f"saved {found.questions:,} of {found.of:,} questions ({share:.0%}){cost}"
    yield "", f"{gone[0].race['rule']}: {gone[0].race['guarantee']}"


def _spent(result: Result, what: str) -> float:
    """Sum the cost of a result's answers and verdicts; money is NaN where a part is unknown."""
    unknown = 0.0 if what == "calls" else math.nan
    return float(sum(usage.get(what, unknown) for usage in result.usage.values() if usage.get("calls")))
