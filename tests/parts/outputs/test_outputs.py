"""What is read from answers: texts, fenced blocks, JSON objects; and why something cannot be read."""

import json
from pathlib import Path

import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.parts.outputs import FencedBlock, JsonObject, WholeText

SCHEMA = {"type": "object", "required": ["sql"], "properties": {"sql": {"type": "string"}}}


def test_whole_text_is_any_text_but_a_blank_one() -> None:
    assert WholeText().read(" SELECT 1\n") == " SELECT 1\n"
    with pytest.raises(ValueError, match="blank"):
        WholeText().read(" \n")


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        (None, "```\na\n```", "a\n"),
        (None, "first\n```sql\na\n```\nor rather\n```\nb\n```\ndone", "b\n"),
        ("sql", "first\n```sql\na\n```\nor rather\n```\nb\n```\ndone", "a\n"),
        (None, "````md\n```\ninside\n```\n````", "```\ninside\n```\n"),
        (None, "```\n```", ""),
    ],
)
def test_last_fenced_block_of_the_language_is_read(language: str | None, text: str, expected: str) -> None:
    assert FencedBlock(language).read(text) == expected


@pytest.mark.parametrize(
    ("language", "text"), [(None, "no block"), ("sql", "```\na\n```"), (None, "```\nnever closed")]
)
def test_answer_without_such_a_block_is_unreadable(language: str | None, text: str) -> None:
    with pytest.raises(ValueError, match="no fenced block"):
        FencedBlock(language).read(text)


@pytest.mark.parametrize("text", ['{"sql": "a"}', 'So:\n```json\n{"sql": "a"}\n```\n', ' \n{"sql": "a"} '])
def test_json_object_is_the_answer_or_its_last_block(text: str) -> None:
    assert JsonObject(SCHEMA).read(text) == {"sql": "a"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"), ("SELECT", "not JSON"), ("[1]", "not a JSON object, but list"), ("{}", "'sql' is a required"),
        ('{"sql": 3}', r"\$\.sql: 3 is not of type 'string'"), ("[" * 100_000, "not JSON"),
    ],
)  # fmt: skip
def test_what_the_schema_refuses_is_unreadable_and_says_why(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        JsonObject(SCHEMA).read(text)


def test_schema_may_lie_in_a_file_and_its_content_counts(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(SCHEMA))
    part = JsonObject(str(file))
    part.check()
    assert part.read('{"sql": "a"}') == {"sql": "a"}
    assert part.fingerprint() == JsonObject(SCHEMA).fingerprint() != JsonObject().fingerprint()


@pytest.mark.parametrize("schema", ["nowhere.json", {"type": "thing"}])
def test_schema_that_is_none_is_refused(schema: object) -> None:
    with pytest.raises(ConfigError, match="schema"):
        JsonObject(schema).check()  # type: ignore[arg-type]
