"""Requests, replies and usage of an endpoint, against a server on loopback."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from llm_server import LlmServer, ModelRequest
from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Usage
from ragsweep.parts.tokens import count
from ragsweep.services.endpoint import Endpoint
from ragsweep.services.errors import EndpointFailed
from ragsweep.services.limits import RateLimiter

KEY = "k-5ecret-5ecret"


def messages(text: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": "be brief"}, {"role": "user", "content": text}]


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragsweep.services.limits.SHORTEST_WAIT", 0.001)
    monkeypatch.setenv("LLM_KEY", KEY)


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with LlmServer(key=KEY) as made:
        yield made


def endpoint(server: LlmServer, **parameters: Any) -> Endpoint:
    return Endpoint(**{"base_url": server.base_url, "model": "m", "key_env": "LLM_KEY", "timeout": 10, **parameters})


def test_reply_has_the_text_and_the_usage_of_the_service(server: LlmServer) -> None:
    server.answer = lambda asked: f"you said {asked.last}"
    reply = asyncio.run(endpoint(server).chat(messages("hello"), temperature=0.5, seed=None))
    assert reply.text == "you said hello"
    assert reply.model == "m"
    assert reply.usage == Usage(1, count("be brief hello"), 3)
    assert reply.seconds > 0
    assert server.log[0].request.path == "/v1/chat/completions"
    assert server.log[0].request.body == {"model": "m", "messages": messages("hello"), "temperature": 0.5}


def test_seconds_are_those_of_the_successful_attempt() -> None:
    with LlmServer(latency=0.05, faults={"unavailable": 0.3}, seed=1) as server:
        made, seconds = endpoint(server, concurrency=1, key_env=None), {}
        made.each(range(12), lambda n: made.chat(messages(str(n))), lambda n, reply: seconds.update({n: reply.seconds}))
    taken = {int(one.request.last): one.ended - one.began for one in server.log if not one.fault}
    assert len(server.log) > 12
    assert all(0.05 <= seconds[n] < taken[n] + 0.3 for n in range(12))


def test_tokens_without_a_count_are_estimated_and_marked(server: LlmServer) -> None:
    server.usage, server.answer = False, lambda asked: "x" * 41
    assert asyncio.run(endpoint(server).chat(messages("y" * 32))).usage == Usage(1, 10, 11, estimated=True)


def test_limit_of_a_reply_is_reserved_by_either_of_its_names(
    server: LlmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserved: list[float] = []
    monkeypatch.setattr(RateLimiter, "reserve", lambda limiter, amount, *_: reserved.append(amount) or 0.0)
    for name in ("max_tokens", "max_completion_tokens"):
        asyncio.run(endpoint(server, tokens_per_minute=6000).chat(messages("y" * 32), **{name: 100}))
    assert reserved == [1, 110, 1, 110]


def test_schema_is_sent(server: LlmServer) -> None:
    loose = {"type": "object", "properties": {"score": {"type": "integer"}, "why": {"enum": ["a", "b"]}}}
    strict = {**loose, "required": ["score", "why"], "additionalProperties": False}
    said = asyncio.run(endpoint(server).chat(messages("q"), schema=loose, schema_name="verdict")).text
    asyncio.run(endpoint(server).chat(messages("q"), schema=strict))
    forms = [one.request.body["response_format"]["json_schema"] for one in server.log]
    assert forms == [{"name": "verdict", "schema": loose}, {"name": "answer", "schema": strict, "strict": True}]
    assert said.startswith('{"score": ')


def test_vectors_come_in_the_order_of_their_texts(server: LlmServer) -> None:
    vectors, usage = asyncio.run(endpoint(server).embed(["one two", "three"]))
    assert vectors[1] == asyncio.run(endpoint(server).embed(["three"]))[0][0]
    assert vectors[0] != vectors[1]
    assert usage == Usage(1, 3, 0)


def test_chain_of_an_item_is_finished_before_a_later_item_begins_in_its_place() -> None:
    done: dict[int, str] = {}

    def script(asked: ModelRequest) -> str:
        return asked.last + "!"

    async def chain(text: str) -> str:
        for _ in range(3):
            text = (await made.chat(messages(text))).text
        return text

    with LlmServer(script, latency=0.01) as server:
        made = endpoint(server, concurrency=2, key_env=None)
        made.each([f"t{n}" for n in range(20)], chain, lambda n, text: done.update({n: text}))
    assert done == {n: f"t{n}!!!" for n in range(20)}
    assert len(server.log) == 60
    assert server.most_open == 2
    starts = [one.request.last for one in server.log if "!" not in one.request.last]
    # Two calls are on the way at a time, and the server may hear the later of them first.
    assert sorted(starts) == sorted(f"t{n}" for n in range(20))
    assert all(abs(int(one[1:]) - place) <= 2 for place, one in enumerate(starts))
    assert [one.request.last for one in server.log].index("t4") > [one.request.last for one in server.log].index("t0!!")


@pytest.mark.parametrize("key", ["test", "token", "null", "content"])
def test_placeholder_for_a_key_changes_no_reply(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_KEY", key)
    with LlmServer(lambda _: "The latest content: 7 tokens, null errors", key=key) as server:
        made = endpoint(server)
        reply = asyncio.run(made.chat([{"role": "user", "content": "hello"}]))
    assert reply.text == "The latest content: 7 tokens, null errors"
    assert not reply.usage.estimated


def test_wrong_key_costs_one_request_and_is_not_printed(server: LlmServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.key = "another"
    made = endpoint(server)
    with pytest.raises(EndpointFailed, match=r"/v1/chat/completions failed: status 401: ") as caught:
        made.each(range(50), lambda n: made.chat(messages(str(n))), lambda *_: None)
    assert len(server.log) == made.session.meter.totals.calls == 1
    assert KEY not in str(caught.value)
    monkeypatch.delenv("LLM_KEY")
    with pytest.raises(ConfigError, match="variable LLM_KEY, for the service's key, is not set"):
        asyncio.run(endpoint(server).chat(messages("q")))
