"""The notebooks choose their sweeps by name, run on real ones, and are committed without outputs."""

import ast
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import nbformat
import pytest
from nbclient import NotebookClient

from ragsweep.records.ledger import Sweep
from ragsweep.sweep.composing.command import read_command
from ragsweep.sweep.composing.sweep_names import sweep_title
from support.commands import ROOT, RUN, add_tables, printed, write_dataset

pytestmark = pytest.mark.slow

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_committed_without_outputs(path: Path) -> None:
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert cells
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)


def code(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def assigned(path: Path, name: str) -> Any:
    """Return the first value, or list of the values written out, that a notebook assigns to a name."""
    nodes = (node for source in code(path) for node in ast.parse(source).body if isinstance(node, ast.Assign))
    value = next(node.value for node in nodes if ast.unparse(node.targets[0]) == name)
    items = value.elts if isinstance(value, ast.List) else [value]
    found = [item.value for item in items if isinstance(item, ast.Constant)]
    return found if isinstance(value, ast.List) else found[0]


def typed(path: Path) -> list[str]:
    """Return the overrides of the command that a notebook asks for, or runs itself."""
    asked = re.search(r"`python run\.py -m ([^`]+)`", nbformat.read(path, as_version=4).cells[0].source)
    return asked[1].split() if asked else [word for word in assigned(path, "command") if "=" in word]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_names_its_sweep_as_its_command_does(path: Path) -> None:
    command = read_command(typed(path), multirun=True)
    sweep = Sweep("", " ".join(command.overrides), "", command.jobs, tuple(command.names()))
    assert sweep_title(sweep) == assigned(path, "NAME")


@pytest.fixture
def chosen(cwd: Path, monkeypatch: pytest.MonkeyPatch, restored_uri: None) -> Callable[[Path], Any]:
    """Run the cell that chooses a notebook's sweep, in a folder with an empty database."""
    add_tables(cwd)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{cwd / 'mlflow.db'}")

    def run(path: Path) -> Any:
        names: dict[str, Any] = {}
        cell = next(source for source in code(path) if "NAME =" in source)
        exec(re.split(r"^(?:configs|path) =", cell, flags=re.MULTILINE)[0], names)  # what is read from it comes later
        return names["sweep"]

    return run


def track(client: mlflow.MlflowClient, experiment: str, name: str, start: int, kind: str = "sweep") -> str:
    tags = {"ragsweep.kind": kind}
    return str(client.create_run(experiment, start_time=start, tags=tags, run_name=name).info.run_id)


def test_notebooks_take_the_newest_sweep_of_their_name(chosen: Callable[[Path], Any]) -> None:
    client = mlflow.MlflowClient(os.environ["MLFLOW_TRACKING_URI"])
    experiment = client.create_experiment("ragsweep")
    newest = {}
    for name in {assigned(path, "NAME") for path in NOTEBOOKS}:
        track(client, experiment, name, 1)
        newest[name] = track(client, experiment, name, 3)
        track(client, experiment, name, 2)
        track(client, experiment, name, 8, kind="config")
        track(client, experiment, f"demo: {name}", 9)
    for path in NOTEBOOKS:
        assert chosen(path)["run_id"] == newest[assigned(path, "NAME")]


def test_notebook_without_its_sweep_lists_those_that_there_are_and_the_command(chosen: Callable[[Path], Any]) -> None:
    with pytest.raises(LookupError, match=r"run `python run\.py -m sweeps=top_k`, or set NAME .* there are: none$"):
        chosen(NOTEBOOKS[0])
    client = mlflow.MlflowClient(os.environ["MLFLOW_TRACKING_URI"])
    experiment = client.create_experiment("ragsweep")
    for name in ("older", "depth", "depth"):
        track(client, experiment, name, len(name))
    for path in NOTEBOOKS:
        command = f"run `python run.py -m {' '.join(typed(path))}`" if path is not NOTEBOOKS[-1] else "run the cell"
        with pytest.raises(LookupError) as raised:
            chosen(path)
        assert f"no sweep is named {assigned(path, 'NAME')!r}; {command}" in str(raised.value)
        assert sorted(str(raised.value).rpartition(": ")[2].split(", ")) == ["depth", "older"]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sweeps that all but the last notebook ask for, small or cheap, and a newer one."""
    folder = tmp_path_factory.mktemp("swept")
    small = write_dataset(folder)[:-1]  # one change at a time around a hybrid needs vectors: of four documents
    for command in dict.fromkeys(tuple(typed(path)) for path in NOTEBOOKS[:-1]):
        printed(folder, RUN, "-m", *command, *(small if "sweeps=ablation" in command else ["embedder=hashing"]))
    printed(folder, RUN, "-m", "retriever=bm25", "depth=20,40")
    return folder


@pytest.mark.filterwarnings("ignore")
@pytest.mark.nightly
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_shows_the_sweep(path: Path, swept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(swept)}}).execute()
    outputs = [str(output) for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    if path is not NOTEBOOKS[-1]:
        assert any(assigned(path, "NAME") in output for output in outputs)
    assert any("context" in output for output in outputs)
    assert any("image/png" in output for output in outputs) or path is NOTEBOOKS[-1]
