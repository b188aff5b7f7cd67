"""Values at paths into JSON, and errors that name the part of a path that leads nowhere."""

from typing import Any

import numpy as np
import pytest

from ragsweep.core.types import Passage, Usage
from ragsweep.parts.systems.responses import PathNotFound, Returned, parse_path, to_response, value_at

REPLY = {"data": {"text": "yes", "sources": [{"id": 3, "parts": ["a", "b"]}, {"id": 4, "parts": []}]}, "odd key": None}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("data.text", "yes"),
        ("data.sources[0].id", 3),
        ("data.sources[*].id", [3, 4]),
        ("data.sources[*].parts[*]", [["a", "b"], []]),
        ("odd key", None),
        ("", REPLY),
    ],
)
def test_value_at_a_path(path: str, expected: Any) -> None:
    assert value_at(REPLY, path) == expected


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("data.texts", "data.texts"),
        ("data.sources[2].id", r"data.sources\[2\]"),
        ("data.text[*]", "no list at data.text"),
        ("data.sources[*].name", r"data.sources\[0\].name"),
        ("data.sources.id", "data.sources.id"),
    ],
)
def test_error_names_the_part_of_a_path_that_leads_nowhere(path: str, said: str) -> None:
    with pytest.raises(PathNotFound, match=said):
        value_at(REPLY, path)


@pytest.mark.parametrize("path", ["a..b", "a[x]", "a[", ".", "a.*", "a[-1]", "a b]", "[*].*"])
def test_malformed_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="is not a path"):
        parse_path(path)


def test_arrays_and_numbers_of_numpy_are_lists_and_numbers() -> None:
    found = Returned("yes", np.array(["a", "b"]), [np.int64(4), 5], [[np.float32(0.5)], np.array([0.25])])
    response = to_response(found, (), Usage())
    assert response.contexts == (Passage("4", "a"), Passage("5", "b"))
    assert response.scores == (0.5, 0.25)
    with pytest.raises(ValueError, match="one of the scores is nan, not a finite number"):
        to_response(Returned("yes", ["a"], None, [np.float32("nan")]), (), Usage())


def test_halves_of_characters_become_a_character_or_a_replacement_character() -> None:
    found = to_response(Returned("\ud83d" + "\ude00", ["cut \ud83d", "whole"], ["\ud800", 7]), (), Usage())
    assert found.answer.text == "\U0001f600"
    assert found.contexts == (Passage("\ufffd", "cut \ufffd"), Passage("7", "whole"))
