"""The interface between judged metrics and judges: response schemas, replies, and the judge protocol."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

from ragsweep.core.types import Usage
from ragsweep.parts.fences import unfence

BINARY = frozenset({"verdict", "attributed", "noncommittal"})
"""Fields of a reply whose value must be 0 or 1; the pydantic models of ragas accept any integer."""

NON_EMPTY = frozenset({"question"})
"""Fields of a reply that must not be blank; ragas skips empty values and returns a score of 0 if all are empty."""

_CODE_BLOCK = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL)


class ResponseSchema(NamedTuple):
    """The JSON schema that a judge's reply must conform to, the name of the schema, and a parser of replies.

    ``parse`` returns the value in a reply. It raises ValueError for a reply that does not conform; the message
    describes the fault without quoting the reply.
    """

    name: str
    json_schema: Mapping[str, Any]
    parse: Callable[[str], Any]


class JudgeReply(NamedTuple):
    """The parsed value of a judge's reply, the usage charged for the reply, and its text (empty for embeddings)."""

    value: Any
    usage: Usage = Usage()
    text: str = ""


class Judge(Protocol):
    """A model that judges answers: it replies to prompts with JSON that conforms to a schema, and embeds texts."""

    @property
    def samples(self) -> int:
        """Number of times that each judgement is requested; metrics use the mean."""

    @property
    def fence(self) -> bool:
        """Whether prompts enclose the text to be judged in fences (see :mod:`ragsweep.parts.fences`)."""

    def check_metric(self, metric: str, embeddings: bool) -> None:
        """Raise ConfigError if the judge cannot judge ``metric``; ``embeddings`` is true if the metric embeds texts."""

    async def ask(self, prompt: str, schema: ResponseSchema, sample: int, repetition: int) -> JudgeReply:
        """Return a reply to ``prompt`` that conforms to ``schema``. Raises CallFailed if the judge returns none.

        ``sample`` is the index of the sample, from 0; ``repetition`` is the number of earlier requests with the same
        prompt in this sample.
        """

    async def embed(self, texts: Sequence[str]) -> JudgeReply:
        """Return a reply whose value is a list of one vector per text; a blank text gets an empty vector.

        Raises CallFailed if the texts cannot be embedded.
        """


@cache
def response_schema(model: Any) -> ResponseSchema:
    """Return the response schema of a pydantic model; its JSON schema requires all fields and allows no others."""
    return ResponseSchema(
        model.__name__, _close_schema(model.model_json_schema()), lambda text: parse_reply(text, model)
    )


def without_code_block(text: str) -> str:
    """Return the content of a text that is one code block, marked ``json`` or unmarked; else the text unchanged."""
    block = _CODE_BLOCK.fullmatch(text)
    return block[1] if block else text


def parse_reply(text: str, model: Any) -> Any:
    """Return a reply parsed by a pydantic model; the whole reply must be one JSON value, optionally in a code block.

    Raises ValueError if the reply does not conform, for instance if a binary field is "0.9", true or 7. A change to the
    set of accepted replies affects judgements and therefore requires a new version in ``ragas_calls`` and
    ``judge_checks``.
    """
    from pydantic import ValidationError

    try:
        value = model.model_validate_json(unfence(without_code_block(text)), strict=True)
    except ValidationError as fault:
        first = fault.errors(include_input=False, include_url=False, include_context=False)[0]
        names = set(re.findall(r'"(\w+)":', json.dumps(model.model_json_schema())))
        path = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part in names)
        raise ValueError(f"{path or 'the reply'} is invalid ({first['type'].replace('_', ' ')})") from None
    for given in _objects(json.loads(value.model_dump_json())):
        for name, item in given.items():
            if name in BINARY and item not in (0, 1):
                raise ValueError(f"{name}: must be 0 or 1")
            if name in NON_EMPTY and not str(item).strip():
                raise ValueError(f"{name}: must not be empty")
    return value


def reasons_given(value: Any) -> Iterator[str]:
    """Yield every reason in a reply, at any depth, as ``statement: reason -> yes`` (or ``no``).

    If the object with the reason lacks a statement or a decision, that part is omitted.
    """
    value = value.model_dump() if hasattr(value, "model_dump") else value  # no isinstance: pydantic is slow to import
    for given in _objects(value):
        if isinstance(reason := given.get("reason"), str):
            judged, decided = given.get("statement"), next((given[name] for name in BINARY & given.keys()), None)
            end = "" if decided is None else f" -> {'yes' if decided else 'no'}"
            yield (f"{judged}: " if judged else "") + reason + end


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a JSON value, at any depth; an object comes before the objects in it."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _objects(item)


def _close_schema(schema: Any) -> Any:
    """Return a JSON schema that requires all fields, forbids others, and limits the fields in BINARY to 0 and 1.

    Services require such a closed schema for structured outputs.
    """
    if isinstance(schema, list):
        return [_close_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _close_schema(value) for key, value in schema.items()}
    if isinstance(properties := closed.get("properties"), dict):
        closed |= {"additionalProperties": False, "required": list(properties)}
        for name in BINARY & properties.keys():
            properties[name] = {**properties[name], "enum": [0, 1]}
    return closed
