"""RAGAS's metrics over our calls: its own numbers, nothing but numbers, and nothing asked twice."""

import asyncio
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from llm_server import LlmServer, ModelRequest
from llm_server.requests import example
from ragsweep.core.errors import ConfigError
from ragsweep.core.identity import key_check
from ragsweep.core.missing import CALL_FAILURES, MALFORMED, NO_STATEMENTS, TRUNCATED
from ragsweep.core.types import Case, JudgedMetric, Judgement, RequestSize
from ragsweep.parts.embedders import ApiEmbedder
from ragsweep.parts.judges import NoJudge, OpenAIJudge
from ragsweep.parts.metrics import (
    RagasAnswerCorrectness,
    RagasAnswerRelevancy,
    RagasContextPrecision,
    RagasFactualCorrectness,
    RagasFaithfulness,
    RagasNoiseSensitivity,
    RagasSemanticSimilarity,
)
from ragsweep.parts.metrics.ragas_calls import library
from ragsweep.testing.metrics import MetricContract
from support.models import METRICS, cases, form, judge_at, judged, text_of

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")]


def by_prompt(asked: ModelRequest) -> dict[str, Any]:
    """Return a reply that conforms to the schema, from a hash of ragas' prompt, so it is the same in every mode."""
    prompt = next(message["content"] for message in reversed(asked.body["messages"]) if message["role"] == "user")
    prompt = prompt if isinstance(prompt, str) else prompt[0]["text"]
    made: dict[str, Any] = example(asked.schema, Random(hashlib.sha256(prompt.encode()).hexdigest()))
    return _counted(made, text_of(prompt))


def _counted(made: dict[str, Any], prompt: str) -> dict[str, Any]:
    """Give as many verdicts as there are statements in the prompt."""
    if isinstance(made.get("statements"), list) and isinstance(made["statements"][0], dict):
        listed = prompt[prompt.index('"statements"') :]
        count = len(json.loads(listed[listed.index("[") : listed.index("]") + 1]))
        verdicts = Random(prompt)
        made["statements"] = [
            {"statement": f"s{n}", "reason": "r", "verdict": verdicts.randint(0, 1)} for n in range(count)
        ]
    return made


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with LlmServer(by_prompt) as running:
        yield running


# --- ragas' own numbers -------------------------------------------------------------------------------------------


def of_ragas(server: LlmServer, metric: Any, asked: list[Case]) -> list[float]:
    """Score by ragas' own class with its own clients: openai and instructor."""
    import openai
    from ragas.embeddings import OpenAIEmbeddings
    from ragas.llms import llm_factory

    async def score() -> list[float]:
        async with openai.AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:
            parts: dict[str, Any] = {}
            if metric.of_ragas != "SemanticSimilarity":
                parts["llm"] = llm_factory("scripted", client=client)
            if metric.embeddings:
                blocking = openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0)
                own = client if metric.of_ragas != "SemanticSimilarity" else blocking
                parts["embeddings"] = OpenAIEmbeddings(client=own, model="words")
            theirs = getattr(library().metrics, metric.of_ragas)(**parts)
            words = {"question": "user_input", "answer": "response", "contexts": "retrieved_contexts"}
            found = []
            for case in asked:
                given = {words.get(name, name): getattr(case, name) for name in metric.uses}
                given |= {"retrieved_contexts": list(case.contexts)} if "contexts" in metric.uses else {}
                found.append((await theirs.ascore(**given)).value)
            return found

    library()
    return asyncio.run(score())


@pytest.mark.parametrize("kind", METRICS, ids=lambda kind: kind.name)
def test_scores_are_those_of_ragas_own_classes(kind: Any, server: LlmServer) -> None:
    metric, asked = kind(judge_at(server, fence=False)), cases(6)
    ours = judged(metric, asked)
    sent = {one.request.body["messages"][0]["content"] for one in server.log if "messages" in one.request.body}
    server.log.clear()
    theirs = of_ragas(server, metric, asked)
    told = [one.request.body["messages"] for one in server.log if "messages" in one.request.body]
    assert [verdict.reason for verdict in ours] == [""] * len(asked)
    np.testing.assert_allclose([verdict.value for verdict in ours], theirs, rtol=0, atol=1e-12)
    assert sent == {next(one["content"] for one in messages if one["role"] == "user") for messages in told}


