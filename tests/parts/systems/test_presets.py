"""The presets of external systems, each with a server that speaks the protocol of its service."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import FILTERED, MALFORMED, THINKING, TOO_LONG, TRUNCATED
from ragsweep.core.types import Passage, Request, Response, Turn
from ragsweep.evaluation.answering import packed, unpacked
from ragsweep.parts.systems import Http
from ragsweep.parts.systems.responses import value_in_events
from ragsweep.services.errors import CallFailed
from ragsweep.services.replies import EventStream, NoAnswer, read_chat, read_events
from ragsweep.testing.contract import collect
from support import commands as configs
from support.servers.json_server import JSON, Reply, Server, as_json, serving

ASKED = Request("Why?", history=(Turn("user", "Is it?"), Turn("assistant", "No.")))
MESSAGES = [{"role": "user", "content": "Is it?"}, {"role": "assistant", "content": "No."},
            {"role": "user", "content": "Why?"}]  # fmt: skip
EVENTS = {"Content-Type": "text/event-stream; charset=utf-8"}


def as_events(*events: Any, end: str = "data: [DONE]\n\n") -> Reply:
    return 200, EVENTS, ("".join(f"data: {json.dumps(event)}\n\n" for event in events) + end).encode()


def hits(body: dict[str, Any]) -> Reply:
    assert body == {"query": "Why?"}
    found = [{"id": "d1", "text": "one", "score": 0.9}, {"id": 2, "text": "two", "score": 0.25}]
    return as_json({"results": found})


def java(body: dict[str, Any]) -> Reply:
    assert body == {"query": "Why?", "topK": 10}
    chunks = [("d1", ("one", 9.5), ("two", 7)), ("d2",), ("d3", ("three", 6.5))]
    documents = [
        {"documentId": name, "chunks": [{"chunkText": text, "similarityScore": score} for text, score in some]}
        for name, *some in chunks
    ]
    return as_json({"data": {"documents": documents, "totalHits": 3}})


def chat(body: dict[str, Any]) -> Reply:
    assert body == {"model": "m", "messages": MESSAGES}
    message = {"role": "assistant", "content": "Because."}
    usage = {"prompt_tokens": 7, "completion_tokens": 2}
    return as_json({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage})


def stream(body: dict[str, Any]) -> Reply:
    assert body == {"model": "m", "messages": MESSAGES, "stream": True, "stream_options": {"include_usage": True}}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, {"content": "Be"}, {"content": "cause."}, {}]
    usage = {"prompt_tokens": 7, "completion_tokens": 2}
    return as_events(
        *({"choices": [{"index": 0, "delta": delta}]} for delta in deltas), {"choices": [], "usage": usage}
    )


def azure(body: dict[str, Any]) -> Reply:
    return chat({"model": "m", **body})


def langserve(body: dict[str, Any]) -> Reply:
    assert body == {"input": "Why?"}
    return as_json({"output": "Because.", "metadata": {"run_id": "1", "feedback_tokens": []}})


PRESETS = {"search": hits, "java_search": java, "openai_chat": chat, "openai_stream": stream, "azure_openai": azure,
           "langserve": langserve, "http": hits}  # fmt: skip
FURTHER = {"openai_chat": ["system.body.model=m"], "openai_stream": ["system.body.model=m"]}
AZURE = "openai/deployments/d/chat/completions?api-version=2024-10-21"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "azure-key-1234")
    with serving(monkeypatch, hits) as made:
        yield made


def system(server: Server, preset: str, *overrides: str) -> Http:
    """Build the system of a preset from its config."""
    server.reply = lambda body, n: PRESETS[preset](body)
    path = AZURE if preset == "azure_openai" else "ask"
    lines = [f"system={preset}", f'system.url="{server.url}/{path}"', *FURTHER.get(preset, []), *overrides]
    values = dict(configs.composed(*lines).values["system"])
    assert values.pop("_target_") == "ragsweep.parts.systems.Http"
    made = Http(**values)
    made.check()
    return made


def ask(made: Http) -> Response:
    return collect(made.ask, [ASKED])[0]


def test_a_search_api_gives_chunks_and_scores_and_no_answer(server: Server) -> None:
    made = system(server, "search")
    found = ask(made)
    assert (made.answers, found.answer.text, found.answer.failed) == (False, "", "")
    assert found.contexts == (Passage("d1", "one"), Passage("2", "two"))
    assert found.scores == (0.9, 0.25)


def test_chunks_within_documents_have_the_id_of_their_document(server: Server) -> None:
    found = ask(system(server, "java_search"))
    assert found.contexts == (Passage("d1", "one"), Passage("d1", "two"), Passage("d3", "three"))
    assert found.scores == (9.5, 7.0, 6.5)


@pytest.mark.parametrize("preset", ["openai_chat", "openai_stream", "azure_openai", "langserve"])
def test_a_service_that_answers(server: Server, preset: str) -> None:
    found = ask(system(server, preset))
    assert (found.answer.text, found.answer.failed, found.contexts, found.scores) == ("Because.", "", (), ())
    assert found.answer.usage[1:3] == ((0, 0) if preset == "langserve" else (7, 2))


def test_azure_has_its_version_in_the_address_and_its_key_in_a_header(server: Server) -> None:
    ask(system(server, "azure_openai"))
    assert server.paths == [f"/v1/{AZURE}"]
    assert server.headers[0]["api-key"] == "azure-key-1234"
    assert "authorization" not in server.headers[0]


def test_documents_of_a_chain(server: Server) -> None:
    paths = ["system.answer=output.answer", 'system.contexts="output.context[*].page_content"']
    made = system(server, "langserve", *paths)
    documents = [{"page_content": "one", "metadata": {}}, {"page_content": "two", "metadata": {}}]
    server.reply = lambda body, n: as_json({"output": {"answer": "Because.", "context": documents}})
    assert ask(made).contexts == (Passage("", "one"), Passage("", "two"))


@pytest.mark.parametrize("preset", ["search", "http"])
def test_a_body_of_another_form_replaces_that_of_the_preset(preset: str) -> None:
    lines = [f"system={preset}", "system.url=http://host/ask", 'system.body={q: "{question}", k: 3}']
    assert configs.composed(*lines).values["system"]["body"] == {"q": "{question}", "k": 3}


@pytest.mark.parametrize("name", ["key", "api_key", "sig", "code", "access_token"])
def test_a_secret_in_the_query_of_an_address_is_refused(server: Server, name: str) -> None:
    with pytest.raises(ConfigError, match=rf'query parameter "{name}" looks like a secret.*key_env') as refused:
        Http(f"{server.url}/ask?{name}=s3cr3t-value", {"q": "{question}"}, "a").check()
    assert "s3cr3t" not in str(refused.value)


@pytest.mark.parametrize("scores", [["high", 1], [1.0], [None, 1], [True, 1], [float("inf"), 1]])
def test_scores_that_are_no_numbers_make_a_reply_malformed(server: Server, scores: list[Any]) -> None:
    made = system(server, "search")
    rows = [{"id": f"d{n}", "text": "t", "score": score} for n, score in enumerate(scores)]
    told = {"results": rows + [{"id": "d", "text": "t"}] * (2 - len(rows))}
    server.reply = lambda body, n: as_json(told)
    assert ask(made).answer.failed == MALFORMED


def test_scores_are_stored_with_their_contexts() -> None:
    given = Response(contexts=(Passage("d1", "one"), Passage("d2", "")), scores=(0.5, 0.25))
    assert unpacked(packed([given]), Response) == [given]


# --- streams ------------------------------------------------------------------------------------------------------


def test_events_are_read_as_the_standard_defines_them() -> None:
    text = ': comment\r\ndata: {"a":\r\ndata: 1}\r\n\r\nevent: token\ndata: plain\n\nid: 3\ndata:  12\n\ndata: "last"'
    assert read_events(text) == EventStream(({"a": 1}, "plain", " 12", "last"))
    assert read_events("data: [DONE]\n\n") == EventStream(())
    assert read_events('data: {"a": 1, "error": null}\n\n') == EventStream(({"a": 1, "error": None},))


def test_texts_of_a_stream_are_joined_and_the_last_list_counts() -> None:
    found = EventStream(({"run": 1}, {"t": "a"}, {"t": None, "c": ["x"]}, {"t": "b", "c": ["x", "y"]}))
    assert value_in_events(found, "t") == "ab"
    assert value_in_events(found, "c") == ["x", "y"]
    assert value_in_events(EventStream(("a", " b")), "") == "a b"


def test_an_answer_in_lists_of_parts_is_joined(server: Server) -> None:
    made = system(server, "http", "system.answer=delta.content")
    contents = [[{"type": "thinking", "thinking": "Well."}], [{"type": "text", "text": "Be"}], [], None, "cause", "."]
    events = "".join(f"data: {json.dumps({'delta': {'content': one}})}\n\n" for one in contents)
    server.reply = lambda body, n: (200, EVENTS, events.encode())
    answer = ask(made).answer
    assert (answer.text, answer.thoughts) == ("Because.", "Well.")


def test_plain_text_events_are_an_answer(server: Server) -> None:
    made = system(server, "http", 'system.answer=""')
    server.reply = lambda body, n: (200, EVENTS, b"data: Be\n\ndata: cause.\n\n")
    assert ask(made).answer.text == "Because."


@pytest.mark.parametrize("reply", [
    as_events({"error": {"message": "overloaded"}}), as_events(),
    as_events(end='event: error\ndata: {"message": "overloaded"}\n\n'),
    (200, EVENTS, b'data: {"choices": [{"delta": {"content": "Not "}, "finish_reason": null}]}\n\ndata: {"cho'),
    as_events({"choices": [{"delta": {"content": "Not "}}]}, {"error": {"message": "overloaded"}, "choices": []}),
])  # fmt: skip
def test_a_stream_without_a_whole_answer_is_the_failure_of_its_question(server: Server, reply: Reply) -> None:
    made = system(server, "openai_stream", "system.retries=0", "system.tokens_in=null", "system.tokens_out=null")
    server.reply = lambda body, n: reply
    assert ask(made).answer.failed == MALFORMED


def test_the_failure_of_a_stream_without_an_end_states_what_was_not_sent_and_what_to_set(server: Server) -> None:
    made = system(server, "openai_stream", "system.retries=0", "system.tokens_in=null", "system.tokens_out=null")
    event = {"choices": [{"delta": {"content": "Because."}, "finish_reason": None}]}
    server.reply = lambda body, n: as_events(event, end="")
    assert ask(made).answer.failed == MALFORMED
    _, message = made.service.session.meter.failures[MALFORMED]
    assert "without finish_reason or [DONE]" in message
    assert "set system=openai_chat" in message


ENDINGS = {"length": TRUNCATED, "model_context_window_exceeded": TOO_LONG, "content_filter": FILTERED,
           "error": MALFORMED}  # fmt: skip


@pytest.mark.parametrize("status", [201, 203])
def test_an_answer_may_have_any_status_of_success(server: Server, status: int) -> None:
    made = system(server, "langserve")
    server.reply = lambda body, n: (status, JSON, b'{"output": "Because."}')
    assert ask(made).answer.text == "Because."
    server.reply = lambda body, n: (204, {}, b"")
    assert ask(made).answer.failed == MALFORMED


@pytest.mark.parametrize("preset", ["openai_chat", "openai_stream"])
def test_a_reply_without_usage_is_a_failure_that_names_the_key_to_change(server: Server, preset: str) -> None:
    made, text = system(server, preset), {"content": "Because."}
    choice = {"choices": [{"message": text, "delta": text, "finish_reason": "stop"}]}
    server.reply = lambda body, n: as_events(choice) if preset == "openai_stream" else as_json(choice)
    assert ask(made).answer.failed == MALFORMED
    _, said = made.service.session.meter.failures[MALFORMED]
    assert "there is no value at usage; correct system.tokens_in, or set it to null" in said


@pytest.mark.parametrize("preset", ["openai_chat", "openai_stream", "azure_openai"])
@pytest.mark.parametrize("reason", ENDINGS)
@pytest.mark.parametrize("said", [{"content": "I don't know, bec"}, {"content": None}, {}])
def test_an_answer_that_the_service_cut_off_or_withheld_is_a_failure_and_billed(
    server: Server, preset: str, reason: str, said: dict[str, Any]
) -> None:
    made, usage = system(server, preset), {"prompt_tokens": 7, "completion_tokens": 2}
    whole = {"choices": [{"index": 0, "message": said, "finish_reason": reason}], "usage": usage}
    deltas = [{"delta": said, "finish_reason": None}, {"delta": {}, "finish_reason": reason}]
    events = as_events(*({"choices": [delta]} for delta in deltas), {"choices": [], "usage": usage})
    server.reply = lambda body, n: events if preset == "openai_stream" else as_json(whole)
    answer = ask(made).answer
    assert (answer.text, answer.failed, answer.abstained) == ("", ENDINGS[reason], False)
    assert answer.usage[:3] == (1, 7, 2)
    assert made.service.session.meter.totals.tokens == 9
    assert made.service.session.meter.failures.keys() == {ENDINGS[reason]}


@pytest.mark.parametrize("said", ["<think>Bec", "<think>Because</think>"])
def test_a_system_that_ends_while_it_thinks_has_no_answer(server: Server, said: str) -> None:
    made = system(server, "openai_chat")
    reply = as_json({"choices": [{"message": {"content": said}, "finish_reason": "length"}], "usage": {
        "prompt_tokens": 7, "completion_tokens": 2}})  # fmt: skip
    server.reply = lambda body, n: reply
    answer = ask(made).answer
    assert (answer.text, answer.failed, answer.abstained) == ("", THINKING, False)


@pytest.mark.parametrize("preset", ["openai_chat", "openai_stream"])
@pytest.mark.parametrize(
    ("said", "failed"),
    [({"content": None, "refusal": "I can't help."}, FILTERED), ({"content": None}, MALFORMED),
     ({"content": "<think>Because</think>"}, MALFORMED)],
)  # fmt: skip
def test_a_chat_message_without_text_is_a_failure_as_for_a_language_model(
    server: Server, preset: str, said: dict[str, Any], failed: str
) -> None:
    made, usage = system(server, preset), {"prompt_tokens": 7, "completion_tokens": 2}
    whole = {"choices": [{"message": said, "delta": said, "finish_reason": "stop"}], "usage": usage}
    server.reply = lambda body, n: as_events(whole) if preset == "openai_stream" else as_json(whole)
    with pytest.raises((CallFailed, NoAnswer)) as unusable:
        read_chat(whole, 8)
    assert getattr(unusable.value, "reason", MALFORMED) == failed
    answer = ask(made).answer
    assert (answer.text, answer.failed, answer.abstained, answer.usage[:3]) == ("", failed, False, (1, 7, 2))
