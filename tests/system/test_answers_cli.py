"""Answers as a user meets them: a service that fails, a metric with a typo."""

import os
from collections import Counter
from pathlib import Path

import pytest

from support.commands import GOLDEN, Finished, Ragsweep, write_dataset, write_option

pytestmark = pytest.mark.slow

PATHS = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
TRUSTED = {"PYTHONPATH": PATHS, "RAGSWEEP_TRUSTED_PACKAGES": "support", "OMP_NUM_THREADS": "1"}


@pytest.fixture
def flaky(ragsweep: Ragsweep, tmp_path: Path) -> Ragsweep:
    """Run the command with a generator that fails where a file says so."""
    refusal = "refusal: {_target_: ragsweep.parts.metrics.Refusal}\n"  # the shipped metrics would load a model
    write_option(tmp_path / "conf", "metrics/refusal", refusal)
    option = "defaults: [/metrics/refusal@_global_.metrics, _self_]\n_target_: support.parts.Flaky\n"
    write_option(tmp_path / "conf", "llm/flaky", option)
    data = write_dataset(tmp_path)
    return lambda *arguments, **variables: ragsweep(*arguments, *data, **{**TRUSTED, **variables})


def asked(folder: Path) -> Counter[str]:
    return Counter((folder / "asked").read_text().splitlines())


def lines(done: Finished, word: str) -> list[str]:
    return [line for line in done.stdout.splitlines() if line.startswith(f"{word:<9}")]


TYPO = """
from ragsweep.parts.metrics import Refusal


class Typo(Refusal):
    name = "typo"

    def score(self, view):
        return view.scroes
"""


@pytest.mark.nightly
def test_metric_with_a_typo_is_named_before_anything_is_generated_and_costs_nothing_else(
    flaky: Ragsweep, tmp_path: Path
) -> None:
    (tmp_path / "own_metrics.py").write_text(TYPO)
    trusted = {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), PATHS]), "RAGSWEEP_TRUSTED_PACKAGES": "own_metrics,support"
    }  # fmt: skip
    shown = ["+metrics.typo={_target_: own_metrics.Typo}", "headline=[typo]"]
    done = flaky(*shown, "llm=flaky", "tracking=none", **trusted)
    place = "no attribute 'scroes' (own_metrics.py:9)"
    first = next(n for n, line in enumerate(done.stdout.splitlines()) if place in line)
    assert first < next(n for n, line in enumerate(done.stdout.splitlines()) if "refusal" in line)
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "is PARTIAL: typo is known for 0 % of its questions" in said
    assert place in said


def test_sweep_with_a_service_that_fails_is_partial_and_asks_again_for_what_failed_only(
    flaky: Ragsweep, tmp_path: Path
) -> None:
    (tmp_path / "down").write_text("flour")
    first = flaky("-m", "llm=none,flaky", "tracking=none")
    assert first.returncode == 1, first.stderr
    said = " ".join(first.stdout.split())
    assert "#2 flaky is PARTIAL: " in said
    assert "(1 timed out), less than coverage=0.98" in said
    (tmp_path / "down").unlink()
    second = flaky("-m", "llm=none,flaky", "tracking=none")
    assert second.returncode == 0, second.stderr
    assert lines(second, "resume") == ["resume    1 of 2 configs is already done"]
    assert asked(tmp_path) == {row["question"]: 2 if "flour" in str(row["question"]) else 1 for row in GOLDEN}


def test_one_config_that_is_partial_is_shown_and_exits_1(flaky: Ragsweep, tmp_path: Path) -> None:
    (tmp_path / "down").write_text("flour")
    done = flaky("llm=flaky", "tracking=none")
    assert done.returncode == 1
    assert "is PARTIAL" in done.stdout
    assert flaky("llm=flaky", "tracking=none", "coverage=0").returncode == 0
