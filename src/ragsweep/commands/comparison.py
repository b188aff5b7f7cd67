"""The comparison of two recorded configs: the sweep that contains both, the verdicts, and tables of results."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ragsweep.core.results import Result
from ragsweep.records.ledger import Ledger, results_by_job
from ragsweep.report.naming import number_configs
from ragsweep.report.numbers import change_with_interval, ratio_with_interval, with_interval
from ragsweep.report.tables import Row
from ragsweep.report.verdict import pair_words
from ragsweep.stats.comparison import SweepComparison
from ragsweep.stats.conclusion import Family, PairConclusion, PairMetric
from ragsweep.stats.inference.matrix import ratio_of
from ragsweep.stats.verdict import shown_kind
from ragsweep.sweep.concluding.recorded_runs import RecordedRun, find_baseline, open_ledger
from ragsweep.sweep.concluding.summarise import summarise_sweep
from ragsweep.sweep.searching.study_summary import broken_trials

_OPPOSITE = "the ratio for a typical question contradicts the change in the mean, which a few large values dominate"


def find_family(path: str, baseline: RecordedRun, candidate: RecordedRun) -> Family | None:
    """Return the configs, or the finalists, of a sweep that contains both runs; None if no sweep contains both.

    The declared baseline may be one of the runs, even if it is not a config of the sweep itself. Configs with other
    questions than the candidate are left out. Trials that violate a constraint of the search are also left out, except
    for the two runs.
    """
    ledger, given = open_ledger(path), [baseline.result, candidate.result]
    asked = candidate.result.run.dataset.golden_digest
    for sweep in dict.fromkeys(run.sweep for run in (candidate, baseline) if run.sweep):
        for results, declared, broken in _families(ledger, sweep):
            own = {one.name: _given(one, given) for one in results}
            if all(any(one is run for one in own.values()) for run in given):
                alike = {name: one for name, one in own.items() if one.run.dataset.golden_digest == asked}
                members = [one for name, one in alike.items() if name not in broken or any(one is run for run in given)]
                return Family(members, None if declared is None else own[declared].name)
    return None


def _families(ledger: Ledger, sweep: str) -> Iterator[tuple[list[Result], str | None, set[str]]]:
    """Yield the configs of a sweep and, after a search, its finalists, with their results on the holdout.

    Each item is a tuple of configs, the name of the declared baseline among them (or None), and the names of the trials
    that violate a constraint.
    """
    records = ledger.records(sweep)
    names = number_configs({record.job: record.outcome.name for record in records})
    results = [result.renamed(names[job]) for job, result in results_by_job(records).items()]
    declared, _ = find_baseline(None, names, results, ledger)
    beside = [declared] if declared and all(one is not declared for one in results) else []
    broken = {names[job] for job in broken_trials(ledger.path, sweep) if job in names}
    yield [*results, *beside], declared.name if declared else None, broken
    if ledger.finalists(sweep):
        finals = summarise_sweep(ledger, records, labels=()).conclusion.finals
        if isinstance(finals, SweepComparison):
            reference = None if finals.baseline is None else finals.matrix.configs[finals.baseline]
            yield list(finals.results), reference, set()


def pair_verdicts(path: str, baseline: RecordedRun, candidate: RecordedRun, metrics: Iterable[str]) -> dict[str, str]:
    """Map each metric to the candidate's verdict and difference, in the words that ``compare`` prints."""
    first, second = baseline.result, candidate.result
    family = find_family(path, baseline, candidate) or Family([first, second])
    verdicts = {}
    for metric in metrics:
        pair, unit = family.compare(first, second, metric), first.summaries.metrics[metric].unit
        found, row = pair.found, pair.rows[1]
        difference = change_with_interval(*found.interval(row), unit, found.ratios)
        verdicts[metric] = f"{pair_words(pair.verdict, unit, found.ratios)}, {difference}"
    return verdicts


def _given(result: Result, given: Sequence[Result]) -> Result:
    """Return the result in ``given`` with the same config as ``result``, or else ``result`` itself."""
    what = (result.run.signature, result.run.overrides)
    return next((one for one in given if (one.run.signature, one.run.overrides) == what), result)


class PairRows(NamedTuple):
    """The comparison of a pair as rows; a difference is candidate minus baseline, in the metric's unit."""

    metrics: list[Row]
    slices: list[Row]  # one per metric and value of a label
    questions: list[Row]  # one per metric and question whose score differs; for each metric, most helped first


def pair_rows(conclusion: PairConclusion) -> PairRows:
    """Convert the conclusion on a pair of configs to rows by metric, slice and question."""
    metrics = [
        {**row, **_corrected(one, row)} if conclusion.labelled else row
        for one in conclusion.metrics
        for row in [_metric_row(one)]
    ]
    slices = [row for one in conclusion.metrics for row in _slice_rows(one)]
    return PairRows(metrics, slices, [row for one in conclusion.metrics for row in _question_rows(one)])


