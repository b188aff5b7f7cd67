"""The content of a sweep's page: texts, tables, charts and questions."""

import math
from collections.abc import Iterator
from itertools import chain, starmap

from ragsweep.core.plurals import part_shown
from ragsweep.core.results import objectives
from ragsweep.report.choice import WORDS, bounds
from ragsweep.report.document import (
    Block,
    Charts,
    Document,
    Section,
    Statement,
    Statements,
    Table,
    Widget,
    chart,
    lines,
    notes,
)
from ragsweep.report.naming import first_names, varying_keys
from ragsweep.report.numbers import cell
from ragsweep.report.page import charts, details
from ragsweep.report.page.costs import embedder_items, index_items
from ragsweep.report.page.effects import effect_items
from ragsweep.report.page.figures import is_known
from ragsweep.report.page.losses import funnel_items, fusion_items
from ragsweep.report.page.questions import browse
from ragsweep.report.page.view import PageView
from ragsweep.report.sweep_document import (
    TUNED,
    conclusion_statements,
    define,
    has_difference_intervals,
)
from ragsweep.report.sweep_report import SweepReport
from ragsweep.report.sweep_table import sweep_table, unlabelled_note
from ragsweep.report.tables import count_scored, counts_range, evidence_note, moment

FORMAT = "ragsweep.report/1"
MOST_SLICED = 20
MOST_BOXES = 3
MOST_NAMED = 6


def page_document(report: SweepReport) -> Document:
    """Build the document of a sweep's page."""
    view = PageView(report)
    varying = varying_keys(list(view.settings.values()))
    costs = index_items(view.best_first, varying, view.metric), embedder_items(view.best_first, view.metric)
    parts = (
        ("asked", "What was asked", _asked(view)),
        ("result", "What was found", _result(report)),
        ("configs", "Configs", _configs(view)),
        ("differences", "Differences", _differences(view)),
        ("quality", "Quality against cost", _quality(view)),
        ("effects", "Effects", chain(effect_items(view), *costs)),
        ("slices", "Slices", _slices(view)),
        ("losses", "Where the evidence was lost", funnel_items(list(view.funnels.values()), len(view.best_first))),
        ("fusion", "Fusion audit", fusion_items(view.sorted(view.chosen), view.metric)),
        ("questions", "Questions", _questions(view)),
        ("history", "History", _history(view)),
        ("details", "Details", _details(view)),
    )
    sections = [Section(list(blocks), title, key) for key, title, blocks in parts]
    return Document(report.title, sections, {"format": FORMAT})


def _asked(view: PageView) -> Iterator[Block]:
    if not view.results:
        return
    first, facts = view.results[0], [("Swept", view.swept or "one config")]
    dataset, names = first.run.dataset, objectives(first.run.config)
    part = "" if dataset.partition == "all" else f", partition {dataset.partition}"
    datasets = [one.run.dataset for one in view.results]
    named = ", ".join(dict.fromkeys(one.name for one in datasets))
    facts.append(("Questions", f"{named}{part}: {evidence_note(*datasets)}"))
    facts.append(("Documents", counts_range(one.documents for one in datasets)))
    facts += [("Note", note) for note in dataset.notes if all(note in one.notes for one in datasets)]
    facts += [("Objective", ", then ".join(names))] if names else []  # another metric may decide instead
    if view.compared:
        declared, names = view.compared.baseline, view.compared.matrix.configs
        out = (one for one in view.compared.left_out if one.name == view.compared.declared)
        unused = (f"{name}, which is not compared: {why}" for name, why in out)
        none = next(unused, "none is declared; baseline=RUN declares one")
        facts.append(("Baseline", none if declared is None else names[declared]))
    given = first.run.config.get("constraints") or {}
    limits = {name: limit for name, limit in given.items() if limit is not None}
    facts += [("Constraints", bounds(limits))] if limits else []
    facts += [("Search", f"{view.report.sampler}, {len(view.report.results):,} configs")] if view.report.sampler else []
    started = min((one.run.started for one in view.report.shown), default=0.0)
    if started:
        facts.append(("Run", moment(started)))
    yield lines(starmap(Statement, facts))


def _result(report: SweepReport) -> Iterator[Block]:
    yield conclusion_statements(report)
    yield Statements(report.commands, "commands", "Next")
    yield notes(report.notes)


def _quality(view: PageView) -> Iterator[Block]:
    options = []
    for cost, words in WORDS.items():
        scored = (one.summaries.metrics for one in view.best_first if is_known(one, view.metric))
        values = {metrics[cost].value for metrics in scored if cost in metrics}
        if sum(map(math.isfinite, values)) > 1:
            figure = charts.quality_against(view.best_first, view.metric, cost, view.roles)
            options.append({"label": words, "figure": figure})
    if options:
        yield Charts(
            options,
            "Each point is a config, and each bar is its 95 % interval. The dotted line joins the configs"
            " that no other beats in both quality and cost.",
        )


