"""Routers: the contract, and what each of them decides by."""

import json

import pytest

from llm_server import LlmServer, ModelRequest
from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import MALFORMED, SERVER_ERROR
from ragsweep.core.types import Request, Turn
from ragsweep.parts.routers import Llm, NoRouter, Rule, Similarity
from ragsweep.testing.contract import collect
from ragsweep.testing.routers import RouterContract
from support.parts import Letters

PATTERNS = ["hi|hello", "merci|comment ca va"]


class TestNoRouter(RouterContract):
    part = NoRouter

    def test_everything_is_searched_for(self) -> None:
        assert all(route.search for route in collect(NoRouter().route, [Request("hi"), Request("what?")]))


class TestRule(RouterContract):
    def part(self) -> Rule:
        return Rule(PATTERNS)

    @pytest.mark.parametrize(
        ("text", "search"),
        [("Hi!", False), ("  hello there", False), ("Comment ça va ?", False), ("history of Rome", True),
         ("hi, how do I sort a list of numbers?", True), ("say hello", True), ("", True)],
    )  # fmt: skip
    def test_short_conversation_is_not_searched_for(self, text: str, search: bool) -> None:
        assert collect(self.part().route, [Request(text)])[0].search is search

    @pytest.mark.parametrize(
        "pattern", [r"hi\W+there", r"(?P<All>hi\D*)\Z", "HI, THERE", r"hi, (?P<T>t)here(?!(?P=T))"]
    )
    def test_capitals_of_a_pattern_keep_their_meaning(self, pattern: str) -> None:
        part = Rule([pattern])
        part.check()
        assert [route.search for route in collect(part.route, [Request("Hi, there"), Request("hiXthere 1")])] == [
            False,
            True,
        ]

    @pytest.mark.parametrize(
        ("pattern", "text"), [(r"(ha)\1+", "Hahaha!"), (r"(?P<word>yo)(?P=word)", "yoyo"), ("네+", "네네")]
    )
    def test_each_pattern_decides_as_it_does_alone(self, pattern: str, text: str) -> None:
        part = Rule(["(?P<word>hi|hello)", pattern])
        part.check()
        assert collect(part.route, [Request(text)])[0].search is False

    def test_form_of_an_apostrophe_is_ignored(self) -> None:
        for pattern, text in (("what's up", "What\u2019s up?"), ("d\u2019accord", "d'accord")):
            assert collect(Rule([pattern]).route, [Request(text)])[0].search is False

    def test_what_is_no_pattern_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"router\.conversation\[1\]"):
            Rule(["hi", "("]).check()
        with pytest.raises(ConfigError, match=r"router\.conversation\[0\]: 'hi\(\?i\)' is not a regular expression"):
            Rule(["hi(?i)"]).check()
        with pytest.raises(ConfigError, match="case is ignored anyway"):
            Rule(["(?i)hi"]).check()
        with pytest.raises(ConfigError, match="list of one or more patterns"):
            Rule([]).check()


class TestSimilarity(RouterContract):
    def part(self) -> Similarity:
        return Similarity(Letters(), ["hello"], ["define decorator"], 0.7)

    def test_the_nearer_kind_decides_and_a_threshold_must_be_reached(self) -> None:
        part, asked = self.part(), map(Request, ("hellohello", "decorator", "zzz", "hexxyzz"))
        found = collect(part.route, list(asked))
        assert [route.search for route in found] == [False, True, True, True]
        assert found[0].score > 0 > found[1].score
        assert part.embedder.calls == []  # texts are embedded as queries, not as documents

    def test_examples_are_needed(self) -> None:
        with pytest.raises(ConfigError, match=r"router\.conversation"):
            Similarity(Letters(), [], []).check()
        with pytest.raises(ConfigError, match="between -1 and 1"):
            Similarity(Letters(), ["a"], [], 2).check()


class TestLlm(RouterContract):
    @pytest.fixture(autouse=True)
    def _server(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ragsweep.services.limits.SHORTEST_WAIT", 0.001)
        with LlmServer(lambda request: json.dumps({"search": "hello" not in request.last})) as self.server:
            yield

    def part(self, retries: int = 1) -> Llm:
        return Llm(self.server.base_url, "router", "Does it need the corpus?", retries=retries)

    def test_the_model_decides_and_sees_the_conversation_behind_a_fence(self) -> None:
        request = Request("hello", history=(Turn("user", "before"),))
        assert [one.search for one in collect(self.part().route, [request, Request("what?")])].count(False) == 1
        prompt = next(one.request.prompt for one in self.server.log if "hello" in one.request.prompt)
        assert "user: before\nuser: hello" in prompt
        assert prompt.count("<conversation ") == 1

    def test_what_is_no_decision_is_a_failure_that_searches(self) -> None:
        self.server.answer = lambda request: '{"search": "no"}'
        router = self.part()
        route = collect(router.route, [Request("hello")])[0]
        assert (route.search, route.failed) == (True, MALFORMED)
        fact = 'router did not reply with {"search": true} or {"search": false}; set router.model to another model'
        assert router.service.session.meter.failures == {MALFORMED: (1, fact)}

    def test_a_service_that_ignores_the_schema_is_asked_for_json_and_may_put_it_in_a_code_block(self) -> None:
        def without_schema(request: ModelRequest) -> str:
            return '```json\n{"search": false}\n```' if '{"search": true}' in request.prompt else "No search needed."

        self.server.answer = without_schema
        route = collect(self.part().route, [Request("hello")])[0]
        assert (route.search, route.failed) == (False, "")

    def test_thoughts_before_the_decision_are_not_read(self) -> None:
        self.server.answer = lambda request: '<think>{"search": true}?</think>\n{"search": false}'
        route = collect(self.part().route, [Request("hello")])[0]
        assert (route.search, route.failed) == (False, "")

    def test_a_limit_of_a_decision_may_be_left_to_the_service_and_is_at_least_one(self) -> None:
        made = {"_target_": "ragsweep.parts.routers.Llm", "base_url": self.server.base_url, "model": "m"}
        made |= {"instruction": "Does it need the corpus?", "max_tokens": None}
        collect(Builder().build(made, "router").value.route, [Request("hello")])
        assert "max_tokens" not in self.server.log[0].request.body
        with pytest.raises(ConfigError, match=r"router\.max_tokens must be at least 1"):
            Builder().build(made | {"max_tokens": 0}, "router")

    def test_a_service_that_fails_is_a_reason(self) -> None:
        self.server.faults = {"server_error": 1.0}
        assert collect(self.part(retries=0).route, [Request("hello")])[0].failed == SERVER_ERROR


def test_a_long_question_without_spaces_is_searched_for_though_it_begins_with_a_greeting() -> None:
    asked = ["你好", "你好\uff0c请告诉我检索器的深度应该设置为多少才合适"]
    assert [one.search for one in collect(Rule(["你好"]).route, list(map(Request, asked)))] == [False, True]
