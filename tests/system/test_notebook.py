"""The notebook runs on a real sweep, and is committed without outputs."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import forked

ROOT = Path(__file__).parents[2]
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
    swept = forked.run(
        [sys.executable, str(ROOT / "run.py"), "-m", "sweeps=top_k", "retriever=bm25"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert swept.returncode == 0, swept.stderr
    notebook = nbformat.read(ROOT / "notebooks" / "01_first_run.ipynb", as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [str(output) for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("context_recall" in output and "top_k" in output for output in outputs)
    assert any("image/png" in output for output in outputs)
