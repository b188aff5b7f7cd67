"""Lay out a value of named arrays as bytes that prove themselves: what it is, whose it is, and that nothing changed.

    magic · length and sha256 of the header · header (JSON) · arrays, each at a multiple of 64 bytes

The header names the address, so that an entry under another's name is no entry, and holds the sha256 of every array.
Only plain numbers are read back: no pickle, no object arrays.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

FORMAT = 1
MAGIC = b"ragsweep\x00\x01"
ALIGNED = 64
KINDS = "biuf"
"""Kinds of numbers that are read back: booleans, integers and floats."""

_LENGTH = 8
_DIGEST = 32
_FIRST = len(MAGIC) + _LENGTH + _DIGEST


class Damaged(ValueError):
    """The bytes are not what was written under this address."""


class OtherFormat(ValueError):
    """The bytes were written by another version of ragsweep."""


class Piece(NamedTuple):
    """A value with the keys of its rows, where it has rows."""

    keys: tuple[str, ...] | None
    value: Any


def pack(address: str, value: Any, keys: tuple[str, ...] | None = None) -> Iterator[memoryview | bytes]:
    """Yield the bytes of a value, in order, without a copy of its arrays."""
    arrays, plain = _taken_apart(value)
    listed, offset = [], 0
    for name, array in arrays.items():
        assert array.dtype.kind in KINDS, f"{name}: arrays of {array.dtype} are not stored"
        digest = hashlib.sha256(_bytes(array)).hexdigest()
        listed.append([name, array.dtype.str, list(array.shape), offset, digest])
        offset += _padded(array.nbytes)
    facts = {"format": FORMAT, "address": address, "arrays": listed, "plain": plain, "keys": keys}
    header = json.dumps(facts, allow_nan=False).encode()
    yield MAGIC + len(header).to_bytes(_LENGTH, "little") + hashlib.sha256(header).digest() + header
    yield bytes(_padded(_FIRST + len(header)) - _FIRST - len(header))
    for array in arrays.values():
        yield _bytes(array)
        yield bytes(_padded(array.nbytes) - array.nbytes)


def unpack(data: memoryview | bytes, address: str, result: type) -> Piece:
    """Return the value in these bytes, its arrays read-only views of them.

    Raises Damaged for anything but the bytes that were written under this address, OtherFormat where another version
    of ragsweep wrote them.
    """
    view = memoryview(data)
    facts, start = _header(view)
    if facts.get("format") != FORMAT:
        raise OtherFormat(f"format {facts.get('format')}, this version reads {FORMAT}")
    if facts["address"] != address:
        raise Damaged("it belongs to another address")
    arrays, end = {}, start
    for name, kind, shape, offset, digest in facts["arrays"]:
        dtype = np.dtype(kind)
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        part = view[start + offset : start + offset + size]
        if dtype.kind not in KINDS or len(part) != size or hashlib.sha256(part).hexdigest() != digest:
            raise Damaged(f"the array {name or 'of values'} is not what was written")
        arrays[name] = np.frombuffer(part, dtype).reshape(shape)
        arrays[name].flags.writeable = False
        end = start + offset + _padded(size)
    if len(view) != end:
        raise Damaged(f"{len(view)} bytes, {end} were written")
    keys = facts["keys"]
    return Piece(None if keys is None else tuple(keys), _put_together(arrays, facts["plain"], result))


def _header(view: memoryview) -> tuple[dict[str, Any], int]:
    if len(view) < _FIRST or view[: len(MAGIC)] != MAGIC:
        raise Damaged("it does not begin as an entry does")
    length = int.from_bytes(view[len(MAGIC) : len(MAGIC) + _LENGTH], "little")
    header = view[_FIRST : _FIRST + length]
    if len(header) != length or hashlib.sha256(header).digest() != view[len(MAGIC) + _LENGTH : _FIRST]:
        raise Damaged("its header is not what was written")
    found = json.loads(bytes(header))
    assert isinstance(found, dict)
    return found, _padded(_FIRST + length)


def _padded(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


def _bytes(array: np.ndarray) -> memoryview:
    return memoryview(np.ascontiguousarray(array).reshape(-1)).cast("B") if array.size else memoryview(b"")


def _taken_apart(value: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Part a value's arrays from its plain fields."""
    if isinstance(value, np.ndarray):
        return {"": value}, {}
    fields: Mapping[str, Any] = value._asdict() if isinstance(value, tuple) else value  # type: ignore[attr-defined]
    arrays = {name: item for name, item in fields.items() if isinstance(item, np.ndarray)}
    return arrays, {name: item for name, item in fields.items() if name not in arrays}


def _put_together(arrays: dict[str, np.ndarray], plain: dict[str, Any], result: type) -> Any:
    if issubclass(result, np.ndarray):
        return arrays[""]
    try:
        return result(**arrays, **plain)
    except TypeError as fault:
        raise OtherFormat(str(fault)) from None
