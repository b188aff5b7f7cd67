"""The savings and the guarantee of a race, as facts and sentences."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ragsweep.core.plurals import percentage
from ragsweep.core.results import Result
from ragsweep.report.document import Statement
from ragsweep.report.naming import short
from ragsweep.report.numbers import number
from ragsweep.stats.race_savings import dropped, saved

MOST_NAMED = 12


def race_facts(results: Sequence[Result]) -> dict[str, Any]:
    """Return a race's rule, guarantee and savings as facts of the sweep; empty if no config was dropped."""
    gone = dropped(results)
    if not gone:
        return {}
    facts = {"rule": gone[0].run.race["rule"], "guarantee": gone[0].run.race["guarantee"], "dropped": len(gone)}
    return {"race": {**facts, **_amounts(results)}}


def race_numbers(results: Sequence[Result]) -> dict[str, float]:
    """Return a race's known savings as metrics of the MLflow parent run; empty if no config was dropped."""
    amounts = _amounts(results) if dropped(results) else {}
    return {f"race/{name}": value for name, value in amounts.items() if math.isfinite(value)}


def _amounts(results: Sequence[Result]) -> dict[str, float]:
    found = saved(results)
    return {"questions_saved": found.questions, "calls_saved": found.calls, "money_saved": found.money}


def race_lines(results: Sequence[Result]) -> Iterator[Statement]:
    """Yield the dropped configs, the savings, and the guarantee; nothing if no config was dropped."""
    gone = dropped(results)
    if not gone:
        return
    for result in gone[:MOST_NAMED]:
        asked, of, ahead = (result.run.race[key] for key in ("asked", "of", "ahead"))
        behind = f"; the best is ahead by at least {number(ahead)}" if math.isfinite(ahead) else ""
        yield Statement(
            "dropped", f"{short(result.name)}: after {asked:,} of {of:,} questions{behind}", result.run.race
        )
    if hidden := len(gone[MOST_NAMED:]):
        yield Statement("", f"and {hidden} more; see results.csv", {"hidden": hidden})
    found, currency = saved(results), (gone[0].run.config.get("prices") or {}).get("currency", "")
    cost = ", but no calls to services and so no money"
    if found.needed:
        known = found.money and math.isfinite(found.money)
        money = f" and {currency} {found.money:.2f}".replace("  ", " ") if known else ""
        cost = f", about {found.calls:,.0f} of {found.needed:,.0f} calls{money}"
    share = found.questions / found.of
    text = f"saved {found.questions:,} of {found.of:,} questions ({percentage(share)}){cost}"
    yield Statement("race", text, found._asdict())
    yield Statement("", f"{gone[0].run.race['rule']}: {gone[0].run.race['guarantee']}")
