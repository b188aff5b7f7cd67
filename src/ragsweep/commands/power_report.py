"""The documents of ``ragsweep power``: the differences that a golden set, or a planned one, can detect."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragsweep.core.plurals import counted, percentage
from ragsweep.core.results import Result
from ragsweep.report.document import Document, Section, Statement, Table, lines, notes
from ragsweep.report.numbers import amount
from ragsweep.report.tables import Row, log_table, weighted_note
from ragsweep.stats.calibration import Noise
from ragsweep.stats.comparable import factors
from ragsweep.stats.inference.estimates import LEVEL, POWER
from ragsweep.stats.inference.planning import CORRELATION, Design, Planned, independent_questions
from ragsweep.sweep.concluding.recorded_runs import RecordedRun

FORMAT = "ragsweep.power/1"
PLAN_FORMAT = "ragsweep.power_plan/1"
GUARDED_BELOW = 100
FEW_CLUSTERS = (
    f"with fewer than {GUARDED_BELOW} source documents, a config that is worse on very few questions is called better"
    " only if the difference is 1.2 times (60 documents, two configs) to 1.8 times (30 documents) the stated value"
)
"""Measured by ``benchmarks/planted.py --part power``."""

REPEATED = (".replicate", ".seed", ".random_seed")


def is_repeat(first: Result, second: Result) -> bool:
    """Return whether two results are repetitions of one config: they differ, but only in replicates or seeds."""
    differing = factors(first, second)
    return bool(differing) and all(factor.name.endswith(REPEATED) for factor in differing)


def _contrast(first: Result, second: Result) -> str:
    """Return why ``second`` is not a repetition of ``first``."""
    differing = [factor.name for factor in factors(first, second) if not factor.name.endswith(REPEATED)]
    if differing:
        return f"it also differs in {', '.join(differing)}"
    return "it has the same replicate and seed, so stored answers and verdicts are the same"


def power_document(
    runs: Sequence[RecordedRun],
    repeats: Sequence[RecordedRun],
    rows: Sequence[Row],
    noise: Mapping[str, Sequence[Noise]],
    configs: int,
    siblings: Mapping[str, int],
) -> Document:
    """Build the report on the differences that a golden set can detect, given the scores of one or two configs.

    ``rows`` has one row per metric, and ``noise`` maps each metric to the noise between each repetition and the run
    before it. ``siblings`` maps each metric to the number of configs that the runs' common sweep compares by this
    metric. The number is 0 if the runs have no common sweep, or if ``--configs`` is given. ``configs`` is the number of
    configs that are compared with one reference.
    """
    result = runs[0].result
    named = " and ".join(map(str, runs))
    count = {"questions": result.run.dataset.questions}
    head = [
        Statement(
            "power", f'"{result.run.dataset.name}", {counted(result.run.dataset.questions, "question")}: {named}', count
        )
    ]
    head += [Statement("", weighted)] if (weighted := weighted_note(result)) else []
    head += [_assumed("this run's")] if len(runs) == 1 else []
    warnings = [
        f"{run} is not a repetition: {_contrast(result, run.result)}"
        for run in repeats
        if not is_repeat(result, run.result)
    ]
    head += [Statement("warning", warning) for warning in warnings]
    cells = [_cells(row, _compared(siblings[row["metric"]], configs)) for row in rows]
    table = Table(("metric", "detectable", "needed", "questions"), cells, headed=False)
    units = {row["metric"]: row["unit"] for row in rows}
    moved = [
        Statement("noise", f"{metric}: {_noise_text(floor, units[metric])}", floor._asdict())
        for metric, floors in noise.items()
        for floor in floors
    ]
    if not repeats:
        unknown = "not measured: name repetitions (another replicate or seed) with --repeat"
        if not (result.summaries.usage or "answer" in result.questions):
            unknown = "none: no stage of this config is random, so a repetition has the same scores"
        moved.append(Statement("noise", unknown))
    more = {"repeats": [run.run for run in repeats], "weighted": weighted, "warnings": warnings}
    facts = _facts(FORMAT, runs, configs, rows) | more
    return Document("Power", [Section([lines(head), table, notes(moved)])], facts)


def _facts(form: str, runs: Sequence[RecordedRun], configs: int, rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "format": form,
        "runs": [run.run for run in runs],
        "power": POWER,
        "confidence_level": LEVEL,
        "configs": configs,
        "assumed_correlation": CORRELATION if len(runs) == 1 else None,
        "table": log_table(rows),
    }


def _assumed(what: str) -> Statement:
    text = (
        f"another config's scores vary as much as {what} and correlate with them at {CORRELATION}; name a second run"
        " to measure both"
    )
    return Statement("assumed", text, {"correlation": CORRELATION})


def _compared(siblings: int, configs: int) -> str:
    if siblings:
        return f"the {siblings} configs of the sweep" if siblings > 2 else ""
    return f"{configs} configs compared with one" if configs > 1 else ""


def _cells(row: Row, compared: str) -> list[str]:
    unit = row["unit"]
    if row["note"]:
        return [row["metric"], row["note"], "", ""]
    alone, least = (_least(row[key], unit, row["ratios"]) for key in ("detectable_alone", "detectable"))
    alone = "" if math.isnan(row["detectable_alone"]) else f"; between only two configs, {alone} or more"
    shown = "no simulated difference" if math.isnan(row["detectable"]) else f"differences of {least} or more"
    needed = f"{row['questions_needed']:,}" if row["questions_needed"] else "unknown how many"
    clusters = f" in {row['clusters']:,} clusters" if row["clusters"] != row["questions"] else ""
    return [
        row["metric"],
        f"detects {shown}" + (f" among {compared}{alone}" if compared else ""),
        f"to detect {_size(row['effect'], unit)}: {needed} questions",
        f"has {row['questions']:,}{clusters}",
    ]


def _size(value: float, unit: str) -> str:
    return f"{amount(value, unit)}{f' {unit}' if unit else ''}"


def _least(value: float, unit: str, ratios: bool) -> str:
    return f"{amount(100 * value, '%')} %" if ratios else _size(value, unit)


def _noise_text(noise: Noise, unit: str) -> str:
    if math.isnan(noise.spread):
        return f"both runs scored {counted(noise.n, 'question')}; two are required"
    return (
        f"means that differ by less than {_size(noise.of_the_mean, unit)} are indistinguishable from chance in one"
        f" run; {percentage(noise.changed)} of {noise.n:,} questions changed"
    )


def plan_document(
    runs: Sequence[RecordedRun], design: Design, planned: Sequence[Planned], rows: Sequence[Row], price: float | None
) -> Document:
    """Build the document of the differences that a planned golden set could show.

    ``rows`` has one row per metric and kind of change; ``price`` is the cost of annotating one question, in euros.
    """
    facts = _facts(PLAN_FORMAT, runs, design.comparisons, rows)
    table = Table(("metric", "change", "detectable", "needed"), [_plan_cells(row) for row in rows], headed=False)
    varied = [one for one in planned if max(one.variation.spreads.values()) > 0]
    clusters = [Statement("clusters", _clusters_text(one, design)) for one in varied]
    return Document("Plan", [Section([notes(_plan_statements(runs, design, price)), table, notes(clusters)])], facts)


def _plan_statements(runs: Sequence[RecordedRun], design: Design, price: float | None) -> Iterator[Statement]:
    cost = "" if price is None else f", {price * design.questions:,.0f} euros of annotation"
    compared = f"; {design.comparisons} configs are compared with one" if design.comparisons > 1 else ""
    sources = f"{design.questions:,} questions from {design.clusters:,} source documents"
    yield Statement("plan", f"{sources}{cost}{compared}", design._asdict())
    if design.clusters < GUARDED_BELOW:
        yield Statement("note", FEW_CLUSTERS, {"clusters": design.clusters})
    if not runs:
        text = "medians of five collections (docs/measurements.md); your own pilot RUN would be better"
        yield Statement("measured", text)
        return
    yield Statement("pilot", " and ".join(map(str, runs)))
    if len(runs) == 1:
        yield _assumed("the pilot's")


def _plan_cells(row: Row) -> list[str]:
    unit, needed = row["unit"], row["questions_needed"]
    if not row["spread"] > 0:
        why = "the pilot's differences do not vary, so no number of questions can be planned"
        return [row["metric"], row["change"], why, ""]
    cost = "" if row["cost_needed"] is None else f", {row['cost_needed']:,.0f} euros"
    sources = f" from {row['clusters_needed']:,} documents" if needed != row["clusters_needed"] else ""
    count = f"{needed:,}" if needed else "unknown how many"
    least = f"shows differences of {_least(row['detectable'], unit, row['ratios'])} or more"
    wanted = f"to show {_size(row['effect'], unit)}: {count} questions{sources}{cost}"
    return [row["metric"], row["change"], least, wanted]


def _clusters_text(one: Planned, design: Design) -> str:
    """State how many independent questions have the same power as the planned questions, for one metric."""
    correlation = one.variation.correlation
    if design.clusters == design.questions:
        return f"{one.metric}: one question per source document (two would correlate at {amount(correlation)})"
    count = independent_questions(correlation, design)
    single = design._replace(clusters=design.questions)
    alone = ", ".join(
        f"{_least(one.detectable(spread, single), one.unit, one.mean is not None)} ({kind})"
        for kind, spread in one.variation.spreads.items()
    )
    return (
        f"{one.metric}: differences within a source document correlate at {amount(correlation)}, so these questions"
        f" count as {count:,.0f} independent ones; one question per document would show {alone}"
    )
