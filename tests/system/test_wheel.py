"""What the wheel carries is enough: the command works in an empty folder, and is the clone's command."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SWEEP = ["-m", "sweeps=top_k", "retriever=bm25", "tracking=none", "headline=[context_recall,mrr,context_tokens]"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and unpack it, as an installer does."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    zipfile.ZipFile(built).extractall(folder / "site")
    return folder / "site"


def table(command: list[str], folder: Path, **variables: str) -> list[str]:
    """Run a sweep in an empty folder and return its table."""
    folder.mkdir()
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if re.match(r"\d +\d+ ", line)]


def test_wheel_carries_configs_sweeps_golden_set_and_licence(wheel: Path) -> None:
    assert (wheel / "ragsweep" / "conf" / "config.yaml").is_file()
    assert (wheel / "ragsweep" / "sweeps" / "top_k.yaml").is_file()
    assert (wheel / "ragsweep" / "py.typed").is_file()
    assert {path.suffix for path in (wheel / "ragsweep" / "report" / "page").iterdir()} >= {".html", ".css", ".js"}
    assert (wheel / "ragsweep" / "parts" / "datasets" / "python_reference.jsonl").is_file()
    for plugin in ("ragsweep_searchpath/searchpath", "ragsweep_grid/sweeper", "optuna_sweeper/sweeper"):
        assert (wheel / "hydra_plugins" / f"{plugin}.py").is_file()
    assert (wheel / "optuna_sweeper" / "loop.py").is_file()
    assert not (wheel / "hydra_plugins" / "__init__.py").exists()  # a namespace that others share
    assert list(wheel.glob("ragsweep-*.dist-info/licenses/LICENSE"))


@pytest.mark.nightly
def test_installed_command_in_an_empty_folder_equals_the_clones(wheel: Path, tmp_path: Path) -> None:
    installed = [sys.executable, "-c", "from ragsweep.commands.cli import main; main()", "run", *SWEEP]
    cloned = [sys.executable, str(ROOT / "run.py"), *SWEEP]
    from_wheel = table(installed, tmp_path / "wheel", PYTHONPATH=str(wheel))
    assert len(from_wheel) == 3
    assert from_wheel == table(cloned, tmp_path / "clone")
