"""Fill the README from a real run: what the demo prints, its report, MLflow's comparison, the measured table.

Needs Chromium, and docs/measurements.md (benchmarks/published.py). From the clone: .venv/bin/python docs/readme.py
"""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from mlflow import MlflowClient

ROOT = Path(__file__).resolve().parent.parent
BROWSER = [
    "chromium",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def main() -> None:
    """Sweep, serve, photograph, write."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        demo = [sys.executable, str(ROOT / "run.py"), "-m", "top_k=3,5,10"]
        wide = {**os.environ, "COLUMNS": "110"}
        printed = subprocess.run(demo, cwd=folder, check=True, capture_output=True, text=True, env=wide).stdout
        _fill("output", f"```text\n{_shown(printed)}\n```")
        sweep = printed[printed.index("ragsweep compare ") :].split()[2].partition("#")[0]
        report = [sys.executable, "-m", "ragsweep", "report", sweep, "-o", "report.html"]
        subprocess.run(report, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        _photograph(f"file://{folder}/report.html", ROOT / "docs" / "report.png", folder / "profile", "1200,1500")
        _fill("measured", _table((ROOT / "docs" / "measurements.md").read_text()))
        port = _free_port()
        server = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db",
             "--port", str(port), "--workers", "1"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            _wait(f"http://127.0.0.1:{port}/health")
            _photograph(_comparison(f"http://127.0.0.1:{port}"), ROOT / "docs" / "mlflow.png", folder / "profile")
        finally:
            server.terminate()
            server.wait()


def _fill(name: str, text: str) -> None:
    """Put a text between its two marks in the README."""
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text().partition(f"<!-- {name} -->\n")
    readme.write_text(f"{before}<!-- {name} -->\n{text}\n<!-- /{name} -->{rest.partition(f'<!-- /{name} -->')[2]}")


def _shown(printed: str) -> str:
    """Leave out the path by which this environment's mlflow is called."""
    lines = printed.replace(f"{Path(sys.executable).parent}/", "").splitlines()
    return "\n".join(line.rstrip() for line in lines).rstrip()


def _table(measurements: str) -> str:
    """Take the first table."""
    lines = measurements.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("|"))
    return "\n".join(itertools.takewhile(lambda line: line.startswith("|"), lines[start:]))


def _comparison(address: str) -> str:
    """Spell the address of MLflow's chart view of the sweep's configs."""
    client = MlflowClient(address)
    experiment = client.get_experiment_by_name("ragsweep")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], "tags.`ragsweep.kind` = 'config'")
    identifiers = ",".join(f'"{run.info.run_id}"' for run in runs)
    return f'{address}/#/compare-runs?runs=[{identifiers}]&experiments=["{experiment.experiment_id}"]'


def _photograph(address: str, target: Path, profile: Path, size: str = "1500,1150") -> None:
    options = [
        f"--screenshot={target}",
        f"--window-size={size}",
        "--virtual-time-budget=20000",
        f"--user-data-dir={profile}",
    ]
    subprocess.run([*BROWSER, *options, address], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(address: str) -> None:
    for _ in range(120):
        try:
            urllib.request.urlopen(address, timeout=1)
            return
        except OSError:
            time.sleep(0.5)
    raise SystemExit(f"{address} does not answer")


if __name__ == "__main__":
    main()
