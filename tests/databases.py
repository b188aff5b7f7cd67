"""MLflow's tables, made once for all tests: to make them takes a command longer than all that it is tested for."""

from __future__ import annotations

import sys
import tempfile
from functools import cache
from pathlib import Path

import forked

MAKING = (
    "import sys; from pathlib import Path; from ragsweep.parts.tracking.database import create_tables as make\n"
    "make(sys.argv[1], Path(sys.argv[1]))"
)


@cache
def _tables() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mlflow.db")
        forked.run([sys.executable, "-c", MAKING, str(path)], check=True)
        return path.read_bytes()


def add_tables(folder: Path) -> None:
    """Put a database with MLflow's tables, and nothing in them, where a command in the folder looks for one."""
    path = folder / "mlflow.db"
    if not path.exists():
        path.write_bytes(_tables())
