"""Every response is read, or fails its own request: no other error comes of it."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.types import Usage
from ragsweep.parts.rerankers.api import read as read_scores
from ragsweep.parts.systems.responses import PathNotFound, Returned, to_response, value_at
from ragsweep.services.errors import CallFailed
from ragsweep.services.replies import read_chat, read_usage, read_vectors

CHAT = {
    "choices": [{"message": {"content": "said", "refusal": None}, "finish_reason": "stop"}],
    "model": "m", "usage": {"prompt_tokens": 3, "completion_tokens": 4},
}  # fmt: skip
VECTORS = {"data": [{"index": n, "embedding": [0.5, 1]} for n in range(2)], "usage": {"prompt_tokens": 3}}
SCORES = {"results": [{"index": n, "relevance_score": 0.5} for n in range(2)]}
SAID = {"answer": "said", "contexts": ["a", "b"], "ids": ["1", 2]}
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def said(answer: Any) -> object:
    try:
        found = [value_at(answer, name) for name in SAID]
    except PathNotFound as fault:
        raise ValueError(str(fault)) from None
    return to_response(Returned(*found), (), Usage())


READERS: list[tuple[Any, Callable[[Any], Any]]] = [
    (CHAT, lambda answer: read_chat(answer, 10)),
    (VECTORS, lambda answer: read_vectors(answer, 2)),
    (SCORES, lambda answer: read_scores(answer, 2)),
    (SAID, said),
]


@st.composite
def changed(draw: st.DrawFn, answer: Any) -> Any:
    """Put something else in some place of an answer."""
    whole = {"": copy.deepcopy(answer)}
    places = [(whole, "")]
    for holder, key in places:
        inside = holder[key]
        places += [(inside, one) for one in (inside if isinstance(inside, dict) else range(len(inside)))
                   ] if isinstance(inside, dict | list) else []  # fmt: skip
    holder, key = draw(st.sampled_from(places))
    holder[key] = draw(ODD)
    return whole[""]


def outcome(read: Callable[[Any], Any], answer: Any) -> str:
    """Say what becomes of an answer: any other error than the two that a request fails by is its name."""
    try:
        read(answer)
    except (ValueError, CallFailed):
        return "the request failed"
    except Exception as fault:
        return type(fault).__name__
    return "read"


@pytest.mark.parametrize(("answer", "read"), READERS, ids=["chat", "vectors", "scores", "system"])
@given(data=st.data())
def test_answer_is_read_or_the_request_fails(answer: Any, read: Callable[[Any], Any], data: st.DataObject) -> None:
    assert outcome(read, answer) == "read"
    assert outcome(read, data.draw(changed(answer))) in ("read", "the request failed")


def test_vector_without_an_index_belongs_to_the_text_at_its_place() -> None:
    answer = {"data": [{"embedding": [1.0]}, {"index": 2, "embedding": [3.0]}, {"index": 1, "embedding": [2.0]}]}
    assert read_vectors(answer, 3) == [[1.0], [2.0], [3.0]]


@pytest.mark.parametrize("reason", [["stop"], {"type": "length"}, 3, True])
def test_reason_to_finish_that_is_no_word_is_a_failure_of_the_request(reason: object) -> None:
    answer = copy.deepcopy(CHAT)
    answer["choices"][0]["finish_reason"] = reason
    with pytest.raises(ValueError, match=r"the finish_reason is .*, which is not a string"):
        read_chat(json.loads(json.dumps(answer)), 10)


@pytest.mark.parametrize("reason", ["error", "abort", "insufficient_system_resource", "network_error"])
@pytest.mark.parametrize("content", ["half an ans", "<think>half a thou"])
def test_reply_that_the_service_broke_off_is_a_failure_of_the_request(reason: str, content: str) -> None:
    choice = {"message": {"content": content}, "finish_reason": reason}
    with pytest.raises(ValueError, match=rf"the service aborted the reply \(finish_reason {reason}\)"):
        read_chat({"choices": [choice]}, 10)


def test_count_of_tokens_that_no_call_has_is_not_believed() -> None:
    chat = read_chat({**CHAT, "usage": {"prompt_tokens": 10**400, "completion_tokens": 1}}, 40)
    assert (chat.usage.tokens_in, chat.usage.estimated) == (10, True)


def test_count_of_no_tokens_for_a_text_is_not_believed() -> None:
    """LM Studio counts 0 for each batch of texts to embed."""
    usage = {"prompt_tokens": 0, "total_tokens": 0}
    assert read_usage({**VECTORS, "usage": usage}, 28, 0) == Usage(1, 7, 0, estimated=True)
    assert read_usage({**VECTORS, "usage": usage}, 0, 0) == Usage(1, 0, 0)


@pytest.mark.parametrize(
    ("counts", "tokens_out"),
    [
        ({"completion_tokens": 1499, "total_tokens": 14428}, 4308),  # 2,809 of thoughts, which only the total includes
        ({"completion_tokens": 4308, "total_tokens": 14428}, 4308),
        ({"completion_tokens": 1499, "total_tokens": 0}, 1499),
        ({"completion_tokens": 1499, "total_tokens": None}, 1499),
        ({"completion_tokens": 1499, "total_tokens": 10**400}, 1499),
        ({"completion_tokens": 1499}, 1499),
    ],
)
def test_thoughts_that_only_the_total_includes_are_tokens_of_the_output(
    counts: dict[str, int | None], tokens_out: int
) -> None:
    chat = read_chat({**CHAT, "usage": {"prompt_tokens": 10120, **counts}}, 40)
    assert chat.usage == Usage(1, 10120, tokens_out)


def test_total_of_an_embedding_has_no_output() -> None:
    usage = {"prompt_tokens": 5, "total_tokens": 7}
    assert read_usage({**VECTORS, "usage": usage}, 28, 0) == Usage(1, 5, 0)
