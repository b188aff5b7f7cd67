"""Systems that exist already: by HTTP on a real server, and as functions."""

import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.core.interruption import deadline
from ragsweep.core.missing import BUDGET_SPENT, MALFORMED, SYSTEM_RAISED, THINKING
from ragsweep.core.types import Answer, Passage, Request, Turn
from ragsweep.parts.prices import Prices
from ragsweep.parts.systems import Http, Pipeline, Python
from ragsweep.services.session import ServiceSession
from ragsweep.services.usage import Budget
from ragsweep.testing.contract import collect
from ragsweep.testing.systems import SystemContract
from support.servers.json_server import Reply, Server, as_json, serving

BODY = {"q": "{question}", "said": "{history}", "options": {"deep": True, "note": "on {question}"}}


def reply(body: dict[str, Any]) -> Reply:
    sources = [{"id": "d1", "text": "one"}, {"id": 2, "text": "two"}]
    return as_json({"data": {"answer": f"about {body['q']}", "sources": sources}, "used": {"in": 7, "out": 3}})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving(monkeypatch, reply) as made:
        yield made


class TestHttp(SystemContract):
    @pytest.fixture(autouse=True)
    def _served(self, server: Server) -> None:
        self.server = server

    def part(self, **changed: Any) -> Http:
        given = {
            "url": f"{self.server.url}/ask", "body": BODY, "answer": "data.answer", "contexts": "data.sources[*].text",
            "ids": "data.sources[*].id", "tokens_in": "used.in", "tokens_out": "used.out", "retries": 1,
            "refusals": ["no idea"], **changed,
        }  # fmt: skip
        made = Http(**given)
        made.check()
        return made

    def test_question_and_history_are_sent_and_all_is_found(self) -> None:
        asked = Request("Why?", history=(Turn("user", "Is it?"), Turn("assistant", "No.")))
        found = collect(self.part().ask, [asked])[0]
        history = [{"role": "user", "content": "Is it?"}, {"role": "assistant", "content": "No."}]
        assert self.server.bodies == [{"q": "Why?", "said": history, "options": {"deep": True, "note": "on Why?"}}]
        assert self.server.paths == ["/v1/ask"]
        assert found.answer.text == "about Why?"
        assert found.contexts == (Passage("d1", "one"), Passage("2", "two"))
        assert found.answer.usage[:3] == (1, 7, 3)
        assert found.answer.seconds > 0

    def test_budget_of_money_needs_a_price_and_stops_a_system_that_returns_token_counts(self) -> None:
        for models, calls in (({"gpt*": [1, 1]}, 0), ({"http*/ask": [1_000_000, 0]}, 2)):  # 7 of money a call
            made, session = self.part(concurrency=1), ServiceSession()
            made.service.connect(session)
            session.meter.limit(Budget(money=14), Prices("2025-08-15", "USD", "made up", models))
            with nullcontext() if calls else pytest.raises(ConfigError, match=r"/ask. has no price.*http\*"):
                found = collect(made.ask, [Request(str(n)) for n in range(4)])
                assert [one.answer.failed for one in found] == ["", "", BUDGET_SPENT, BUDGET_SPENT]
            assert len(self.server.bodies) == calls
        assert session.meter.totals.money == 14

    @pytest.mark.parametrize(("answer", "price", "calls"), [("data.answer", 1, 0), ("data.answer", 0, 2), (None, 1, 2)])
    def test_budget_of_money_needs_the_token_counts_of_a_system_that_answers_unless_they_cost_nothing(
        self, answer: str | None, price: int, calls: int
    ) -> None:
        made, session = self.part(answer=answer, tokens_in=None, tokens_out=None), ServiceSession()
        made.service.connect(session)
        session.meter.limit(Budget(money=14), Prices("2025-08-15", "USD", "made up", {"http*": [price, 0]}))
        refused = r"^budget.money cannot be enforced: http.*/ask reports no token counts; .* replace .* budget.calls$"
        with nullcontext() if calls else pytest.raises(ConfigError, match=refused):
            collect(made.ask, [Request(str(n)) for n in range(2)])
        assert len(self.server.bodies) == calls

    def test_tokens_of_a_reply_that_cannot_be_read_are_counted(self) -> None:
        told = as_json({"data": {"answer": 3, "sources": []}, "used": {"in": 5, "out": 7}})
        self.server.reply = lambda body, n: told
        made = self.part()
        (found,) = collect(made.ask, [Request("?")])
        assert (found.answer.failed, found.answer.usage[:3]) == (MALFORMED, (1, 5, 7))
        assert made.service.session.meter.totals.tokens == 12

    def answer(self, said: Any, **changed: Any) -> Answer:
        """Ask a system that returns only an answer."""
        self.server.reply = lambda body, n: as_json({"a": said})
        alone = {"answer": "a", "contexts": None, "ids": None, "tokens_in": None, "tokens_out": None}
        return collect(self.part(**alone, **changed).ask, [Request("?")])[0].answer

    def test_a_refusal_and_an_empty_answer_are_abstentions(self) -> None:
        for said in ("No idea, sorry.", "", None):
            answer = self.answer(said)
            assert (answer.abstained, answer.failed) == (True, "")

    def test_thoughts_are_no_part_of_an_answer(self) -> None:
        parts = [{"type": "thinking", "thinking": "A hotel."}, {"type": "text", "text": "120"}]
        for said in ("<think>A hotel.</think>\n120", "[THINK]A hotel.[/THINK]120", parts):
            answer = self.answer(said)
            assert (answer.text, answer.thoughts, answer.abstained) == ("120", "A hotel.", False)
        unclosed, whole = self.answer("<think>No idea"), self.answer("<think>No idea", thoughts=None)
        assert (unclosed.text, unclosed.failed, unclosed.abstained) == ("", THINKING, False)
        assert (whole.text, whole.failed) == ("<think>No idea", "")

    @pytest.mark.parametrize(
        "told",
        [{"data": {}}, {"data": {"answer": 3, "sources": []}}, [], {"data": {"answer": "a", "sources": "x"}},
         {"data": {"answer": "a", "sources": [{"id": "d", "text": None}]}, "used": {"in": 1, "out": 1}}],
    )  # fmt: skip
    def test_a_reply_without_what_is_looked_for_is_a_failure_of_its_question(self, told: Any) -> None:
        self.server.reply = lambda body, n: as_json(told)
        assert collect(self.part().ask, [Request("?")])[0].answer.failed == MALFORMED

    @pytest.mark.parametrize(
        ("changed", "said"),
        [({"url": "ftp://x/ask"}, r"system\.url must begin"), ({"url": "http://x:9"}, r"system\.url must have"),
         ({"url": "http://me:secret@x/ask"}, r"system\.url .* no user"),
         ({"url": "http://x/ask?key=1"}, "query"), ({"body": {"q": 1}}, "body"),
         ({"body": {"q": ["Before: {history} {question}"]}}, r"system\.body: \{history\} .* not part of a string"),
         ({"contexts": "a..b"}, r"system\.contexts"),
         ({"answer": None, "contexts": None, "ids": None}, "set at least one to a path"),
         ({"thoughts": ["<think>"]}, r"system\.thoughts must be"),
         ({"refusals": ["Unknown", False]}, r"system\.refusals must be a list of phrases .* False\]"),
         ({"key_env": "sk-secret"}, "key_env")],
    )  # fmt: skip
    def test_what_could_not_work_is_refused_before_anything_is_called(self, changed: dict[str, Any], said: str) -> None:
        with pytest.raises(ConfigError, match=said):
            self.part(**changed)
        assert self.server.bodies == []


