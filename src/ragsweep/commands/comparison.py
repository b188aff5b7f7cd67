"""Find the sweep that contains two recorded configs, and its verdict on them."""

from collections.abc import Iterable, Sequence

from ragsweep.core.results import Result
from ragsweep.report.naming import number_configs
from ragsweep.report.numbers import change_with_interval
from ragsweep.report.verdict import pair_words
from ragsweep.stats.conclusion import PairComparison
from ragsweep.stats.pairs import Family
from ragsweep.sweep.concluding.recorded_baseline import find_baseline
from ragsweep.sweep.concluding.recorded_runs import RecordedRun, open_ledger


def find_family(path: str, baseline: RecordedRun, candidate: RecordedRun) -> Family | None:
    """Find a sweep with both runs, and return its configs; None if there is none.

    One of the runs may be the sweep's declared baseline, which is returned with the configs.
    """
    ledger, given = open_ledger(path), [baseline.result, candidate.result]
    for sweep in dict.fromkeys(run.sweep for run in (candidate, baseline) if run.sweep):
        records = ledger.records(sweep)
        names = number_configs({record.job: record.outcome.name for record in records})
        results = [
            record.outcome.renamed(names[record.job]) for record in records if isinstance(record.outcome, Result)
        ]
        declared = find_baseline(None, names, results, ledger)
        beside = [declared] if declared and all(one is not declared for one in results) else []
        own = {one.name: _given(one, given) for one in (*results, *beside)}
        if all(any(one is run for one in own.values()) for run in given):
            return Family(list(own.values()), None if declared is None else own[declared.name].name)
    return None


def pair_verdicts(path: str, baseline: RecordedRun, candidate: RecordedRun, metrics: Iterable[str]) -> dict[str, str]:
    """Map each metric to the verdict on the candidate, in words and with the difference, as ``compare`` prints it."""
    first, second = baseline.result, candidate.result
    family = find_family(path, baseline, candidate) or Family([first, second])
    pairs = {metric: family.compare(first, second, metric) for metric in metrics}
    return {metric: _verdict_text(pair, first.summaries.metrics[metric].unit) for metric, pair in pairs.items()}


def _verdict_text(pair: PairComparison, unit: str) -> str:
    found, row = pair.found, pair.rows[1]
    estimate, low, high = (float(one[row]) for one in (found.estimate, found.low, found.high))
    difference = change_with_interval(estimate, low, high, unit, found.ratios)
    return f"{pair_words(pair.verdict, unit, found.ratios)}, {difference}"


def _given(result: Result, given: Sequence[Result]) -> Result:
    """Return the result in ``given`` with the same config as ``result``, else ``result``."""
    what = (result.run.signature, result.run.overrides)
    return next((one for one in given if (one.run.signature, one.run.overrides) == what), result)
