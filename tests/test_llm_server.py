"""The scripted model server, called by OpenAI's own client."""

import asyncio
import json
from collections.abc import Iterator
from enum import Enum
from random import Random
from typing import Any, Literal

import httpx
import pytest
from pydantic import BaseModel, Field, TypeAdapter

from llm_server import FAULTS, LlmServer
from llm_server.faults import draw_fault
from llm_server.requests import example

QUESTION = [{"role": "user", "content": "Is it so?"}]


class Kind(Enum):
    GOOD = "good"
    BAD = "bad"


class Statement(BaseModel):
    statement: str = Field(description="what is said")
    reason: str
    verdict: int


class Judged(BaseModel):
    statements: list[Statement] = Field(min_length=2)
    kind: Kind
    share: float = Field(ge=0, le=1)
    sure: bool
    note: str | None
    scale: Literal[1, 2, 3]


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with LlmServer() as made:
        yield made


def sdk(server: LlmServer) -> Any:
    from openai import OpenAI

    return OpenAI(base_url=server.base_url, api_key="none", max_retries=0)


@pytest.mark.parametrize("seed", range(5))
def test_example_satisfies_the_schema_it_was_made_of(seed: int) -> None:
    made = example(Judged.model_json_schema(), Random(seed))
    read = TypeAdapter(Judged).validate_python(made, strict=False)
    assert set(made) == set(read.model_dump())


def test_sdk_reads_answers_tokens_vectors_and_structured_output(server: LlmServer) -> None:
    with sdk(server) as client:
        first, second = (client.chat.completions.create(model="m", messages=QUESTION) for _ in range(2))
        vectors = client.embeddings.create(model="e", input=["one two", "one two three", "nine"])
        parsed = client.chat.completions.parse(model="m", messages=QUESTION, response_format=Judged)
    assert first.choices[0].message.content == second.choices[0].message.content  # the same question, the same answer
    assert first.usage.prompt_tokens == 4
    assert len(vectors.data) == 3
    assert len(vectors.data[0].embedding) == 64
    assert isinstance(parsed.choices[0].message.parsed, Judged)
    assert [logged.request.path[3:] for logged in server.log][1:3] == ["/chat/completions", "/embeddings"]
    assert [logged.attempt for logged in server.log] == [0, 1, 0, 0]


def test_faults_follow_from_seed_question_and_attempt_and_not_from_the_order() -> None:
    shares, cases = {"drop": 0.3, "html": 0.2}, [(str(n), attempt) for n in range(200) for attempt in range(5)]
    faults = [draw_fault(shares, 1, *case) for case in cases]
    assert faults == [draw_fault(shares, 1, *case) for case in reversed(cases)][::-1]
    counts = [faults.count(name) / 1000 for name in ("drop", "html", "")]
    assert counts == pytest.approx([0.3, 0.2, 0.5], abs=0.05)
    assert faults != [draw_fault(shares, 2, *case) for case in cases]


def test_unknown_fault_is_named() -> None:
    with pytest.raises(ValueError, match=r"no fault fire; known: bad_gateway, bad_request, "):
        LlmServer(faults={"fire": 1})


def test_each_fault_is_what_it_is_called(server: LlmServer) -> None:
    server.hang = 0.0
    seen: dict[str, Any] = {}
    for kind in FAULTS - {"big_body"}:
        server.faults = {kind: 1}
        try:
            seen[kind] = httpx.post(f"{server.base_url}/chat/completions", json={"messages": QUESTION}, timeout=5)
        except httpx.RemoteProtocolError as error:
            seen[kind] = error
    statuses = {kind: response.status_code for kind, response in seen.items() if isinstance(response, httpx.Response)}
    assert seen.keys() - statuses.keys() == {"drop", "short_body"}
    assert {kind: status for kind, status in statuses.items() if status != 200} == {
        "rate_limited": 429, "rate_limited_seconds": 429, "rate_limited_date": 429, "rate_limited_absurd": 429,
        "server_error": 500, "bad_gateway": 502, "unavailable": 503, "bad_request": 400, "unauthorised": 401,
        "forbidden": 403, "not_found": 404, "redirect": 307, "not_implemented": 501, "window_exceeded": 400,
    }  # fmt: skip
    assert seen["rate_limited_seconds"].headers["Retry-After"] == "1"
    assert seen["rate_limited_date"].headers["Retry-After"].endswith("GMT")
    assert seen["html"].text.startswith("<html>")
    assert seen["no_choices"].json()["choices"] == []
    assert seen["null_content"].json()["choices"][0]["message"]["content"] is None
    assert seen["length"].json()["choices"][0]["finish_reason"] == "length"
    assert seen["wrong_model"].json()["model"] == "another-model"
    with pytest.raises(json.JSONDecodeError):
        seen["malformed_json"].json()


def test_many_ask_at_a_time_and_every_request_is_in_the_log() -> None:
    async def ask_all(url: str) -> None:
        async with httpx.AsyncClient(timeout=30) as client:
            bodies = [{"messages": [{"role": "user", "content": str(n)}]} for n in range(50)]
            await asyncio.gather(*(client.post(url, json=body) for body in bodies))

    with LlmServer(latency=0.05) as server:
        asyncio.run(ask_all(f"{server.base_url}/chat/completions"))
    assert sorted(int(one.request.last) for one in server.log) == list(range(50))
    assert server.most_open > 10
    assert all(one.ended - one.began >= 0.05 for one in server.log)