@pytest.mark.parametrize("kind", METRICS, ids=lambda kind: kind.name)
def test_with_a_fence_every_text_is_scored_as_well(kind: Any, server: LlmServer) -> None:
    metric = kind(judge_at(server))
    assert isinstance(metric, JudgedMetric)
    low, high = metric.bounds
    for verdict in judged(metric, cases(4)):
        assert verdict.reason == ""
        assert low <= verdict.value <= high
        assert verdict.usage.calls > 0
        assert not verdict.suspicious


def judged_by(answer: Any, kind: Any = RagasContextPrecision, **given: Any) -> Judgement:
    """Judge one case by a server that answers so."""
    with LlmServer(answer) as server:
        (verdict,) = judged(kind(judge_at(server, **given)), cases(1))
    return verdict


# --- nothing but numbers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("structured", [True, False])
def test_a_verdict_is_zero_or_one_is_not_searched_for_in_a_text_and_all_else_is_a_reason(structured: bool) -> None:
    odd = ['"0.9"', "7.3", "true", "null", "NaN", "Infinity", "-1", "7", "1.0", '"1"', "[1]", "{}"]
    texts = [
        *(f'{{"reason": "because", "verdict": {value}}}' for value in odd),
        'The verdict is {"reason": "r", "verdict": 1}',
        '{"reason": "r", "verdict": 0} {"reason": "r", "verdict": 1}',
        '{"reason": "{\\"verdict\\": 1}"}',
        "verdict: 1",
        "1",
        '[{"reason": "r", "verdict": 1}]',
        '{"reason": "r", "verdict": 1',
        '```json\n{"reason": "r", "verdict": 1}\n```\nand so on',
    ]
    with LlmServer(lambda asked: text) as server:
        for text in texts:
            server.log.clear()
            (verdict,) = judged(RagasContextPrecision(judge_at(server, structured=structured)), cases(1))
            assert math.isnan(verdict.value), text
            assert (verdict.reason, verdict.usage.calls, len(server.log)) == (MALFORMED, 2, 2)  # and once again


def test_a_block_of_code_is_read() -> None:
    verdict = judged_by(lambda asked: '```json\n{"reason": "r", "verdict": 1}\n```')
    assert verdict.value == pytest.approx(1)


def test_thoughts_before_a_verdict_are_not_read() -> None:
    thinking = '<think>\nFirst {"reason": "r", "verdict": 0}, no.\n</think>\n{"reason": "r", "verdict": 1}'
    assert judged_by(lambda asked: thinking).value == pytest.approx(1)
    assert judged_by(lambda asked: thinking, thoughts=None).reason == MALFORMED


def test_an_answer_that_does_not_conform_is_sent_back_once() -> None:
    def second(asked: ModelRequest) -> str:
        return '{"reason": "r", "verdict": 1}' if len(asked.body["messages"]) == 3 else '{"verdict": "SECRET"}'

    with LlmServer(second) as server:
        (verdict,) = judged(RagasContextPrecision(judge_at(server)), [cases(1)[0]._replace(contexts=("one",))])
        assert verdict.value == pytest.approx(1)
        told = server.log[1].request.last
    assert "verdict" in told or "reason" in told
    assert "SECRET" not in told  # what does not conform is not quoted in an instruction


@pytest.mark.parametrize(
    ("kind", "field", "calls"), [(RagasFaithfulness, "statements", 1), (RagasFactualCorrectness, "claims", 2)]
)
def test_a_text_without_statements_has_no_score_and_is_no_failure(kind: Any, field: str, calls: int) -> None:
    verdict = judged_by(lambda asked: {field: []}, kind)
    assert (math.isnan(verdict.value), verdict.reason, verdict.usage.calls) == (True, NO_STATEMENTS, calls)


