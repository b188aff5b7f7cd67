"""A reasoning model's answer is the text behind its thoughts; whatever is no thought stays as it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import FILTERED, THINKING, TRUNCATED
from ragsweep.services.errors import CallFailed
from ragsweep.services.replies import Reply, read_chat
from ragsweep.services.thoughts import TAGS, check_tags, separate

FENCED = "```html\n<think>a</think>\n```\nThis is a block of thoughts."
TEXT = st.text(st.characters(exclude_characters="<`{[", exclude_categories=("Cs",)), max_size=30)


@pytest.mark.parametrize("tag", [*TAGS, "THINK"])
@pytest.mark.parametrize(
    ("text", "answer", "thoughts"),
    [
        ("<think>\nA hotel.\n</think>\n\n120 euros", "120 euros", "A hotel."),
        ("A hotel.\n</think>\n\n120 euros", "120 euros", "A hotel."),
        ("<think>a<think>b</think>c</think>120 euros", "120 euros", "abc"),
        ("<think>a</think>So: <think>b</think> 120 euros", "120 euros", "aSo: b"),
        ("Well. <think>a</think>120 euros", "120 euros", "Well. a"),
        ("<think></think>\n\n120 euros", "120 euros", ""),
        ("<think>```python\nx = 1</think>```python\nx = 2\n```", "```python\nx = 2\n```", "```python\nx = 1"),
        (
            "First:\n```python\nx = 1\n</think>\n```python\nx = 2\n```",
            "```python\nx = 2\n```",
            "First:\n```python\nx = 1",
        ),
        ("<think>End with `</think>` then.</think>120 euros", "120 euros", "End with `` then."),
        ("<think>a</think>Write `<think>`.", "Write `<think>`.", "a"),
    ],
)
def test_answer_is_behind_the_last_closed_block(tag: str, text: str, answer: str, thoughts: str) -> None:
    named, said = (one.replace("think>", f"{tag}>") for one in (text, answer))
    found = separate(named, TAGS)
    assert (found.answer, found.thoughts, found.unclosed) == (said, thoughts, False)


@pytest.mark.parametrize(
    "text",
    [
        "120 euros\n",
        "a < b, <b>bold</b>, <thinker>",
        FENCED,
        "`<think>` and `</think>` enclose thoughts.",
        "A reply begins with <think> in this model.",
        '{"reason": "between <think> and </think>", "verdict": 1}',
    ],
)
def test_text_without_thoughts_stays_as_it_is(text: str) -> None:
    assert separate(text, TAGS) == (text, "", False)


@pytest.mark.parametrize(
    "text", ["<think>on and on", " \n<think>", "<think>a</think><think>b", "So:\n  <think>a `</b>`", "<think>```a"]
)
def test_block_that_nothing_closes_leaves_no_answer(text: str) -> None:
    found = separate(text, TAGS)
    assert (found.answer, found.unclosed) == ("", True)


def test_prompt_that_opens_the_block_is_heeded() -> None:
    assert separate("on and on", TAGS, "<assistant>\n<think>\n") == ("", "on and on", True)
    assert separate("a</think>b", TAGS, "<assistant><think>") == ("b", "a", False)
    assert separate("b", TAGS, "<assistant><think>\n\n</think>\n\n") == ("b", "", False)


@given(st.lists(TEXT, max_size=3), TEXT, st.sampled_from(TAGS))
def test_any_blocks_before_any_answer_leave_the_answer(thoughts: list[str], answer: str, tag: str) -> None:
    found = separate("".join(f"<{tag}>{one}</{tag}>" for one in thoughts) + answer, TAGS)
    assert (found.answer, found.unclosed) == (answer.strip() if thoughts else answer, False)


@pytest.mark.parametrize("tags", [None, []])
def test_without_tags_every_text_stays(tags: Any) -> None:
    assert separate("<think>a</think>b", tags) == ("<think>a</think>b", "", False)


def test_only_the_named_tags_enclose_thoughts() -> None:
    assert separate("<think>a</think><note>b</note>c", ["note"]).answer == "c"
    assert separate("<think>a</think>b", ["note"]).answer == "<think>a</think>b"


@pytest.mark.parametrize("tags", ["think", [3], ["<think>"], [""], 3, {}])
def test_tags_that_are_no_names_are_refused(tags: Any) -> None:
    with pytest.raises(ConfigError, match=r"llm.thoughts must be a list of names of tags, such as \[think\]"):
        check_tags(tags, "llm")


def read(reason: str = "stop", **message: Any) -> Reply:
    return read_chat({"choices": [{"message": message, "finish_reason": reason}], "model": "m"}, 10)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_thoughts_in_a_field_of_their_own_are_kept_apart_and_counted(name: str) -> None:
    reply = read(content="120 euros", **{name: "A hotel. " * 20})
    assert (reply.text, reply.thoughts) == ("120 euros", "A hotel. " * 20)
    assert reply.usage.tokens_out == 48
    assert read(content="<think>b</think>c", **{name: "a"}).thoughts == "a\n\nb"


@pytest.mark.parametrize(
    ("message", "finish", "reason"),
    [
        ({"content": "<think>on and on"}, "length", THINKING),
        ({"content": "<think>on and on"}, "stop", THINKING),
        ({"content": None, "reasoning_content": "on and on"}, "length", THINKING),
        ({"content": "<think>a</think>"}, "length", THINKING),
        ({"content": "<think>a</think>half an ans"}, "length", TRUNCATED),
        ({"content": "half an ans"}, "length", TRUNCATED),
        ({"content": "<think>a</think>", "refusal": "no"}, "stop", FILTERED),
    ],
)
def test_reply_without_an_answer_has_its_reason(message: dict[str, Any], finish: str, reason: str) -> None:
    with pytest.raises(CallFailed) as caught:
        read(finish, **message)
    assert caught.value.reason == reason
    assert caught.value.usage.tokens_out > 0


def test_thoughts_alone_are_no_answer() -> None:
    with pytest.raises(ValueError, match="a message without text"):
        read(content="<think>a</think>\n")
