"""What is read from answers: texts, fenced blocks, JSON objects; and why something cannot be read."""

import json
from pathlib import Path
from typing import Any

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
        ("json", "So:\r\n```json\r\n{}\r\n```\r\nx", "{}\r\n"),
        ("c", "```c\na\n```\n```c#\nb\n```", "a\n"),
        ("c#", "```c#\nb\n```\n```c\na\n```", "b\n"),
        (None, "1. So:\n\n   ```py\n   if a:\n       b\n   ```\n", "if a:\n    b\n"),  # indented, as in a list
        (None, "*   So:\n\n    ```py\n    if a:\n        b\n    ```\n", "if a:\n    b\n"),  # four spaces
        (None, "- So:\n\n\t```py\n\tif a:\n\t\tb\n\t```\n", "if a:\n\tb\n"),
        (None, " ```\n{}\n```\nand so on", "{}\n"),
        (None, "  ```\na\n```\nor\n  ```\nb\n  ```", "b\n"),
        (None, "```\na\n  ```\nb\n```", "a\n  ```\nb\n"),
    ],
)
def test_last_fenced_block_of_the_language_is_read_without_its_indentation(
    language: str | None, text: str, expected: str
) -> None:
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


def test_schema_may_lie_in_a_file_and_its_content_counts(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(SCHEMA))
    part = JsonObject(str(file))
    part.check()
    assert part.read('{"sql": "a"}') == {"sql": "a"}
    assert part.fingerprint() == JsonObject(SCHEMA).fingerprint() != JsonObject().fingerprint()


NUMBER = {"type": "object", "properties": {"a": {"type": "number", "multipleOf": 0.1, "maximum": 5}}}
NESTED = {"type": "object", "properties": {"a": {"$ref": "#"}}}


@pytest.mark.parametrize(
    ("schema", "text", "reason"),
    [
        (SCHEMA, "", "not JSON"),
        (SCHEMA, "SELECT", "not JSON"),
        (SCHEMA, "[1]", "not a JSON object, but list"),
        (SCHEMA, "{}", r"\$: 'sql' is a required"),
        (SCHEMA, '{"sql": 3}', r"\$\.sql: 3 is not of type 'string'"),
        (SCHEMA, "[" * 100_000, "not JSON"),
        (NUMBER, '{"a": 1e400}', "cannot be validated: OverflowError"),
        (NESTED, '{"a":' * 300 + "{}" + "}" * 300, "cannot be validated: RecursionError"),
        (NUMBER, '{"a": NaN}', "not JSON: NaN"),
        (None, '{"a": -Infinity}', "not JSON: -Infinity"),
        (None, '{"a": %s}' % ("9" * 5000), "not JSON: Exceeds the limit"),
    ],
)  # fmt: skip
def test_answer_that_does_not_conform_is_unreadable_and_says_why(
    schema: dict[str, Any] | None, text: str, reason: str
) -> None:
    part = JsonObject(schema)
    part.check()
    with pytest.raises(ValueError, match=f"^{reason}"):
        part.read(text)


MISSING = r'target of "\$ref": ".*" is not in the schema'


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("nowhere.json", "output.schema: nowhere.json: No such file"),
        ({"type": "thing"}, "output.schema: 'thing' is not valid"),
        ({"$ref": "#/x", "x": {"properties": 5}}, "output.schema: 5 is not of type 'object'"),
        ({"$ref": "#/definitions/x"}, MISSING),
        ({"properties": {"a": {"$ref": "#nowhere"}}}, MISSING),
        ({"$ref": "#/definitions/x", "definitions": {"x": {"$ref": "#/definitions/y"}}}, MISSING),
        ({"items": {"$ref": "https://example.invalid/schema"}}, MISSING),
    ],
)
def test_schema_that_is_none_or_refers_to_a_missing_one_is_refused(schema: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        JsonObject(schema).check()


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "#/definitions/x"}, "$ref": True}, "definitions": {"x": {"type": "integer"}}},
        {"properties": {"a": {"$ref": "/x"}}, "$id": "https://a.b/c", "$defs": {"x": {"$id": "/x", "type": "integer"}}},
        {"properties": {"a": {"type": "integer"}}, "default": {"$ref": "#/nowhere"}, "const": {"a": 1}},
        {"properties": {"b": {"$ref": "https://json-schema.org/draft/2020-12/schema"}, "a": {"type": "integer"}}},
    ],
)
def test_reference_within_the_schema_is_followed(schema: dict[str, Any]) -> None:
    part = JsonObject(schema)
    part.check()
    assert part.read('{"a": 1}') == {"a": 1}
    with pytest.raises(ValueError, match=r"^\$"):
        part.read('{"a": "x"}')
