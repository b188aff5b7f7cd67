"""The charts of lost evidence, and of a hybrid next to its legs."""

import math
from collections.abc import Sequence
from itertools import cycle

from ragsweep.report.naming import short
from ragsweep.report.numbers import number
from ragsweep.report.page.figures import (
    ACCENT,
    FRAME,
    INK,
    MUTED,
    ROW,
    TOP_DOWN,
    Figure,
    finite,
    lines,
    literal,
    marker,
)
from ragsweep.stats import funnel as stages
from ragsweep.stats.audits import FusionAudit, LegComparison
from ragsweep.stats.funnel import STAGES, Funnel

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
"""Stage -> the fate of evidence that it lost."""
LOSS_COLOURS = dict(
    zip(
        STAGES,
        ("#7f7f7f", "#e69f00", "#56b4e9", "#b9bec5", "#cc79a7", "#009e73", "#e8c468", "#d55e00"),
        strict=True,
    )
)


def losses(funnels: Sequence[Funnel]) -> Figure:
    """Plot, for each config, the evidence lost by each stage, and the evidence in the context."""
    labels = [literal(short(one.config)) for one in funnels]
    kept = [one.evidences - sum(stage.lost for stage in one.stages) for one in funnels]
    lost = {
        stage: [next((part.lost for part in one.stages if part.stage == stage), 0) for one in funnels]
        for stage in STAGES
    }
    bars = [(IN_CONTEXT, ACCENT, kept), *((LOST[stage], LOSS_COLOURS[stage], lost[stage]) for stage in STAGES)]
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
    layout |= {
        "xaxis": {"title": {"text": "pieces of evidence"}},
        "yaxis": TOP_DOWN,
        "height": FRAME + 60 + 34 * len(funnels),
    }
    return {"data": traces, "layout": layout}


def known_parts(audit: FusionAudit) -> list[LegComparison]:
    """List the comparisons with each leg: on all questions, and on slices with enough questions to judge."""
    return [*audit.differences, *(one for one in audit.slices if not math.isnan(one.low))]


def legs(audit: FusionAudit) -> Figure:
    """Plot the fused ranking next to its legs, on all questions and on slices with enough questions to judge."""
    parts = known_parts(audit)
    rows = {(one.label, one.value): one for one in parts}
    names = {
        key: literal(f"{f'{short(key[1])} ({key[0]})' if key[0] else 'all'}, n = {one.questions:,}")
        for key, one in rows.items()
    }
    traces: list[Figure] = []
    for leg, symbol in zip(audit.legs, cycle(LEG_SYMBOLS), strict=False):
        found = [one for one in parts if one.leg == leg]
        hover = [
            lines(f"{leg} alone {number(one.alone)}", "more than chance explains" if one.worse else "") for one in found
        ]
        x, y = [one.alone for one in found], [names[one.label, one.value] for one in found]
        traces.append(_marks(literal(f"{leg} alone"), x, y, hover, marker(MUTED, symbol, 10)))
    hover = [f"fused {number(one.hybrid)}" for one in rows.values()]
    fused = [one.hybrid for one in rows.values()]
    traces.append(_marks("fused", fused, list(names.values()), hover, marker(ACCENT, "diamond", 12)))
    best = f"best leg of each question, {number(audit.oracle)}"
    traces.append(_marks(best, [audit.oracle], [names["", ""]], [best], marker(INK, "line-ns-open", 14)))
    layout: Figure = {"showlegend": True, "xaxis": {"title": {"text": literal(audit.metric)}}}
    return {"data": traces, "layout": layout | {"yaxis": TOP_DOWN, "height": FRAME + 40 + ROW * len(rows)}}


def _marks(name: str, x: Sequence[float], y: Sequence[str], hover: Sequence[str], look: Figure) -> Figure:
    trace: Figure = {"type": "scatter", "mode": "markers", "name": name, "hovertext": hover, "hoverinfo": "text"}
    return trace | {"x": [finite(value) for value in x], "y": y, "marker": look}
