"""The identities of parts (specs) and of results (addresses), and the nodes that compute results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


def content_hash(value: Any) -> str:
    """Return a hash of a JSON value, independent of the order of keys and of the process."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=True)
    return hashlib.sha256(text.encode()).hexdigest()


def texts_hash(rows: Iterable[Sequence[str]]) -> str:
    """Return a hash of rows of strings; it depends on the boundaries of strings, but not on the boundaries of rows.

    The rows are hashed one by one and are not joined in memory. Lone surrogates are allowed.
    """
    state = hashlib.sha256()
    for row in rows:
        for text in row:
            data = text.encode("utf-8", "surrogatepass")
            state.update(len(data).to_bytes(8, "big"))
            state.update(data)
    return state.hexdigest()


@dataclass(frozen=True)
class Spec:
    """The identity of a part: everything that can change its results. The specs of nested parts are parameters."""

    target: str
    version: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)  # content hashes and other facts outside the parameters

    @cached_property
    def digest(self) -> str:
        """The hash of the spec; equal specs have equal digests in every process."""
        return content_hash(self.plain())

    def plain(self) -> Any:
        """Return the spec as a tree of JSON types."""
        return {
            "target": self.target,
            "version": self.version,
            "parameters": _plain(self.parameters),
            "files": dict(self.files),
        }

    @cached_property
    def has_model(self) -> bool:
        """Whether the part, or a part among its parameters, runs a model or calls a model by name."""
        nested = (value for value in self.parameters.values() if isinstance(value, Spec))
        return "weights" in self.files or "model" in self.parameters or any(one.has_model for one in nested)

    def without(self, *names: str) -> Spec:
        """Return the spec without the named parameters, for a node that ignores them or whose inputs depend on them."""
        kept = {name: value for name, value in self.parameters.items() if name not in names}
        return Spec(self.target, self.version, kept, self.files)


def _plain(value: Any) -> Any:
    if isinstance(value, Spec):
        return value.plain()
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


class BuiltPart(NamedTuple):
    """A part (``value``) that was built from its config, with its spec."""

    value: Any
    spec: Spec


def key_check(part: Any) -> Callable[[], None] | None:
    """Return a function that calls the method ``check_key`` of the parts in ``with_held(part)`` that have it.

    The function raises the errors of these methods, such as ConfigError for an API key that is not set. Return None if
    no part has the method.
    """
    checks = [one.check_key for one in with_held(part) if hasattr(one, "check_key")]

    def check_all() -> None:
        for check in checks:
            check()

    return check_all if checks else None


def with_held(part: Any) -> list[Any]:
    """Return a part and, at any depth, the parts with TRAITS among its attributes, but not in lists or mappings."""
    parts = [part]
    for one in parts:  # grows during the loop
        held = (value for value in getattr(one, "__dict__", {}).values() if hasattr(value, "TRAITS"))
        parts += [value for value in held if all(value is not known for known in parts)]
    return parts


Rows = Sequence[str]
"""Keys of the requested rows of a node: texts of queries, or hashes of requests."""


class StageContext(Protocol):
    """The interface that a running stage uses to read its inputs and to store partial results."""

    def get(self, node: Node, rows: Rows | None = None) -> Any:
        """Return the value of the input ``node`` or, if its kind is "rows", the values of ``rows`` in this order."""

    def progress(self, done: int, total: int) -> None:
        """Report progress: ``done`` of ``total`` rows or chunks."""

    def arrived(self, request: Any, result: Any) -> None:
        """Report the result of one request as soon as it is available."""

    def pieces(
        self, make: Callable[[Any], Any], names: Sequence[str], read: Callable[[str], Any]
    ) -> Iterator[tuple[str, Any]]:
        """Yield the pieces of a whole value with their names, in any order.

        A piece that is not stored yet is computed by ``make(read(name))`` and stored.
        """

    def space(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return a new array; with a store, it is outside the process's memory (see ``mapped_array``)."""

    def keep(self, rows: Rows, value: Any) -> None:
        """Store some rows before all requested rows are computed; the stage must still return all requested rows."""

    def reason(self, node: Node, row: str) -> str:
        """Return the reason why a row of the input ``node`` failed."""

    def notes(self, node: Node) -> MutableMapping[str, str]:
        """Return the stored replies (hash of a request -> reply) of any node, even of a node that is not an input.

        A reply that is added to the mapping is stored immediately.
        """


ReadKnown = Callable[["Node", Rows], Any]
"""A function that returns the value of rows of a node, or None if they must be computed first."""


@dataclass(frozen=True, eq=False)
class Node:
    """One step of the computation: a pure function with its spec and inputs. Equal addresses imply equal results.

    A node of the kind "whole" has a single value, which consists of named arrays if it is stored. A node of the kind
    "rows" has one row per query or request and computes only the requested rows that are not stored yet. Its value is
    an array with one element per row along its first axis, or a NamedTuple of such arrays.

    ``cacheable`` returns flags (rows,) that mark storable rows: a failed row is returned but not stored, so that the
    next process computes it again. ``failed`` returns the value of rows whose call to a service failed; a failed call
    in a node without ``failed`` makes the whole node fail. ``input_rows`` is set if the rows of an input differ from
    the rows of this node. It maps rows of this node to rows of the input; it returns None if the input's rows are known
    only when this node is computed. Its last argument, a `ReadKnown`, returns rows of other nodes that are already
    available.
    """

    stage: str
    spec: Spec
    inputs: tuple[Node, ...]
    compute: Callable[[StageContext, Rows], Any] = field(repr=False)
    kind: Literal["whole", "rows"] = "whole"
    label: str = ""  # the leg's name, for display
    result: type = dict  # what compute returns: dict (of arrays), np.ndarray, or a NamedTuple of arrays and strings
    stored: bool = True  # False: computing it is faster than reading it
    cacheable: Callable[[Any], NDArray[np.bool_]] | None = field(default=None, repr=False)
    failed: Callable[[Rows], Any] | None = field(default=None, repr=False)
    input_rows: Callable[[Node, Rows, ReadKnown], Rows | None] | None = field(default=None, repr=False)
    amount: float = 1.0  # the work for a whole value (characters of text), to estimate how long other values take
    check: Callable[[], None] | None = field(default=None, repr=False)  # raises ConfigError if a key is missing

    @property
    def title(self) -> str:
        """The stage and the label, for messages."""
        return f"{self.stage} {self.label}".strip()

    @cached_property
    def address(self) -> str:
        """The identity of the result: a hash of the stage, the spec and the addresses of the inputs."""
        return content_hash([self.stage, self.spec.digest, [node.address for node in self.inputs]])
