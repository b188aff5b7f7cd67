"""Five small sweeps have the numbers that they had before: what is rebuilt must not change what is measured.

Where a change of the numbers is meant: ``RAGSWEEP_PIN=1 python -m pytest tests/system/test_pinned_results.py``.
"""

import json
import math
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest

from llm_server import LlmServer
from support.commands import in_one_process, write_dataset, write_files

pytestmark = pytest.mark.slow

SWEEPS = ("retrieval", "rerank", "answers", "search")
"""The search is continued with more trials than it was begun with."""

PINNED = Path(__file__).with_name("pinned_results.json")
SAID = {"cat": "It sat on the warm mat.", "moon": "The moon goes round the earth."}
SMALL = ["depth=4", "top_k=1,2"]
SEARCH = ["hydra/sweeper=optuna", "hydra.sweeper.plots=false", "retriever.k1=interval(0.8,2)", "top_k=1,2,3", "depth=6"]


@pytest.fixture(scope="module")
def server() -> Iterator[LlmServer]:
    with LlmServer(lambda asked: next((say for word, say in SAID.items() if word in asked.last), "No idea.")) as made:
        yield made


@pytest.fixture(scope="module")
def measured(server: LlmServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the sweeps, one after the other in one process, and read what each parent run holds."""
    folder = tmp_path_factory.mktemp("pinned")
    small = write_dataset(folder)
    asked = ["llm=openai", *server.overrides("llm"), "~metrics.semantic_similarity"]
    commands = {
        "retrieval": [*_drawn(folder), "retriever.k1=0.9,1.2", "retriever.b=0.4,0.75", "top_k=1,3"],
        "rerank": [
            *small[:-1],
            "retriever=hybrid_rrf",
            "reranker=late_interaction",
            "embedder.dtype=float32",  # the same on every machine
            "reranker.candidates=2,4",
            *SMALL,
        ],
        "answers": [*small, *asked, *SMALL],
        "search": [*small, *SEARCH, "hydra.sweeper.n_trials=3"],
        "continued": [*small, *SEARCH, "hydra.sweeper.n_trials=5"],
    }
    lines = {
        name: ["run", "-m", *typed, f"tracking.experiment={name.replace('continued', 'search')}", "headline=[mrr]"]
        for name, typed in commands.items()
    }
    done = in_one_process(lines, folder)
    assert {name: said for name, (status, said) in done.items() if status} == {}
    return {name: _numbers(folder, name) for name in SWEEPS}


def _drawn(folder: Path) -> list[str]:
    """Draw documents of random words, and questions of some of their words."""
    draw = random.Random(0)
    words = [f"w{n}" for n in range(120)]
    texts = [" ".join(draw.choices(words, k=draw.randrange(20, 60))) for _ in range(60)]
    corpus = [{"id": f"d{n}", "text": text} for n, text in enumerate(texts)]
    golden = [
        {"id": f"q{n}", "question": " ".join(draw.sample(texts[n].split(), 3)), "category": f"c{n % 3}",
         "evidence": [{"document": f"d{n}"}]}
        for n in range(40)
    ]  # fmt: skip
    (folder / "drawn").mkdir()
    return [*write_files(folder / "drawn", corpus, golden, "drawn/"), "retriever=bm25"]


def _numbers(folder: Path, experiment: str) -> dict[str, Any]:
    client = mlflow.MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    named = client.get_experiment_by_name(experiment)
    assert named
    (parent,) = client.search_runs([named.experiment_id], "tags.`ragsweep.kind` = 'sweep'")
    told = json.loads(Path(client.download_artifacts(parent.info.run_id, "results.json")).read_text())
    return {
        "kind": told["result"]["kind"],
        "choice": told["result"]["choice"],
        "configs": {one["name"]: _means(one["metrics"]) for one in told["configs"]},
    }


def _means(metrics: dict[str, Any]) -> dict[str, Any]:
    """Take means and intervals to nine digits, less those of times and of scores that depend on the processor."""
    return {
        name: [_digits(one[key]) for key in ("value", "low", "high")] + [one["n_scored"], one["n_failed"]]
        for name, one in metrics.items()
        if one["unit"] not in ("ms", "s") and name != "top_score"
    }


def _digits(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(f"{value:.9g}")


@pytest.mark.parametrize("name", SWEEPS)
def test_numbers_are_those_that_were_pinned(name: str, measured: dict[str, Any]) -> None:
    if os.environ.get("RAGSWEEP_PIN"):
        PINNED.write_text(json.dumps(measured, indent=1, sort_keys=True) + "\n")
    assert measured[name] == json.loads(PINNED.read_text())[name]
