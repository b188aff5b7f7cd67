"""A bundle answers as the config did that it was made of: every golden question, position by position."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from pandas import DataFrame

from ragsweep.core.missing import SERVER_ERROR
from ragsweep.core.results import Result
from ragsweep.core.types import Corpus, Turn
from ragsweep.evaluation.assembly import build_graph
from ragsweep.parts.tracking.models import _signature
from ragsweep.services.errors import CallFailed
from ragsweep.sweep.running.session import Session
from ragsweep_serving.bundle import write_bundle
from ragsweep_serving.pipeline import ServedPipeline, as_turns
from ragsweep_serving.reference import write_reference
from support.commands import CORPUS, GOLDEN, Rows, evaluate, prepare, write_files
from support.servers.json_server import serving

pytestmark = pytest.mark.slow


def shipped(folder: Path, *overrides: str, golden: Rows = GOLDEN) -> tuple[Result, Path]:
    """Evaluate a config on a small set, and bundle it with its reference."""
    data = write_files(folder, CORPUS, golden, f"{folder}/")
    session, lines = Session(), [*data, "embedder=hashing", "depth=4", "top_k=3", *overrides]
    result = evaluate(session, *lines)
    dataset, executor = prepare(session, *lines).dataset, session.evaluator.executor
    graph = build_graph(session.builder, result.run.config, dataset.corpus)
    (bundle := folder / "bundle").mkdir()
    write_reference(bundle, ("handbook", "b", 0.5), result, dataset, (graph, executor))
    write_bundle(bundle, result.run.config, dataset.corpus, graph, executor)
    return result, bundle


def name_of(passage: dict[str, Any], corpus: Corpus) -> str:
    """Name a passage as outcomes do: a whole document by its id, a part by its span, too."""
    document, start, end = passage["document"], passage["start"], passage["end"]
    is_whole = (start, end) == (0, len(corpus.texts[corpus.position[document]]))
    return document if is_whole else f"{document}:{start}-{end}"


CONFIGS = [
    ("retriever=bm25",),
    ("retriever=vector",),
    ("retriever=hybrid_rrf", "chunker=fixed_size", "chunker.size=20", "chunker.overlap=0"),
    ("retriever=hybrid_convex", "context_budget=12"),
    ("retriever=bm25", "chunker=parent_child"),
    ("retriever=bm25", "llm=extractive"),
]


@pytest.mark.parametrize("overrides", CONFIGS, ids=" ".join)
def test_contexts_are_those_of_the_evaluation(overrides: tuple[str, ...], tmp_path: Path) -> None:
    result, bundle = shipped(tmp_path, *overrides)
    moved = shutil.move(bundle, tmp_path / "another machine")
    pipeline = ServedPipeline(Path(moved))
    for n, text in enumerate(result.questions["question"]):
        found = pipeline.answer(text)
        names = [name_of(one._asdict(), pipeline.bundle.corpus) for one in found.context]
        assert names == result.questions["context"][n]
        if "answer" in result.questions:
            assert found.answer.text == result.questions["answer"][n]
        assert found.milliseconds["total"] > 0
    assert len(result.questions["question"]) == len(GOLDEN)


def test_failed_search_is_no_answer_from_an_empty_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scored = {"results": [{"index": n, "relevance_score": n} for n in range(3)]}
    with serving(monkeypatch, lambda body: (200, {}, json.dumps(scored).encode())) as server:
        chosen = [f"reranker.{key}" for key in (f"base_url={server.url}", "model=m", "retries=0", "candidates=3")]
        _, bundle = shipped(tmp_path, "retriever=vector", "reranker=api", *chosen, "llm=extractive")
        pipeline = ServedPipeline(bundle)
        whole = pipeline.answer("what keeps the house safe")
        server.reply = lambda body, number: (500, {}, b"down")
        with pytest.raises(CallFailed, match="status 500: down"):
            pipeline.answer("what keeps the house safe")
        server.reply = lambda body, number: (200, {}, json.dumps(scored).encode())
        assert pipeline.answer("what keeps the house safe").context == whole.context


@pytest.mark.filterwarnings("ignore::UserWarning")  # of MLflow, when it is first imported
def test_failed_search_of_one_row_keeps_the_answers_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.pyfunc.model import PythonModelContext

    from ragsweep_serving.mlflow_model import ShippedConfig

    scored = {"results": [{"index": n, "relevance_score": n} for n in range(3)]}
    with serving(monkeypatch, lambda body: (200, {}, json.dumps(scored).encode())) as server:
        chosen = [f"reranker.{key}" for key in (f"base_url={server.url}", "model=m", "retries=0", "candidates=3")]
        _, bundle = shipped(tmp_path, "retriever=vector", "reranker=api", *chosen, "llm=extractive")
        model = ShippedConfig()
        model.load_context(PythonModelContext({"bundle": str(bundle)}, {}))
        lost = (500, {}, b"down")
        server.reply = lambda body, number: lost if "cat" in body["query"] else (200, {}, json.dumps(scored).encode())
        asked = ["what keeps the house safe", "where is the cat", "what keeps the yard safe"]
        rows = model.predict(None, DataFrame({"question": asked}))
    assert [row["failed"] for row in rows] == ["", SERVER_ERROR, ""]
    assert [bool(row["context"]) for row in rows] == [True, False, True]


def test_history_reaches_the_query_as_in_the_evaluation(tmp_path: Path) -> None:
    _, bundle = shipped(tmp_path, "retriever=bm25", "query=history")
    history = as_turns([{"role": "user", "text": "Tell me of the cat."}])
    assert history == [Turn("user", "Tell me of the cat.")]
    found = ServedPipeline(bundle).answer("Where is it?", history)
    assert "cat" in found.query
    assert as_turns(None) == []


ODD = [None, 5, ["a"], {"a": 1}, math.nan, True, "\ud800"]
ODD_HISTORIES = [5, "text", [5], ["ab"], [{"role": "user"}], [{"role": "user", "text": 5}], {"role": "user"}]


@pytest.mark.filterwarnings("ignore::UserWarning")  # of MLflow, when it is first imported
def test_row_that_is_no_question_is_refused_and_the_others_are_answered(tmp_path: Path) -> None:
    from mlflow.models.utils import validate_schema
    from mlflow.pyfunc.model import PythonModelContext

    from ragsweep_serving.mlflow_model import ShippedConfig

    _, bundle = shipped(tmp_path, "retriever=bm25", "query=history")
    model = ShippedConfig()
    model.load_context(PythonModelContext({"bundle": str(bundle)}, {}))
    asked = {"question": "Where is it?"}
    history = [{"role": "user", "text": "Tell me of the cat."}]
    rows = [{**asked, "history": history}, asked]
    rows += [{"question": odd} for odd in ODD] + [{**asked, "history": odd} for odd in ODD_HISTORIES]
    table = DataFrame(rows)
    validate_schema(table, _signature().inputs)  # as MLflow's server does
    found = model.predict(None, table)
    pipeline = ServedPipeline(bundle)
    texts = [pipeline.answer("Where is it?", turns).query for turns in (as_turns(history), ())]
    assert [(row["query"], row["failed"]) for row in found[:2]] == [(text, "") for text in texts]
    assert all(row["failed"].startswith("question: must be a string") for row in found[2 : 2 + len(ODD)])
    assert all(row["failed"].startswith("history: ") for row in found[2 + len(ODD) :])
    assert not any(row["context"] or row["answer"] or row["query"] for row in found[2:])
