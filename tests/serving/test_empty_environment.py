"""A shipped config in an environment that has its requirements only, behind MLflow's server, without store or sources.

Every golden question gets the context of the evaluation, position by position, and the same answer.
"""

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import mlflow
import pytest

from ragsweep.core.results import Result
from ragsweep.parts.datasets import PythonReference
from ragsweep.records.ledger import Ledger
from ragsweep_serving.commands.ship import ship
from support.commands import RUN, call, user_environment
from support.default_tracking import restoring_tracking_uri
from support.models import make_classifier
from support.servers.served_model import served
from test_served_pipeline import name_of

pytestmark = pytest.mark.nightly

RETRIEVERS = "retriever=bm25,vector,hybrid_rrf,hybrid_convex"
FAST = "embedder=hashing"
DATASET = PythonReference(limit=None, seed=0).load()


def swept(folder: Path, *overrides: str) -> list[tuple[str, Result]]:
    """Sweep the bundled set; return the configs as ``ship`` takes them, and their results."""
    before = {sweep.id for sweep in Ledger(folder / ".ragsweep").sweeps()}
    done = call(folder, RUN, "-m", *overrides)
    assert done.returncode == 0, done.stdout + done.stderr
    ledger = Ledger(folder / ".ragsweep")
    (sweep,) = [one for one in ledger.sweeps() if one.id not in before]
    results = [record.outcome for record in ledger.records(sweep.id)]
    return [(f"{sweep.id}#{n}", one) for n, one in enumerate(results, 1) if isinstance(one, Result)]


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Result]]:
    """Ship every retriever with every kind of reranker, and one that answers; then take the store away."""
    folder = tmp_path_factory.mktemp("shipped")
    # It has the words of the corpus: where most are unknown, scores differ by less than a batch changes them.
    known = Counter(re.findall("[a-z]+", " ".join(DATASET.corpus.texts).lower())).most_common(4000)
    classifier = make_classifier(folder / "classifier", [word for word, _ in known])
    cross = ["reranker=cross_encoder", f"reranker.model={classifier}", "reranker.candidates=5"]
    configs = [
        *swept(folder, RETRIEVERS),
        *swept(folder, RETRIEVERS, "reranker=late_interaction"),
        *swept(folder, RETRIEVERS, *cross, FAST),
        *swept(folder, "retriever/index=hnsw,ivf", "retriever=vector", FAST),
        *swept(folder, "retriever=bm25,hybrid_rrf", "llm=extractive", "chunker=parent_child", FAST),
    ]
    models = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}")  # MLflow itself may have set another
        for n, (config, result) in enumerate(configs):
            assert ship([config, "--name", f"m{n}", "--alias", "champion"]) == 0
            models[f"models:/m{n}@champion"] = result
    shutil.rmtree(folder / ".ragsweep")
    return folder, models


@pytest.fixture(scope="module")
def python(shipped: tuple[Path, dict[str, Result]], tmp_path_factory: pytest.TempPathFactory) -> str:
    """Install what the models require into an empty environment; return its Python."""
    folder, models = shipped
    with restoring_tracking_uri():
        mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
        files = [Path(mlflow.pyfunc.get_model_dependencies(model)) for model in models]
    required = {line for file in files for line in file.read_text().splitlines()}
    place = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, *sorted(required)], check=True, env=user_environment())
    found = subprocess.run([*pip[:3], "list"], check=True, capture_output=True, text=True).stdout
    assert "ragsweep" not in found
    return pip[0]


def test_contexts_are_of_the_evaluation(shipped: tuple[Path, dict[str, Result]], python: str, tmp_path: Path) -> None:
    folder, models = shipped
    registry = f"sqlite:///{folder}/mlflow.db"
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "MLFLOW_TRACKING_URI": registry}
    # The evaluation has read from the set that the others need no retrieval; a server has the question only.
    searched = {question.id for question in DATASET.golden.questions if question.needs_retrieval}
    assert len(models) == 8 + 4 + 2 + 2
    for model, result in models.items():
        rows = [n for n, name in enumerate(result.questions["question_id"]) if name in searched]
        assert len(rows) == 170
        questions = [{"question": result.questions["question"][n]} for n in rows]
        with served(python, model, tmp_path, environment, questions[0]) as server:
            found = [row for question in questions for row in server.ask(question)]
        names = [[name_of(one, DATASET.corpus) for one in row["context"]] for row in found]
        assert names == [list(result.questions["context"][n]) for n in rows], model
        if "answer" in result.questions:
            assert [row["answer"] for row in found] == [result.questions["answer"][n] for n in rows], model
