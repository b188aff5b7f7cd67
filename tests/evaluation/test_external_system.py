"""A system that exists already is a config like any other; a router decides what is searched for."""

import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragsweep.core.identity import BuiltPart, Spec
from ragsweep.core.results import COMPLETE, PARTIAL, Result
from ragsweep.core.types import Answer, Dataset, GoldenSet, Passage, Request, Response
from ragsweep.evaluation.evaluator import Evaluator
from ragsweep.evaluation.experiment import Experiment, tabulate_conversations
from ragsweep.evaluation.external_system import ExternalSystem, external_graph
from ragsweep.parts.metrics import Recall
from ragsweep.records.ledger import Ledger
from ragsweep.stages.executor import Executor
from ragsweep.stages.graph import plan
from support.parts import corpus, golden
from support.servers import forked
from support.servers.json_server import Reply, Server, serving

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CORPUS = [
    {"id": "cats", "title": "Cats", "text": "A cat purrs when it is content.\n\nA cat sleeps for many hours a day."},
    {"id": "dogs", "title": "", "text": "A dog barks at strangers. A dog likes long walks."},
]
GOLDEN = [
    {"id": "q1", "question": "What does a content cat do?", "reference": "It purrs.",
     "evidence": [{"document": "cats", "anchor": "cat purrs"}]},
    {"id": "q2", "question": "What does a dog like?", "reference": "long walks",
     "evidence": [{"document": "dogs", "anchor": "likes long walks"}]},
    {"id": "q3", "question": "What do fish eat?", "answerable": False},
    {"id": "q4", "question": "Hello!", "needs_retrieval": False},
]  # fmt: skip
MODULE = """
def ask(question):
    if "cat" in question:
        return {"answer": "It purrs.", "contexts": ["A cat purrs when it is content. A cat sleeps for many hours"]}
    if "dog" in question:
        return {"answer": "bones", "contexts": ["made up", "A dog barks at strangers."], "ids": ["dogs", "dogs"]}
    if "fish" in question:
        raise RuntimeError("no fish here")
    return "Hello to you."
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, rows in (("corpus", CORPUS), ("golden", GOLDEN)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "animals.py").write_text(MODULE)
    return tmp_path


ANIMALS = ("system=python", "system.function=animals.ask")
JSONL = ("dataset=jsonl", "dataset.corpus=corpus.jsonl", "dataset.golden=golden.jsonl")


def run(folder: Path, *overrides: str, status: int = 0, dataset: Sequence[str] = JSONL) -> tuple[dict[str, Any], str]:
    """Run one config; return its results and what it printed."""
    told = {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
            "RAGSWEEP_TRUSTED_PACKAGES": "animals", "COLUMNS": "160"}  # fmt: skip
    done = forked.run(
        [sys.executable, "-m", "ragsweep", "run", *dataset, "tracking=none", "targets=none", "hydra.run.dir=out",
         "retriever=bm25", *overrides],
        cwd=folder, env={**os.environ, **told}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    found = folder / "out" / "results.json"
    return (json.loads(found.read_text()) if found.exists() else {}), done.stdout + done.stderr


def recorded(folder: Path) -> Result:
    """Return the last result in the ledger."""
    outcome = Ledger(folder / ".ragsweep").singles()[-1].outcome
    assert isinstance(outcome, Result)
    return outcome


def test_a_system_is_scored_like_a_config(folder: Path) -> None:
    _, shown = run(folder, *ANIMALS, "coverage=0", "~metrics.semantic_similarity", "chunker=none")
    record = recorded(folder)
    table = record.questions
    assert list(table["answer"]) == ["It purrs.", "bones", "", "Hello to you."]
    assert list(table["context_recall"])[:2] == [1.0, 0.0]
    assert list(table["exact_match"])[:2] == [1.0, 0.0]
    retrieved, rank = table["retrieved"], table["first_evidence_rank"]
    assert [retrieved[n] for n in (0, 1, 3)] == [1, 2, 0]
    assert math.isnan(retrieved[2])  # it failed; the greeting has no context
    assert math.isnan(rank[2])
    assert table["context"][0] == ["cats:0-60"]
    assert record.summaries.metrics["exact_match"].n_failed == 1
    assert table.unscored[2]["refusal"] == "the system raised an error"
    assert record.run.warnings[0].startswith("1 context of the system could not be located")
    assert "not in the corpus" in shown


@pytest.mark.parametrize(("tokens", "cost"), [("used", 9000.0), ("null", "no price")])
def test_a_price_for_the_address_of_a_system_applies_to_its_reported_tokens(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tokens: str, cost: float | str
) -> None:
    reply = 200, {}, json.dumps({"answer": "It purrs.", "used": 9}).encode()
    with serving(monkeypatch, lambda body: reply) as server:
        run(
            folder, "system=http", f"system.url={server.url}/ask", f"system.tokens_in={tokens}", "chunker=none",
            "prices.models={http*: [1_000_000, 0]}", "~metrics.semantic_similarity",
        )  # fmt: skip
    table = recorded(folder).questions
    assert (table.unscored[0].get("cost_per_1000") or table["cost_per_1000"][0]) == cost


def test_a_truncated_output_of_a_system_is_unreadable_like_that_of_a_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = {"message": {"content": '{"a": 1'}, "finish_reason": "length"}
    reply = 200, {}, json.dumps({"choices": [choice], "found": ["A cat purrs when it is content."]}).encode()
    metric = "+metrics.unreadable_output={_target_: ragsweep.parts.metrics.UnreadableOutput}"
    with serving(monkeypatch, lambda body: reply) as server:
        run(
            folder, "system=http", f"system.url={server.url}/ask", 'system.answer="choices[0].message.content"',
            "system.contexts=found", "output=json", "chunker=none", "metrics=retrieval", metric,
        )  # fmt: skip
    table = recorded(folder).questions
    assert (table["unreadable_output"][0], table["context_recall"][0], table["output_fault"][0]) == (
        1.0, 1.0, "cut at max_tokens",
    )  # fmt: skip


def test_a_system_that_returns_no_contexts_has_answers_but_no_scores_of_retrieval(folder: Path) -> None:
    (folder / "animals.py").write_text("def ask(question):\n    return 'It purrs.'\n")
    made, answered = "_target_: ragsweep.parts.metrics", "exact: {metric: ${metrics.exact_match}"
    found = "found: {metric: ${metrics.context_recall}"
    total = f"{{{made}.WeightedSum, name: total, terms: {{{answered}, weight: 1}}, {found}, weight: 1}}}}}}"
    solved = f"{{{made}.TaskSuccess, name: solved, criteria: {{{answered}, at_least: 1}}, {found}, at_least: 1}}}}}}"
    of_sum = f"{{{made}.WeightedSum, name: of_sum, terms: {{all: {{metric: ${{metrics.total}}, weight: 1}}}}}}"
    composites = f"+metrics.total={total}", f"+metrics.solved={solved}", f"+metrics.of_sum={of_sum}"
    _, shown = run(folder, *ANIMALS, "~metrics.semantic_similarity", "chunker=none", *composites)
    record = recorded(folder)
    for name in ("context_recall", "total", "solved", "of_sum"):
        recall = record.summaries.metrics[name]
        assert (math.isnan(recall.value), recall.reasons["no contexts returned"], recall.coverage) == (True, 2, 1)
    assert record.summaries.metrics["context_tokens"].n_scored == 0
    assert record.questions["exact_match"][0] == 1
    assert "returned no contexts for 4 questions" in " ".join(shown.split())


def test_a_failed_call_of_a_system_without_contexts_stays_a_failure(folder: Path) -> None:
    fault = "    if question.startswith(START):\n        raise ValueError\n".replace(
        "START", repr(GOLDEN[0]["question"])
    )
    (folder / "animals.py").write_text(f"def ask(question):\n{fault}    return 'It purrs.'\n")
    _, shown = run(folder, *ANIMALS, "~metrics.semantic_similarity", "chunker=none", "coverage=0")
    recall = recorded(folder).summaries.metrics["context_recall"]
    assert (recall.n_failed, recall.reasons["no contexts returned"]) == (1, 1)
    assert "returned no contexts for 3 questions" in " ".join(shown.split())


@pytest.mark.nightly
def test_the_document_of_a_query_is_taken_out_of_the_contexts_of_a_system(folder: Path) -> None:
    copied = {"_id": "cats", "text": GOLDEN[0]["question"]}
    corpus = [{"_id": one["id"], "text": one["text"]} for one in CORPUS]
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("cats\tdogs\t1\nq2\tdogs\t1\n")
    for name, rows in (("corpus", corpus), ("queries", [copied, {"_id": "q2", "text": GOLDEN[1]["question"]}])):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    lengths = {}
    for excluded in ("false", "true"):
        beir = ("dataset=beir", "dataset.path=.", f"dataset.exclude_self={excluded}")
        run(folder, *ANIMALS, "metrics=retrieval", dataset=beir)
        lengths[excluded] = list(recorded(folder).questions["retrieved"])
    assert lengths == {"false": [1, 2], "true": [0, 2]}


def test_what_a_system_said_is_kept_and_asked_again_only_where_it_failed(folder: Path) -> None:
    command = (*ANIMALS, "coverage=0", "~metrics.semantic_similarity")
    (folder / "animals.py").write_text(
        MODULE.replace("def ask(question):", "def ask(question):\n    open('log', 'a').write(question[-5:])")
    )
    run(folder, *command)
    first = len((folder / "log").read_text())
    run(folder, *command)
    assert len((folder / "log").read_text()) == first + len("eat?") + 1


def test_a_system_answers_by_itself(folder: Path) -> None:
    _, shown = run(folder, *ANIMALS, "llm=extractive", status=2)
    assert "llm=none" in shown


def test_questions_with_queries_of_their_own_get_their_rankings(folder: Path) -> None:
    cases = [{"id": one["id"], "input": one["question"], "topic": "animals", "evidence": one["evidence"]}
             for one in GOLDEN[:2]]  # fmt: skip
    (folder / "cases.jsonl").write_text("\n".join(map(json.dumps, cases)))
    task = ("dataset=cases", "dataset.cases=cases.jsonl", "dataset.corpus=corpus.jsonl", "dataset.query='{input} 1'")
    run(folder, *ANIMALS, "metrics=retrieval", dataset=task)
    assert list(recorded(folder).questions["context_recall"]) == [1.0, 0.0]


def test_equal_questions_of_different_conversations_have_their_own_contexts(folder: Path) -> None:
    (folder / "animals.py").write_text(
        "def ask(question, history):\n    text = ' '.join(turn['content'] for turn in history)\n"
        "    return {'answer': 'so', 'ids': ['dogs' if 'Dogs' in text else 'cats']}\n"
    )
    asked = [{"id": f"c{n}", "question": "And why?", "history": [{"role": "user", "text": f"{name}?"}],
              "evidence": [{"document": name.lower()}]} for n, name in enumerate(("Cats", "Dogs", "Cats"))]  # fmt: skip
    (folder / "golden.jsonl").write_text("\n".join(map(json.dumps, asked)))
    run(folder, *ANIMALS, "metrics=retrieval")
    assert list(recorded(folder).questions["context_recall"]) == [1.0, 1.0, 1.0]


SOURCES = {
    "What does a content cat do?": [("cats", "A cat purrs when it is content.", 0.8), ("dogs", "A dog barks", 0.5)],
    "What does a dog like?": [("dogs", "A dog barks at strangers.", 0.6)],
    "What do fish eat?": [],
}


def found(body: dict[str, Any], sign: float = 1.0) -> Reply:
    if body["query"] not in SOURCES:
        return 422, {}, b"{}"
    hits = [{"id": name, "text": text, "score": sign * score} for name, text, score in SOURCES[body["query"]]]
    return 200, {"Content-Type": "application/json"}, json.dumps({"results": hits}).encode()


def searched(folder: Path, server: Server, *overrides: str) -> Result:
    run(folder, "system=search", f"system.url={server.url}/search", "coverage=0", *overrides)
    return recorded(folder)


def test_a_system_that_only_searches_is_measured_by_what_it_finds(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(monkeypatch, found) as server:
        kinds = "{_target_: ragsweep.parts.metrics.Refusal}", "{_target_: ragsweep.parts.metrics.TokenF1}"
        record = searched(folder, server, f"+metrics.refusal={kinds[0]}", f"+metrics.token_f1={kinds[1]}")
        asked = len(server.bodies)
        searched(folder, server, "name=again", "rerun=true")
        assert len(server.bodies) == asked + 1  # that of the failed call
    table = record.questions
    assert list(table["context_recall"])[:2] == [1.0, 0.0]
    assert list(table["retrieved"])[:3] == [2, 1, 0]
    assert record.run.config["objective"] == "context_ndcg"
    for name in ("refusal", "token_f1"):
        reasons = {row[name] for row in table.unscored}  # including that of a failed search
        assert reasons <= {"no answers asked for", "conversational"}
        assert record.summaries.metrics[name].coverage == 1
    assert record.summaries.metrics["context_recall"].n_failed == 0
    assert [round(score, 4) for score in list(table["top_score"])[:2]] == [0.8, 0.6]


def test_scores_that_rise_are_replaced_and_a_warning_counts_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(monkeypatch, lambda body: found(body, sign=-1.0)) as server:
        record = searched(folder, server)
    assert record.run.warnings[0].startswith("the system's scores increase down its list for 1 question, ")
    assert list(record.questions["top_score"])[:2] == [1.0, 1.0]


@pytest.mark.nightly
def test_a_router_keeps_conversation_out_of_the_search(folder: Path) -> None:
    patterns = "router.conversation=['hello','what do fish']"
    run(folder, "router=rule", patterns)
    record = recorded(folder)
    table = record.questions
    assert list(table["router_accuracy"]) == [1.0, 1.0, 0.0, 1.0]
    assert list(table["retrieved"])[2:] == [0, 0]
    assert list(table["missed_search"])[:3] == [0.0, 0.0, 1.0]
    assert record.summaries.metrics["needless_search"].value == 0.0
    assert list(table["searched"]) == [True, True, False, False]
    assert record.summaries.metrics["search_rate"].value == 0.5


@pytest.mark.nightly
def test_without_a_router_the_golden_set_decides_and_the_address_differs(folder: Path) -> None:
    signatures = set()
    for options in ([], ["router=rule"]):
        run(folder, *options)
        signatures.add(recorded(folder).run.signature)
    assert len(signatures) == 2


class Scripted:
    """A system that retrieves one document for each question, and fails for the questions in ``failing``."""

    def __init__(self, documents: dict[str, str]) -> None:
        self.documents = documents
        self.failing: set[str] = set()

    def ask(self, requests: Sequence[Request], done: Callable[[int, Response], None]) -> None:
        """Answer each request with its question."""
        for number, request in enumerate(requests):
            if request.question in self.failing:
                done(number, Response(Answer(failed="budget spent")))
            else:
                done(number, Response(Answer(request.question), (Passage(self.documents[request.question], ""),)))


def scripted(system: Scripted, questions: GoldenSet) -> Experiment:
    table, given = tabulate_conversations(questions.questions), corpus()
    built = BuiltPart(system, Spec("Scripted", "1"))
    graph = external_graph(ExternalSystem(given, built, table.wordings, table.texts, 2, list(given.ids)))
    config, data = {"system": "scripted", "objective": "recall_at_1"}, Dataset("toy", given, questions)
    return Experiment("n", (), config, {}, data, graph, 2, (Recall(cutoff=1),), 0.5, "s", coverage=1.0)


def test_a_larger_budget_scores_what_the_spent_one_left() -> None:
    system, evaluator = Scripted({"A?": "d0", "B?": "d1"}), Evaluator()
    system.failing = {"B?"}
    states = []
    for _ in range(2):
        result = evaluator.evaluate(scripted(system, golden(("A?", "d0"), ("B?", "d1"))))
        summary = result.summaries.metrics["recall_at_1"]
        states.append((result.run.state, summary.value, summary.n_scored))
        system.failing = set()
        evaluator.forget_failed()
    assert states == [(PARTIAL, 1.0, 1), (COMPLETE, 1.0, 2)]


def test_questions_with_one_query_have_their_own_contexts() -> None:
    questions = [replace(one, query="letters") for one in golden(("A?", "d0"), ("B?", "d1")).questions]
    result = Evaluator().evaluate(scripted(Scripted({"A?": "d0", "B?": "d1"}), GoldenSet(tuple(questions))))
    assert list(result.questions["recall_at_1"]) == [1.0, 1.0]


def test_files_for_other_tools_omit_questions_without_a_response() -> None:
    system, questions = Scripted({"A?": "d0", "B?": "d1"}), golden(("A?", "d0"), ("B?", "d1"))
    whole = Evaluator().evaluate_with_artifacts(scripted(system, questions)).artifacts
    system.failing = {"B?"}
    lacking = Evaluator().evaluate_with_artifacts(scripted(system, questions)).artifacts
    for kind in ("rankings", "qrels", "evidence_runs", "evidence_qrels"):
        ((name, complete),), ((other, rest),) = (getattr(one, kind).items() for one in (whole, lacking))
        assert name != other
        assert rest == complete.splitlines(keepends=True)[0]
        assert rest.startswith("q0 ")


def test_plan_counts_a_request_that_two_questions_share_once() -> None:
    asked = scripted(Scripted({}), golden(("A?", "d0"), ("A?", "d1"), ("B?", "d1")))
    rows = plan([asked.wanted], Executor()).missing[asked.graph.paid_stages[0].node.address]
    assert list(rows) == [asked.table.wordings[0], asked.table.wordings[2]]