def _configs(view: PageView) -> Iterator[Block]:
    if not view.results:
        return
    found = view.report.conclusion.comparison
    table = sweep_table(view.results, view.headline, found, view.choice, 10_000, len(view.results))
    header = [name.removeprefix(">") for name in table.header]
    note = "Values in brackets are 95 % intervals." if table.has_intervals else ""
    if has_difference_intervals(table, view.compared):
        note = f"Values in brackets are 95 % intervals; those of {header[-2]} hold for all configs together."
    note += f" {TUNED}." if view.report.conclusion.finals else ""
    yield Table(
        table.header,
        table.rows,
        note,
        values=[
            [one.summaries.metrics[name].value if is_known(one, name) else None for name in header]
            for one in table.shown
        ],
        marked=[one.name == view.choice for one in table.shown],
    )
    if meanings := define(view.results, [view.metric, *view.headline, *WORDS]):
        yield Statements([*starmap(Statement, meanings.items())], "definitions")


def _differences(view: PageView) -> Iterator[Block]:
    found = view.compared
    if not found or not found.differences.apart.any():
        return
    best_set = set(view.report.conclusion.best_set)
    kept = [one.name for one in view.best_first if one.name in best_set]
    named = first_names(kept, MOST_NAMED)
    several = f"{len(kept):,} of {len(found.matrix.configs):,} configs may be the best: {named}."
    sure = "With 95 % confidence, the best is among them."
    any_of_them = f"Any of the {len(kept):,} configs may be the best."
    text = any_of_them if len(kept) == len(found.matrix.configs) else f"{several} {sure}"
    rival = found.choice.runner_up  # a high probability may seem to contradict the note
    if rival and math.isfinite(rival.probability) and len(kept) > 1 and len(found.matrix.configs) > 2:
        text += " All pairs are compared simultaneously, whereas a posterior probability compares only two configs."
    yield notes(Statement("", text, {"configs": kept}))
    note = (
        "Bars are simultaneous 95 % intervals. Filled points may be the best config; for hollow points,"
        " another config is shown to be better."
    )
    note += part_shown(charts.MOST_BARS, len(found.matrix.configs), which="The best")
    yield chart(charts.differences(found, view.choice), note)


def _slices(view: PageView) -> Iterator[Block]:
    others = [one for one in view.best_first if one not in view.chosen]
    shown = view.sorted([*view.chosen, *others][:MOST_SLICED])
    every = dict.fromkeys(label for one in shown for label in one.summaries.groups)  # labels may differ between configs
    labels = [label for label in every if sum(map(bool, count_scored(shown, label, view.metric).values())) > 1]
    if not labels:
        return
    note = (
        f"Mean {view.metric} of each config in each slice; n is the number of scored questions."
        f" Small slices can show only large differences.{part_shown(len(shown), len(view.best_first))}"
    )
    charted = [(label, charts.slices(shown, label, view.metric), unlabelled_note(shown, label)) for label in labels]
    options = [{"label": label, "figure": drawn, "note": f"{note} {lack}".strip()} for label, drawn, lack in charted]
    yield Charts(options, note)
    few = [one for one in view.chosen[:MOST_BOXES] if view.metric in one.questions]
    boxed = {label: having for label in labels if (having := [one for one in few if label in one.questions])}
    if boxed:
        note = f"The spread of {view.metric} over the questions. Dashed: the {charts.mean_in_boxes(few)}."
        yield Charts([charts.boxes_option(some, label, view.metric, note) for label, some in boxed.items()], note)


def _questions(view: PageView) -> Iterator[Block]:
    if view.chosen and view.metric in view.chosen[0].questions:
        asked = view.chosen[0].run.dataset.golden_digest
        # In another golden set, the same id may denote another question.
        alike = [one for one in view.chosen if one.run.dataset.golden_digest == asked]
        found = browse(alike, view.metrics, view.roles, view.funnels, view.report.texts)
        omitted = part_shown(len(alike), len(view.best_first))
        omitted += " Configs with other questions are left out." if len(alike) < len(view.chosen) else ""
        yield Widget({**found, "leftOut": f"{found['leftOut']}{omitted}".strip()})


def _history(view: PageView) -> Iterator[Block]:
    past = view.report.history
    if len(past) < 2:
        return
    note = (
        f"The best config of each sweep on these questions, by its mean {view.metric}; bars are 95 % intervals."
        " Everything but the questions may have changed, and the best of several means is biased upwards."
    )
    yield chart(charts.history(past, view.metric), note)
    header = ["sweep", "when", "swept", ">configs", "best mean", f">{view.metric}"]
    rows = [
        [one.reference, moment(one.created), one.title, f"{one.configs:,}", one.best, cell(one.summary)]
        for one in past[::-1]
    ]
    yield Table(header, rows)


def _details(view: PageView) -> Iterator[Block]:
    yield from details.histogram_items(view.chosen)
    yield from details.targets(view.chosen, view.omission)
    yield from details.coverage(view.results, view.metrics)
    if view.report.failures:
        yield Table(["config", "error"], [[one.name, one.error] for one in view.report.failures], "", "Failures")
    if view.compared and view.compared.left_out:
        yield Table(["config", "why"], list(view.compared.left_out), "", "Not compared")
    yield from details.latency(view.chosen, view.omission)
    yield from details.environment(view.report.shown)
