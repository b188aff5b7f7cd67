"""``ragsweep effects``: the effect of each parameter of a sweep, and the interactions of two."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ragsweep.commands.command_line import Parser, add_path, find_sweep, until_closed, usual_metrics
from ragsweep.core.errors import InputError
from ragsweep.core.results import COMPLETE, Result
from ragsweep.report.changes import aligned, markdown, table
from ragsweep.report.numbers import ROUNDING, with_interval
from ragsweep.report.terminal import Terminal
from ragsweep.stats.comparable import check_same_questions, factor_values, shared_metrics
from ragsweep.stats.inference import factorial
from ragsweep.stats.inference.factorial import Effect, Effects
from ragsweep.stats.inference.matrix import score_matrix

FORMAT = "ragsweep.effects/1"

_ABOUT = """Say what each swept parameter does to a metric, averaged over the others, and how much more two of them do
together than each alone (interactions). The intervals hold for all of it together, at 95 %. Of a full grid these are
differences of plain averages; of any other sweep a model is fitted by least squares, which is said."""
_COLUMNS = ("", "change", "effect", "chance")
_METHODS = {
    "full grid": "a full grid: differences of plain averages over its configs",
    "least squares": "not a full grid: main effects and interactions, fitted by least squares",
    "least squares without interactions": "not a full grid: main effects alone, fitted by least squares; interactions"
    " cannot be told from them",
}


def effects(arguments: Sequence[str]) -> int:
    """Run ``ragsweep effects``; return the exit status: 0 done, 2 bad input."""
    parser = Parser(prog="ragsweep effects", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("sweep", metavar="SWEEP", help="MLflow run id of a sweep's parent run, or its beginning")
    parser.add_argument("--metric", help="of this metric (the objective)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="for programs")
    form.add_argument("--markdown", action="store_true", help="as a table")
    add_path(parser)
    given = parser.parse_args(list(arguments))
    results = _whole(find_sweep(given.path, given.sweep))
    wanted = [given.metric] if given.metric else None
    metric = shared_metrics(results, wanted, usual_metrics(results))[0]
    found = factorial.effects(factor_values(results), score_matrix(results, metric))
    unit = results[0].summaries[metric].unit

    def tell() -> int:
        if given.json:
            print(_as_json(metric, found))
        elif given.markdown:
            rows = [dict(zip(_COLUMNS, _cells(one, unit), strict=True)) for one in sorted(found.effects, key=_order)]
            print(f"Effects on {metric}; {_METHODS[found.method]}\n\n{markdown(rows)}", end="")
        else:
            _show(metric, unit, len(results), found)
        return 0

    return until_closed(tell)


def _whole(results: Sequence[Result]) -> list[Result]:
    """Drop PARTIAL and dropped results, and refuse results on other questions."""
    whole = [result for result in results if result.state == COMPLETE]
    if len(whole) < 2:
        raise InputError(f"{len(whole)} config of this sweep was measured as a whole; two are needed")
    for other in whole[1:]:
        check_same_questions(whole[0], other)
    return whole


def _show(metric: str, unit: str, configs: int, found: Effects) -> None:
    terminal = Terminal.current()
    terminal.line("effects", f"{metric} of {configs} configs; {_METHODS[found.method]}")
    if not found.effects:
        terminal.line("", "no parameter varies")
        return
    for line in aligned([_cells(one, unit) for one in sorted(found.effects, key=_order)]):
        terminal.line("", line)
    if hidden := sum(bool(one.note) for one in found.effects):
        terminal.line("note", f"{hidden} effects cannot be told from others with these configs")


def _order(one: Effect) -> tuple[int, float]:
    """Order main effects before interactions, the largest first, inestimable ones last."""
    return len(one.factors) + 10 * bool(one.note), -abs(one.estimate) if not one.note else 0.0


def _cells(one: Effect, unit: str) -> list[str]:
    changed = ", ".join(map(_changed, one.factors, one.against, one.levels))
    said = one.note or with_interval(one.estimate, one.low, one.high, unit)
    return [
        "" if len(one.factors) == 1 else "together",
        changed,
        said,
        "" if one.note or _sure(one) else "may be chance",
    ]


def _changed(factor: str, before: str, after: str) -> str:
    """Write a change; of an option that stays what varies in it alone: ``retriever hybrid_rrf k=60 -> k=20``."""
    words = [text.split(" ") for text in (before, after)]
    if words[0][0] != words[1][0] or len(words[0]) == 1:
        return f"{factor} {before or '-'} -> {after or '-'}"
    ends = [" ".join(word for word in one if word not in other) for one, other in (words, words[::-1])]
    return f"{factor} {words[0][0]} {ends[0]} -> {ends[1]}"


def _sure(one: Effect) -> bool:
    return abs(one.estimate) > ROUNDING and (one.low > 0 or one.high < 0)


def _rows(found: Effects) -> list[dict[str, Any]]:
    return [
        {
            "kind": "main" if len(one.factors) == 1 else "interaction",
            "factors": " x ".join(one.factors),
            "from": " x ".join(one.against),
            "to": " x ".join(one.levels),
            "effect": one.estimate,
            "low": one.low,
            "high": one.high,
            "beyond_chance": _sure(one),
            "note": one.note,
        }
        for one in sorted(found.effects, key=_order)
    ]


def _as_json(metric: str, found: Effects) -> str:
    document = {
        "format": FORMAT,
        "metric": metric,
        "method": found.method,
        "confidence_level": found.level,
        "effects": table(_rows(found)),
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
