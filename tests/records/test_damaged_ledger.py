"""A ledger is read as it was written, or refused in one sentence that names the file and the way out."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ragsweep.core.errors import InputError
from ragsweep.core.results import Failure, Result
from ragsweep.records.checksums import COLUMNS
from ragsweep.records.ledger import LARGE, Ledger
from support.results import a_result, changed
from test_ledger import opened

SENTENCE = r"ledger\.db: .*; restore the file from a copy, or move it to another folder and repeat the runs"
JOBS = 6


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return fill(tmp_path)


def fill(folder: Path) -> Path:
    """Write a ledger of two sweeps and of two configs by themselves, all in the file itself."""
    ledger = Ledger(folder)
    held = replace(a_result().run.dataset, partition="holdout", held=("q1",))
    for key in ("one", "two"):
        sweep = opened(ledger, *(f"top_k={n}" for n in range(JOBS)), key=key)
        for job in range(JOBS - 1):
            ledger.mark_tracked(ledger.write(sweep.id, job, changed(a_result(), name=f"{key} {job}")), f"run {job}")
        ledger.write(sweep.id, JOBS - 1, Failure("f", (), {}, "error"))
    ledger.set_status("one-0", "FINISHED")
    ledger.claims.claim_job("two-0", 77)
    for name in ("single", "other"):
        record = ledger.write(None, 0, changed(a_result(), name=name, dataset=held))
        ledger.names.give(name, f"record {record}")
    with closing(sqlite3.connect(folder / "ledger.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder


def read_all(folder: Path) -> list[object]:
    """Read all that tables and reports are made of."""
    ledger = Ledger(folder)
    values: list[object] = []
    for sweep in ledger.sweeps():
        values += [sweep, ledger.sweep(sweep.id), ledger.latest(sweep.id.partition("-")[0])]
        for record in (*ledger.records(sweep.id), *ledger.untracked(sweep.id), *ledger.finalists(sweep.id)):
            values.append(summary_text(record.outcome))
    records = (*ledger.singles(), *ledger.of_run("run"), *ledger.tune_records("w"))
    values += [summary_text(record.outcome) for record in records]
    values += [*map(str, ledger.abandoned()), *ledger.claims.jobs("one-0")]
    return [*values, ledger.holdout_views("w"), ledger.names.all()]


def write_as_a_sweep(folder: Path) -> None:
    ledger = Ledger(folder)
    sweep = opened(ledger, "top_k=3", key="three")
    ledger.claims.claim_job(sweep.id, 0)
    record = ledger.write(sweep.id, 0, a_result(), fenced=True)
    ledger.claims.claim_upload(record)
    ledger.mark_tracked(record, "run")
    ledger.retry("one-0")
    ledger.set_status(sweep.id, "FINISHED")
    ledger.claims.others("two-0")


def summary_text(outcome: Result | Failure) -> object:
    """Without NaN, which is not itself."""
    return outcome.name, str(outcome)


def change(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "ledger.db")) as connection, connection:
        assert connection.execute(statement).rowcount > 0


COLUMN_CHANGES = [
    f"UPDATE {table} SET {column} = CASE typeof({column}) WHEN 'text' THEN {column} || 'x' WHEN 'null' THEN 'x'"
    f" ELSE {column} + 77 END WHERE rowid = (SELECT min(rowid) FROM {table})"
    for table, columns in COLUMNS.items()
    for column in columns.split(", ")
]
LARGE_CHANGES = [f"UPDATE records SET {column} = {column} || 'x' WHERE id = 1" for column in LARGE]
ROW_CHANGES = [f"DELETE FROM {table} WHERE rowid = (SELECT {end}(rowid) FROM {table})"
               for table in COLUMNS for end in ("min", "max")]  # fmt: skip
DOUBLED = [
    f"INSERT INTO {table} ({columns}{more}) SELECT {columns.replace(key, changed, 1)}{more} FROM {table} LIMIT 1"
    for table, key, changed, more in [
        ("records", "id, sweep, kind, job", "77, sweep, kind, 77", ", " + ", ".join(LARGE)),
        ("records", "id, sweep", "77, NULL", ", " + ", ".join(LARGE)),
        ("sweeps", "id", "'x-0'", ""),
        ("names", "name", "'x'", ""),
        ("holdout_views", "viewer", "'x'", ""),
    ]
    for columns in [COLUMNS[table]]
]
OTHER_CHANGES = [
    "DELETE FROM checksums WHERE scope = 'records one-0'",
    "DELETE FROM checksums WHERE scope = 'names'",
    "DELETE FROM records WHERE sweep = 'one-0'",
    "DELETE FROM shared WHERE name != ''",
    "UPDATE shared SET data = zeroblob(length(data)) WHERE name != ''",
    "UPDATE checksums SET checksum = 'none' WHERE scope = 'sweeps'",
    "UPDATE checksums SET checksum = x'ff' WHERE scope = 'records one-0'",
    "UPDATE claims SET heartbeat = 'text', host = 'other'",
    "UPDATE claims SET process = 9e18",
    "UPDATE shared SET data = 1 << 62 WHERE name != ''",
]


@pytest.mark.parametrize("statement", [*COLUMN_CHANGES, *LARGE_CHANGES, *ROW_CHANGES, *DOUBLED, *OTHER_CHANGES])
def test_row_that_is_lost_doubled_renumbered_or_changed_is_refused(statement: str, folder: Path) -> None:
    change(folder, statement)
    with pytest.raises(InputError, match=SENTENCE):
        read_all(folder)


def test_change_of_one_row_does_not_hide_the_damage_of_another(folder: Path) -> None:
    change(folder, "UPDATE records SET kind = 'confih' WHERE sweep = 'one-0' AND job = 0")
    ledger = Ledger(folder)
    ledger.retry("one-0")
    ledger.write("one-0", 3, changed(a_result(), name="again"))
    with pytest.raises(InputError, match=SENTENCE):
        ledger.records("one-0")
    assert ledger.records("two-0")


def test_missing_table_is_damage_to_readers_and_writers(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "ledger.db")) as connection:
        connection.execute("DROP TABLE names")
    names = Ledger(folder).names
    for use in (names.all, lambda: names.give("new", "record 1"), lambda: names.drop("single")):
        with pytest.raises(InputError, match=SENTENCE):
            use()


def test_ledger_with_a_hash_for_each_row_is_upgraded_unless_a_row_was_changed(tmp_path: Path) -> None:
    for name, harm in (("whole", ""), ("changed", "UPDATE records SET job = 7 WHERE id = 1;")):
        (tmp_path / name).mkdir()
        with closing(sqlite3.connect(tmp_path / name / "ledger.db")) as connection:
            connection.executescript((Path(__file__).parents[1] / "fixtures/0.2.0/ledger.sql").read_text() + harm)
    assert len(read_all(tmp_path / "whole")) > 2
    with pytest.raises(InputError, match="record 1 does not match its hash"):
        Ledger(tmp_path / "changed")
