"""What earlier releases left on disk is read by this one, and gone on with; a later one's is refused."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.make import DATABASES, SEARCH, SWEEP, TRIALS, restore
from ragsweep.core.identity import content_hash
from ragsweep.core.results import Result
from ragsweep.parts.tracking import Mlflow
from ragsweep.records import checksums
from ragsweep.records.ledger import Ledger
from ragsweep.stages.store import Store
from ragsweep.sweep.composing.command import compose_jobs, read_command
from ragsweep.sweep.preparing import prepare_jobs
from ragsweep.sweep.running.session import Session
from ragsweep.sweep.searching import search_run
from support import nightly
from support.commands import in_one_process
from support.servers.studies import stored_trials

pytestmark = pytest.mark.slow

KEPT = sorted(path.parent for path in (Path(__file__).parents[1] / "fixtures").glob("*/versions.json"))
REPEATED = ["run", "-m", *SWEEP]
CONTINUED = ["run", "-m", *SEARCH, f"hydra.sweeper.n_trials={TRIALS + 1}"]


@pytest.fixture(scope="module", params=KEPT, ids=[path.name for path in KEPT])
def kept(request: pytest.FixtureRequest) -> Path:
    """The fixtures of one release."""
    return Path(request.param)


@pytest.fixture
def folder(kept: Path, cwd: Path) -> Path:
    restore(kept, cwd)
    return cwd


def same_commands(folder: Path) -> None:
    """Give the two sweeps the keys that their commands have here and now.

    A key names the place, which was another folder, and the metrics, of which later releases have more.
    """
    place = Mlflow(f"sqlite:///{folder / 'mlflow.db'}").identity
    keys = []
    for typed in (SWEEP, SEARCH):
        command = read_command(typed, multirun=True)
        experiments = prepare_jobs(Session(), compose_jobs(command))
        signatures = [experiment.signature for experiment in experiments]
        searched = search_run.search_key(command, signatures[0], place) if command.searching else ""
        keys.append(searched or content_hash([signatures, place]))
    Ledger((folder / DATABASES["ledger"]).parent)  # which brings the file to the present format
    with closing(sqlite3.connect(folder / DATABASES["ledger"])) as connection, connection:
        sweeps = connection.execute("SELECT id FROM sweeps ORDER BY created").fetchall()
        for key, (sweep,) in zip(keys, sweeps, strict=True):
            connection.execute("UPDATE sweeps SET key = ?, tracker = ? WHERE id = ?", (key, place, sweep))
            connection.execute("UPDATE records SET tracker = ? WHERE sweep = ?", (place, sweep))
        checksums.write_all(connection)


def test_there_are_fixtures_and_they_are_small() -> None:
    assert KEPT
    for path in KEPT:
        assert sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) < 1_000_000


def test_the_store_serves_what_an_earlier_release_put_there(folder: Path) -> None:
    warned: list[str] = []
    store = Store(folder / ".ragsweep" / "stages", warned.append)
    whole = sorted(path.name for path in (folder / ".ragsweep" / "stages" / "whole").iterdir())
    entries = dict(store._database.rows("SELECT address, kind FROM entries"))
    assert whole == sorted(address for address, kind in entries.items() if kind == "whole")
    assert set(entries.values()) == {"whole", "rows"}
    assert not warned


def test_what_an_earlier_release_left_is_shown_continued_and_agreed_with(folder: Path) -> None:
    same_commands(folder)
    before = stored_trials(folder / DATABASES["study"])
    ledger = Ledger(folder / ".ragsweep")
    measured = [record.outcome for sweep in ledger.sweeps() for record in ledger.records(sweep.id)]
    assert len(measured) == 3 + TRIALS
    assert all(isinstance(one, Result) and one.summaries.metrics["context_recall"].value == 1 for one in measured)
    ended = in_one_process({"sync": ["sync"], "repeated": REPEATED, "continued": CONTINUED, "again": ["sync"]}, folder)
    assert {name: status for name, (status, _) in ended.items()} == dict.fromkeys(ended, 0), ended
    assert "nothing was missing" in ended["sync"][1]
    assert "is already finished" in ended["repeated"][1]
    assert "job " not in ended["repeated"][1]
    assert "top_k = 1, 2, 3" in ended["repeated"][1]
    assert f"{TRIALS} of {TRIALS + 1} trials are already done" in ended["continued"][1]
    after = stored_trials(folder / DATABASES["study"])
    assert list(after.items())[:TRIALS] == list(before.items())
    assert len(after) == TRIALS + 1
    assert "nothing was missing" in ended["again"][1]


LATER = {
    "ledger": (
        ["PRAGMA user_version = 99"],
        "was written by another version of ragsweep (format 99; this version writes format",
    ),
    "optuna": (
        ["UPDATE alembic_version SET version_num = 'v99'", "UPDATE version_info SET library_version = '99.0'"],
        "set up by optuna 99.0",
    ),
    "mlflow": (["UPDATE alembic_version SET version_num = 'ffffffffffff'"], "ffffffffffff"),
    "store": (
        ["PRAGMA user_version = 99"],
        "was written by another version of ragsweep (format 99; this version reads",
    ),
}


STATUS = {"store": 0, "ledger": 2, "mlflow": 2, "optuna": 2}
"""The store is only what need not be computed again: it is put aside, with a warning."""


@pytest.mark.parametrize("names", [["ledger", "store"], nightly(["optuna", "mlflow"])])
def test_what_a_later_version_left_is_named_with_what_it_needs(names: list[str], tmp_path: Path) -> None:
    commands = {}
    for name in names:
        statements = LATER[name][0]
        (tmp_path / name).mkdir()
        restore(KEPT[-1], tmp_path / name)
        connection = sqlite3.connect(tmp_path / name / DATABASES.get(name, DATABASES["study"]))
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        connection.close()
        commands[name] = CONTINUED if name == "optuna" else [*REPEATED, "rerun=true"]
    ended = in_one_process(commands, tmp_path)
    for name in names:
        (_, expected), (status, said) = LATER[name], ended[name]
        assert said.count(expected) == 1, said
        assert "Traceback" not in said
        assert status == STATUS.get(name, 1), said


def test_a_fixture_names_no_place_of_the_machine_that_made_it(kept: Path) -> None:
    for file in kept.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            for place in (b"/tmp/", b"/home/", b"/root/", b"/Users/"):
                assert place not in data
                assert place.hex().upper().encode() not in data.upper(), file  # within a block of bytes
