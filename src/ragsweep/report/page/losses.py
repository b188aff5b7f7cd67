"""Losses of evidence and effects of fusion on the page: charts, tables and sentences."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle

from ragsweep.core.plurals import part_shown
from ragsweep.core.results import Result
from ragsweep.report.document import Block, Charts, Statement, Statements, Table, chart
from ragsweep.report.evidence_losses import PASSED, audit_sentences, funnel_sentences
from ragsweep.report.naming import short
from ragsweep.report.numbers import number, with_interval
from ragsweep.report.page.figures import (
    ACCENT,
    FRAME,
    INK,
    MUTED,
    ROW,
    TOP_DOWN,
    Figure,
    as_list,
    lines,
    literal,
    marker,
    scatter,
    titled,
)
from ragsweep.stats import funnel as stages
from ragsweep.stats.audits import FusionAudit, LegComparison
from ragsweep.stats.funnel import STAGES, Funnel, StageLoss
from ragsweep.stats.fusion_audit import audited_metrics, fusion_audit
from ragsweep.stats.verdict import shown_kind

MOST_HYBRIDS = 4
MOST_PHANTOMS = 10
"""Maximum number of listed phantom hits per config."""

FUNNEL = (
    "Each bar represents all evidence. A piece of evidence that is not in the context is counted at the first"
    " stage that lost it."
)
AUDIT = (
    "The fused ranking against each of its legs alone, at the same top_k and before any reranking. Where a grey symbol"
    " is right of the diamond, that leg alone scores higher."
)
UNIQUE = "Evidence that one leg alone has within top_k, and how much of it the fused ranking keeps there."


def funnel_items(funnels: Sequence[Funnel], configs: int) -> Iterator[Block]:
    """Yield blocks on the losses by stage, the effects of changing single stages, and phantom hits.

    ``configs`` is the number of configs, including those without a funnel.
    """
    if not funnels:
        return
    yield chart(losses(funnels), FUNNEL + part_shown(len(funnels), configs))
    stages = [stage for stage in STAGES if any(part.stage == stage for one in funnels for part in one.stages)]
    rows = []
    for one in funnels:
        parts = {part.stage: part for part in one.stages}
        rows.append([one.config, *(_left(parts.get(stage)) for stage in stages)])
    header = ["config", *(f">{PASSED[stage]}" for stage in stages)]
    if any(one.solved or one.unsolved for one in funnels):
        header.append(">solved, of the questions with all evidence")
        for row, one in zip(rows, funnels, strict=True):
            row.append(f"{one.solved:,} of {one.solved + one.unsolved:,}")
    yield Table(header, rows, "Evidence left after each stage and, in brackets, evidence lost by this stage.")
    changes = [Statement(one.config, " ".join(funnel_sentences(one))) for one in funnels]
    if changes := [one for one in changes if one.text]:
        yield Statements(changes, title="Effects of changing one stage, computed from the stored rankings")
    phantoms = [
        [one.config, hit.question, hit.chunk, number(hit.score), number(hit.usual)]
        for one in funnels
        for hit in one.phantoms[:MOST_PHANTOMS]
    ]
    if phantoms:
        note = "Irrelevant chunks that a reranker put first with a score above the median of relevant first chunks."
        note += part_shown(len(phantoms), sum(len(one.phantoms) for one in funnels), "phantom hits")
        yield Table(["config", "question", "chunk", ">score", ">usual"], phantoms, note, "Phantom hits")


def _left(part: StageLoss | None) -> str:
    return "" if part is None else f"{part.left:,}{f' (-{part.lost:,})' if part.lost else ''}"


def fusion_items(results: Sequence[Result], metric: str) -> Iterator[Block]:
    """Yield comparisons of up to four hybrids with their legs: charts, and tables of scores and unique evidence.

    Yield nothing if there are no hybrids.
    """
    # if the legs have no scores of this metric, the first metric with scores is compared
    audits = (fusion_audit(one, metric if metric in audited_metrics(one) else None) for one in results)
    found = _merge_equal(filter(None, audits))[:MOST_HYBRIDS]
    if not found:
        return
    options = [
        {"label": one.config, "figure": legs(one), "note": f"{' '.join(audit_sentences(one))} {AUDIT}"} for one in found
    ]
    yield Charts(options)
    rows = []
    for audit in found:
        for one in known_parts(audit):
            where = f"{one.label} {one.value}" if one.label else "all"
            scores = [number(one.hybrid), number(one.alone), with_interval(one.difference, one.low, one.high)]
            kind = shown_kind(one.better, one.worse, one.wins == one.losses == 0)
            counts = f"{one.wins:,}", f"{one.losses:,}"
            rows.append([audit.config, where, one.leg, f"{one.questions:,}", *scores, *counts, kind])
    means = [f">{found[0].metric} fused", ">leg alone", ">fused minus leg"]
    header = ["config", "questions of", "leg", ">n", *means, ">gain", ">lose", ""]
    note = (
        "Brackets: 95 % intervals that hold for all legs (and slices) of a config. Gain, lose: questions on which the"
        " fused ranking scores higher or lower than the leg. Slices with too few questions to judge are left out."
        " Open: the interval contains 0, no exact test confirms the difference, or a rare loss could undo it. Configs"
        " with the same numbers share their rows."
    )
    yield Table(header, rows, note, "Fused against each leg")
    unique = [[one.config, part.leg, f"{part.evidences:,}", f"{part.kept:,}"] for one in found for part in one.unique]
    yield Table(["config", "leg", ">only this leg has", ">fusion keeps"], unique, UNIQUE, "Unique recall")


def _merge_equal(audits: Iterable[FusionAudit]) -> list[FusionAudit]:
    """Merge audits that differ only in the config into one audit, which names all the configs."""
    merged: dict[str, list[FusionAudit]] = {}
    for one in audits:
        merged.setdefault(repr(replace(one, config="")), []).append(one)
    return [
        replace(first, config=", ".join([first.config, *(one.config.partition(" ")[0] for one in others)]))
        for first, *others in merged.values()
    ]


LEG_SYMBOLS = ("circle", "circle-open", "square", "square-open")
IN_CONTEXT = "in the context"
LOST = {
    stages.CORPUS: "not in the corpus",
    stages.CHUNKING: "split by chunking",
    stages.INDEX: "missed by the index",
    stages.RETRIEVAL: "not among the candidates",
    stages.FUSION: "demoted by fusion",
    stages.RERANKING: "demoted by the reranker",
    stages.TOP_K: "below top_k",
    stages.BUDGET: "beyond the budget",
}
"""Stage -> description of the evidence that the stage lost."""
LOSS_COLOURS = dict(
    zip(STAGES, ("#7f7f7f", "#e69f00", "#56b4e9", "#b9bec5", "#cc79a7", "#009e73", "#e8c468", "#d55e00"), strict=True)
)


def losses(funnels: Sequence[Funnel]) -> Figure:
    """Plot, for each config, the pieces of evidence that each stage lost and those in the context, as stacked bars."""
    labels = [literal(short(one.config)) for one in funnels]
    kept = [one.evidences - sum(stage.lost for stage in one.stages) for one in funnels]
    bars = [(IN_CONTEXT, ACCENT, kept)]
    for stage in STAGES:
        lost = [next((part.lost for part in one.stages if part.stage == stage), 0) for one in funnels]
        bars.append((LOST[stage], LOSS_COLOURS[stage], lost))
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": labels,
            "x": counts,
            "text": [f"{count:,}" if count else "" for count in counts],
            "textposition": "inside",
            "insidetextanchor": "middle",
            "textangle": 0,
            "constraintext": "none",
            "hovertext": [
                lines(one.config, f"{count:,} of {one.evidences:,} pieces of evidence: {name}")
                for one, count in zip(funnels, counts, strict=True)
            ],
            "hoverinfo": "text",
            "marker": {"color": colour},
        }
        for name, colour, counts in bars
        if any(counts)
    ]
    layout: Figure = {"barmode": "stack", "showlegend": True, "legend": {"traceorder": "normal"}}
    layout |= {"xaxis": titled("pieces of evidence"), "yaxis": TOP_DOWN}
    return {"data": traces, "layout": layout | {"height": FRAME + 60 + 34 * len(funnels)}}


def known_parts(audit: FusionAudit) -> list[LegComparison]:
    """List the comparisons with each leg: on all questions, and on slices with enough questions to judge."""
    return [*audit.differences, *(one for one in audit.slices if not math.isnan(one.low))]


def legs(audit: FusionAudit) -> Figure:
    """Plot the scores of the fused ranking and its legs, on all questions and on slices with enough questions."""
    parts = known_parts(audit)
    rows = {(one.label, one.value): one for one in parts}
    names = {
        key: literal(f"{f'{short(key[1])} ({key[0]})' if key[0] else 'all'}, n = {one.questions:,}")
        for key, one in rows.items()
    }
    marks: list[tuple[str, list[float], list[str], list[str], Figure]] = []
    for leg, symbol in zip(audit.legs, cycle(LEG_SYMBOLS), strict=False):
        found = [one for one in parts if one.leg == leg]
        hover = [
            lines(f"{leg} alone {number(one.alone)}", "more than chance explains" if one.worse else "") for one in found
        ]
        x, y = [one.alone for one in found], [names[one.label, one.value] for one in found]
        marks.append((literal(f"{leg} alone"), x, y, hover, marker(MUTED, symbol, 10)))
    hover = [f"fused {number(one.hybrid)}" for one in rows.values()]
    fused = [one.hybrid for one in rows.values()]
    marks.append(("fused", fused, list(names.values()), hover, marker(ACCENT, "diamond", 12)))
    best = f"best leg of each question, {number(audit.oracle)}"
    marks.append((best, [audit.oracle], [names["", ""]], [best], marker(INK, "line-ns-open", 14)))
    traces = [scatter("markers", as_list(x), y, hover, name=name, marker=look) for name, x, y, hover, look in marks]
    layout: Figure = {"showlegend": True, "xaxis": titled(audit.metric)}
    return {"data": traces, "layout": layout | {"yaxis": TOP_DOWN, "height": FRAME + 40 + ROW * len(rows)}}
