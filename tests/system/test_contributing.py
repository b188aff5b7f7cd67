"""What CONTRIBUTING.md and README.md tell the reader to do works as it is written there."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from command_line import ROOT, call

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(path: Path) -> dict[str, str]:
    """Take the Python blocks that name their file in the first line."""
    found = re.findall(r"^ *```python\n(.*?)^ *```$", path.read_text(), re.DOTALL | re.MULTILINE)
    dedented = [textwrap.dedent(block) for block in found]
    return {block.splitlines()[0].removeprefix("# "): block for block in dedented}


def test_own_retriever_passes_its_contract_and_runs(tmp_path: Path) -> None:
    for name, block in blocks(ROOT / "CONTRIBUTING.md").items():
        (tmp_path / name).write_text(block)
    (tmp_path / "conf" / "retriever").mkdir(parents=True)
    (tmp_path / "conf" / "retriever" / "shortest.yaml").write_text("_target_: my_parts.Shortest\n")
    trusted = {"RAGSWEEP_TRUSTED_PACKAGES": "my_parts", "PYTHONPATH": "."}
    contract = call(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_parts.py", **trusted)
    assert contract.returncode == 0, contract.stdout
    assert " passed" in contract.stdout
    swept = call(tmp_path, "-m", "ragsweep", "run", "-m", "retriever=bm25,shortest", "tracking=none", **trusted)
    assert swept.returncode == 0, swept.stderr
    assert "retriever=shortest" in swept.stdout


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        assert "://" in target or (path.parent / target).exists(), target


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 200
