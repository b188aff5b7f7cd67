"""A budget stops between questions, and what calls cost is counted."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from llm_server import LlmServer
from ragsweep.core import reasons
from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Usage
from ragsweep.parts.prices import Prices
from ragsweep.services.calls import Budget, CallFailed, Endpoint, each
from ragsweep.services.calls.spending import spending

TABLE = Prices("2025-08-15", "USD", "made up", {"m*": [1_000_000, 2_000_000]})  # 1 a token read, 2 a token written


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    spending.reset()
    yield
    spending.reset()


def ask(server: LlmServer, questions: int, calls: int, concurrency: int = 1) -> list[str]:
    """Ask questions of several calls each; return "" or the reason of each."""
    made = Endpoint(server.base_url, "m", concurrency=concurrency)
    found = ["?"] * questions

    async def work(number: int) -> str:
        try:
            for step in range(calls):
                await made.chat([{"role": "user", "content": f"question {number} {step}"}])
        except CallFailed as failure:
            return failure.reason
        return ""

    each(range(questions), work, found.__setitem__)
    return found


@pytest.mark.parametrize("concurrency", [1, 4])
def test_budget_of_calls_is_kept_and_what_is_left_has_its_reason(concurrency: int) -> None:
    spending.limit(Budget(calls=7), TABLE.money)
    with LlmServer() as server:
        found = ask(server, 20, 1, concurrency)
    assert found == [""] * 7 + [reasons.BUDGET_SPENT] * 13
    assert len(server.log) == spending.now.calls == 7


def test_budget_stops_between_questions_and_not_inside_one() -> None:
    spending.limit(Budget(calls=7), TABLE.money)
    with LlmServer() as server:
        found = ask(server, 20, 3)
    assert found == [""] * 3 + [reasons.BUDGET_SPENT] * 17
    assert len(server.log) == 9  # the third question was begun with the seventh call


@pytest.mark.parametrize("budget", [Budget(tokens=20), Budget(money=28)])
def test_budget_of_tokens_or_money_is_left_by_the_questions_in_flight_only(budget: Budget) -> None:
    spending.limit(budget, TABLE.money)
    with LlmServer(lambda asked: "yes then") as server:
        found = ask(server, 20, 1)  # 3 tokens read, 2 written: 5 tokens, 7 of money
    assert found == [""] * 4 + [reasons.BUDGET_SPENT] * 16
    assert (spending.now.tokens, spending.now.money) == (20, 28)


def test_repetitions_are_no_calls_and_tokens_of_lost_answers_count() -> None:
    spending.limit(Budget(calls=20), TABLE.money)
    with LlmServer(lambda asked: "yes", faults={"null_content": 0.3}, seed=3) as server:
        assert ask(server, 20, 1) == [""] * 20
    lost = sum(one.fault != "" for one in server.log)
    assert lost
    assert (spending.now.calls, spending.now.tokens) == (20, 4 * len(server.log))


def test_budget_of_money_cannot_be_kept_without_a_price() -> None:
    spending.limit(Budget(money=1), Prices("2025-08-15", "USD", "", {"gpt*": [1, 1]}).money)
    with LlmServer() as server, pytest.raises(ConfigError, match='the prices have no model "m"'):
        ask(server, 3, 1)
    assert server.log == []


def test_what_has_no_price_is_counted_and_not_guessed() -> None:
    with LlmServer(usage=False) as server:
        ask(server, 3, 1)
    assert spending.now.without_price == 3
    assert spending.now.money == 0
    assert spending.now.estimated


@pytest.mark.parametrize("budget", [Budget(calls=-1), Budget(tokens=True), Budget(money="5")])  # type: ignore[arg-type]
def test_limit_that_is_none_is_refused(budget: Budget) -> None:
    with pytest.raises(ConfigError, match=r"budget\.(calls|tokens|money): must be a number of at least 0, or null"):
        budget.check()


# --- prices ----------------------------------------------------------------------------------------------------------


def test_pattern_with_the_most_letters_decides() -> None:
    table = Prices("2025-08-15", "USD", "", {"*": [9, 9], "gpt-4o*": [2.5, 10], "gpt-4o-mini*": [0.15, 0.6]})
    assert table.of("gpt-4o-mini-2024-07-18") == (0.15, 0.6)
    assert table.of("GPT-4o-2024-08-06") == (2.5, 10)
    assert table.of("llama") == (9, 9)
    assert table.money("gpt-4o", Usage(1, 1_000_000, 500_000)) == 7.5


def test_model_without_a_price_costs_what_nobody_knows_and_no_call_costs_nothing() -> None:
    assert math.isnan(TABLE.money("llama", Usage(1, 5, 5)))
    assert TABLE.money("llama", Usage()) == 0


def test_total_says_what_it_leaves_out() -> None:
    used = [("m", Usage(2, 10, 5)), ("llama", Usage(3, 10, 10, estimated=True)), ("m1", Usage(1, 0, 1))]
    assert TABLE.total(used) == (22.0, 6, 3, True)


@pytest.mark.parametrize(
    ("date", "models", "message"),
    [
        ("yesterday", {}, 'date: must be a day such as "2025-08-15", given'),
        ("2025-08-15", {"m": [1]}, r"models\.m: must be the prices of a million tokens \[read, written\], given \[1\]"),
        ("2025-08-15", {"m": [1, -1]}, r"given \[1, -1\]"),
        ("2025-08-15", {"m": [1, float("nan")]}, r"given \[1, nan\]"),
        ("2025-08-15", {"m": "cheap"}, "given 'cheap'"),
    ],
)
def test_table_that_is_none_is_refused(date: str, models: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Prices(date, "USD", "", models).check()
