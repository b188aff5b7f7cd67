"""The interface between judged metrics and judges: response schemas, replies, and the judge protocol."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

from ragsweep.core.types import Usage
from ragsweep.parts.fences import unfence

BINARY = frozenset({"verdict", "attributed", "noncommittal"})
"""Fields whose value is 0 or 1; ragas's models declare them only as integers."""

NON_EMPTY = frozenset({"question"})
"""Fields that must not be blank: ragas would skip an empty one, and score 0 if all are empty."""

_CODE_BLOCK = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL)


class ResponseSchema(NamedTuple):
    """The JSON schema that a reply must conform to, its name, and a parser of replies.

    ``parse`` raises ValueError for a reply that does not conform; the message states the fault without quoting the
    reply.
    """

    name: str
    json_schema: Mapping[str, Any]
    parse: Callable[[str], Any]


class JudgeReply(NamedTuple):
    """A judge's reply: the parsed value, the usage charged for it, and its text (empty for embeddings)."""

    value: Any
    usage: Usage = Usage()
    text: str = ""


class Judge(Protocol):
    """A model that judges: it replies to prompts in the form that a response schema defines, and embeds texts."""

    @property
    def samples(self) -> int:
        """Number of times that each judgement is requested; the mean is used."""

    @property
    def fence(self) -> bool:
        """Whether text under judgement is fenced in prompts."""

    def check_metric(self, metric: str, embeddings: bool) -> None:
        """Raise ConfigError if this judge cannot decide a metric; ``embeddings`` is true if the metric needs them."""

    async def ask(self, prompt: str, schema: ResponseSchema, sample: int, repetition: int) -> JudgeReply:
        """Return a reply that conforms to the schema. Raises CallFailed if there is none.

        ``sample`` is the index of the sample, and ``repetition`` the number of earlier requests with the same prompt in
        this sample.
        """

    async def embed(self, texts: Sequence[str]) -> JudgeReply:
        """Return a reply whose value has one vector per text (empty for a blank one). Raises CallFailed on failure."""


@cache
def response_schema(model: Any) -> ResponseSchema:
    """Return a pydantic model's response schema, whose JSON schema requires all fields and allows no others."""
    return ResponseSchema(
        model.__name__, _close_schema(model.model_json_schema()), lambda text: parse_reply(text, model)
    )


def parse_reply(text: str, model: Any) -> Any:
    """Parse a reply with a pydantic model; the whole reply must be one JSON value, optionally in a code block.

    A change to what is accepted affects judgements, so it needs a new version in ``ragas_calls`` and ``judge_checks``.
    Raises ValueError if the reply does not conform, for instance if a binary field is "0.9", true or 7.
    """
    from pydantic import ValidationError

    block = _CODE_BLOCK.fullmatch(text)
    try:
        value = model.model_validate_json(unfence(block[1] if block else text), strict=True)
    except ValidationError as fault:
        first = fault.errors(include_input=False, include_url=False, include_context=False)[0]
        names = set(re.findall(r'"(\w+)":', json.dumps(model.model_json_schema())))
        path = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part in names)
        raise ValueError(f"{path or 'the reply'} is invalid ({first['type'].replace('_', ' ')})") from None
    _check_fields(json.loads(value.model_dump_json()))
    return value


def reasons_given(value: Any) -> Iterator[str]:
    """Yield every reason in a reply, with the judged text before it and the decision after it, if there are any."""
    value = value.model_dump() if hasattr(value, "model_dump") else value  # no isinstance: pydantic is slow to import
    if isinstance(value, list):
        for item in value:
            yield from reasons_given(item)
    elif isinstance(value, dict):
        if isinstance(reason := value.get("reason"), str):
            judged, decided = value.get("statement"), next((value[name] for name in BINARY & value.keys()), None)
            end = "" if decided is None else f" -> {'yes' if decided else 'no'}"
            yield (f"{judged}: " if judged else "") + reason + end
        for item in value.values():
            yield from reasons_given(item)


def _close_schema(schema: Any) -> Any:
    """Require all fields of every object and forbid others (for structured outputs); limit binary fields to 0 and 1."""
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


def _check_fields(value: Any) -> None:
    if isinstance(value, list):
        for item in value:
            _check_fields(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name in BINARY and item not in (0, 1):
                raise ValueError(f"{name}: must be 0 or 1")
            if name in NON_EMPTY and not str(item).strip():
                raise ValueError(f"{name}: must not be empty")
            _check_fields(item)
