"""A failure at any stage leaves the mean over the other questions, and a count with the reason, in every metric."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from llm_server import LlmServer, ModelRequest
from llm_server.requests import default_answer
from llm_server.server import LoggedRequest
from ragsweep.core.errors import InputError
from ragsweep.core.missing import FILTERED, INAPPLICABLE, NOT_PROBED, SYSTEM_RAISED
from ragsweep.core.results import COMPLETE, PARTIAL, Result
from ragsweep.report.tables import partial_note
from ragsweep.stats.comparable import check_whole
from ragsweep.stats.funnel import funnel
from ragsweep.sweep.running.session import Session
from support.commands import GOLDEN, evaluate, write_dataset

pytestmark = pytest.mark.slow

TALK = [
    {**row, "id": f"t{n}", "reference": "It rests on the warm mat.", "history": [{"role": "user", "text": "Hello."}]}
    for n, row in enumerate(GOLDEN) if row.get("evidence")
]  # fmt: skip
ASKED = [{"reference": "It rests on the warm mat.", **row} if row.get("evidence") else row for row in GOLDEN] + TALK
LOST = "t1"  # the question with a failure
WORDS = "keeps the yard"  # of that question
SYSTEM = """
BROKEN = False
def ask(question):
    if BROKEN and "keeps the yard" in question:
        raise TimeoutError("upstream timeout")
    return {"answer": "It rests on the warm mat.", "contexts": ["", ""], "ids": ["cats", "dogs"]}
