"""The rerank service's client, against a real server on this machine; faults of calls are in test_http_client."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.evaluation.pipeline import Parts, graph
from ragsweep.parts.prices import Prices
from ragsweep.parts.rerankers import ApiReranker
from ragsweep.services.errors import CallFailed, EndpointFailed
from ragsweep.services.session import ServiceSession
from ragsweep.services.usage import Budget, NoPrices, UsageTotals
from ragsweep.stages.executor import Executor
from ragsweep.testing.rerankers import PAIRS, RerankerContract
from support.parts import Whole, built, corpus, vector
from support.servers.json_server import Reply, Server, serving

KEY = "k-5ecret-5ecret"


def score(query: str, text: str) -> float:
    return len(set(query) & set(text)) / 26


def answer(body: dict[str, Any]) -> Reply:
    """Answer as a service does: best first."""
    results = [
        {"index": n, "relevance_score": score(body["query"], text), "document": None}
        for n, text in enumerate(body["documents"])
    ]
    results.sort(key=lambda entry: -entry["relevance_score"])
    return 200, {}, json.dumps({"id": "x", "results": results}).encode()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("RERANK_KEY", KEY)
    with serving(monkeypatch, answer) as made:
        yield made


def reranker(server: Server, **parameters: Any) -> ApiReranker:
    given = {"base_url": server.url, "model": "m", "key_env": "RERANK_KEY", "retries": 2, "timeout": 10, **parameters}
    return ApiReranker(**given)


class TestApiReranker(RerankerContract):
    @pytest.fixture(autouse=True)
    def _served(self, server: Server) -> None:
        self.server = server

    def part(self) -> ApiReranker:
        return reranker(self.server, batch_size=2)


def test_blank_question_or_text_is_not_sent_and_scores_nothing(server: Server) -> None:
    """Cohere, for one, rejects blank texts, and so a question with the chunk of an empty file among its candidates."""
    scores = reranker(server).score([("abc", "abc"), (" ", "abc"), ("", "x"), ("abc", " "), ("ab", "")])
    assert scores.tolist() == [np.float32(score("abc", "abc")), 0, 0, 0, 0]
    assert [(body["query"], body["documents"]) for body in server.bodies] == [("abc", ["abc"])]


def test_call_is_what_services_expect_and_answers_come_back_to_their_pairs(server: Server) -> None:
    scores = reranker(server).score(PAIRS)
    np.testing.assert_allclose(scores, [score(*pair) for pair in PAIRS], rtol=1e-6)
    assert set(server.paths) == {"/v1/rerank"}
    assert set(server.keys) == {f"Bearer {KEY}"}
    by_query = {body["query"]: body for body in server.bodies}
    assert len(server.bodies) == len(by_query) == 2  # one call a question; the blank one is not sent
    texts = by_query["who sat on the mat"].pop("documents")
    assert len(texts) == len(set(texts)) == 3  # the text that comes twice is sent once, the blank one not at all
    # Cohere's API v2 refuses unknown fields.
    assert by_query["who sat on the mat"] == {"model": "m", "query": "who sat on the mat", "top_n": 3}


def test_tokens_that_the_service_reports_are_counted_and_priced(server: Server) -> None:
    def reply(body: dict[str, Any], number: int) -> Reply:
        return 200, {}, json.dumps({**json.loads(answer(body)[2]), "usage": {"total_tokens": 7}}).encode()

    server.reply = reply
    part, session = reranker(server, batch_size=1, concurrency=1), ServiceSession()
    part.service.connect(session)
    session.meter.limit(Budget(), Prices("2025-08-15", "USD", "made up", {"m": [100_000, 0]}))
    part.score([("q", "one"), ("q", "two")])
    assert session.meter.totals == UsageTotals(2, 14, 1.4)
    session.meter.limit(Budget(money=1), NoPrices())
    with pytest.raises(ConfigError, match='the model "m" has no price'):
        part.score([("q", "three")])
    assert len(server.bodies) == 2


def test_calls_without_token_counts_have_no_known_cost_and_cannot_be_limited_by_money(server: Server) -> None:
    part, session = reranker(server, concurrency=1), ServiceSession()
    part.service.connect(session)
    session.meter.limit(Budget(), Prices("2025-08-15", "USD", "made up", {"m": [1, 0]}))
    part.score([("q", "one")])
    assert session.meter.totals == UsageTotals(1, 0, 0.0, unpriced=True)
    session.meter.limit(Budget(money=1), session.meter.prices)
    with pytest.raises(ConfigError, match=r"m reports no token counts; set the price 0 with .*budget.calls$"):
        part.score([("q", "two"), ("r", "two")])
    assert len(server.bodies) == 2
    session.meter.limit(Budget(money=1), Prices("2025-08-15", "USD", "made up", {"m": [0, 0]}))
    part.score([("q", "three")])


def test_without_a_key_none_is_sent(server: Server) -> None:
    reranker(server, key_env=None).score(PAIRS[:1])
    assert server.keys == [None]


def results(*entries: Any) -> bytes:
    return json.dumps({"results": list(entries)}).encode()


GOOD = {"index": 0, "relevance_score": 0.5}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html><body>Sign in to the\nnetwork</body></html>", "not JSON: <html><body>Sign in to the network"),
        (b'{"error": "overloaded"}', "no results with index"),
        (results(5), "no results with index"),
        (results(GOOD), "the response contains 1 result for 2 texts"),
        (results(GOOD, GOOD), "2 results for 2 texts; there must be exactly one for each"),
        (
            results(GOOD, {"index": True, "relevance_score": 1}),
            "2 results for 2 texts; there must be exactly one for each",
        ),
        (
            results(GOOD, {"index": 1, "relevance_score": float("nan")}),
            "a score is nan, which is not a finite 32-bit number",
        ),
        (results(GOOD, {"index": 1, "relevance_score": 1e300}), r"a score is 1e\+300"),
        (results(GOOD, {"index": 1, "relevance_score": True}), "a score is True"),
    ],
)
def test_answer_that_is_not_one_finite_score_a_text_is_refused(server: Server, content: bytes, message: str) -> None:
    server.reply = lambda body, number: (200, {}, content)
    with pytest.raises(CallFailed, match=message) as caught:
        reranker(server).score([("q", "one"), ("q", "two")])
    assert "\n" not in str(caught.value)
    # What is not JSON comes from something between, and may pass; what is wrong JSON was meant so.
    assert len(server.bodies) == (3 if "not JSON" in message else 1)


# --- the key -----------------------------------------------------------------------------------------------------


def test_key_is_in_no_error_log_or_attribute(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.reply = lambda body, number: (401, {}, f"Incorrect API key\nprovided: {KEY}".encode())
    part = reranker(server)
    with pytest.raises(
        EndpointFailed, match=r"/v1/rerank failed: status 401: Incorrect API key provided: \*\*\*; check the key$"
    ) as caught:
        part.score(PAIRS[:1])
    shown = [str(caught.value), repr(caught.value), caplog.text, repr(vars(part)), repr(part.service)]
    assert not any(KEY in text for text in shown)
    assert caught.value.__cause__ is None
    assert len(server.bodies) == 1


def test_key_that_could_end_a_header_is_refused_without_being_shown(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RERANK_KEY", "abc\r\nX-Other: 1")
    with pytest.raises(ConfigError, match="RERANK_KEY, for the service's key, contains characters") as caught:
        reranker(server).score(PAIRS[:1])
    assert "X-Other" not in str(caught.value)


# --- what is refused before any call -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"base_url": "api.cohere.com"}, r"reranker\.base_url must begin with http"),
        ({"base_url": "https://host/v1?key=s3cret"}, r"reranker\.base_url .* no user, password or query"),
        ({"key_env": "co_s3cret"}, r"reranker\.key_env must be the NAME of an environment variable"),
        ({"batch_size": 0}, r"reranker\.batch_size must be at least 1, got 0"),
        ({"timeout": 0}, r"reranker\.timeout must be more than 0 seconds, got 0"),
        ({"mix": -0.1}, r"reranker\.mix, .* got -0\.1"),
    ],
)
def test_wrong_parameters_are_refused_and_no_secret_is_repeated(parameters: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        ApiReranker(**{"base_url": "http://host", "model": "m", **parameters}).check()
    assert "s3cret" not in str(caught.value)


# --- in the pipeline ---------------------------------------------------------------------------------------------


def test_only_questions_with_a_failed_call_are_scored_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragsweep.evaluation.ranking_nodes.PAIRS", 3)
    part = reranker(server, candidates=3, retries=0)
    config = graph(Parts(corpus(), built(Whole()), vector(), built(part, model="m"), 4, 2))
    queries = ["cats on the mat", "source code", "bread"]
    executor = Executor()
    server.reply = lambda body, number: (500, {}, b"down") if body["query"] == "bread" else answer(body)
    assert executor.get(config.ranking, queries).failed.tolist() == [False, False, True]
    assert [body["query"] for body in server.bodies] == [*queries, "bread"]
    assert "status 500: down" in str(executor.failure(config.ranking, "bread"))
    server.reply = lambda body, number: answer(body)
    executor.forget_failed()
    ranked = executor.get(config.ranking, queries)
    assert [body["query"] for body in server.bodies[4:]] == ["bread"]
    assert not ranked.failed.any()
    for query, positions in zip(queries, ranked.positions, strict=True):
        found = [score(query, corpus().texts[n]) for n in positions[:3]]
        assert found == sorted(found, reverse=True)
