"""The declared baseline among the records: a config of the sweep, or one recorded earlier."""

from collections.abc import Mapping, Sequence

from ragsweep.core.errors import InputError
from ragsweep.core.results import Result
from ragsweep.records.ledger import Ledger
from ragsweep.report.naming import without_number
from ragsweep.sweep.composing.settings import BASELINE, read_number
from ragsweep.sweep.concluding.recorded_runs import RecordedRun, find_run


def find_recorded(declared: object, ledger: Ledger) -> RecordedRun | None:
    """Find a baseline declared by a name or a run; None if it is declared by a number or by overrides, or not at all.

    Raises InputError if there is no such config.
    """
    if not isinstance(declared, str) or read_number(declared) is not None or "=" in declared:
        return None
    try:
        return find_run(str(ledger.path.parent), declared)
    except InputError as fault:
        raise InputError(f"{BASELINE}={declared}: {fault}") from None


def find_baseline(
    declared: object, names: Mapping[int, str], results: Sequence[Result], ledger: Ledger
) -> Result | None:
    """Return the declared baseline: a result of the sweep or a recorded one.

    Returns None if none is declared or found, or if a recorded one has other questions.

    Args:
        declared: The declaration as typed; None: the one in the latest result's config.
        names: Names of the sweep's configs by job index.
        results: Results of the sweep's jobs.
        ledger: The ledger with the records of other sweeps.
    """
    if declared is None and results:  # the latest, as a resumed command may have declared another baseline
        declared = max(results, key=lambda one: one.run.ended).run.config.get(BASELINE)
    if declared is None or not results:
        return None
    if (number := read_number(declared)) is not None:
        return next((one for one in results if one.name == names.get(number - 1)), None)
    try:
        found = find_recorded(declared, ledger)
    except InputError:  # the record was deleted since
        return None
    if found is None or found.result.run.dataset.golden_digest != results[0].run.dataset.golden_digest:
        return None
    same = next((one for one in results if one.run.signature == found.result.run.signature), None)
    return same or found.result.renamed(f"{declared} {without_number(found.result.name)}")