"""
TIMES = ("latency", "answer_tokens_per_second")


class Failing(LlmServer):
    """A server with one fault for the requests that ``is_struck`` names."""

    is_struck: Callable[[ModelRequest], bool] = staticmethod(lambda request: False)
    fault = "content_filter"

    def take(self, request: ModelRequest, headers: Mapping[str, str]) -> LoggedRequest:
        logged = super().take(request, headers)
        if type(self).is_struck(request):
            logged.fault = self.fault
        return logged


def scripted(request: ModelRequest) -> Any:
    """Answer as every stage needs it."""
    if request.schema is not None:
        return {"search": True} if "search" in str(request.schema) else default_answer(request)
    if "Rewrite" in request.prompt:
        return next((row["question"] for row in ASKED if str(row["question"]) in request.last), "cat")
    return "It rests on the warm mat."


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, cwd: Path) -> Iterator[LlmServer]:
    monkeypatch.setenv("RAGSWEEP_TRUSTED_PACKAGES", "planted_system")
    monkeypatch.setattr(Failing, "is_struck", staticmethod(lambda request: False))
    (cwd / "planted_system.py").write_text(SYSTEM)
    monkeypatch.syspath_prepend(cwd)
    with Failing(scripted) as made:
        yield made


def overrides(folder: Path) -> list[str]:
    return [
        *write_dataset(folder, ASKED), "depth=4", "top_k=2", "tracking=none", "targets=none", "coverage=0",
        "~metrics.semantic_similarity",
    ]  # fmt: skip


def model(server: LlmServer, part: str = "llm") -> list[str]:
    name = "openai" if part != "router" else "llm"
    return [f"{part}={name}", *server.overrides(part), f"{part}.retries=0"]


def is_last_turn(request: ModelRequest) -> bool:
    """Return whether a request is that of the struck question, which has a history."""
    return WORDS in request.last and "Hello." in json.dumps(request.body)


STAGES: dict[str, Callable[[ModelRequest], bool]] = {
    "query": lambda request: "Rewrite" in request.prompt and WORDS in request.prompt,
    "route": lambda request: "search" in str(request.schema) and is_last_turn(request),
    "answer": lambda request: request.schema is None and "Rewrite" not in request.prompt and is_last_turn(request),
    "judge": lambda request: request.schema is not None and WORDS in request.prompt,
    "system": lambda request: False,
}
UPSTREAM = {"query", "route", "system"}


def chosen(stage: str, server: LlmServer) -> list[str]:
    extra = {
        "query": [*model(server), "query=rewrite"],
        "route": [*model(server), *model(server, "router")],
        "answer": model(server),
        "judge": [*model(server), *model(server, "judge"), "metrics=[retrieval,answers,ragas]",
                  "judge.embeddings_model=words"],
        "system": ["system=python", "system.function=planted_system.ask", "chunker=none"],
    }  # fmt: skip
    return extra[stage]


def run_both(
    stage: str, server: LlmServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Result, Result, set[str]]:
    """Evaluate without and with the failure; return both, and the questions with the failure."""
    given = [*overrides(folder), *chosen(stage, server)]
    whole = evaluate(Session(), *given)
    monkeypatch.setattr(Failing, "is_struck", staticmethod(STAGES[stage]))
    monkeypatch.setattr("planted_system.BROKEN", True) if stage == "system" else None
    struck = {LOST, "q2"} if stage in ("system", "judge") else {LOST}  # equal words have one response
    return whole, evaluate(Session(), *given), struck


def cell(result: Result, metric: str, row: int) -> tuple[float, str]:
    reason = result.questions.unscored[row].get(metric, "")
    return float(result.questions[metric][row]), reason


@pytest.mark.parametrize("stage", STAGES)
def test_failure_leaves_the_mean_over_the_others_and_a_count(
    stage: str, server: LlmServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, broken, struck = run_both(stage, server, tmp_path, monkeypatch)
    reason = SYSTEM_RAISED if stage == "system" else FILTERED
    ids = list(whole.questions["question_id"])
    lost = [name for name, summary in broken.summaries.metrics.items() if reason in summary.reasons]
    assert lost
    for name, summary in broken.summaries.metrics.items():
        before, after = ([cell(one, name, row) for row in range(len(ids))] for one in (whole, broken))
        for question, (old, why), (new, reported) in zip(ids, before, after, strict=True):
            if question not in struck or why in INAPPLICABLE - {NOT_PROBED}:
                assert reported == why
                assert name.startswith(TIMES) or new == old or (math.isnan(new) and math.isnan(old))
            elif stage in UPSTREAM or (name in lost and reported != why):
                assert (math.isnan(new), reported) == (True, reason)
        others = [new for new, _ in after if not math.isnan(new)]
        assert summary.n_scored == len(others)
        assert summary.n_failed == sum(one == reason for _, one in after)
        if others and not name.startswith(TIMES) and whole.summaries.metrics[name].unit != "tokens":
            assert summary.value == pytest.approx(sum(others) / len(others))
    if stage in UPSTREAM:
        assert {name for name, one in whole.summaries.metrics.items() if one.n_scored > 1} <= {*lost, "answer_support"}


def test_evidence_of_a_failed_call_was_not_lost_by_the_search(
    server: LlmServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, broken, struck = run_both("system", server, tmp_path, monkeypatch)
    path = funnel(broken)
    assert path is not None
    assert not struck & path.fates.keys()
    assert broken.summaries.metrics["context_recall"].value == pytest.approx(path.recall)


def test_one_withheld_answer_makes_partial_only_below_the_coverage_asked_for(
    server: LlmServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Failing, "is_struck", staticmethod(STAGES["answer"]))
    given = [*overrides(tmp_path)[:-1], "embedder=hashing", *chosen("answer", server)]  # with semantic_similarity
    enough, few = (evaluate(Session(), *given, f"coverage={least}") for least in (0.8, 0.98))
    assert enough.summaries.metrics["citations_correct"].n_scored == 0
    assert enough.summaries.metrics["citations_correct"].reasons[FILTERED] == 1
    assert (enough.run.state, few.run.state) == (COMPLETE, PARTIAL)
    least = min(few.summaries.metrics[name].coverage for name in ("success_rate", "token_f1", "refusal"))
    note, accepted = partial_note(few), f"coverage={math.floor(100 * least) / 100:g}"
    assert f"{accepted} to accept" in note
    assert evaluate(Session(), *given, accepted).run.state == COMPLETE
    assert "filtered" in note
    assert "run it again" not in note
    with pytest.raises(InputError, match=r"is PARTIAL.*to accept the missing scores"):
        check_whole(few)
