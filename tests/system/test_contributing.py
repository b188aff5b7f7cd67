"""What CONTRIBUTING.md and README.md tell the reader to do works as it is written there."""

import re
import textwrap
from pathlib import Path

import pytest

from ragsweep.sweep.running.session import Session
from support.commands import ROOT, evaluate, printed, write_option

pytestmark = pytest.mark.slow


def blocks(path: Path) -> dict[str, str]:
    """Take the blocks of Python and YAML that name their file in the first line."""
    found = re.findall(r"^ *```(?:python|yaml)\n(.*?)^ *```$", path.read_text(), re.DOTALL | re.MULTILINE)
    dedented = [textwrap.dedent(block) for block in found]
    return {re.sub(r"# (?:@.*\n# )?", "", block, count=1).splitlines()[0]: block for block in dedented}


CONTRACTS = """
from my_answers import DigitShare
from my_llm import FirstPassage
from my_metrics import FirstChunk
from ragsweep.testing.generators import GeneratorContract
from ragsweep.testing.metrics import MetricContract


class TestFirstPassage(GeneratorContract):
    part = FirstPassage


class TestFirstChunk(MetricContract):
    metric = FirstChunk()


class TestDigitShare(MetricContract):
    metric = DigitShare()
"""


def write_blocks(folder: Path) -> None:
    for name, block in blocks(ROOT / "CONTRIBUTING.md").items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(block)


def test_own_parts_pass_their_contracts_and_run(tmp_path: Path) -> None:
    write_blocks(tmp_path)
    write_option(tmp_path / "conf", "retriever/shortest", "_target_: my_parts.Shortest\n")
    (tmp_path / "test_others.py").write_text(CONTRACTS)
    trusted = {"RAGSWEEP_TRUSTED_PACKAGES": "my_parts,my_metrics,my_answers,my_llm", "PYTHONPATH": "."}
    files = ("test_my_parts.py", "test_others.py")
    contract = printed(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, **trusted)
    assert " passed" in contract
    metrics = ("metrics=[retrieval,mine]", "llm=first", "headline=[first_chunk,digit_share]")
    overrides = ("retriever=bm25,shortest", "embedder=hashing", "dataset.limit=20", *metrics)
    swept = printed(tmp_path, "-m", "ragsweep", "run", "-m", *overrides, "tracking=none", **trusted)
    assert "shortest" in swept
    assert "first_chunk" in swept
    assert "digit_share" in swept


def test_own_task_runs_and_its_success_decides(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_blocks(cwd)
    (cwd / "cases.jsonl").write_text('{"id": "open", "input": "[1", "expected": "[1]"}\n')
    (cwd / "manual.jsonl").write_text('{"id": "lists", "text": "A list ends with a bracket."}\n')
    monkeypatch.syspath_prepend(str(cwd))
    monkeypatch.setenv("RAGSWEEP_TRUSTED_PACKAGES", "my_task")
    solved = [
        evaluate(Session(), "task=mend", "metrics=unlabelled", "retriever=bm25", f"llm={llm}", f"llm.answer={answer}")
        .summaries.metrics["solved"].value
        for llm, answer in (("do_nothing", "'```\n{input}\n```'"), ("expected", "'```\n{expected}\n```'"))
    ]  # fmt: skip
    assert solved == [0.0, 1.0]


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 200