def pair_warnings(conclusion: PairConclusion) -> list[str]:
    """List the reasons why a difference may not be due to one factor."""
    before, after = conclusion.results
    warnings, count = list[str](), len(conclusion.factors)
    if count > 1:
        warnings.append(f"the configs differ in {count} factors, so the effect of each one is unknown")
    if not count:
        same = before.run.signature == after.run.signature
        kind = "both runs have the same config" if same else "the configs differ in no parameter"
        warnings.append(f"{kind}: a difference is due to chance, or to something that is not a parameter")
    if conclusion.redefined:
        warnings.append(f"metrics not measured in the same way in both runs: {', '.join(conclusion.redefined)}")
    return warnings


def _metric_row(one: PairMetric) -> Row:
    pair, matrix = one.comparison, one.matrix
    found, other = pair.found, pair.rows[1]
    baseline, candidate = matrix.better
    helped, hurt = int((candidate > baseline).sum()), int((candidate < baseline).sum())
    means = matrix.values.mean(axis=1).tolist() if matrix.questions else [math.nan] * 2
    note, is_shown = found.notes[other], found.better[other] or found.worse[other]
    if not note and found.ratios and is_shown and (means[1] - means[0]) * found.estimate[other] < 0:
        note = _OPPOSITE
    return {
        "metric": matrix.metric,
        "baseline": means[0],
        "candidate": means[1],
        "difference": means[1] - means[0],
        **ends(*found.interval(other), found.ratios),
        "verdict": pair_words(pair.verdict, one.unit, found.ratios),
        "probability_better": pair.verdict.probability,
        "compared_among": len(pair.matrix.configs),
        "p_wilcoxon": float(found.wilcoxon[other]),
        "p_randomisation": float(found.randomisation[other]),
        "p_holm": one.p_holm,
        "effect_size": float(found.effect[other]),
        "helped": helped,
        "hurt": hurt,
        "alike": len(matrix.questions) - helped - hurt,
        "questions": len(matrix.questions),
        "scored": matrix.asked,
        "coverage": matrix.coverage,
        "higher_is_better": matrix.higher_is_better,
        "note": "; ".join(filter(None, (note, matrix.declined_note))),
        "unit": one.unit,
    }


def ends(estimate: float, low: float, high: float, ratios: bool) -> Row:
    """Return the columns of a row for the interval of a difference or, if ``ratios``, for a ratio and its interval.

    If ``ratios``, the interval of the difference is NaN; otherwise, the ratio and its interval are None.
    """
    shown = (math.nan, math.nan) if ratios else (low, high)
    ratio = map(ratio_of, (estimate, low, high)) if ratios else [None] * 3
    return dict(zip(("low", "high", "ratio", "ratio_low", "ratio_high"), (*shown, *ratio), strict=True))


def difference_text(row: Row) -> str:
    """Format the ratio or the difference in a row (see `ends`), and any corrected difference, with their intervals."""
    if row["ratio"] is not None:
        return ratio_with_interval(*(math.log(row[name]) for name in ("ratio", "ratio_low", "ratio_high")))
    judged = with_interval(row["difference"], row["low"], row["high"], row["unit"])
    if not math.isfinite(row.get("corrected", math.nan)):
        return judged
    found = with_interval(row["corrected"], row["corrected_low"], row["corrected_high"], row["unit"])
    return f"judged {judged} ({row['judged_verdict']}), corrected by {row['labels']} labels {found}"


def _corrected(one: PairMetric, row: Row) -> Row:
    """Return the columns of a metric's difference, corrected by human labels, and of the verdict on this difference.

    Without a correction, the corrected difference is NaN, and the verdict of ``row`` remains.
    """
    judged, nothing = {"judged_verdict": row["verdict"]}, dict.fromkeys(_CORRECTED, math.nan)
    if one.correction is None:
        return {**judged, **nothing, "labels": 0}
    found, kind, notes = one.correction
    corrected = dict(zip(_CORRECTED, (found.value, found.low, found.high), strict=True))
    note = "; ".join(filter(None, (row["note"], *notes)))
    return {"verdict": kind, **judged, **corrected, "labels": found.labels, "note": note}


_CORRECTED = ("corrected", "corrected_low", "corrected_high")


def _slice_rows(one: PairMetric) -> Iterator[Row]:
    for part, difference in one.slices:
        yield {
            "metric": one.matrix.metric,
            "label": part.label,
            "value": part.value,
            "questions": part.questions,
            "small": part.small,
            "difference": difference,
            **ends(*part.interval(1), one.comparison.found.ratios),
            "p_holm": float(part.p_holm[1]),
            "verdict": shown_kind(part.better[1], part.worse[1], part.low[1] == part.high[1] == 0),
            "note": part.doubt(1),
            "unit": one.unit,
        }


def _question_rows(one: PairMetric) -> Iterator[Row]:
    matrix, (baseline, candidate) = one.matrix, one.matrix.scores
    gain = (candidate - baseline) * matrix.sign
    for n in np.argsort(-gain, kind="stable").tolist():
        if gain[n]:
            yield {
                "metric": matrix.metric,
                "question_id": matrix.questions[n],
                "baseline": float(baseline[n]),
                "candidate": float(candidate[n]),
                "difference": float(candidate[n] - baseline[n]),
            }
