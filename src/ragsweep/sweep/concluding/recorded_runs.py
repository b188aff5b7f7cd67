"""Find recorded results, sweeps and baselines by id, prefix of an id, user-defined name, or ``SWEEP#NUMBER``."""

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ragsweep.core.errors import InputError
from ragsweep.core.results import Result
from ragsweep.records.claims import CONFIG
from ragsweep.records.ledger import Ledger, Record, Sweep, results_by_job
from ragsweep.report.naming import number_configs, without_number
from ragsweep.sweep.composing.settings import BASELINE, read_number


class RecordedRun(NamedTuple):
    """A recorded result, with the ids of its MLflow run ("" if untracked) and its sweep (None for a single config).

    ``typed`` is the reference as typed, or "" if it is the id of the MLflow run.
    """

    run: str
    result: Result
    typed: str = ""
    sweep: str | None = None

    def __str__(self) -> str:
        """Return the config's name with the reference as typed, or with a prefix of the run's id."""
        return f"{self.result.name} ({self.typed or self.run[:8]})"

    @property
    def facts(self) -> dict[str, str]:
        """The run's id and the config's name, as a dict for JSON output."""
        return {"run_id": self.run, "name": self.result.name}


def open_ledger(path: str) -> Ledger:
    """Open the ledger in the folder ``path``. Raises InputError if the folder has no ledger."""
    folder = Path(path)
    if not (folder / "ledger.db").exists():
        raise InputError(
            f"{folder}: there is no ledger.db in this folder; run a config first, or name the folder of store.path with"
            " --path"
        )
    return Ledger(folder)


def find_run(path: str, run: str) -> RecordedRun:
    """Read the result to which ``run`` refers: ``SWEEP#NUMBER``, a user-defined name, or a prefix of an MLflow run id.

    ``record NUMBER`` refers to a single config without an MLflow run. ``path`` is the ledger's folder. Raises
    InputError unless exactly one result matches.
    """
    ledger = open_ledger(path)
    target = ledger.names.all().get(run, run)
    if of_sweep := re.fullmatch(r"(.+)#(\d+)", target):
        return _numbered_run(ledger, path, of_sweep[1], int(of_sweep[2]), run)
    records = _single_records(ledger, target)
    runs = [
        RecordedRun(record.run or "", record.outcome, run if target != run or not record.run else "", record.sweep)
        for record in records
        if isinstance(record.outcome, Result)
    ]
    if len(runs) == 1:
        return runs[0]
    if runs:
        raise InputError(f'the ids of {len(runs)} runs begin with "{run}"; use a longer prefix')
    if _matching_sweeps(ledger, target):
        raise InputError(f'"{run}" is a sweep; name one of its configs, such as "{run}#1" for the first')
    why = "its config failed; run it again" if records else f"list the runs: ragsweep list --path {shlex.quote(path)}"
    raise InputError(f'{path}: no run "{run}" has a result; {why}')


def find_target(path: str, text: str) -> str:
    """Resolve ``text``, a reference to a sweep or config, and return it with full ids.

    Return the id of a sweep, ``ID#NUMBER`` for a config of a sweep, or ``record ID`` for a single config. Raises
    InputError if no sweep or config matches, or several do; if ``SWEEP#NUMBER`` names a failed config; or if the
    reference is the run of a finalist.
    """
    ledger = open_ledger(path)
    target = ledger.names.all().get(text, text)
    if of_sweep := re.fullmatch(r"(.+)#(\d+)", target):
        _numbered_run(ledger, path, of_sweep[1], int(of_sweep[2]), text)
        return f"{find_sweep_record(ledger, path, of_sweep[1]).id}#{int(of_sweep[2])}"
    records = _single_records(ledger, target)
    if len(records) != 1:
        return find_sweep_record(ledger, path, target).id
    (record,) = records
    if record.kind != CONFIG:
        raise InputError(
            f'"{text}" is the run of a finalist on the holdout, and such runs have no number;'
            " specify the finalist's run in the search, such as SWEEP#3"
        )
    return f"{record.sweep}#{record.job + 1}" if record.sweep else f"record {record.id}"


def _single_records(ledger: Ledger, target: str) -> list[Record]:
    if single := re.fullmatch(r"record (\d+)", target):
        return ledger.single(int(single[1]))
    return ledger.of_run(target) if target else []