@pytest.mark.parametrize("kind", [RagasAnswerCorrectness, RagasFactualCorrectness])
def test_statements_of_which_the_judge_classifies_none_have_no_score(kind: Any) -> None:
    """They have 1 or 0 in ragas."""
    found: dict[str, Any] = {"statements": ["a", "b"], "claims": ["a", "b"], "TP": [], "FP": [], "FN": []}

    def unclassified(asked: ModelRequest) -> dict[str, Any]:
        assert asked.schema is not None
        named = {name: found[name] for name in asked.schema["properties"]}
        return {"statements": []} if "verdict" in str(asked.schema) else named

    verdict = judged_by(unclassified, kind)
    assert (math.isnan(verdict.value), verdict.reason) == (True, MALFORMED)


def test_a_beta_that_gives_no_f_score_is_refused() -> None:
    with pytest.raises(ConfigError, match="beta must be above 0, got 0"):
        RagasFactualCorrectness(OpenAIJudge("http://localhost:1", "none"), beta=0)


def test_a_model_that_takes_no_temperature_and_no_limit_gets_neither(server: LlmServer) -> None:
    metric = RagasAnswerRelevancy(judge_at(server, temperature=None, max_tokens=None))
    metric.check()
    judged(metric, cases(1))
    assert math.isnan(metric.estimate_cost(RequestSize(1, 10, 10)).tokens_out)
    chats = [one.request.body for one in server.log if "messages" in one.request.body]
    assert len(chats) == 3  # the service's default may differ from call to call
    assert not {"temperature", "max_tokens"} & {name for body in chats for name in body}


def test_an_empty_question_of_the_judge_and_a_cut_answer_are_failures() -> None:
    verdict = judged_by(lambda asked: {"question": " ", "noncommittal": 0}, RagasAnswerRelevancy)
    assert verdict.reason == MALFORMED  # ragas makes 0 of it
    with LlmServer(by_prompt, faults={"length": 1}) as server:
        (verdict,) = judged(RagasFaithfulness(judge_at(server)), cases(1))
    assert (verdict.reason, verdict.usage.calls) == (TRUNCATED, 1)  # it was paid for


def test_valid_replies_that_contradict_each_other_are_requested_anew_by_the_next_judgement() -> None:
    def one_too_few(asked: ModelRequest) -> dict[str, Any]:
        """Find two statements in each text, but at first judge only one of them by the passage about the mill."""
        if "verdict" not in str(asked.schema):
            return {"statements": ["a", "b"]}
        few = asked.body["seed"] < 50 and "has a mill" in text_of(asked.last)
        return {"statements": [{"statement": "s", "reason": "r", "verdict": 1}] * (1 if few else 2)}

    notes, found = dict[str, str](), list[Judgement]()
    with LlmServer(one_too_few) as server:
        for calls in (8, 9, 0):  # of 9, the first judgement lacks the last: the answer's statements by the reference
            before, metric = len(server.log), RagasNoiseSensitivity(judge_at(server, temperature=0.5))
            metric.judge_cached(cases(1), lambda _, verdict: found.append(verdict), notes)
            assert len(server.log) - before == calls
    assert [verdict.reason for verdict in found] == [MALFORMED, "", ""]
    assert found[2] == found[1]


def test_half_a_surrogate_pair_is_judged(server: LlmServer) -> None:
    case = cases(1)[0]._replace(answer="Alice \ud800 wrote it", contexts=("by \udfff Alice",))
    for kind in KINDS:
        assert judged(kind(judge_at(server)), [case])[0].reason == ""


KINDS = (RagasFaithfulness, RagasSemanticSimilarity, RagasContextPrecision)
"""One that reads all texts of an answer, one without chats, one that is asked for each passage."""


class TestJudgedMetrics(MetricContract):
    @pytest.fixture(autouse=True, params=KINDS, ids=lambda kind: kind.name)
    def judged_metric(self, request: pytest.FixtureRequest, server: LlmServer) -> None:
        self.metric = request.param(judge_at(server))


