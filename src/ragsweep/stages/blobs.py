"""Serialise named arrays with their checksums and their address.

    magic · length and hash of the header · header (JSON) · arrays, each zero-padded to 64 bytes

The header contains the hash of every array, and the address, so that an entry under another address is invalid. Only
numbers and strings are read: no pickle, no object arrays. The checks detect damage, not forgery; but even a forged
entry cannot run code or allocate more memory than its size.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from mmap import mmap
from typing import Any, NamedTuple

import numpy as np

FORMAT = 1
MAGIC = b"ragsweep\x00\x01"
ALIGNED = 64
PLAIN = re.compile(r"[<>|]([biufc]\d{1,2}|[SU][1-9]\d{0,5})")
"""Matches the types of arrays that can be stored: booleans, numbers and fixed-width strings."""

_LENGTH = 8
_DIGEST = 32
_FIRST = len(MAGIC) + _LENGTH + _DIGEST


class Damaged(ValueError):
    """The bytes differ from those written under this address."""


class OtherFormat(ValueError):
    """The bytes were written by another version of ragsweep."""


STORABLE = "use numbers, or strings of fixed width (dtype=str)"
"""The remedy for an array that cannot be stored."""


class NotPlain(TypeError):
    """The value contains something that cannot be stored."""


class StoredPiece(NamedTuple):
    """A value with the keys of its rows, if it has rows."""

    keys: tuple[str, ...] | None
    value: Any


def pack(address: str, value: Any, keys: tuple[str, ...] | None = None) -> Iterator[memoryview | bytes]:
    """Yield the bytes of a value in order, without copying its arrays.

    Raises NotPlain for a value that contains anything but arrays of booleans, numbers or strings; only a NamedTuple may
    also contain single strings.
    """
    arrays, words = _split(value)
    listed = [[name, array.dtype.str, list(array.shape), _digest(_bytes(array))] for name, array in arrays.items()]
    facts = {"format": FORMAT, "address": address, "arrays": listed, "words": words, "keys": keys}
    header = json.dumps(facts, allow_nan=False, ensure_ascii=False).encode("utf-8", "surrogatepass")
    header += b" " * _padding(_FIRST + len(header))
    yield MAGIC + len(header).to_bytes(_LENGTH, "little") + _hash(header).digest() + header
    for array in arrays.values():
        yield _bytes(array)
        yield bytes(_padding(array.nbytes))


def unpack(data: mmap | bytes, address: str, result: type) -> StoredPiece:
    """Return the value in these bytes, with its arrays as read-only views.

    Raises OtherFormat if another version of ragsweep wrote the bytes, and Damaged for any other difference from the
    bytes written under this address; no other errors.
    """
    try:
        return _unpack(memoryview(data), address, result)
    except (Damaged, OtherFormat):
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as fault:
        raise Damaged(f"{type(fault).__name__}: {fault}") from None


def size(data: mmap | bytes) -> int:
    """Return the total size of a value's arrays in bytes, as its header states it; the arrays are not read or checked.

    Raises Damaged if there is no valid header.
    """
    try:
        return sum(_size(kind, shape) for _, kind, shape, _ in _header(memoryview(data))[0]["arrays"])
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as fault:
        raise Damaged(f"{type(fault).__name__}: {fault}") from None


def _unpack(view: memoryview, address: str, result: type) -> StoredPiece:
    facts, position = _header(view)
    if facts["format"] != FORMAT:
        raise OtherFormat(f"format {facts['format']}, this version reads {FORMAT}")
    if facts["address"] != address:
        raise Damaged("it belongs to another address")
    arrays = {}
    for name, kind, shape, digest in facts["arrays"]:
        size = _size(kind, shape)
        end = position + size + _padding(size)
        if end > len(view) or _digest(view[position : position + size], view[position + size : end]) != digest:
            raise Damaged(f"the array {name or 'of values'} does not match its hash")
        arrays[name] = np.frombuffer(view[position : position + size].toreadonly(), kind).reshape(shape)
        position = end
    if len(view) != position:
        raise Damaged(f"it has {len(view)} bytes, expected {position}")
    keys = None if facts["keys"] is None else tuple(facts["keys"])
    if not all(isinstance(word, str) for word in (*(keys or ()), *facts["words"].values())):
        raise Damaged("a key or a word is not a string")
    if keys is not None and any(array.shape[:1] != (len(keys),) for array in arrays.values()):
        raise Damaged(f"its {len(keys)} keys do not match its rows")
    return StoredPiece(keys, _join(arrays, facts["words"], result))


def _header(view: memoryview) -> tuple[dict[str, Any], int]:
    if len(view) < _FIRST or view[: len(MAGIC)] != MAGIC:
        raise Damaged("it has no valid prefix")
    length = int.from_bytes(view[len(MAGIC) : len(MAGIC) + _LENGTH], "little")
    header = view[_FIRST : _FIRST + length]
    if len(header) != length or _hash(header).digest() != view[len(MAGIC) + _LENGTH : _FIRST]:
        raise Damaged("its header does not match its hash")
    facts = json.loads(bytes(header).decode("utf-8", "surrogatepass"))
    if not isinstance(facts, dict):
        raise Damaged("its header is not an object")
    return facts, _FIRST + length


def _size(kind: Any, shape: Any) -> int:
    """Return an array's size in bytes, as a Python integer, which no shape in a header can overflow."""
    if not (isinstance(kind, str) and PLAIN.fullmatch(kind)):
        raise Damaged(f"arrays of {kind} are never written")
    if not all(type(length) is int and length >= 0 for length in shape):
        raise Damaged(f"its header gives an array the invalid shape {shape}")
    return int(math.prod(shape)) * np.dtype(kind).itemsize


