"""Parse a request's body, and make an answer that is a function of it."""

import base64
import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from ragsweep.core.words import pattern

DIMENSIONS = 64


@dataclass(frozen=True)
class ModelRequest:
    """One request: its path below the base URL and its body, as it came."""

    path: str
    body: Mapping[str, Any]

    @property
    def prompt(self) -> str:
        """Return the texts of all messages, one below the other."""
        return "\n".join(_text(message.get("content")) for message in self.body.get("messages", ()))

    @property
    def last(self) -> str:
        """Return the text of the last message."""
        messages = self.body.get("messages") or [{}]
        return _text(messages[-1].get("content"))

    @property
    def digest(self) -> str:
        """Hash path and body: the same request has the same answer."""
        return hashlib.blake2b(json.dumps([self.path, self.body], sort_keys=True).encode(), digest_size=8).hexdigest()

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """Return the JSON Schema that the answer must have: of response_format, or written in the prompt."""
        form = self.body.get("response_format") or {}
        if form.get("type") == "json_schema":
            schema: Mapping[str, Any] = form["json_schema"]["schema"]
            return schema
        return _schema_in(self.prompt) if form.get("type") == "json_object" else None


def default_answer(request: ModelRequest) -> str | dict[str, Any]:
    """Answer from a hash of the question: a short text, or, where there is a schema, what satisfies it."""
    if request.schema is None:
        return f"answer {request.digest}"
    made: dict[str, Any] = example(request.schema, Random(request.digest))
    return made


def example(schema: Any, random: Random, known: Mapping[str, Any] | None = None) -> Any:
    """Make a value that satisfies a JSON Schema, of the kinds that pydantic writes."""
    known = schema.get("$defs", {}) if known is None else known
    if "$ref" in schema:
        return example(known[schema["$ref"].rpartition("/")[2]], random, known)
    for choice in ("enum", "anyOf", "oneOf", "allOf"):
        if choice in schema:
            chosen = random.choice(schema[choice])
            return chosen if choice == "enum" else example(chosen, random, known)
    if "const" in schema:
        return schema["const"]
    if "properties" in schema:
        return {name: example(inner, random, known) for name, inner in schema["properties"].items()}
    return _plain(schema, random, known)


def _plain(schema: Any, random: Random, known: Mapping[str, Any]) -> Any:
    match schema.get("type"):
        case "array":
            size = max(schema.get("minItems", 0), random.randint(1, 3))
            size = min(size, schema.get("maxItems", size))
            return [example(schema.get("items", {}), random, known) for _ in range(size)]
        case "integer":
            return random.randint(int(schema.get("minimum", 0)), int(schema.get("maximum", 1)))
        case "number":
            return round(random.uniform(float(schema.get("minimum", 0)), float(schema.get("maximum", 1))), 3)
        case "boolean":
            return random.random() < 0.5
        case "object":
            return {}
        case "null":
            return None
    return f"text {random.randint(0, 9999)}"


def embedding(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """Embed a text by its words: texts with the same words are near each other."""
    vector = [0.0] * dimensions
    for word in pattern("token").findall(text.lower()) or [""]:
        number = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest(), "big")
        vector[number % dimensions] += 1.0 if number & 1 << 31 else 0.5
    return vector


def encode(vector: list[float], form: str) -> Any:
    """Encode a vector as the request states: as numbers, or as the base64 of 32-bit floats."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode() if form == "base64" else vector


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content)
    return content if isinstance(content, str) else ""


def _schema_in(prompt: str) -> Mapping[str, Any] | None:
    """Find the last JSON Schema in the text of a prompt."""
    decoder, schema, start = json.JSONDecoder(), None, prompt.find("{")
    while start >= 0:
        try:
            value, end = decoder.raw_decode(prompt, start)
        except ValueError:
            value, end = None, start + 1
        if isinstance(value, dict) and "properties" in value:
            schema = value
        start = prompt.find("{", end)
    return schema