# --- what is asked ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", METRICS, ids=lambda kind: kind.name)
def test_a_verdict_makes_as_many_calls_as_were_told_and_costs_no_more(kind: Any, server: LlmServer) -> None:
    metric = kind(judge_at(server, temperature=0.5))
    case = cases(1)[0]
    estimate = metric.estimate_cost(RequestSize(len(case.contexts), 40, 60))
    (verdict,) = judged(metric, [case])
    assert verdict.usage.calls == len(server.log) == estimate.calls
    assert verdict.usage.tokens_in <= estimate.tokens_in
    assert verdict.usage.tokens_out <= estimate.tokens_out
    assert verdict.model == estimate.model == ("words" if kind is RagasSemanticSimilarity else "scripted")


def test_metrics_that_ask_the_same_share_the_answer(server: LlmServer) -> None:
    judge, asked = judge_at(server), cases(5)
    first = [verdict.value for verdict in judged(RagasFaithfulness(judge), asked)]
    count = len(server.log)
    again = judged(RagasFaithfulness(judge), asked)
    assert [verdict.value for verdict in again] == first
    assert len(server.log) == count
    assert {verdict.usage.calls for verdict in again} == {0}


def test_nothing_is_asked_twice_at_once(server: LlmServer) -> None:
    server.latency = 0.05
    alike = [cases(1)[0]._replace(answer=str(n)) for n in range(20)]  # cases that differ in what this metric ignores
    verdicts = judged(RagasContextPrecision(judge_at(server)), alike)
    assert len({verdict.value for verdict in verdicts}) == 1
    assert max(Counter(one.request.digest for one in server.log).values()) == 1
    assert sum(verdict.usage.calls for verdict in verdicts) == len(server.log)


def test_no_text_is_embedded_twice_at_once(server: LlmServer) -> None:
    """Many questions may have the same reference, such as "yes", and many answers the same text."""
    server.latency = 0.05
    asked = [one._replace(reference=f"town {n % 3}") for n, one in enumerate(cases(20))]
    verdicts = judged(RagasSemanticSimilarity(judge_at(server)), asked)
    sent = Counter(text for one in server.log for text in one.request.body["input"])
    assert sent == dict.fromkeys((text for one in asked for text in (one.answer, one.reference)), 1)
    assert [verdict.reason for verdict in verdicts] == [""] * 20
    assert sum(verdict.usage.calls for verdict in verdicts) == len(server.log)


def test_what_is_repeated_is_asked_anew_where_it_may_differ(server: LlmServer) -> None:
    for temperature, calls in ((0.0, 1), (0.7, 3)):
        server.log.clear()
        judged(RagasAnswerRelevancy(judge_at(server, temperature=temperature)), cases(1))
        chats = [one.request.body for one in server.log if "messages" in one.request.body]
        assert len(chats) == calls
        assert len({body["seed"] for body in chats}) == calls
        assert {body["temperature"] for body in chats} == {temperature}


def test_samples_are_averaged_with_their_spread_and_one_that_fails_fails_the_verdict() -> None:
    def by_seed(asked: ModelRequest) -> dict[str, Any]:
        return {"reason": "r", "verdict": int(asked.body["seed"] >= 100) * later}

    case = cases(1)[0]._replace(contexts=("one",))
    with LlmServer(by_seed) as server:
        later = 1
        (verdict,) = judged(RagasContextPrecision(judge_at(server, samples=3)), [case])
        assert verdict.value == pytest.approx(2 / 3)
        assert verdict.spread == pytest.approx(np.std([0, 1, 1], ddof=1))
        assert len(server.log) == verdict.usage.calls == 3
        later = 5
        (verdict,) = judged(RagasContextPrecision(judge_at(server, samples=2)), [case])
        assert (math.isnan(verdict.value), verdict.reason) == (True, MALFORMED)


def test_another_replicate_has_other_seeds(server: LlmServer) -> None:
    for replicate in (0, 1):
        judged(RagasFaithfulness(judge_at(server, replicate=replicate)), cases(3))
    digests = Counter(one.request.digest for one in server.log)
    assert set(digests.values()) == {1}