class TestPipeline(SystemContract):
    part = Pipeline

    def test_every_request_is_answered_once(self) -> None:
        """This part represents the config itself, and returns an empty answer."""
        assert collect(Pipeline().ask, [Request("?")])[0].answer.text == ""


MODULE = """
word = "".__class__  # written in C, and without a signature

def plain(question):
    if question == "raise":
        raise RuntimeError("no")
    return f"about {question}"

def full(question, history):
    said = " ".join(turn["content"] for turn in history)
    return {"answer": f"{question} {said}".strip(), "contexts": ["one"], "ids": ["d1"], "tokens_in": 5}

def find(question):
    return {"contexts": ["one"], "ids": ["d1"], "scores": [2]}

def uneven(question):
    return {"contexts": [], "ids": ["d1"]}

def odd(question):
    return 3

def uncounted(question):
    return {"answer": "a", "tokens_in": None} if question == "mapping" else "a"

def thinks(question):
    return "<think>A hotel.</think>\\n120" if question == "close" else {"answer": "<think>A hotel."}
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "owned_system.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("RAGSWEEP_TRUSTED_PACKAGES", "owned_system")
    yield tmp_path / "owned_system.py"
    sys.modules.pop("owned_system", None)


@pytest.mark.usefixtures("module")
class TestPython(SystemContract):
    def part(self) -> Python:
        return Python("owned_system.full", concurrency=2)

    def test_it_gets_the_history_if_it_takes_it(self) -> None:
        asked = [Request("Why?", history=(Turn("user", "Is it?"),))]
        found = collect(self.part().ask, asked)[0]
        assert found.answer.text == "Why? Is it?"
        assert found.contexts == (Passage("d1", "one"),)
        assert collect(Python("owned_system.plain").ask, asked)[0].answer.text == "about Why?"
        assert collect(Python("owned_system.word").ask, asked)[0].answer.text == "Why?"

    def test_a_function_that_only_searches_needs_no_answer(self) -> None:
        (found,) = collect(Python("owned_system.find", answers=False).ask, [Request("Why?")])
        assert (found.contexts, found.scores, found.answer.failed) == ((Passage("d1", "one"),), (2.0,), "")
        assert collect(Python("owned_system.find").ask, [Request("Why?")])[0].answer.failed

    def test_what_it_raises_is_the_failure_of_one_question(self) -> None:
        found = collect(Python("owned_system.plain").ask, [Request("raise"), Request("go on")])
        assert found[0].answer.failed == SYSTEM_RAISED
        assert found[1].answer.text == "about go on"
        assert collect(Python("owned_system.odd").ask, [Request("?")])[0].answer.failed == SYSTEM_RAISED

    def test_an_invalid_value_is_logged_with_its_fault(self, caplog: pytest.LogCaptureFixture) -> None:
        collect(Python("owned_system.uneven", answers=False).ask, [Request("Why?")])
        (logged,) = caplog.records
        assert "returned an invalid value for the question 'Why?'" in logged.getMessage()
        assert "must have equal lengths, got 1 (ids), 0 (contexts)" in str(logged.exc_info)

    def test_time_limit_of_the_config_is_no_error_of_the_function(self) -> None:
        part = Python("owned_system.plain")
        part.__dict__["_function"] = lambda question: time.sleep(2)
        with pytest.raises(TimeoutError, match="raise timeout"), deadline(0.1):
            collect(part.ask, [Request("a"), Request("b")])

    def test_a_text_and_unknown_counts_of_tokens_are_an_answer_of_one_call(self) -> None:
        found = collect(Python("owned_system.uncounted").ask, [Request("mapping"), Request("text")])
        assert [(one.answer.text, one.answer.failed, one.answer.usage.calls) for one in found] == [("a", "", 1)] * 2

    def test_thoughts_are_no_part_of_an_answer(self) -> None:
        closed, unclosed = collect(Python("owned_system.thinks").ask, [Request("close"), Request("go on")])
        assert (closed.answer.text, closed.answer.thoughts) == ("120", "A hotel.")
        assert (unclosed.answer.text, unclosed.answer.failed) == ("", THINKING)
        (whole,) = collect(Python("owned_system.thinks", thoughts=None).ask, [Request("close")])
        assert whole.answer.text == "<think>A hotel.</think>\n120"
        with pytest.raises(ConfigError, match=r"system\.thoughts must be a list"):
            Python("owned_system.thinks", thoughts="think").check()
        with pytest.raises(ConfigError, match=r"system\.refusals must be a list of phrases"):
            Python("owned_system.thinks", refusals=[404]).check()

    def test_its_source_is_part_of_what_it_is(self, module: Path) -> None:
        before = Python("owned_system.plain").fingerprint()
        module.write_text(MODULE + "# changed\n")
        assert Python("owned_system.plain").fingerprint() != before

    def test_what_its_module_imports_beside_it_is_part_of_what_it_is(self, module: Path) -> None:
        module.write_text("import owned_words\n" + MODULE)
        (module.parent / "owned_words.py").write_text("WORDS = 1\n")
        before = Python("owned_system.plain").fingerprint()
        (module.parent / "owned_words.py").write_text("WORDS = 2\n")
        assert Python("owned_system.plain").fingerprint() != before

    def test_what_is_not_trusted_or_not_there_is_refused(self) -> None:
        for function, said in (
            ("os.system", "not trusted"),
            ("owned_system.missing", "missing"),
            ("plain", "its module"),
        ):
            with pytest.raises(ConfigError, match=said):
                Python(function).check()
