"""Traces show what happened to single questions of a config: chosen by the config, whole, masked, and never doubled."""

import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from llm_server import LlmServer, ModelRequest
from ragsweep.core.errors import ConfigError
from ragsweep.core.results import Artifacts, Result
from ragsweep.core.secrets import Secrets
from ragsweep.parts.tracking import Mlflow, RunPlacement
from ragsweep.sweep.running.recording import mask_traces, masked
from ragsweep.sweep.running.session import Session
from support.commands import GOLDEN, TEXTS, add_tables, evaluate_with_artifacts, write_dataset
from support.results import a_result
from support.servers.tracking_server import QUIET, client

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:sqlalchemy", "ignore:The ``noload``"),
    pytest.mark.filterwarnings("ignore:.*Any type hint"),
]

KEY = "a-key-of-somebody"
LOST = {"id": "lost", "references": ["bread"], "question": "flour water yeast", "evidence": [{"document": "ships"}]}
BROKEN = {"id": "broken", "question": "dogs guard the yard", "evidence": [{"document": "dogs"}]}
METRIC = "judge_swayed"


def reply(asked: ModelRequest) -> Any:
    if asked.schema is not None:
        return {"reason": "so it is", "verdict": 0}
    return "" if "dogs guard" in asked.last else f"the mat, says {KEY}"


class Traced(NamedTuple):
    """A tracker, a result of which all questions are traced, and by question the traces of two choices."""

    tracker: Mlflow
    result: Result
    failures: dict[str, Any]
    everything: dict[str, Any]
    runs: list[str]


def traces(tracker: Mlflow, run: str) -> dict[str, Any]:
    experiment = client(tracker).get_run(run).info.experiment_id
    found = client(tracker).search_traces(locations=[experiment], run_id=run)
    assert len({trace.info.tags["ragsweep.question"] for trace in found}) == len(found)
    return {trace.info.tags["ragsweep.question"]: trace for trace in found}


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    place = tmp_path_factory.mktemp("traced")
    add_tables(place)
    with pytest.MonkeyPatch.context() as patch, LlmServer(reply) as server:
        for name, value in {**QUIET, "LLM_KEY": KEY, "RAGSWEEP_TRUSTED_PACKAGES": "support"}.items():
            patch.setenv(name, value)
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.chdir(place)
        service = [f"{part}.{key}" for part in ("llm", "judge")
                   for key in (f"base_url={server.base_url}", "key_env=LLM_KEY", "retries=0")]  # fmt: skip
        golden = [{**GOLDEN[0], "references": ["the mat"]}, LOST, BROKEN, *GOLDEN[3:]]
        lines = [*write_dataset(place, golden), "chunker=none", "retriever=hybrid_rrf", "embedder=hashing", "depth=4",
                 "reranker._target_=support.parts.LongestFirst", "+reranker.candidates=1", "top_k=1", "llm=openai",
                 "llm.model=m", "judge=openai", *service, "metrics=[retrieval,swayed]", f"metrics.{METRIC}.share=1",
                 "~metrics.semantic_similarity", "targets=none",
                 "objective=context_ndcg", f"answer_headline=[{METRIC}]"]  # fmt: skip
        session, tracker, secrets = Session(), Mlflow(), Secrets()
        secrets.add("on the warm mat", named=True)
        evaluated = [
            evaluate_with_artifacts(session, *lines, f"tracking.traces={which}") for which in ("failures", "all")
        ]
        runs = [
            tracker.log_result(masked(one, secrets), artifacts=mask_traces(artifacts, secrets))
            for one, artifacts in evaluated
        ]
        failures, everything = (traces(tracker, run) for run in runs)
        assert "MLFLOW_TRACKING_URI" not in os.environ
        yield Traced(tracker, evaluated[1].result, failures, everything, runs)


