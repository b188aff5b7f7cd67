"""A plan tells what its calls cost: as measured where anything was, else by an estimate that is never too low."""

import io
import math
from dataclasses import replace
from pathlib import Path

import pytest

from llm_server import LlmServer
from ragsweep.core.types import RequestSize
from ragsweep.evaluation.cost_estimate import estimate_costs
from ragsweep.parts.metrics import RagasContextPrecision, RagasFaithfulness, RagasSemanticSimilarity
from ragsweep.report.terminal import Terminal
from ragsweep.services.usage import UsageTotals
from ragsweep.stages.graph import Charge, Plan, StageCount, plan
from ragsweep.sweep.preparing import plan_as_json
from ragsweep.sweep.running.session import Session
from support.commands import GOLDEN, evaluate, prepare, write_dataset
from support.commands import stored_session as session
from support.models import judge_at
from test_paid_answers import judged, name_with_a_date, overrides, server

__all__ = ["server"]

PER_PASSAGE = "ragas_context_precision_without_reference"
READ, WRITTEN = 0.15e-6, 0.6e-6  # prices of gpt-4o-mini in prices=default


def costs(session: Session, *configs: list[str]) -> Plan:
    """Plan configs with the cost of their calls."""
    experiments = [prepare(session, *config) for config in configs]
    executor = session.evaluator.executor
    planned = plan([experiment.wanted for experiment in experiments], executor)
    estimate_costs(planned, experiments, executor)
    return planned


def spent(folder: Path, *overrides: str) -> UsageTotals:
    """Evaluate a config; return what its calls used."""
    made = session(folder)
    evaluate(made, *overrides)
    return made.services.meter.totals


def test_what_was_never_measured_is_estimated_by_prompt_context_and_max_tokens(
    server: LlmServer, tmp_path: Path
) -> None:
    cold = costs(session(tmp_path), overrides(server, tmp_path)).stages["generate"].charge
    short = costs(session(tmp_path), overrides(server, tmp_path, "llm.max_tokens=100")).stages["generate"].charge
    assert (cold.calls, cold.estimated) == (4, True)
    assert cold.tokens - short.tokens == pytest.approx(4 * (512 - 100))
    assert cold.money == pytest.approx(READ * (cold.tokens - 4 * 512) + WRITTEN * 4 * 512, rel=1e-3)
    assert server.log == []
    newer = "llm.max_tokens=null", "+llm.extra.max_completion_tokens=100"  # the key of OpenAI's reasoning models
    assert costs(session(tmp_path), overrides(server, tmp_path, *newer)).stages["generate"].charge == short
    wide = costs(session(tmp_path), overrides(server, tmp_path, "top_k=4")).stages["generate"].charge
    assert wide.tokens > cold.tokens
    paid = spent(tmp_path, *overrides(server, tmp_path))
    assert paid.tokens <= cold.tokens
    assert paid.money <= cold.money


def test_what_is_stored_is_not_counted_and_tells_what_the_rest_costs(server: LlmServer, tmp_path: Path) -> None:
    whole = costs(session(tmp_path), overrides(server, tmp_path)).charge
    paid = spent(tmp_path, *overrides(server, tmp_path, "budget.calls=2", "llm.concurrency=1"))
    half = costs(session(tmp_path), overrides(server, tmp_path)).charge
    assert replace(half, most_tokens=0, most_money=0) == Charge(
        2, pytest.approx(paid.tokens), pytest.approx(paid.money, rel=1e-2), False
    )
    assert (half.most_tokens, half.most_money) == (
        pytest.approx(whole.tokens / 2, rel=1e-2),
        pytest.approx(whole.money / 2, rel=1e-2),
    )
    evaluate(session(tmp_path), *overrides(server, tmp_path))
    assert costs(session(tmp_path), overrides(server, tmp_path)).charge == Charge()


def test_other_specs_of_the_same_class_and_model_tell_what_a_new_one_costs(server: LlmServer, tmp_path: Path) -> None:
    paid = spent(tmp_path, *overrides(server, tmp_path))
    other = costs(session(tmp_path), overrides(server, tmp_path, "llm.seed=7")).charge
    assert replace(other, most_tokens=0, most_money=0) == Charge(
        4, pytest.approx(paid.tokens), pytest.approx(paid.money, rel=1e-2), False
    )
    assert costs(session(tmp_path), overrides(server, tmp_path, "llm.seed=7", "llm.model=gpt-4o")).charge.estimated


