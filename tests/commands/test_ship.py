"""`ragsweep ship`: a config as a model that MLflow loads and serves, and an alias that moves only through the gate."""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import mlflow
import pandas
import pytest

from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.results import Result
from ragsweep.records.ledger import Ledger
from ragsweep_serving.commands.ship import external_indexes, requirements, ship
from support import output
from support.commands import RUN, printed, user_environment, write_dataset
from support.servers import forked
from support.servers.json_server import serving

pytestmark = pytest.mark.slow

QUESTIONS = [
    {"id": f"q{n}", "question": f"where does the cat rest on day {n}", "evidence": [{"document": "cats"}]}
    for n in range(40)
]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Sweep a config that finds and one that finds nothing, tracked; return the folder and the sweep."""
    folder = tmp_path_factory.mktemp("swept")
    given = [*write_dataset(folder, QUESTIONS)[:-1], "top_k=2", "depth=4", "headline=[context_ndcg]"]
    printed(folder, RUN, "-m", "retriever=bm25,none", *given)
    return folder, Ledger(folder / ".ragsweep").sweeps()[0].id[:8]


@pytest.fixture
def swept(sweep: tuple[Path, str], cwd: Path, restored_uri: None) -> str:
    """Copy the swept folder into the test's own."""
    shutil.copytree(sweep[0], cwd, dirs_exist_ok=True)
    return sweep[1]


def contexts(result: Result) -> list[list[str]]:
    return [list(one) for one in result.questions["context"]]


