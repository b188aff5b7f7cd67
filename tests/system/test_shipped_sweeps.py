"""Every sweep in sweeps/ runs on the bundled questions: with few of them, few trials and a tiny model."""

from pathlib import Path

import pytest

from ragsweep.core.results import COMPLETE, Result
from ragsweep.records.ledger import FINISHED, Ledger
from ragsweep.sweep.composing.compose import config_folder
from support.commands import in_one_process

SWEEPS = sorted(path.stem for path in (config_folder().parent / "sweeps").glob("*.yaml"))
NAMED = {
    "ablation", "answers", "chunking", "demo", "embedders", "full", "fusion_grid", "hnsw", "hybrid_tpe", "pareto",
    "rerank_depth", "retrievers", "top_k",
}  # fmt: skip
TRIALS = 3
SMALL = ["dataset.limit=6", "tracking=none"]


@pytest.fixture(scope="module")
def commands(static_model: Path, tiny_embedder: Path) -> dict[str, list[str]]:
    """Spell out every sweep, small: with a model that looks words up, if it need not have a vector for each token.

    Late interaction needs one that has. The sweep of embedders has its own models.
    """
    found = {}
    for name in SWEEPS:
        text = (config_folder().parent / "sweeps" / f"{name}.yaml").read_text()
        model = tiny_embedder if "late_interaction" in text else static_model
        trials = [f"hydra.sweeper.n_trials={TRIALS}"] if "/hydra/sweeper: optuna" in text else []
        tiny = [f"embedder.model={model}", "embedder.dtype=float32"] if name != "embedders" else []
        short = ["dataset.limit=2", "context_budget=60", "llm.max_new_tokens=4"] if "smollm2" in text else []
        found[name] = ["run", "-m", f"sweeps={name}", *tiny, *trials, *SMALL, *short]
    return found


def test_all_sweeps_that_are_promised_are_there() -> None:
    assert set(SWEEPS) >= NAMED


def check(said: dict[str, tuple[int, str]], ledger: Ledger) -> None:
    for name, (status, printed) in said.items():
        assert status == 0, f"{name}: {printed}"
        assert "CHOICE" in printed, name
    found = ledger.sweeps()
    assert len(found) == len(SWEEPS)
    for sweep in found:
        assert sweep.status == FINISHED, sweep.name
        records = ledger.records(sweep.id)
        assert len(records) == len(sweep.jobs) > 1, sweep.name
        assert all(isinstance(one.outcome, Result) and one.outcome.run.state == COMPLETE for one in records), sweep.name


@pytest.mark.nightly  # that each expands is a test of the commands
def test_every_shipped_sweep_can_be_planned(commands: dict[str, list[str]], tmp_path: Path) -> None:
    planned = in_one_process({f"plan {name}": [*typed, "plan=true"] for name, typed in commands.items()}, tmp_path)
    assert {name: said for name, (status, said) in planned.items() if status or " distinct, " not in said} == {}


@pytest.mark.nightly
def test_every_shipped_sweep_runs_on_the_bundled_questions(commands: dict[str, list[str]], tmp_path: Path) -> None:
    check(in_one_process(commands, tmp_path), Ledger(tmp_path / ".ragsweep"))