def test_measured_answers_have_the_price_of_the_configs_model_if_the_service_names_it_with_a_date(
    server: LlmServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name_with_a_date(monkeypatch)
    words = overrides(server, tmp_path, "llm.model=mine", "+prices.models.mine=[1,2]")
    paid = spent(tmp_path, *words)
    other = costs(session(tmp_path), [*words, "llm.seed=7"]).charge
    assert not other.estimated
    assert other.money == pytest.approx(paid.money, rel=1e-2)


def test_configs_that_share_answers_are_told_of_once(server: LlmServer, tmp_path: Path) -> None:
    one = overrides(server, tmp_path)
    both = costs(session(tmp_path), one, one, [*one, "top_k=1"]).charge
    assert both.calls == 8


def test_model_without_a_price_has_unknown_money_and_known_tokens(server: LlmServer, tmp_path: Path) -> None:
    planned = costs(session(tmp_path), overrides(server, tmp_path, "llm.model=llama"))
    assert math.isnan(planned.charge.money)
    plain = plan_as_json(planned)
    assert (plain["calls"], plain["money"], plain["currency"]) == (4, None, "USD")
    assert isinstance(plain["tokens"], int)


def test_answers_of_unknown_length_have_unknown_tokens(server: LlmServer, tmp_path: Path) -> None:
    plain = plan_as_json(costs(session(tmp_path), overrides(server, tmp_path, "llm.max_tokens=null")))
    assert (plain["calls"], plain["tokens"], plain["money"]) == (4, None, None)


def test_what_calls_nobody_costs_nothing_and_says_nothing(server: LlmServer, tmp_path: Path) -> None:
    local = [*overrides(server, tmp_path)[:-4], "top_k=2", "depth=4", "~metrics.semantic_similarity"]
    local = [line for line in local if not line.startswith("llm")] + ["llm=extractive"]
    planned = costs(session(tmp_path), local)
    assert planned.stages["generate"].rows == 4
    plain = plan_as_json(planned)
    assert (plain["calls"], plain["tokens"], plain["money"]) == (0, 0, 0.0)
    stream = io.StringIO()
    Terminal(stream, bars=False).plan_table(planned)
    assert "calls" not in stream.getvalue()


def test_judges_are_never_paid_more_than_was_told(server: LlmServer, tmp_path: Path) -> None:
    words = [line for line in judged(server, tmp_path, "judge.temperature=1") if not line.startswith("~metrics.ragas")]
    words = [*words, "~metrics.semantic_similarity"]
    charges = costs(session(tmp_path), words).stages["judge"].charge
    paid = spent(tmp_path, *words)
    asked = [one for one in server.log if one.request.schema or one.request.path.endswith("embeddings")]
    assert 0 < len(asked) <= charges.calls
    assert charges.estimated
    assert paid.tokens <= charges.tokens
    assert costs(session(tmp_path), words).charge == Charge()


def test_judgements_are_expected_only_of_questions_that_have_what_the_judge_reads(
    server: LlmServer, tmp_path: Path
) -> None:
    words = judged(server, tmp_path, "~metrics.ragas_faithfulness", f"~metrics.{PER_PASSAGE}")
    words = [line for line in words if line != "~metrics.ragas_context_recall"]
    greeting = {"id": "q5", "question": "hello", "reference": "Hello.", "needs_retrieval": False}
    write_dataset(tmp_path, [{**GOLDEN[0], "reference": "On the warm mat."}, *GOLDEN[1:], greeting])
    expected = costs(session(tmp_path), words).stages["judge"].charge.calls
    evaluate(session(tmp_path), *words)
    assert expected == sum(one.request.schema is not None for one in server.log) == 1


@pytest.mark.parametrize("more", ["judge.samples=3", "top_k=4"])
def test_measured_judgements_count_for_other_numbers_of_samples_and_passages(
    server: LlmServer, tmp_path: Path, more: str
) -> None:
    words = judged(server, tmp_path, "~metrics.ragas_faithfulness")  # one call per passage remains
    spent(tmp_path, *words)
    one = costs(session(tmp_path), [*words, "judge.seed=7"]).stages["judge"].charge
    assert not one.estimated
    factor = 3 if "samples" in more else 2
    several = costs(session(tmp_path), [*words, "judge.seed=7", more]).stages["judge"].charge
    assert (several.calls, several.tokens) == (factor * one.calls, pytest.approx(factor * one.tokens))
    assert not several.estimated
    spent(tmp_path, *words, "judge.seed=8", more)
    assert costs(session(tmp_path), [*words, "judge.seed=7"]).stages["judge"].charge.calls == one.calls


def test_measured_judgements_count_where_the_number_of_passages_is_unknown(server: LlmServer, tmp_path: Path) -> None:
    system = ["system=http", f"system.url={server.base_url}/chat/completions",
              "system.body={messages: [{role: user, content: '{question}'}]}",
              "system.answer='choices[0].message.content'", "system.contexts='choices[*].message.content'"]  # fmt: skip
    words = [one for one in judged(server, tmp_path, "~metrics.ragas_faithfulness") if one.split(".")[0] != "llm"]
    words = [one for one in words if not one.startswith(("llm", "top_k", "depth"))] + system
    spent(tmp_path, *words)
    charge = costs(session(tmp_path), [*words, "judge.seed=7"]).stages["judge"].charge
    assert not charge.estimated
    assert charge.calls > 0


@pytest.mark.parametrize(
    ("metric", "calls", "written"),
    [(RagasFaithfulness, 2, 2), (RagasContextPrecision, 5, 5), (RagasSemanticSimilarity, 1, 0)],
)
def test_a_verdict_costs_its_calls_times_what_each_may_write(
    server: LlmServer, metric: type, calls: int, written: int
) -> None:
    estimate = metric(judge_at(server, samples=3, max_tokens=10)).estimate_cost(RequestSize(5, 100, 20))
    assert (estimate.calls, estimate.tokens_out) == (3 * calls, 3 * written * 10)


def test_plan_names_the_nodes_whose_calls_it_does_not_estimate(server: LlmServer, tmp_path: Path) -> None:
    embedder = ["retriever=vector", "embedder=api", *server.overrides("embedder", model="e")]
    words = overrides(server, tmp_path, *embedder)
    cold = costs(session(tmp_path), words)
    assert cold.not_estimated == {"embed", "embed_queries", "latency"}
    assert cold.charge == costs(session(tmp_path), overrides(server, tmp_path)).charge
    assert plan_as_json(cold)["not_estimated"] == sorted(cold.not_estimated)
    stream = io.StringIO()
    Terminal(stream, bars=False).plan(cold)
    assert "calls of embed, embed_queries, latency not estimated" in stream.getvalue()
    evaluate(session(tmp_path), *words)
    assert costs(session(tmp_path), words).not_estimated == set()


def test_a_system_that_exists_already_is_one_call_a_question_and_nobody_knows_its_tokens(
    server: LlmServer, tmp_path: Path
) -> None:
    kept = [line for line in overrides(server, tmp_path) if not line.startswith(("llm", "retriever"))]
    body = "system.body={messages: [{role: user, content: '{question}'}]}"
    where = [f"system.url={server.base_url}/chat/completions", "system.answer='choices[0].message.content'"]
    words = [*kept, "system=http", body, *where]
    cold = costs(session(tmp_path), words)
    assert cold.charge.calls == cold.stages["respond"].charge.calls == 4
    assert math.isnan(cold.charge.tokens)
    evaluate(session(tmp_path), *words)
    warm = costs(session(tmp_path), words)
    assert (warm.charge, warm.stages["respond"].stored) == (Charge(), 1)


def test_plan_line_says_what_is_known_and_how() -> None:
    stream = io.StringIO()
    count = StageCount(1, 1, 0, rows=4, charge=Charge(4, 1234.5, 0.25, True, 1234.5, 0.25))
    Terminal(stream, bars=False).plan_table(Plan(1, {"generate": count}, currency="USD"))
    line, stage = stream.getvalue().splitlines()
    said = "at most 4 calls, 1,235 tokens, 0.2500 USD (by estimate)"
    assert line.endswith(said)
    assert stage.endswith(f"at most 4 questions   {said}")
    count.charge = Charge(4, math.nan, math.nan)
    Terminal(stream, bars=False).plan(Plan(1, {"generate": count}))
    assert stream.getvalue().endswith("expected 4 calls, tokens unknown, money unknown (as measured)\n")
    count.charge = Charge(4, 100, 0.01, False, 400, 0.04)
    Terminal(stream, bars=False).plan(Plan(1, {"generate": count}, currency="EUR"))
    said = "expected 4 calls, 100 tokens, 0.0100 EUR (as measured), at most 400 tokens, 0.0400 EUR\n"
    assert stream.getvalue().endswith(said)
