"""The savings and the guarantee of a race (a sweep that drops configs early) as numbers, JSON and sentences."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ragsweep.core.plurals import percentage
from ragsweep.core.results import DROPPED, Result
from ragsweep.report.document import Statement
from ragsweep.report.naming import short
from ragsweep.report.numbers import amount

MOST_NAMED = 12

StageUsage = Mapping[str, Mapping[str, float]]
"""The usage of calls by stage (see `Summaries.usage`)."""


def race_facts(results: Sequence[Result]) -> dict[str, Any]:
    """Return the rule, guarantee and savings of a race in JSON types; {} if no config was dropped."""
    gone = dropped(results)
    if not gone:
        return {}
    facts = {"rule": gone[0].run.race["rule"], "guarantee": gone[0].run.race["guarantee"], "dropped": len(gone)}
    return {"race": {**facts, **_amounts(results)}}


def race_numbers(results: Sequence[Result]) -> dict[str, float]:
    """Return a race's known savings as metrics for the MLflow parent run; {} if no config was dropped."""
    amounts = _amounts(results) if dropped(results) else {}
    return {f"race/{name}": value for name, value in amounts.items() if math.isfinite(value)}


def _amounts(results: Sequence[Result]) -> dict[str, float]:
    found = saved(results)
    return {"questions_saved": found.questions, "calls_saved": found.calls, "money_saved": found.money}


def race_lines(results: Sequence[Result]) -> Iterator[Statement]:
    """Yield statements on the dropped configs, the savings and the guarantee; nothing if no config was dropped."""
    gone = dropped(results)
    if not gone:
        return
    yield from dropped_lines(gone[:MOST_NAMED])
    if hidden := len(gone[MOST_NAMED:]):
        yield Statement("", f"and {hidden} more; see results.csv", {"hidden": hidden})
    found, currency = saved(results), (gone[0].run.config.get("prices") or {}).get("currency", "")
    cost = ", but no calls to services, and so no money"
    if found.needed:
        known = found.money and math.isfinite(found.money)
        money = f" and {currency} {found.money:.2f}".replace("  ", " ") if known else ""
        cost = f", about {found.calls:,.0f} of {found.needed:,.0f} calls{money}"
    share = found.questions / found.of
    text = f"saved {found.questions:,} of {found.of:,} questions ({percentage(share)}){cost}"
    yield Statement("race", text, found._asdict())
    yield Statement("", f"{gone[0].run.race['rule']}: {gone[0].run.race['guarantee']}")


def dropped_lines(results: Sequence[Result]) -> Iterator[Statement]:
    """Yield a statement on each config that a race dropped."""
    for result in dropped(results):
        asked, of, ahead = (result.run.race[key] for key in ("asked", "of", "ahead"))
        behind = f"; the best is ahead by at least {amount(ahead)}" if math.isfinite(ahead) else ""
        yield Statement(
            "dropped", f"{short(result.name)}: after {asked:,} of {of:,} questions{behind}", result.run.race
        )


class Saved(NamedTuple):
    """The evaluations of questions, the calls and the money (NaN if unknown) that a race saves.

    ``of`` is the number of evaluations without a race: the number of questions times the number of configs. Calls and
    money are extrapolated from the evaluated questions of each dropped config to its other questions. Calls to an
    external system are left out, because it answers all questions in any case. ``needed`` is the number of calls that
    the sweep would need without a race.
    """

    questions: int
    of: int
    calls: float
    needed: float
    money: float


def dropped(results: Sequence[Result]) -> list[Result]:
    """Return the results of the configs that a race dropped."""
    return [result for result in results if result.run.state == DROPPED]


def saved(results: Sequence[Result]) -> Saved:
    """Compute the savings of a race from the results of all its configs; at least one result is required."""
    gone, questions = dropped(results), results[0].run.dataset.questions
    rest = [(one, one.run.race["of"] / one.run.race["asked"] - 1) for one in gone if one.run.race["asked"]]
    usages = [(_savable(one), more) for one, more in rest]
    calls = sum(_spent(usage, "calls") * more for usage, more in usages)
    money = sum(_spent(usage, "money") * more for usage, more in usages if _spent(usage, "calls"))
    needed = sum(_spent(one.summaries.usage, "calls") for one in results)
    needed += sum(_spent(one.summaries.usage, "calls") * more for one, more in rest)
    left = sum(one.run.race["of"] - one.run.race["asked"] for one in gone)
    return Saved(left, questions * len(results), calls, needed, money)


def _savable(result: Result) -> StageUsage:
    """Return the usage that a race can save, by stage; an external system answers all questions in the first rung."""
    external = result.run.parameters.get("system", "pipeline") != "pipeline"
    return {stage: usage for stage, usage in result.summaries.usage.items() if not (external and stage == "generate")}


def _spent(usages: StageUsage, what: str) -> float:
    """Add up the ``calls`` or the ``money`` of all stages; the money is NaN if it is partly unknown."""
    unknown = 0.0 if what == "calls" else math.nan
    return float(sum(usage.get(what, unknown) for usage in usages.values() if usage.get("calls")))