def _numbered_run(ledger: Ledger, path: str, name: str, number: int, typed: str) -> RecordedRun:
    """Read the result of config ``number`` (from 1) of the sweep ``name``; ``typed`` is the reference, for messages.

    Raises InputError if no sweep matches ``name``, or if the config has no record or failed.
    """
    records = {record.job + 1: record for record in ledger.records(find_sweep_record(ledger, path, name).id)}
    names = number_configs({record.job: record.outcome.name for record in records.values()})
    if number not in records:
        last = f"; the last one is #{max(records)}" if records else ""
        listing = f"list its configs: ragsweep list {shlex.quote(name)} --path {shlex.quote(path)}"
        raise InputError(f'"{typed}": the sweep has no completed config with this number{last}; {listing}')
    record = records[number]
    if not isinstance(record.outcome, Result):
        raise InputError(f'"{typed}": that config failed: {record.outcome.error}; repeat the command of its sweep')
    result = record.outcome.renamed(names[record.job])
    return RecordedRun(record.run or "", result, typed, record.sweep)


def find_sweep(path: str, run: str) -> list[Result]:
    """Return the results of the sweep that `find_sweep_record` finds, in config order, without failed configs.

    Raises InputError unless exactly one sweep matches and has results.
    """
    ledger = open_ledger(path)
    results = sweep_results(ledger, find_sweep_record(ledger, path, run).id)
    if not results:
        raise InputError(f'no config of the sweep "{run}" was measured; repeat the command of the sweep')
    return results


def find_sweep_record(ledger: Ledger, path: str, name: str) -> Sweep:
    """Find a sweep by its user-defined name, its id, the id of its parent run in MLflow, or a prefix of an id.

    If several rounds of the same sweep match (``rerun=true``), the latest is returned. Raises InputError if no sweep or
    several different sweeps match; ``path`` is the ledger's folder, for messages.
    """
    typed, name = name, ledger.names.all().get(name, name)
    if exact := [sweep for sweep in ledger.sweeps() if sweep.id == name]:
        return exact[0]
    sweeps = _matching_sweeps(ledger, name)
    if len({sweep.key for sweep in sweeps}) > 1:
        raise InputError(f'the ids of {len(sweeps)} sweeps begin with "{typed}"; use a longer prefix')
    if not sweeps:
        why, folder = "", shlex.quote(path)
        with suppress(InputError):
            find_run(path, typed)
            shown = shlex.quote(typed) if " " in typed else typed  # `quote` would also quote SWEEP#1
            why = f'"{typed}" is the run of one config: ragsweep show {shown} --path {folder}; '
        raise InputError(f'{path}: no sweep "{typed}"; {why}list the sweeps: ragsweep list --path {folder}')
    return sweeps[-1]  # the latest round of the sweep


def sweep_results(ledger: Ledger, sweep: str) -> list[Result]:
    """Read the results of a sweep in config order, without failed configs; ``sweep`` is the sweep's id."""
    return list(results_by_job(ledger.records(sweep)).values())


def _matching_sweeps(ledger: Ledger, name: str) -> list[Sweep]:
    return [sweep for sweep in ledger.sweeps() if name and (sweep.parent.startswith(name) or sweep.id.startswith(name))]


def find_recorded(declared: object, ledger: Ledger) -> RecordedRun | None:
    """Return the recorded result of a baseline that is declared by a name or run id; None for other declarations.

    Raises InputError if there is no such result.
    """
    if not isinstance(declared, str) or read_number(declared) is not None or "=" in declared:
        return None
    try:
        return find_run(str(ledger.path.parent), declared)
    except InputError as fault:
        raise InputError(f"{BASELINE}={declared}: {fault}") from None


def find_baseline(
    declared: object, names: Mapping[int, str], results: Sequence[Result], ledger: Ledger
) -> tuple[Result | None, str | None]:
    """Return the result and the name of the declared baseline, which is a config of the sweep or a recorded run.

    The result is None if the baseline is a config of the sweep and has no result. Both are None if no baseline is
    declared, if it is not found, or if it is a recorded run on different questions. ``declared`` is the declaration as
    typed; if it is None, the declaration in the latest result's config is used. ``names`` maps job indices to the names
    of the sweep's configs.
    """
    if declared is None and results:  # use the latest result: a resumed command may declare another baseline
        declared = max(results, key=lambda one: one.run.ended).run.config.get(BASELINE)
    if (number := read_number(declared)) is not None:
        name = names.get(number - 1)
        return next((one for one in results if one.name == name), None), name
    try:
        found = find_recorded(declared, ledger) if results else None
    except InputError:  # the record was deleted after the sweep
        return None, None
    if found is None or found.result.run.dataset.golden_digest != results[0].run.dataset.golden_digest:
        return None, None
    same = next((one for one in results if one.run.signature == found.result.run.signature), None)
    own = without_number(found.result.name).removeprefix(f"{declared}: ")  # the prefix of a run that has a name
    baseline = same or found.result.renamed(f"{declared} {own}")
    return baseline, baseline.name
