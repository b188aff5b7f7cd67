"""The notebook runs on a real sweep, and is committed without outputs."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from command_line import ROOT, RUN, call

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_committed_without_outputs(path: Path) -> None:
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert cells
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.nightly
def test_first_run_shows_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    swept = call(tmp_path, RUN, "-m", "sweeps=top_k", "retriever=bm25")
    assert swept.returncode == 0, swept.stderr
    notebook = nbformat.read(ROOT / "notebooks" / "01_first_run.ipynb", as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [str(output) for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("context_recall" in output and "top_k" in output for output in outputs)
    assert any("image/png" in output for output in outputs)
