"""``ragsweep effects``: main effects and two-way interactions of a sweep's parameters."""

import math
import shlex
from collections.abc import Sequence

from ragsweep.commands.command_line import SWEEP, Parser, add_forms, add_path, print_document, usual_metrics
from ragsweep.commands.comparison import ends
from ragsweep.core.errors import InputError
from ragsweep.core.plurals import counted
from ragsweep.core.results import COMPLETE, Result
from ragsweep.report.document import Document, Section, Statement, Table, lines
from ragsweep.report.numbers import ROUNDING, change_with_interval
from ragsweep.report.tables import log_table, weighted_note
from ragsweep.stats.comparable import check_same_questions, factor_values, shared_metrics
from ragsweep.stats.context_length import LENGTHENING, RISING
from ragsweep.stats.inference import factorial
from ragsweep.stats.inference.estimates import LEVEL, TOO_SHORT
from ragsweep.stats.inference.factorial import Effect
from ragsweep.stats.inference.matrix import has_ratios, score_matrix, transform_amounts
from ragsweep.sweep.concluding.recorded_runs import find_sweep

FORMAT = "ragsweep.effects/1"

_ABOUT = """Show the effect of each swept parameter on a metric, averaged over the other parameters, and the interaction
of every pair of parameters. The intervals are simultaneous, at 95 %. For a full grid, the effects are differences of
plain averages; for any other sweep, a model is fitted by least squares. The output names the method."""
_COLUMNS = ("", "change", "effect", "chance")
_METHODS = {
    "full grid": "full grid: differences of plain averages over its configs",
    "least squares": "not a full grid: main effects and interactions, fitted by least squares",
    "least squares without interactions": "not a full grid: main effects only, fitted by least squares",
}
_INTERACTIONS = {
    "present": "the scores deviate from these effects by more than chance, so parameters interact; each effect is an"
    " average over the evaluated configs, and may differ for other configs; a full grid would show the interactions",
    "not shown": "no interaction is shown; the effects assume that there is none",
    "untestable": "the effects assume that no parameter changes another's effect, which these configs cannot test",
}


def effects(arguments: Sequence[str]) -> int:
    """Run ``ragsweep effects``; return the exit status 0. Raises RagsweepError for bad input."""
    parser = Parser("ragsweep effects", description=_ABOUT)
    parser.add_argument("sweep", metavar="SWEEP", help=SWEEP)
    parser.add_argument("--metric", help="the metric (default: the objective)")
    add_forms(parser)
    add_path(parser)
    options = parser.parse_args(arguments)
    evaluated = find_sweep(options.path, options.sweep)
    results = [result for result in evaluated if result.run.state == COMPLETE]
    if len(results) < 2:
        count = counted(len(results), "complete config")
        raise InputError(
            f"the sweep has {count}, but two are required; repeat its command to complete other configs, or name"
            f" another sweep: ragsweep list --path {shlex.quote(options.path)}"
        )
    for result in results[1:]:
        check_same_questions(results[0], result, swept=True)
    metric = shared_metrics(results, [options.metric] if options.metric else None, usual_metrics(results))[0]
    print_document(effects_document(results, metric, len(evaluated) - len(results)), options)
    return 0


def effects_document(results: Sequence[Result], metric: str, omitted: int) -> Document:
    """Build the document of the effects on a metric: main effects, then interactions, the largest of each first.

    ``omitted`` is the number of configs that are PARTIAL or were dropped by a race; a note states this number.
    """
    matrix, unit = score_matrix(results, metric), results[0].summaries.metrics[metric].unit
    ratios, lengthening = has_ratios(matrix, unit), LENGTHENING if metric.startswith(RISING) else ()
    found = factorial.effects(factor_values(results), transform_amounts(matrix, unit), lengthening=lengthening)
    ordered, weighted = sorted(found.effects, key=_order), weighted_note(results[0])
    basis = [_METHODS[found.method], weighted, "ratios for a typical question" if ratios else ""]
    method = "; ".join(filter(None, basis))
    head = Statement("effects", f"{metric} of {len(results)} configs; {method}", {"configs": len(results)})
    hidden = sum(bool(effect.note) for effect in ordered)
    notes = [Statement("note", note)] if (note := _INTERACTIONS.get(found.interactions, "")) else []
    if omitted:
        text = (
            f"without {counted(omitted, 'config')} that {'is' if omitted == 1 else 'are'} PARTIAL or dropped by a race"
        )
        notes.append(Statement("note", text, {"omitted": omitted}))
    if hidden:
        text = f"with these configs, {counted(hidden, 'effect')} cannot be distinguished from other effects"
        notes.append(Statement("note", text, {"confounded": hidden}))
    if exposed := sum(effect.exposed for effect in ordered):
        text = (
            '"may be too short" marks an effect that one more cluster with the largest loss could reverse, at the joint'
            f" level of {counted(len(ordered) - hidden, 'effect')}; ragsweep compare applies this check only to slices"
        )
        notes.append(Statement("note", text, {"exposed": exposed}))
    cells = [_cells(effect, unit, ratios) for effect in ordered] or [["", "no parameter varies", "", ""]]
    section = Section([lines(head), Table(_COLUMNS, cells, headed=False), lines(notes)])
    facts = {
        "format": FORMAT,
        "metric": metric,
        "method": found.method,
        "interactions": found.interactions,
        "weighted": weighted,
        "confidence_level": LEVEL,
        "effects": log_table([_row(effect, ratios) for effect in ordered]),
    }
    return Document(f"Effects on {metric}", [section], facts)


def _order(effect: Effect) -> tuple[int, float]:
    """Return a sort key: main effects before interactions, larger before smaller, effects without an estimate last."""
    return len(effect.factors) + 10 * bool(effect.note), -abs(effect.estimate) if not effect.note else 0.0


def _cells(effect: Effect, unit: str, ratios: bool) -> list[str]:
    return [
        "" if len(effect.factors) == 1 else "together",
        ", ".join(map(_change, effect.factors, effect.against, effect.levels)),
        effect.note or change_with_interval(effect.estimate, effect.low, effect.high, unit, ratios),
        "" if effect.note or _beyond_chance(effect) else TOO_SHORT if effect.exposed else "may be chance",
    ]


def _change(factor: str, before: str, after: str) -> str:
    """Format a change; if the option stays the same, show only what differs: ``retriever hybrid_rrf k=60 -> k=20``."""
    first, second = before.split(" "), after.split(" ")
    if first[0] != second[0] or len(first) == 1 or not all("=" in word for word in first[1:] + second[1:]):
        return f"{factor} {before or '-'} -> {after or '-'}"
    old, new = ([word for word in words if word not in others] for words, others in ((first, second), (second, first)))
    return f"{factor} {first[0]} {' '.join(old)} -> {' '.join(new)}"


def _beyond_chance(effect: Effect) -> bool:
    return abs(effect.estimate) > ROUNDING and not effect.exposed and (effect.low > 0 or effect.high < 0)


def _row(effect: Effect, ratios: bool) -> dict[str, object]:
    return {
        "kind": "main" if len(effect.factors) == 1 else "interaction",
        "factors": " x ".join(effect.factors),
        "from": " x ".join(effect.against),
        "to": " x ".join(effect.levels),
        "effect": math.nan if ratios else effect.estimate,
        **ends(effect.estimate, effect.low, effect.high, ratios),
        "beyond_chance": _beyond_chance(effect),
        "note": effect.note or TOO_SHORT * effect.exposed,
    }
