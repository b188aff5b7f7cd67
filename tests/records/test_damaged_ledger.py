"""A ledger is read as it was written, or refused in one sentence that names the file and the way out."""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ragsweep.core.errors import InputError, RagsweepError
from ragsweep.core.results import Failure, Result
from ragsweep.records.ledger import Ledger
from recorded import a_result
from test_ledger import opened

SENTENCE = r"ledger\.db: .*; restore the file from a copy, or move it away and run the command again"
JOBS = 6


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A ledger of two sweeps and of two configs by themselves, all in the file itself."""
    ledger = Ledger(tmp_path)
    for key in ("one", "two"):
        sweep = opened(ledger, *(f"top_k={n}" for n in range(JOBS)), key=key)
        for job in range(JOBS - 1):
            ledger.mark_tracked(ledger.write(sweep.id, job, replace(a_result(), name=f"{key} {job}")), f"run {job}")
        ledger.write(sweep.id, JOBS - 1, Failure("f", (), {}, "error"))
    ledger.set_status("one-0", "FINISHED")
    ledger.claims.claim_job("two-0", 77)
    for name in ("single", "other"):
        ledger.write(None, 0, replace(a_result(), name=name))
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return tmp_path


def read_all(folder: Path) -> list[object]:
    """Read all that tables and reports are made of."""
    ledger = Ledger(folder)
    values: list[object] = []
    for sweep in ledger.sweeps():
        values += [sweep, ledger.sweep(sweep.id), ledger.latest(sweep.id.partition("-")[0])]
        for record in (*ledger.records(sweep.id), *ledger.untracked(sweep.id), *ledger.finalists(sweep.id)):
            values.append(summary_text(record.outcome))
    values += [
        summary_text(record.outcome) for record in (*ledger.singles(), *ledger.of_run("run"), *ledger.tune_records("w"))
    ]
    return [*values, *map(str, ledger.abandoned()), *ledger.claims.jobs("one-0"), ledger.holdout_views("w")]


def write_as_a_sweep(folder: Path) -> None:
    ledger = Ledger(folder)
    sweep = opened(ledger, "top_k=3", key="three")
    ledger.claims.claim_job(sweep.id, 0)
    record = ledger.write(sweep.id, 0, a_result(), fenced=True)
    ledger.claims.claim_upload(record)
    ledger.mark_tracked(record, "run")
    ledger.retry("one-0")
    ledger.set_status(sweep.id, "FINISHED")
    assert ledger.claims.others("two-0") == []


def summary_text(outcome: Result | Failure) -> object:
    """Without NaN, which is not itself."""
    return outcome.name, str(outcome)


def change(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "ledger.db")) as connection, connection:
        assert connection.execute(statement).rowcount > 0


FIRST = "(SELECT id FROM records WHERE sweep = 'one-0' AND job = 1)"
WITHOUT_ID = (
    "sweep, kind, job, status, partition, golden, signature, tracker, run, tracked, text, scores, counts, own, shared,"
    " digest, created"
)


@pytest.mark.parametrize(
    "statement",
    [
        f"DELETE FROM records WHERE id = {FIRST}",
        "DELETE FROM records WHERE sweep = 'one-0'",
        "DELETE FROM records WHERE sweep IS NULL AND id = (SELECT max(id) FROM records)",
        f"INSERT INTO records ({WITHOUT_ID}) SELECT {WITHOUT_ID.replace('job', '77')} FROM records WHERE id = {FIRST}",
        f"INSERT INTO records ({WITHOUT_ID}) SELECT {WITHOUT_ID.replace('sweep', 'NULL')} FROM records LIMIT 1",
        f"UPDATE records SET job = 77 WHERE id = {FIRST}",
        f"UPDATE records SET id = 777 WHERE id = {FIRST}",
        f"UPDATE records SET sweep = 'two-0', job = 77 WHERE id = {FIRST}",
        f"UPDATE records SET sweep = NULL WHERE id = {FIRST}",
        f"UPDATE records SET status = 'partial' WHERE id = {FIRST}",
        f"UPDATE records SET kind = 'finalist' WHERE id = {FIRST}",
        f"UPDATE records SET partition = 'tune' WHERE id = {FIRST}",
        f"UPDATE records SET run = 'another' WHERE id = {FIRST}",
        f"UPDATE records SET tracked = 0 WHERE id = {FIRST}",
        f"UPDATE records SET tracker = 'elsewhere' WHERE id = {FIRST}",
        f"UPDATE records SET signature = 'other' WHERE id = {FIRST}",
        f"UPDATE records SET scores = zeroblob(length(scores)) WHERE id = {FIRST}",
        f"UPDATE records SET text = replace(text, 'one 1', 'one 2') WHERE id = {FIRST}",
        f"UPDATE records SET created = created + 1 WHERE id = {FIRST}",
        "DELETE FROM shared WHERE name != ''",
        "UPDATE shared SET data = zeroblob(length(data)) WHERE name != ''",
        "DELETE FROM sweeps WHERE id = 'one-0'",
        "UPDATE sweeps SET names = replace(names, '3', '4') WHERE id = 'one-0'",
        "UPDATE sweeps SET status = 'RUNNING' WHERE id = 'one-0'",
        "UPDATE sweeps SET round = 1, id = 'one-1' WHERE id = 'one-0'",
        "DELETE FROM seals WHERE name = 'sweep one-0'",
    ],
)
def test_row_that_is_lost_doubled_renumbered_or_changed_is_refused(statement: str, folder: Path) -> None:
    read_all(folder)
    change(folder, statement)
    with pytest.raises(InputError, match=SENTENCE):
        read_all(folder)


def flip_bits(draw: random.Random, content: bytearray) -> None:
    for _ in range(50):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)


def clear_page(draw: random.Random, content: bytearray) -> None:
    start = 4096 * draw.randrange(len(content) // 4096)
    content[start : start + 4096] = bytes(4096)


def truncate(draw: random.Random, content: bytearray) -> None:
    del content[draw.randrange(len(content)) :]


@pytest.mark.parametrize("harm", [flip_bits, clear_page, truncate])
def test_damaged_file_is_read_whole_or_refused_in_one_sentence(
    harm: Callable[[random.Random, bytearray], None], folder: Path
) -> None:
    before, file = read_all(folder), folder / "ledger.db"
    whole = file.read_bytes()
    messages = []
    for seed in range(60):
        content = bytearray(whole)
        harm(random.Random(seed), content)
        for path in folder.iterdir():
            path.unlink()
        file.write_bytes(content)
        try:
            assert read_all(folder) == before
            write_as_a_sweep(folder)
        except RagsweepError as fault:
            messages.append(str(fault))
    assert messages
    assert all(re.search(r"ledger\.db.*(restore|move it away)", text) and "\n" not in text for text in messages)