def _hash(data: memoryview | bytes) -> hashlib.blake2b:
    """Start a BLAKE2b hash with ``data``. 100 MB take 0.3 s; SHA-256 without hardware support would take 0.5 s."""
    return hashlib.blake2b(data, digest_size=_DIGEST)


def _padding(size: int) -> int:
    return -size % ALIGNED


def _digest(data: memoryview, padding: memoryview | None = None) -> str:
    state = _hash(data)
    state.update(bytes(_padding(len(data))) if padding is None else padding)
    return state.hexdigest()


def _bytes(array: np.ndarray) -> memoryview:
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8).data if flat.size else memoryview(b"")


def _split(value: Any) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Separate a value's arrays from its strings."""
    if isinstance(value, np.ndarray):
        fields: Mapping[str, Any] = {"": value}
    elif isinstance(value, Mapping):
        fields = value
    elif hasattr(value, "_asdict"):
        fields = value._asdict()
    else:
        raise NotPlain(f"a {type(value).__name__} is neither an array nor named arrays")
    arrays: dict[str, np.ndarray] = {}
    words: dict[str, str] = {}
    for name, item in fields.items():
        if isinstance(item, np.ndarray):
            if not PLAIN.fullmatch(item.dtype.str) or not isinstance(name, str):
                what = "arrays of Python objects cannot be stored; " if item.dtype.hasobject else ""
                raise NotPlain(f"{name or 'it'} is an array of {item.dtype}; {what}{STORABLE}")
            arrays[name] = item
        elif isinstance(item, str) and not isinstance(value, Mapping):
            words[name] = item
        else:
            raise NotPlain(f"{name} is a {type(item).__name__}, not an array")
    return arrays, words


def _join(arrays: dict[str, np.ndarray], words: dict[str, str], result: type) -> Any:
    if issubclass(result, np.ndarray):
        fields: tuple[str, ...] = ("",)
    else:
        fields = getattr(result, "_fields", tuple(arrays))
    if {*arrays, *words} != {*fields}:
        theirs, ours = (", ".join(name or "one array" for name in names) for names in ([*arrays, *words], fields))
        raise OtherFormat(f"it has {theirs or 'nothing'}, where this version has {ours}")
    return arrays[""] if issubclass(result, np.ndarray) else result(**arrays, **words)