def test_a_config_traces_the_questions_that_it_chooses(traced: Traced) -> None:
    assert set(traced.everything) == {"q1", "q4", "lost", "broken"}
    states = {name: trace.info.state.value for name, trace in traced.failures.items()}
    assert states == {"lost": "OK", "broken": "ERROR"}


def test_spans_are_the_stages_of_the_config_with_what_each_was_given_and_returned(traced: Traced) -> None:
    root, *stages = traced.everything["q1"].data.spans
    spans = {span.name: span for span in stages}
    assert [span.name for span in stages] == [
        "retrieve bm25", "retrieve vector", "fuse", "rerank", "generate", f"judge {METRIC}"
    ]  # fmt: skip
    assert {span.parent_id for span in stages} == {root.span_id}
    assert root.inputs == {"question": "where does the cat rest"}
    first = spans["retrieve bm25"].outputs[0]
    assert first["page_content"] == "The cat sleeps *** near the stove."  # a secret, as it happens
    assert (first["id"], first["metadata"]["chunk"], first["metadata"]["score"] > 0) == ("cats", "cats", True)
    assert spans["fuse"].inputs["bm25"][0] == "cats"
    assert set(spans["rerank"].inputs["chunks"]) == {row["chunk"] for row in spans["rerank"].outputs}
    assert spans["rerank"].outputs[0]["score"] == len(TEXTS["cats"])
    assert "where does the cat rest" in spans["generate"].inputs["messages"][-1]["content"]
    assert (spans["generate"].outputs["content"], root.outputs) == ("the mat, says ***", "the mat, says ***")
    assert spans[f"judge {METRIC}"].outputs == {"value": 0.0, "reasons": "so it is -> no"}
    for name in ("retrieve bm25", "retrieve vector", "fuse", "rerank", "generate"):
        assert spans[name].end_time_ns > spans[name].start_time_ns
    assert root.end_time_ns - root.start_time_ns == sum(span.end_time_ns - span.start_time_ns for span in stages)


def test_scores_are_feedback_on_the_trace(traced: Traced) -> None:
    columns = traced.result.questions
    row = list(columns["question_id"]).index("lost")
    feedback = {one.name: one for one in traced.failures["lost"].info.assessments}
    assert feedback["context_ndcg"].value == columns["context_ndcg"][row] == 0
    assert feedback["context_ndcg"].source.source_type == "CODE"
    assert (feedback[METRIC].source.source_type, feedback[METRIC].rationale) == ("LLM_JUDGE", "so it is -> no")


def test_traces_of_a_repeated_upload_replace_the_earlier_ones_and_a_record_leaves_them(traced: Traced) -> None:
    tracker, one = traced.tracker, {"question": "?", "answer": None, "failed": "", "spans": [], "scores": {}}
    run = tracker.log_result(a_result(), artifacts=Artifacts(traces=[{**one, "question_id": name} for name in "ab"]))
    assert set(traces(tracker, run)) == {"a", "b"}
    for repeated in ([{**one, "question_id": "a"}], []):  # the ledger keeps none
        tracker.log_result(a_result(), RunPlacement(adopt=run), Artifacts(traces=repeated))
        assert set(traces(tracker, run)) == {"a"}


def test_runs_are_linked_to_the_prompt_of_their_llm(traced: Traced) -> None:
    linked = [client(traced.tracker).get_run(run).data.tags["mlflow.linkedPrompts"] for run in traced.runs]
    assert [json.loads(tag) for tag in linked] == 2 * [[{"name": "ragsweep-default", "version": "1"}]]
    prompt = client(traced.tracker).load_prompt("prompts:/ragsweep-default/1")
    assert [message["role"] for message in prompt.template] == ["system", "user"]
    assert prompt.variables == {"fence", "refusal", "passages", "question"}


def test_a_choice_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"tracking\.traces must be none, failures, sample or all, got 'some'"):
        Mlflow(traces="some").check()
    with pytest.raises(ConfigError, match=r"tracking\.experiment is blank"):
        Mlflow(experiment=" ").check()