def test_shipped_model_answers_as_evaluated_and_a_worse_one_does_not_take_the_alias(
    swept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mistyped = ["--name", "handbook", "--alias", "champion", "--unless-worse", "contextndcg=.02"]
    with pytest.raises(ConfigError, match=r'^--unless-worse: no metric "contextndcg" .* "context_ndcg"'):
        ship([f"{swept}#1", *mistyped])
    shown = output(capsys, ship, f"{swept}#1", "--name", "handbook", "--alias", "champion")
    assert "points to this version; serve it with mlflow models serve -m models:/handbook@champion" in shown
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    client = mlflow.MlflowClient(uri)
    first = client.get_model_version_by_alias("handbook", "champion")
    (record, *_) = Ledger(tmp_path / ".ragsweep").records(Ledger(tmp_path / ".ragsweep").sweeps()[0].id)
    result = record.outcome
    assert isinstance(result, Result)
    assert first.tags["ragsweep.golden_set"] == result.run.dataset.golden_digest
    assert first.tags["ragsweep.name"].endswith("bm25")
    assert first.tags["ragsweep.metric.context_ndcg"].startswith("1 [")

    mlflow.set_tracking_uri(uri)
    model = mlflow.pyfunc.load_model("models:/handbook@champion")
    rows: list[dict[str, Any]] = model.predict(pandas.DataFrame({"question": list(result.questions["question"])}))
    assert [[one["document"] for one in row["context"]] for row in rows] == contexts(result)
    pinned = Path(mlflow.pyfunc.get_model_dependencies("models:/handbook@champion")).read_text()
    assert re.search(r"^numpy==\d", pinned, re.MULTILINE)

    guarded = ["--name", "handbook", "--alias", "champion", "--unless-worse", "context_ndcg=.02"]
    assert ship([f"{swept}#2", *guarded]) in (1, 3)
    assert "champion stays at models:/handbook/1" in capsys.readouterr().out
    assert client.get_model_version_by_alias("handbook", "champion").version == first.version
    with pytest.raises(ConfigError, match=r"already has this alias; .* --unless-worse context_ndcg=\.02"):
        ship([f"{swept}#2", "--name", "handbook", "--alias", "champion"])
    for wrong in ("context_ndcg=low", "context_ndcg=2"):
        with pytest.raises(ConfigError, match=r"^--unless-worse: "):
            ship([f"{swept}#2", *guarded[:-1], wrong])

    # In another ledger, the same reference may name another config.
    client.set_model_version_tag("handbook", first.version, "ragsweep.signature", "of another config")
    with pytest.raises(ConfigError, match="already has this alias"):
        ship([f"{swept}#1", "--name", "handbook", "--alias", "champion"])
    with pytest.raises(InputError, match=r"models:/handbook/1: was evaluated as .*#1, which is not in \.ragsweep; "):
        ship([f"{swept}#1", *guarded])
    client.set_model_version_tag("handbook", first.version, "ragsweep.signature", result.run.signature)

    client.set_registered_model_alias("handbook", "own", client.create_model_version("handbook", "file:///x").version)
    for margin in ([], ["--unless-worse", "context_ndcg=.02"]):
        with pytest.raises(InputError, match="models:/handbook/3: was not registered by ragsweep ship"):
            ship([f"{swept}#2", "--name", "handbook", "--alias", "own", *margin])
    client.delete_registered_model_alias("handbook", "own")
    elsewhere = f"sqlite:///{tmp_path / 'other.db'}"
    guarded = ["--unless-worse", "context_ndcg=.02", "--uri", elsewhere]
    assert ship([f"{swept}#2", "--name", "handbook", "--alias", "own", *guarded]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "not applied: no earlier version has the alias own" in said
    assert f"own points to this version; serve it with MLFLOW_TRACKING_URI={elsewhere} mlflow models serve" in said


def test_what_cannot_be_shipped_is_refused() -> None:
    for name in ("a/b", "", " "):
        with pytest.raises(ConfigError, match=f'"{name}" is not a valid model name; use letters, digits, spaces, '):
            ship(["nothing#1", "--name", name])
    for alias in ("", "Latest", "v1", "a b", "a" * 256):
        with pytest.raises(ConfigError, match=f'--alias: "{alias}" is not a valid alias; use letters'):
            ship(["nothing#1", "--name", "a", "--alias", alias])
    with pytest.raises(ConfigError, match="needs an alias; add --alias NAME"):
        ship(["nothing#1", "--name", "a", "--unless-worse", "mrr=.1"])


def test_config_whose_corpus_is_gone_is_refused(swept: str, tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"id": "cats", "text": "another text"}\n')
    with pytest.raises(
        InputError, match="its dataset cannot be loaded, or its corpus has changed since the evaluation"
    ):
        ship([f"{swept}#1", "--name", "handbook"])


def test_stages_that_only_the_object_store_has_are_shipped_without_being_computed_again(
    cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vectors(body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        data = [{"index": n, "embedding": [1.0, len(text)]} for n, text in enumerate(body["input"])]
        return 200, {}, json.dumps({"data": data}).encode()

    given = [*write_dataset(cwd, QUESTIONS)[:-1], f"store.remote=file://{cwd}/shared", "name=mine"]
    with serving(monkeypatch, vectors) as server:
        service = [f"embedder.base_url={server.url}", "embedder.model=m"]
        printed(cwd, RUN, "retriever=vector", "embedder=api", *service, *given)
        evaluated = {text for body in server.bodies for text in body["input"]}
        server.bodies.clear()
        shutil.rmtree(cwd / ".ragsweep" / "stages")  # as on a machine whose jobs ran elsewhere
        assert ship(["mine", "--name", "handbook"]) == 0
        again = {text for body in server.bodies for text in body["input"]}
    documents = {json.loads(line)["text"] for line in (cwd / "corpus.jsonl").read_text().splitlines()}
    questions = {str(one["question"]) for one in QUESTIONS}
    assert documents | questions <= evaluated
    assert not documents & again
    assert questions & again <= {QUESTIONS[0]["question"]}  # MLflow asks it when it checks the model


def test_index_that_lies_in_a_folder_of_this_machine_is_refused_and_the_packages_of_another_are_pinned() -> None:
    def retriever(*indexes: dict[str, Any]) -> Any:
        legs = {f"leg{n}": {"_target_": "ragsweep.parts.retrievers.Vector", "min_score": None, "index": index,
                            "exact": {"_target_": "ragsweep.parts.indexes.Flat"},
                            "embedder": {"_target_": "ragsweep.parts.embedders.HashingEmbedder"}}
                for n, index in enumerate(indexes)}  # fmt: skip
        hybrid = {"_target_": "ragsweep.parts.retrievers.HybridRrf", "legs": legs}
        return Builder().build(hybrid if len(legs) > 1 else legs["leg0"], "retriever").value

    place = "ragsweep.parts.indexes"
    flat, bucket = {"_target_": f"{place}.Flat"}, {"_target_": f"{place}.LanceHnsw", "uri": "s3://bucket/tables"}
    (folder,) = external_indexes(retriever(flat, {"_target_": f"{place}.LanceHnsw"}))
    with pytest.raises(InputError, match="the index's uri is a folder on this machine, and the bundle does not"):
        folder.check_ship()
    indexes = list(external_indexes(retriever(bucket)))
    assert [index.check_ship() for index in indexes] == [None]
    assert any(line.startswith("lancedb==") for line in requirements(indexes))
    assert {line.partition("==")[0] for line in requirements([], {"xllamacpp", "dtype"})} - {
        line.partition("==")[0] for line in requirements([])
    } == {"xllamacpp"}
    assert not any(line.startswith("lancedb") for line in requirements(list(external_indexes(retriever(flat)))))


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::UserWarning")  # of MLflow, when it is first imported
@pytest.mark.parametrize("seconds", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
def test_kill_leaves_no_alias_on_a_version_that_cannot_be_loaded(swept: str, seconds: float, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ragsweep", "ship", f"{swept}#1", "--name", "handbook", "--alias", "champion"]
    process = forked.Popen(command, cwd=tmp_path, env=user_environment(), stdout=subprocess.DEVNULL)
    time.sleep(seconds)
    process.kill()
    process.wait()
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    mlflow.set_tracking_uri(uri)
    try:
        mlflow.MlflowClient(uri).get_model_version_by_alias("handbook", "champion")
    except mlflow.exceptions.MlflowException:
        pass
    else:
        assert mlflow.pyfunc.load_model("models:/handbook@champion").predict(pandas.DataFrame({"question": ["cat"]}))
    assert ship([f"{swept}#1", "--name", "handbook", "--alias", "champion"]) == 0
