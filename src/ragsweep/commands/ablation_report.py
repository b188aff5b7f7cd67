"""The documents of an ablation: its cases, and the effects of the changes."""

from collections.abc import Iterator, Sequence

import numpy as np

from ragsweep.commands.ablation_cases import Ablation
from ragsweep.commands.command_line import usual_metrics
from ragsweep.core.plurals import counted
from ragsweep.core.results import Result
from ragsweep.report.document import Document, Section, Statement, Table, lines
from ragsweep.report.numbers import amount, change_with_interval
from ragsweep.report.tables import weighted_note
from ragsweep.report.verdict import pair_words
from ragsweep.stats.choice import find_margin
from ragsweep.stats.comparable import factors, shared_metrics
from ragsweep.stats.inference.differences import compare_amounts
from ragsweep.stats.inference.matrix import transform_amounts
from ragsweep.stats.inference.score_matrix import score_matrix
from ragsweep.stats.inference.shrinkage import posterior
from ragsweep.stats.verdict import pair_verdict


def cases_document(ablation: Ablation) -> Document:
    """Build the document that lists the factors to change and the omitted changes."""
    return Document("ablate", [Section([lines(_cases(ablation))])])


def _cases(ablation: Ablation) -> Iterator[Statement]:
    changed, count = list(dict.fromkeys(case.factor for case in ablation.cases[1:])), len(ablation.cases) - 1
    text = f"{counted(count, 'change')}, one at a time, of {', '.join(changed)}"
    yield Statement("ablate", text, {"changes": count, "factors": changed})
    for change, why in ablation.impossible.items():
        yield Statement("left out", f"{change}: {why}")
    if ablation.idle:
        yield Statement("left out", f"{', '.join(ablation.idle)}: would change no result")
    if not ablation.same:
        yield Statement(
            "note",
            "code, data or defaults have changed since the run: the changes are compared with the config's new result",
        )


def changes_document(results: Sequence[Result], metric: str | None) -> Document:
    """Build the document of the changes' effects on a metric, the largest first; ``results[0]`` is the ablated config.

    If ``metric`` is None, it is the objective.
    """
    if len(results) < 2:
        none = Statement("ablate", "no changed config was measured, so there is nothing to compare")
        return Document("ablate", [Section([lines(none)])])
    name = shared_metrics(results, [metric] if metric else None, usual_metrics(results))[0]
    matrix, unit = score_matrix(results, name), results[0].summaries.metrics[name].unit
    found, compared = compare_amounts(matrix, 0, unit), transform_amounts(matrix, unit)
    beliefs, margin = posterior(compared), find_margin(results[0].run.config, matrix, unit)
    mean = amount(float(matrix.values[0].mean()), unit) if matrix.questions else "-"
    weighted = f", {note}" if (note := weighted_note(results[0])) else ""
    text = (
        f"{name} is {mean}; with one thing changed, on {len(matrix.questions):,} questions{weighted} "
        f" ({counted(len(results) - 1, 'change')}, simultaneous intervals):"
    )
    rows = []
    for n in np.argsort(-np.abs(np.nan_to_num(found.estimate)), kind="stable").tolist():
        if n:
            words = pair_words(pair_verdict(found, n, beliefs, margin), unit, found.ratios)
            change = ", ".join(map(str, factors(results[0], results[n]))) or results[n].name
            estimate, low, high = (float(one[n]) for one in (found.estimate, found.low, found.high))
            rows.append([words, change, change_with_interval(estimate, low, high, unit, found.ratios)])
    head = Statement("ablate", text, {"questions": len(matrix.questions), "changes": len(results) - 1})
    table = Table(("verdict", "change", "difference"), rows, headed=False)
    return Document("ablate", [Section([lines(head), table])])
