"""The grid sweeper in a Hydra program that knows nothing of ragsweep."""

from __future__ import annotations

import sys
from pathlib import Path

import forked

APP = """
import hydra

@hydra.main(version_base="1.3", config_path=None, config_name="config")
def main(config):
    print("ran", config.x, config.y)
    if config.x == 13:
        raise ValueError("unlucky")

main()
"""


def launched(folder: Path, *arguments: str) -> tuple[int, list[str], str]:
    (folder / "app.py").write_text(APP)
    (folder / "config.yaml").write_text("x: 1\ny: 1\n")
    done = forked.run(
        [sys.executable, "app.py", "--config-dir", ".", "-m", "hydra/sweeper=grid", *arguments],
        cwd=folder, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    return done.returncode, [line for line in done.stdout.splitlines() if line.startswith("ran")], done.stderr


def test_cases_run_as_a_union_and_a_failed_job_stops_no_other(tmp_path: Path) -> None:
    cases = ["hydra.sweeper.cases=[['x=5'],['x=13']]", "hydra.sweeper.max_batch_size=1"]
    status, ran, error = launched(tmp_path, *cases, "y=1,2")
    assert ran == ["ran 5 1", "ran 5 2", "ran 13 1", "ran 13 2"]
    assert status == 1
    assert "unlucky" in error
    assert (next((tmp_path / "multirun").glob("*/*")) / "multirun.yaml").exists()
