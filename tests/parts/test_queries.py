"""What a question with a history is searched with: the last turn, the conversation, or what a model makes of it."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from llm_server import LlmServer, ModelRequest
from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import BUDGET_SPENT
from ragsweep.core.results import COMPLETE, PARTIAL
from ragsweep.core.types import QueryWriter, Request, Turn
from ragsweep.evaluation.cost_estimate import estimate_costs
from ragsweep.evaluation.evaluator import Evaluator
from ragsweep.parts.queries import History, Last, Rewrite
from ragsweep.stages.executor import Executor
from ragsweep.stages.graph import plan
from ragsweep.stages.store import open_store
from ragsweep.sweep.running.session import Session
from ragsweep.testing.contract import collect
from support.commands import GOLDEN, evaluate, evaluate_with_artifacts, prepare, write_dataset

TALK = [
    {"id": "t1", "question": "And where does it sleep?", "evidence": [{"document": "cats"}],
     "history": [{"role": "user", "text": "Tell me about the cat."}, {"role": "assistant", "text": "It is warm."}]},
    {"id": "t2", "question": "What is it made of?", "evidence": [{"document": "bread"}],
     "history": [{"role": "user", "text": "I like bread."}]},
    {"id": "thanks", "question": "Thanks!", "needs_retrieval": False, "history": [{"role": "user", "text": "Ships?"}]},
]  # fmt: skip
STANDING = {"sleep": "Where does the cat sleep?", "made": " What is bread\nmade of? "}


def scripted(request: ModelRequest) -> str:
    """Return a query where the instruction is to rewrite, else an answer."""
    if "Rewrite" not in request.prompt:
        return "It rests on the warm mat."
    return next(text for word, text in STANDING.items() if word in request.last)


@pytest.fixture
def server(cwd: Path) -> Iterator[LlmServer]:
    with LlmServer(scripted) as made:
        yield made


def overrides(folder: Path, *more: str) -> list[str]:
    return [*write_dataset(folder, [*GOLDEN, *TALK]), "depth=4", "top_k=1", "tracking=none", "retriever=bm25", *more]


def model(server: LlmServer) -> list[str]:
    return ["llm=openai", *server.overrides("llm", model="gpt-4o-mini"), "~metrics.semantic_similarity"]


def stored(folder: Path) -> Session:
    warnings: list[str] = []
    return Session(Evaluator(Executor(open_store(folder / "stages", warnings.append))))


def rewrites(server: LlmServer) -> int:
    return sum("Rewrite" in one.request.prompt for one in server.log)


def written(part: QueryWriter, *requests: Request) -> list[str]:
    return [answer.text for answer in collect(part.write, requests)]


CHAT = Request("And then?", (), (Turn("user", "one"), Turn("assistant", "two"), Turn("user", "three")))


def test_history_joins_the_latest_turns_of_those_who_are_chosen() -> None:
    assert written(Last(), CHAT) == ["And then?"]
    assert written(History(), CHAT, Request("x")) == ["one\ntwo\nthree\nAnd then?", "x"]
    assert written(History(turns=1), CHAT) == ["three\nAnd then?"]
    assert written(History(roles=["user"]), CHAT) == ["one\nthree\nAnd then?"]


@pytest.mark.parametrize("wrong", [{"turns": 0}, {"roles": []}, {"roles": ["system"]}])
def test_turns_that_are_none_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"query\.(turns|roles)"):
        History(**wrong).check()  # type: ignore[arg-type]


def test_history_is_searched_with_where_there_is_one(cwd: Path) -> None:
    session = Session()
    evaluated = [evaluate_with_artifacts(session, *overrides(cwd, f"query={query}")) for query in ("last", "history")]
    last, history = (one.result for one in evaluated)
    assert "query" not in last.questions
    assert history.questions["query"][-2] == "I like bread.\nWhat is it made of?"
    ids = last.questions["question_id"]
    recall = {name: dict(zip(ids, one.questions["context_recall"], strict=True)) for name, one in
              (("last", last), ("history", history))}  # fmt: skip
    assert (recall["last"]["t2"], recall["history"]["t2"]) == (0, 1)
    assert all(recall["last"][one] == recall["history"][one] for one in ("q1", "q2", "q3"))
    assert last.run.signature != history.run.signature
    assert len({name for one in evaluated for name in one.artifacts.rankings}) == 2  # run files


def test_model_rewrites_each_question_with_a_history_once_and_its_query_is_searched_with(
    server: LlmServer, tmp_path: Path
) -> None:
    first = evaluate(stored(tmp_path), *overrides(tmp_path, *model(server), "query=rewrite"))
    assert first.run.state == COMPLETE
    assert rewrites(server) == 2  # neither questions without a history nor conversation
    assert first.questions["query"][4:6] == ["Where does the cat sleep?", "What is bread made of?"]
    assert first.questions["context_recall"][4:6] == [1, 1]
    assert first.summaries.usage["query"]["calls"] == 2
    assert first.summaries.usage["query"]["money"] > 0
    request = len(server.log)
    again = evaluate(stored(tmp_path), *overrides(tmp_path, *model(server), "query=rewrite"))
    assert len(server.log) == request
    assert again.summaries.usage == first.summaries.usage
    evaluate(stored(tmp_path), *overrides(tmp_path, *model(server), "query=rewrite", "prompt=cite"))
    assert rewrites(server) == 2  # the prompt of answers does not change a query


def test_cost_and_latency_of_an_answer_hold_those_of_its_query(server: LlmServer, tmp_path: Path) -> None:
    chosen = [[*model(server), f"query={query}"] for query in ("last", "rewrite")]
    last, written_by_model = (evaluate(stored(tmp_path), *overrides(tmp_path, *one)) for one in chosen)
    costs = [one.questions["cost_per_1000"] for one in (last, written_by_model)]
    assert costs[0][0] == costs[1][0]
    assert costs[0][4] < costs[1][4]
    assert written_by_model.summaries.latency["query"]["n"] == 6
    assert "query" not in last.summaries.latency


def test_question_whose_query_failed_has_no_score_and_the_next_run_completes_it(
    server: LlmServer, tmp_path: Path
) -> None:
    given = overrides(tmp_path, *model(server), "query=rewrite", "llm.concurrency=1")
    few = evaluate(stored(tmp_path), *given, "budget.calls=1")
    assert few.run.state == PARTIAL
    assert np.isnan(few.questions["context_recall"][5])
    assert few.summaries.metrics["context_recall"].reasons[BUDGET_SPENT] == 1
    whole = evaluate(stored(tmp_path), *given)
    assert whole.run.state == COMPLETE
    assert rewrites(server) == 2


def test_query_is_what_the_model_writes_behind_its_thoughts(server: LlmServer, tmp_path: Path) -> None:
    given = overrides(tmp_path, *model(server), "query=rewrite")
    plain = evaluate(Session(), *given)
    server.answer = lambda request: f"<think>The ship, the cat, the stars?</think>\n{scripted(request)}"
    thinking = evaluate(Session(), *given)
    assert thinking.questions["query"] == plain.questions["query"]
    assert thinking.questions["answer"] == plain.questions["answer"]


def test_a_form_of_answers_is_not_requested_of_queries(server: LlmServer, tmp_path: Path) -> None:
    form = "++llm.extra={response_format: {type: json_object}, top_p: 0.9}"
    evaluate(Session(), *overrides(tmp_path, *model(server), "query=rewrite", form))
    sent = {("Rewrite" in one.request.prompt, "response_format" in one.request.body) for one in server.log}
    assert sent == {(True, False), (False, True)}
    assert all(one.request.body["top_p"] == 0.9 for one in server.log)


def test_blank_query_is_a_failed_one(server: LlmServer, tmp_path: Path) -> None:
    server.answer = lambda request: " " if "Rewrite" in request.prompt else "Yes."
    result = evaluate(Session(), *overrides(tmp_path, *model(server), "query=rewrite", "llm.retries=0"))
    assert result.run.state == PARTIAL
    assert np.isnan(result.questions["context_recall"][4:6]).all()


def test_plan_estimates_the_calls_for_queries(server: LlmServer, tmp_path: Path) -> None:
    session = stored(tmp_path)
    experiment = prepare(session, *overrides(tmp_path, *model(server), "query=rewrite"))
    planned = plan([experiment.wanted], session.evaluator.executor)
    estimate_costs(planned, [experiment], session.evaluator.executor)
    charge = planned.stages["query"].charge
    assert (charge.calls, charge.estimated) == (2, True)
    assert charge.money > 0
    assert server.log == []


@pytest.mark.parametrize("llm", ["none", "extractive"])
def test_rewriting_without_a_model_is_refused(llm: str, cwd: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"^query: rewriting .* needs a model.*; choose llm=openai, .* or query=history$"
    ):
        prepare(Session(), *overrides(cwd, f"llm={llm}", "query=rewrite"))


def test_blank_instruction_is_refused() -> None:
    class Model:
        prompt = None

    with pytest.raises(ConfigError, match=r"query\.instruction is empty"):
        Rewrite(Model(), " ").check()
