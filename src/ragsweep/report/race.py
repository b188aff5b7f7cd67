"""Report what a race saved, and its guarantee."""

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

    Calls and money are what the questions that were asked have cost, carried on over those that were not. ``needed``
    is what all calls would have been.
    """

    questions: int
    of: int
    calls: float
    needed: float
    money: float


def dropped(results: Sequence[Result]) -> list[Result]:
    """List the configs that a race has dropped."""
    return [one for one in results if one.state == DROPPED]


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
    """Return a race's savings as facts of the sweep; none where no config was dropped."""
    gone = dropped(results)
    if not gone:
        return {}
    told = {"rule": gone[0].race["rule"], "guarantee": gone[0].race["guarantee"], "dropped": len(gone)}
    return {"race": {**told, **{f"{name}_saved": value for name, value in _amounts(saved(results)).items()}}}


def race_numbers(results: Sequence[Result]) -> dict[str, float]:
    """Return a race's savings as metrics of the parent run."""
    if not dropped(results):
        return {}
    return {f"race/{name}_saved": value for name, value in _amounts(saved(results)).items() if math.isfinite(value)}


def race_lines(results: Sequence[Result]) -> Iterator[tuple[str, str]]:
    """Yield the dropped configs, the savings, and the guarantee; nothing where none was dropped."""
    gone = dropped(results)
    if not gone:
        return
    for one in gone[:MOST_NAMED]:
        ahead = one.race["ahead"]
        behind = f"; the best is ahead by {number(ahead)} at least" if math.isfinite(ahead) else ""
        yield "dropped", f"{short(one.name)}: after {one.race['asked']:,} of {one.race['of']:,} questions{behind}"
    if len(gone) > MOST_NAMED:
        yield "", f"and {len(gone) - MOST_NAMED} more; see results.csv"
    prices = gone[0].config.get("prices") or {}
    yield "race", _said(saved(results), prices.get("currency", ""))
    yield "", f"{gone[0].race['rule']}: {gone[0].race['guarantee']}"


def _said(found: Saved, currency: str) -> str:
    asked = f"saved {found.questions:,} of {found.of:,} questions ({found.questions / found.of:.0%})"
    if not found.needed:
        return f"{asked}; none of them is a call to a service, so that it saved no money"
    money = (
        f" and {currency} {found.money:.2f}".replace("  ", " ") if found.money and math.isfinite(found.money) else ""
    )
    return f"{asked}, about {found.calls:,.0f} of {found.needed:,.0f} calls{money}"


def _amounts(found: Saved) -> dict[str, float]:
    return {"questions": found.questions, "calls": found.calls, "money": found.money}


def _spent(result: Result, what: str) -> float:
    """Sum the cost of a result's answers and verdicts; money is NaN where a part is unknown."""
    unknown = 0.0 if what == "calls" else math.nan
    return float(sum(one.get(what, unknown) for one in result.usage.values() if one.get("calls")))
