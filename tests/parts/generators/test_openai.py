"""The generator of OpenAI's protocol, against a real server on this machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from llm_server import LlmServer
from ragsweep.core import missing
from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Passage, Request, Turn, Usage
from ragsweep.parts.generators import OpenAI
from ragsweep.parts.prompts import Prompt
from ragsweep.parts.tokens import count
from ragsweep.sweep.composing.compose import config_folder
from ragsweep.testing.contract import collect
from ragsweep.testing.generators import GeneratorContract

KEY = "sk-5ecret-5ecret-5ecret"
REQUESTS = [Request(f"Who wrote book {n}?", (Passage("doc:0", f"Book {n} is by author {n}."),)) for n in range(12)]


def prompt_node() -> dict[str, Any]:
    node: dict[str, Any] = yaml.safe_load((Path(config_folder()) / "prompt" / "default.yaml").read_text())
    return node


def prompt() -> Prompt:
    made: Prompt = Builder().build(prompt_node(), "prompt").value
    return made


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LlmServer]:
    monkeypatch.setenv("LLM_KEY", KEY)
    monkeypatch.setattr("ragsweep.services.limits.SHORTEST_WAIT", 0.001)
    with LlmServer(key=KEY) as made:
        yield made


def generator(server: LlmServer, **parameters: Any) -> OpenAI:
    given = {"base_url": server.base_url, "model": "m", "prompt": prompt(), "key_env": "LLM_KEY", "timeout": 10}
    return OpenAI(**{**given, **parameters})


class TestOpenAI(GeneratorContract):
    @pytest.fixture(autouse=True)
    def _served(self, server: LlmServer) -> None:
        self.server = server

    def part(self) -> OpenAI:
        return generator(self.server)


def test_request_is_the_prompts_messages_and_the_reply_is_the_answer(server: LlmServer) -> None:
    server.answer = lambda asked: f"It was author {asked.last.rpartition(' ')[2].strip('?')}."
    found = collect(generator(server, extra={"top_p": 0.9}).generate, REQUESTS)
    assert [one.text for one in found] == [f"It was author {n}." for n in range(12)]
    bodies = {one.request.last: one.request.body for one in server.log}
    messages = prompt().messages(REQUESTS[3])
    sent = bodies[messages[-1]["content"]]
    assert sent == {"model": "m", "messages": messages, "temperature": 0.0, "max_tokens": 512, "seed": 0, "top_p": 0.9}
    read = sum(count(message["content"]) for message in messages)
    assert found[3].usage == Usage(1, read, count("It was author 3."))
    assert found[3].model == "m"
    assert found[3].seconds > 0
    assert not any(one.abstained or one.failed for one in found)


def test_conversation_so_far_is_sent(server: LlmServer) -> None:
    history = (Turn("user", "Hello"), Turn("assistant", "Hi"))
    collect(generator(server).generate, [Request("And you?", (), history)])
    assert [message["content"] for message in server.log[0].request.body["messages"][1:]] == ["Hello", "Hi", "And you?"]


def test_prompts_own_words_of_refusal_say_that_it_abstained(server: LlmServer) -> None:
    server.answer = lambda asked: "I don't know." if "book 7" in asked.last else "Somebody."
    assert [n for n, one in enumerate(collect(generator(server).generate, REQUESTS)) if one.abstained] == [7]


def test_call_that_fails_for_good_is_a_failed_answer_and_the_others_are_answered(server: LlmServer) -> None:
    server.faults, server.seed = {"length": 0.3, "bad_request": 0.2}, 3
    found = collect(generator(server).generate, REQUESTS)
    logged = {one.request.last: one.fault for one in server.log}
    expected = {"": "", "length": missing.TRUNCATED, "bad_request": missing.REFUSED_BY_SERVICE}
    asked = [prompt().messages(request)[-1]["content"] for request in REQUESTS]
    assert [one.failed for one in found] == [expected[logged[text]] for text in asked]
    assert {one.failed for one in found} == set(expected.values())
    assert all((one.text == "") == (one.failed != "") for one in found)
    assert all(one.usage.tokens_out > 0 for one in found if one.failed == missing.TRUNCATED)  # paid all the same


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"base_url": "localhost:8000"}, r"llm\.base_url must begin with http"),
        (
            {"base_url": "http://host:99999/v1"},
            r"llm\.base_url is 'http://host:99999/v1': Port out of range .*; correct",
        ),
        ({"base_url": "http://host:abc/v1"}, r"llm\.base_url is 'http://host:abc/v1': Port .* 'abc'; correct"),
        ({"base_url": "http://[::1/v1"}, r"llm\.base_url is 'http://\[::1/v1': Invalid IPv6 URL; correct"),
        (
            {"base_url": "http://local\u2013host/v1"},
            r"llm\.base_url is 'http://local\u2013host/v1': Invalid IDNA.*; correct",
        ),
        ({"base_url": "http://me:s3cret@host"}, r"llm\.base_url .* no user, password or query"),
        ({"key_env": "sk-s3cret"}, r"llm\.key_env must be the NAME of an environment variable"),
        ({"extra": {"api_key": "s3cret"}}, r"llm\.extra\.api_key: a secret in a config ends up in files"),
        ({"extra": {"stream": True}}, r"llm\.extra\.stream is not an additional request field; remove it"),
        (
            {"extra": {"temperature": 1}},
            r"llm\.extra\.temperature is not an additional request .* set llm\.temperature",
        ),
        ({"max_tokens": 0}, r"llm\.max_tokens must be at least 1, or null, got 0"),
        ({"deadline": 0}, r"llm\.deadline must be more than 0 seconds, or null, got 0"),
        ({"requests_per_minute": 0}, r"llm\.requests_per_minute must be more than 0, or null, got 0"),
        ({"retries": -1}, r"llm\.retries must be .*, got -1"),
        ({"thoughts": "think"}, r"llm\.thoughts must be a list of tag names"),
    ],
)
def test_wrong_parameters_are_refused_and_no_secret_is_repeated(parameters: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        OpenAI(**{"base_url": "http://host", "model": "m", "prompt": prompt(), **parameters}).check()
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("where", ["llm", "system.llm", "other"])
@pytest.mark.parametrize("name", ["seed", "temperature"])
def test_error_of_an_additional_field_names_the_field_and_not_the_parameter_of_this_name(name: str, where: str) -> None:
    node = {"_target_": "ragsweep.parts.generators.OpenAI", "base_url": "http://host", "model": "m"}
    message = f"llm.extra.{name} is not an additional request field; set llm.{name}"
    expected = {"system.llm": f"system.llm: {message}", "other": message.replace("llm", "other")}
    with pytest.raises(ConfigError) as refused:
        Builder().build({**node, "prompt": prompt_node(), "extra": {name: 1}}, where)
    assert str(refused.value) == expected.get(where, message)


def test_thoughts_are_no_part_of_an_answer_unless_the_config_leaves_them(server: LlmServer) -> None:
    said = {"0": "<think>\nNot in it.\n</think>\n\nI don't know", "1": "Hm.</think>Author 1", "2": "<think>on and on"}
    server.answer = lambda asked: said.get(asked.last.rpartition(" ")[2].strip("?"), "Author")
    declined, answered, unclosed, plain = collect(generator(server).generate, REQUESTS[:4])
    assert (declined.text, declined.abstained, declined.thoughts) == ("I don't know", True, "Not in it.")
    assert (answered.text, answered.abstained, answered.thoughts) == ("Author 1", False, "Hm.")
    assert (unclosed.text, unclosed.failed, unclosed.usage.calls) == ("", missing.THINKING, 1)
    assert (plain.text, plain.thoughts) == ("Author", "")
    whole = collect(generator(server, thoughts=None).generate, REQUESTS[:3])
    assert [one.text for one in whole] == list(said.values())
    assert not any(one.thoughts for one in whole)
