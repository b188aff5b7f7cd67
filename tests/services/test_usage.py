"""Usage is counted and priced once, and a budget stops the calls of one session."""

import asyncio
import math
import time
from dataclasses import replace

import pytest

from llm_server import LlmServer
from llm_server.faults import Response
from ragsweep.core import missing
from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Usage
from ragsweep.parts.prices import Prices
from ragsweep.services.endpoint import Endpoint
from ragsweep.services.errors import CallFailed, EndpointFailed
from ragsweep.services.session import ServiceSession
from ragsweep.services.usage import Budget, UsageMeter, UsageTotals

TABLE = Prices("2025-08-15", "USD", "made up", {"m*": [1_000_000, 2_000_000]})  # 1 a token read, 2 a token written


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragsweep.services.limits.SHORTEST_WAIT", 0.001)


@pytest.fixture
def session() -> ServiceSession:
    return ServiceSession()


def ask(session: ServiceSession, server: LlmServer, questions: int, calls: int = 1, concurrency: int = 1) -> list[str]:
    """Ask questions of several calls each; return "" or the reason of each."""
    made = Endpoint(server.base_url, "m", concurrency=concurrency)
    made.connect(session)
    found = ["?"] * questions

    async def work(number: int) -> str:
        try:
            for step in range(calls):
                await made.chat([{"role": "user", "content": f"question {number} {step}"}])
        except CallFailed as failure:
            return failure.reason
        return ""

    made.each(range(questions), work, found.__setitem__)
    return found


@pytest.mark.parametrize(("calls", "concurrency", "answered"), [(1, 1, 7), (1, 4, 7), (3, 1, 2)])
def test_budget_of_calls_is_kept(session: ServiceSession, calls: int, concurrency: int, answered: int) -> None:
    session.meter.limit(Budget(calls=7), TABLE)
    with LlmServer() as server:
        found = ask(session, server, 20, calls, concurrency)
    assert sorted(found) == [""] * answered + [missing.BUDGET_SPENT] * (20 - answered)
    assert len(server.log) == session.meter.totals.calls == 7


def test_each_budget_counts_from_when_it_was_set(session: ServiceSession) -> None:
    with LlmServer() as server:
        for calls, answered in ((1, 1), (100, 5), (2, 2)):
            session.meter.limit(Budget(calls=calls), TABLE)
            assert ask(session, server, 5).count("") == answered


@pytest.mark.parametrize("budget", [Budget(tokens=20), Budget(money=28)])
def test_budget_of_tokens_or_money_is_exceeded_only_by_calls_in_flight(session: ServiceSession, budget: Budget) -> None:
    session.meter.limit(budget, TABLE)
    with LlmServer(lambda asked: "yes then") as server:
        found = ask(session, server, 20, 1)  # 3 tokens read, 2 written: 5 tokens, 7 of money
    assert found == [""] * 4 + [missing.BUDGET_SPENT] * 16
    assert (session.meter.totals.tokens, session.meter.totals.money) == (20, 28)


def test_retries_are_not_calls_and_tokens_of_unusable_answers_count(session: ServiceSession) -> None:
    session.meter.limit(Budget(calls=20), TABLE)
    with LlmServer(lambda asked: "yes", faults={"null_content": 0.3}, seed=3) as server:
        assert ask(session, server, 20, 1) == [""] * 20
    lost = sum(one.fault != "" for one in server.log)
    assert lost
    assert (session.meter.totals.calls, session.meter.totals.tokens) == (20, 4 * len(server.log))


@pytest.mark.parametrize("status", [200, 201])
def test_an_answer_takes_the_time_of_all_attempts_whose_tokens_count(
    status: int, session: ServiceSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = iter(["", "", "yes"])

    def answer(_: object) -> str:
        time.sleep(0.1)
        return next(replies)

    with LlmServer(answer) as server:
        respond = server.respond
        monkeypatch.setattr(server, "respond", lambda one: replace(respond(one), status=status))
        made = Endpoint(server.base_url, "m")
        made.connect(session)
        reply = asyncio.run(made.chat([{"role": "user", "content": "question"}]))
    assert (reply.text, len(server.log)) == ("yes", 3)
    assert reply.usage.tokens_in == 3  # of three attempts
    assert reply.seconds >= 0.3


def test_call_that_only_got_unusable_answers_has_a_price_and_spends_the_budget(session: ServiceSession) -> None:
    session.meter.limit(Budget(money=10), TABLE)
    with LlmServer(lambda asked: "") as server:
        made = Endpoint(server.base_url, "m", retries=0)
        made.connect(session)
        for usage in (*[Usage(1, 3, 0)] * 4, Usage()):  # 12 of money, of 10
            with pytest.raises(CallFailed) as failure:
                asyncio.run(made.chat([{"role": "user", "content": "question 1 2"}]))  # 3 tokens read
            assert failure.value.usage == usage
    assert failure.value.reason == missing.BUDGET_SPENT
    assert "run again (rerun=true for a finished sweep) for the remaining calls" in str(failure.value)
    assert (len(server.log), session.meter.totals.money) == (4, 12)


def test_tokens_of_an_unusable_answer_count_if_the_service_then_refuses_every_call(
    session: ServiceSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.meter.limit(Budget(), TABLE)
    with LlmServer(lambda asked: "") as server:
        answered = server.respond
        monkeypatch.setattr(server, "respond", lambda one: Response(402, b"{}") if one.number else answered(one))
        with pytest.raises(EndpointFailed):
            ask(session, server, 1)
    assert (session.meter.totals.tokens, session.meter.totals.money) == (3, 3)


def test_budget_of_money_cannot_be_kept_without_a_price(session: ServiceSession) -> None:
    session.meter.limit(Budget(money=1), Prices("2025-08-15", "USD", "", {"gpt*": [1, 1]}))
    with LlmServer() as server, pytest.raises(ConfigError, match='the model "m" has no price'):
        ask(session, server, 3, 1)
    assert server.log == []
    for model, pattern in (("openai/gpt-4.1", "openai/gpt-4.1"), ("qwen3:8b", "qwen3*")):  # a colon ends a key
        with pytest.raises(ConfigError) as fault:
            session.meter.check_price(model)
        assert f"'prices.models={{{pattern}: [INPUT, OUTPUT]}}'" in str(fault.value)


def test_usage_without_a_price_has_tokens_and_no_money(session: ServiceSession) -> None:
    with LlmServer(usage=False) as server:
        ask(session, server, 3, 1)
    assert session.meter.totals.calls == 3
    assert session.meter.totals.money == 0
    assert session.meter.totals.estimated


def test_money_spent_is_a_lower_bound_if_a_model_has_no_price() -> None:
    meter = UsageMeter(prices=TABLE)
    for model, money in (("m1", "7.0000 USD"), ("other", "at least 7.0000 USD")):
        meter.admit()
        meter.record(model, Usage(1, 3, 2))
        assert meter.describe(UsageTotals()).split(" · ")[2] == money


@pytest.mark.parametrize(
    "budget",
    [Budget(calls=-1), Budget(tokens=True), Budget(money="5"), Budget(money=math.nan)],
)
def test_malformed_limit_is_refused(budget: Budget) -> None:
    with pytest.raises(ConfigError, match=r"budget\.(calls|tokens|money): must be a number of at least 0, or null"):
        budget.check()
