"""A reasoning model's answer is the text after its thoughts; all other text is left unchanged."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import FILTERED, THINKING, TOO_LONG, TRUNCATED
from ragsweep.services.errors import CallFailed
from ragsweep.services.replies import Reply, read_chat
from ragsweep.services.thoughts import TAGS, check_tags, read_content, separate

FENCED = "```html\n<think>a</think>\n```\nThis is a block of thoughts."
WRAPPERS = [
    *((f"<{tag}>", f"</{tag}>") for tag in TAGS),
    ("[THINK]", "[/THINK]"),
    ("<|begin_of_thought|>", "<|end_of_thought|>\n\n<|begin_of_solution|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<|channel|>analysis<|message|>", "<|channel|>final <|constrain|>json<|message|>"),
]
WRAPPER = st.sampled_from(WRAPPERS)
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
        ("So:\n```py\nx = 1\n</think>\n```py\nx = 2\n```", "```py\nx = 2\n```", "So:\n```py\nx = 1"),
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
        *("[thinking](a.html) b", "[think] it over", "a <|end|>", "<|return|>", "[THINKER] a"),
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


@given(st.text(st.sampled_from("<>[]|/`\n thinkTHINKchannel"), max_size=60))
def test_text_without_a_tag_is_never_changed(text: str) -> None:
    if not any(mark.lower() in text.lower() for wrapper in WRAPPERS for mark in wrapper):
        assert separate(text, TAGS) == (text, "", False)


@given(WRAPPER, TEXT, TEXT)
def test_thoughts_in_any_wrapper_are_no_part_of_the_answer(wrapper: tuple[str, str], thought: str, answer: str) -> None:
    opening, closing = wrapper
    for before in ("", opening, f"\n{opening}", f"Well, {opening}"):
        found = separate(f"{before}{thought}{closing}{answer}", TAGS)
        assert found.answer == answer.strip()
        assert found.thoughts == f"{before.replace(opening, '')}{thought}".strip()
        assert not found.unclosed


@given(WRAPPER, TEXT)
def test_thoughts_that_nothing_closes_leave_no_answer_in_any_wrapper(wrapper: tuple[str, str], thought: str) -> None:
    for before in ("", f"{wrapper[0]}a{wrapper[1]}", f"{wrapper[0]}a{wrapper[1]}b\n"):
        found = separate(f"{before}{wrapper[0]}{thought}", TAGS)
        assert (found.answer, found.unclosed) == ("", True)


@given(WRAPPER, WRAPPER, TEXT, TEXT)
def test_wrappers_may_be_nested(outer: tuple[str, str], inner: tuple[str, str], thought: str, answer: str) -> None:
    found = separate(f"{outer[0]}a{inner[0]}{thought}{inner[1]}c{outer[1]}{answer}", TAGS)
    assert (found.answer, found.thoughts) == (answer.strip(), f"a{thought}c")


@given(WRAPPER, WRAPPER, TEXT)
def test_wrapper_in_code_remains(wrapper: tuple[str, str], other: tuple[str, str], word: str) -> None:
    inline = "`{}` and `{}`".format(*(mark.replace("\n", "") for mark in wrapper))
    for code in (inline, f"```\n{wrapper[0]}{word}{wrapper[1]}\n```", f"```\n{wrapper[0]}"):
        said = f"So: {code}"
        assert separate(said, TAGS) == (said, "", False)
        assert separate(f"{other[0]}a{other[1]}{said}", TAGS) == (said, "a", False)


def test_end_tokens_behind_an_answer_are_no_part_of_it() -> None:
    reply = "<|channel|>analysis<|message|>A hotel.<|end|><|start|>assistant<|channel|>final<|message|>120<|return|>"
    assert separate(reply, TAGS) == ("120", "A hotel.", False)
    solved = "<|begin_of_thought|>a<|end_of_thought|>\n<|begin_of_solution|>120<|end_of_solution|>"
    assert separate(solved, TAGS) == ("120", "a", False)


def test_only_the_named_tags_enclose_thoughts() -> None:
    assert separate("<think>a</think><note>b</note>c", ["note"]).answer == "c"
    for tags in (None, [], ["note"]):
        assert separate("<think>a</think>b", tags) == ("<think>a</think>b", "", False)


@pytest.mark.parametrize("tags", ["think", [3], ["<think>"], [""], 3, {}])
def test_tags_that_are_no_names_are_refused(tags: Any) -> None:
    with pytest.raises(ConfigError, match=r"llm.thoughts must be a list of tag names, such as \[think\]"):
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
        ({"content": "half an ans"}, "content_filter: SAFETY", FILTERED),
        ({"content": "half an ans"}, "sensitive", FILTERED),
        ({"content": "half an ans"}, "model_context_window_exceeded", TOO_LONG),
        ({"content": "<think>on and on"}, "model_context_window_exceeded", TOO_LONG),
    ],
)
def test_reply_without_an_answer_has_its_reason(message: dict[str, Any], finish: str, reason: str) -> None:
    with pytest.raises(CallFailed) as caught:
        read(finish, **message)
    assert caught.value.reason == reason
    assert caught.value.usage.tokens_out > 0


def test_thoughts_alone_are_no_answer() -> None:
    with pytest.raises(ValueError, match="the message contains no text"):
        read(content="<think>a</think>\n")


THOUGHT = [{"type": "thinking", "thinking": "A hotel."}, {"type": "reasoning", "summary": [{"text": "A hotel."}]},
           {"type": "thinking", "thinking": [{"type": "text", "text": "A "}, {"type": "text", "text": "hotel."}]},
           {"type": "reasoning", "text": "A hotel."}]  # fmt: skip


@pytest.mark.parametrize("thought", THOUGHT)
def test_parts_of_thoughts_are_kept_apart_from_the_parts_of_text(thought: dict[str, Any]) -> None:
    said = [thought, {"type": "text", "text": "120 "}, {"type": "text", "text": "euros"}]
    reply = read(content=said)
    assert (reply.text, reply.thoughts, reply.usage.tokens_out) == ("120 euros", "A hotel.", 5)
    assert read(content=[{"type": "redacted_thinking", "data": "x"}, *said]).thoughts == "A hotel."
    assert read(content=said, reasoning="A hotel.").thoughts == "A hotel."
    with pytest.raises(CallFailed, match="thinking"):
        read("length", content=[thought])


def test_half_a_character_in_a_reply_becomes_a_replacement_character() -> None:
    whole = read(content="half \ud83d", reasoning_content="\ude00 a, \U0001f600")
    parts = read(content=[{"type": "text", "text": "half \ud83d"}])
    assert (whole.text, whole.thoughts, parts.text) == ("half \ufffd", "\ufffd a, \U0001f600", "half \ufffd")


def test_tags_within_a_part_of_text_enclose_thoughts() -> None:
    reply = read(content=[{"type": "text", "text": "[THINK]A hotel.[/THINK]120 euros"}])
    assert (reply.text, reply.thoughts) == ("120 euros", "A hotel.")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (3, "the content is 3, which is neither text nor a list of parts"),
        ({"text": "a"}, "neither text nor a list of parts"),
        (["a"], "a part of the content is 'a', not of a known type"),
        ([{"type": "image_url", "image_url": "x"}], r"'image_url'.* not of a known type \(text, output_text, thinking"),
        ([{"type": "text"}], "has no text"),
        ([{"type": "thinking", "thinking": [{"type": "reference"}]}], "has no text"),
        ([{"type": "text", "text": {"value": "a"}}], "has no text"),
    ],
)
def test_content_of_an_unknown_form_is_refused(content: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read(content=content)


CONTENT = st.recursive(
    st.none() | st.text(max_size=5) | st.sampled_from(["text", "thinking", "reasoning", "redacted_thinking"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "thinking", "summary"]), inner, max_size=3)
    ),
)


@given(CONTENT)
def test_any_content_is_read_or_refused(content: Any) -> None:
    with suppress(ValueError):
        found = read_content(content)
        assert isinstance(found.answer, str)
        assert isinstance(found.thoughts, str)
