"""The ledger is the truth: what MLflow lacks is sent from it, once."""

import shutil
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mlflow
import pytest
from mlflow.entities import Run

from ragsweep.core.identity import content_hash
from ragsweep.parts.tracking import Mlflow
from ragsweep.records import checksums
from ragsweep.records.ledger import Ledger
from support.commands import add_tables, call, printed
from support.commands import write_dataset as write_files
from support.results import a_result

pytestmark = pytest.mark.slow

Shown = dict[str, tuple[str, dict[str, float], dict[str, str]]]


def ragsweep(folder: Path, *arguments: str) -> str:
    return printed(folder, "-m", "ragsweep", *arguments)


def write_dataset(folder: Path) -> list[str]:
    """Write the small dataset, and choose one metric: a chart of each takes longer than the sweep."""
    return [*write_files(folder), "headline=[context_ndcg]"]


def runs(folder: Path) -> list[Run]:
    """Return all runs of a copy of the database: this process keeps what it has opened open."""
    copy = folder / f"{uuid.uuid4().hex}.db"
    with sqlite3.connect(folder / "mlflow.db") as source, sqlite3.connect(copy) as target:
        source.backup(target)
    source.close()
    target.close()
    client = mlflow.MlflowClient(f"sqlite:///{copy}")
    return list(client.search_runs([client.get_experiment_by_name("ragsweep").experiment_id]))


def shown(folder: Path) -> Shown:
    """Return name -> status, metrics and parameters of every run; a name that stands twice fails."""
    found = {run.info.run_name: (run.info.status, run.data.metrics, run.data.params) for run in runs(folder)}
    assert len(found) == len(runs(folder))
    return found


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tracked")
    data = write_dataset(folder)
    add_tables(folder)
    ragsweep(folder, "run", "-m", *data, "top_k=1,2")
    ragsweep(folder, "run", *data, "top_k=3")
    ragsweep(folder, "run", "-m", *data, "top_k=1,2,4", "tracking=none")
    return folder


@pytest.fixture
def folder(tracked: Path, tmp_path: Path) -> Path:
    """The folder as it was left; its database keeps the paths of the original's artifacts."""
    for name in (".ragsweep", "mlruns"):
        shutil.copytree(tracked / name, tmp_path / name)
    for path in tracked.glob("mlflow.db*"):  # with what is only in its log yet
        shutil.copy(path, tmp_path)
    return tmp_path


def same_place(folder: Path) -> None:
    """Let the ledger of a copied folder mean the copied database."""
    place = Mlflow(f"sqlite:///{folder / 'mlflow.db'}").identity
    with edited(Ledger(folder / ".ragsweep")) as connection:
        for table in ("sweeps", "records"):
            connection.execute(f"UPDATE {table} SET tracker = ? WHERE tracker != ''", (place,))


@contextmanager
def edited(ledger: Ledger) -> Iterator[sqlite3.Connection]:
    """Edit a ledger's tables, and write their checksums."""
    with ledger._file.transaction() as connection:
        yield connection
        checksums.write_all(connection)


def test_nothing_is_sent_twice(folder: Path) -> None:
    same_place(folder)
    before = shown(folder)
    assert "nothing was missing" in ragsweep(folder, "sync")
    assert shown(folder) == before


def test_a_result_that_did_not_reach_another_place_is_named_with_the_command_that_sends_it(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'other.db'}"
    ledger = Ledger(tmp_path / ".ragsweep")
    settings = {"tracking": {"uri": uri, "experiment": "exp 1"}}
    ledger.write(None, 0, a_result(config=settings), Mlflow(uri, "exp 1").identity)
    add_tables(tmp_path)
    printed = " ".join(ragsweep(tmp_path, "sync").split())
    assert f"elsewhere 1 result not yet sent to {uri}, experiment exp 1;" in printed
    assert f"sync with --uri {uri} --experiment 'exp 1'" in printed


@pytest.mark.nightly
def test_lost_database_is_rebuilt_without_what_was_never_meant_for_it(folder: Path) -> None:
    same_place(folder)
    before = shown(folder)
    for path in folder.glob("mlflow.db*"):
        path.unlink()
    shutil.rmtree(folder / "mlruns")
    add_tables(folder)
    assert "3 results sent" in ragsweep(folder, "sync")
    assert shown(folder) == before
    assert "nothing was missing" in ragsweep(folder, "sync")


@pytest.mark.nightly
@pytest.mark.parametrize("state", ["FINISHED", "KILLED"])
def test_repeated_command_puts_a_lost_database_right(state: str, tracked: Path, folder: Path) -> None:
    same_place(folder)
    before = shown(folder)
    ledger = Ledger(folder / ".ragsweep")
    sweep = ledger.sweeps()[0]
    ledger.set_status(sweep.id, state)
    for path in folder.glob("mlflow.db*"):
        path.unlink()
    add_tables(folder)
    data = write_dataset(folder)
    place = Mlflow(f"sqlite:///{folder / 'mlflow.db'}").identity
    with edited(ledger) as connection:  # the copied folder's sweep, under the copy's own key
        connection.execute("UPDATE sweeps SET key = ?", ("elsewhere",))
        signatures = [record.outcome.run.signature for record in ledger.records(sweep.id)]
        key = content_hash([signatures, place, {"headline": ["context_ndcg"]}])  # typed, and deciding
        connection.execute("UPDATE sweeps SET key = ? WHERE id = ?", (key, sweep.id))
    said = ragsweep(folder, "run", "-m", *data, "top_k=1,2")
    assert "job " not in said
    assert ("uploaded 2 results that" if state == "FINISHED" else "2 of 2 configs are already done") in said
    assert shown(folder) == {name: run for name, run in before.items() if "top_k=3" not in name}


@pytest.mark.nightly
def test_all_of_it_goes_into_another_database(folder: Path) -> None:
    (folder / "other").mkdir()
    add_tables(folder / "other")
    other = ["sync", "--all", "--uri", f"sqlite:///{folder / 'other' / 'mlflow.db'}"]
    assert "6 results sent" in ragsweep(folder, *other)
    assert "nothing was missing" in ragsweep(folder, *other)
    found = runs(folder / "other")
    assert {run.info.status for run in found} == {"FINISHED"}
    kinds = [run.data.tags["ragsweep.kind"] for run in found]
    assert (kinds.count("sweep"), kinds.count("config")) == (2, 6)


def test_folder_without_a_ledger_is_said(tmp_path: Path) -> None:
    done = call(tmp_path, "-m", "ragsweep", "sync")
    assert done.returncode == 2
    way = "run a config first, or name the folder of store.path with --path"
    assert done.stderr == f"ragsweep: .ragsweep: there is no ledger.db in this folder; {way}\n"
