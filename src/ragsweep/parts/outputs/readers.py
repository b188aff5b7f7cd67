"""Read the output from an answer: the whole text, a fenced block, or a JSON object validated by a schema."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import PartTraits

_BLOCK = re.compile(
    r"^( +|\t+)?(`{3,})[ \t]*([\w+#.-]*)[^\n`]*\n(.*?)^(?(1)(?: {0,3}|\1))\2`*[ \t]*\r?$", re.MULTILINE | re.DOTALL
)
"""Matches a fenced block: its indentation (group 1), opening fence, the word after the fence, and content (group 4)."""


def code_blocks(text: str) -> list[tuple[str, str]]:
    """List the fenced blocks of a text as pairs: the word after the opening fence (or ""), and the content.

    The opening fence may be indented, as in a list; its indentation is removed from every line of the content.
    """
    blocks = []
    for match in _BLOCK.finditer(text):
        indent, content = match[1], match[4]
        if indent:
            content = re.sub(f"^{indent[0]}{{1,{len(indent)}}}", "", content, flags=re.MULTILINE)
        blocks.append((match[3], content))
    return blocks


@dataclass(eq=False)
class WholeText:
    """An output reader that returns the whole text of an answer."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    def read(self, text: str) -> str:
        """Return the text unchanged. Raises ValueError if it is blank."""
        if not text.strip():
            raise ValueError("blank")
        return text


@dataclass(eq=False)
class FencedBlock:
    """An output reader for the last fenced block of an answer (three or more backticks, possibly indented).

    If ``language`` is set, only blocks with this word after the opening fence count.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="4")

    language: str | None = None

    def read(self, text: str) -> str:
        """Return the content of the last block. Raises ValueError if there is no such block."""
        blocks = [block for language, block in code_blocks(text) if self.language in (None, language)]
        if not blocks:
            raise ValueError(f"no fenced block of {self.language}" if self.language else "no fenced block")
        return blocks[-1]


@dataclass(eq=False)
class JsonObject:
    """An output reader for the JSON object in an answer's last fenced block or, without a block, in the whole answer.

    ``schema`` is a JSON schema without references to other files or addresses, or the path of a file that contains one;
    None accepts every object.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="3")

    schema: Mapping[str, Any] | str | None = None

    def check(self) -> None:
        """Raise ConfigError if the schema is invalid or refers to a missing schema, or if its file cannot be read."""
        from jsonschema import SchemaError

        try:
            self._validator.check_schema(self._schema)
            missing = _missing_reference(self._schema)
        except SchemaError as fault:
            raise ConfigError(f"output.schema: {fault.message}; correct {fault.json_path} in the schema") from None
        if missing is not None:
            raise ConfigError(f'output.schema: the target of "$ref": "{missing}" is not in the schema; add the target')

    def fingerprint(self) -> Mapping[str, str]:
        """Return the content of the schema, because the file may change while its path stays the same."""
        return {"schema": json.dumps(self._schema, sort_keys=True)}

    def read(self, text: str) -> dict[str, Any]:
        """Return the object. Raises ValueError, with the reason, if it is missing or does not conform to the schema."""
        from jsonschema.exceptions import best_match

        blocks = [block for _, block in code_blocks(text)]
        try:
            value = json.loads(blocks[-1] if blocks else text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as fault:
            raise ValueError(f"not JSON: {fault}") from None
        if not isinstance(value, dict):
            raise ValueError(f"not a JSON object, but {type(value).__name__}")
        try:
            refused = best_match(self._validator.iter_errors(value))
        except Exception as fault:  # caused by huge numbers (OverflowError), deep nesting, or a part of the schema
            raise ValueError(f"cannot be validated: {type(fault).__name__}: {fault}"[:200]) from None
        if refused is not None:
            raise ValueError(f"{refused.json_path}: {refused.message[:200]}")
        return value

    @cached_property
    def _schema(self) -> Any:
        if not isinstance(self.schema, str):
            return dict(self.schema or {"type": "object"})
        try:
            return json.loads(Path(self.schema).expanduser().read_text("utf-8"))
        except (OSError, ValueError) as fault:
            reason = fault.strerror if isinstance(fault, OSError) else f"not JSON: {fault}"
            raise ConfigError(f"output.schema: {self.schema}: {reason}; use a JSON file, or a mapping") from None

    @cached_property
    def _validator(self) -> Any:
        from jsonschema import Draft202012Validator
        from referencing import Registry

        return Draft202012Validator(self._schema, registry=Registry())  # the default registry downloads schemas


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


def _missing_reference(schema: Any) -> str | None:
    """Return a reference without a target, in ``schema`` or a schema that it refers to; None if every target exists.

    Raises SchemaError if the target of a reference is not a valid schema.
    """
    from jsonschema import Draft202012Validator
    from jsonschema_specifications import REGISTRY
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    root = DRAFT202012.create_resource(schema)
    pending, seen = [(root, REGISTRY.resolver_with_root(root))], set[int]()
    while pending:
        part, resolver = pending.pop()
        if id(part.contents) in seen:
            continue
        seen.add(id(part.contents))
        resolver = resolver.in_subresource(part)
        pending += [(below, resolver) for below in part.subresources()]
        for key in {"$ref", "$dynamicRef"} & set(part.contents if isinstance(part.contents, Mapping) else ()):
            try:
                found = resolver.lookup(part.contents[key])
            except Unresolvable:
                return str(part.contents[key])
            Draft202012Validator.check_schema(found.contents)
            pending.append((DRAFT202012.create_resource(found.contents), found.resolver))
    return None