@pytest.mark.parametrize("number", [6, pytest.param(30, marks=pytest.mark.nightly)])
def test_with_faults_every_case_ends_and_nothing_is_paid_twice(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragsweep.services.limits.SHORTEST_WAIT", 0.01)
    faults = dict.fromkeys(("rate_limited", "server_error", "drop", "html", "no_choices"), 0.02)
    with LlmServer(by_prompt, faults=faults, seed=3) as server:
        judge, asked = judge_at(server, retries=2, deadline=20), cases(number)
        verdicts = {kind.name: judged(kind(judge), asked) for kind in METRICS}
        good = [
            one for one in server.log if not one.fault or (one.fault == "no_choices" and "input" in one.request.body)
        ]
        answered = Counter(one.request.digest for one in good)
    for found in verdicts.values():
        assert len(found) == len(asked)
        for verdict in found:
            assert math.isnan(verdict.value) == bool(verdict.reason)
            assert not verdict.reason or verdict.reason in CALL_FAILURES
    assert set(answered.values()) == {1}
    paid = sum(verdict.usage.calls for found in verdicts.values() for verdict in found)
    assert paid <= sum(answered.values())
    assert sum(bool(verdict.reason) for found in verdicts.values() for verdict in found) < number


# --- what cannot work ---------------------------------------------------------------------------------------------


def test_without_a_judge_or_its_embeddings_metrics_that_need_them_are_refused() -> None:
    with pytest.raises(ConfigError, match="choose judge="):
        RagasFaithfulness(NoJudge()).check()
    judge = OpenAIJudge("http://localhost:1/v1", "m")
    RagasFaithfulness(judge).check()
    with pytest.raises(ConfigError, match=r"~metrics\.ragas_answer_relevancy"):
        RagasAnswerRelevancy(judge).check()


@pytest.mark.parametrize(
    "given",
    [{"base_url": "localhost"}, {"samples": 0}, {"temperature": 3.0}, {"max_tokens": 0}, {"replicate": -1},
     {"key_env": "sk-123"}, {"embeddings_model": "m", "embeddings_base_url": "x"},
     {"embeddings_base_url": "http://there/v1"}, {"embeddings_key_env": "THIRD_KEY"},
     {"embeddings_model": "m", "embeddings": object()}],
)  # fmt: skip
def test_values_that_cannot_work_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="judge"):
        OpenAIJudge(**({"base_url": "http://localhost:1/v1", "model": "m"} | given)).check()


def test_settings_of_its_embeddings_are_refused_by_their_own_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THIRD_KEY", raising=False)
    given = {"base_url": "http://localhost:1/v1", "model": "m", "embeddings_model": "e"}
    with pytest.raises(ConfigError, match=r"^judge\.embeddings_base_url must .* that judge\.embeddings_key_env names$"):
        OpenAIJudge(**given, embeddings_base_url="x").check()
    for address in (None, "http://there/v1"):
        with pytest.raises(ConfigError, match=r"set judge\.embeddings_key_env to another variable"):
            OpenAIJudge(**given, embeddings_base_url=address, embeddings_key_env="THIRD_KEY").check_key()


def test_the_key_of_its_embedder_is_checked_as_well_as_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THIRD_KEY", raising=False)
    embedder = ApiEmbedder("http://localhost:1/v1", "e", key_env="THIRD_KEY")
    metric = RagasAnswerRelevancy(OpenAIJudge(base_url="http://localhost:1/v1", model="m", embeddings=embedder))
    with pytest.raises(ConfigError, match="embedder: the environment variable THIRD_KEY"):
        key_check(metric)()
    monkeypatch.setenv("THIRD_KEY", "present")
    key_check(metric)()


def test_the_form_of_an_answer_is_closed(server: LlmServer) -> None:
    judged(RagasFaithfulness(judge_at(server)), cases(1))
    kinds = {form(one.request): one.request.body["response_format"]["json_schema"] for one in server.log}
    assert set(kinds) == {"statements"}
    told = kinds["statements"]
    assert told["strict"] is True
    assert told["schema"]["$defs"]["StatementFaithfulnessAnswer"]["properties"]["verdict"]["enum"] == [0, 1]
