"""Convert named arrays to bytes and back, with checksums and the address under which they are stored.

    magic · length and hash of the header · header (JSON) · arrays, each zero-padded to 64 bytes

The header contains the address and the hash of every array. An entry that is read under another address is invalid. An
array contains booleans, numbers or fixed-width strings; pickle and object arrays are not used. The checks detect
damage, not forgery, but even a forged entry cannot run code. The arrays are read as views of the entry's bytes, without
copies.
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
PLAIN = re.compile(r"[<>|]([biufc]\d{1,2}|[SU][1-9]\d{0,7})")
"""Matches the dtypes of arrays that can be stored: booleans, numbers and fixed-width strings."""

_LENGTH = 8
_DIGEST = 32
_FIRST = len(MAGIC) + _LENGTH + _DIGEST


class Damaged(ValueError):
    """Raised if stored bytes differ from the bytes that were written under their address."""


class OtherFormat(ValueError):
    """Raised for data that another version of ragsweep wrote."""


STORABLE = "use numbers, or strings of fixed width (dtype=str)"
"""The remedy that an error message gives for an array that cannot be stored."""


class NotPlain(TypeError):
    """Raised for a value that has, or contains an item of, a type that cannot be stored."""


class StoredPiece(NamedTuple):
    """A value and the keys of its rows; ``keys`` is None for a value without rows."""

    keys: tuple[str, ...] | None
    value: Any


def pack(address: str, value: Any, keys: tuple[str, ...] | None = None) -> Iterator[memoryview | bytes]:
    """Yield the bytes of a value in order; contiguous arrays are not copied.

    Raises NotPlain unless the value is an array, a mapping of names to arrays, or a NamedTuple of arrays and strings.
    The arrays must contain booleans, numbers or fixed-width strings.
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
    """Return the value in ``data`` and the keys of its rows; its arrays are read-only views of ``data``.

    ``result`` is the type of the value: dict, np.ndarray or a NamedTuple. Raises OtherFormat if the bytes are in
    another version of the format or do not have exactly the fields of ``result``. Raises Damaged if they differ in any
    other way from the bytes written under ``address``.
    """
    try:
        return _unpack(memoryview(data), address, result)
    except (Damaged, OtherFormat):
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as fault:
        raise Damaged(f"{type(fault).__name__}: {fault}") from None


def size(data: mmap | bytes) -> int:
    """Return the total size of a value's arrays in bytes, from the header; the arrays are neither read nor checked.

    Raises Damaged if there is no valid header.
    """
    try:
        return sum(_size(kind, shape) for _, kind, shape, _ in _header(memoryview(data))[0]["arrays"])
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as fault:
        raise Damaged(f"{type(fault).__name__}: {fault}") from None


def _unpack(view: memoryview, address: str, result: type) -> StoredPiece:
    facts, position = _header(view)
    if facts["format"] != FORMAT:
        raise OtherFormat(f"format {facts['format']}; this version reads format {FORMAT}")
    if facts["address"] != address:
        raise Damaged("it was written under the address of another value")
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
    if not set(map(type, (*(keys or ()), *facts["words"].values()))) <= {str}:
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
    """Return the size of an array in bytes, as a Python integer, which cannot overflow.

    Raises Damaged for a dtype or a shape that :func:`pack` never writes.
    """
    if not (isinstance(kind, str) and PLAIN.fullmatch(kind)):
        raise Damaged(f"arrays of {kind} are never written")
    if not all(type(length) is int and length >= 0 for length in shape):
        raise Damaged(f"its header gives an array the invalid shape {shape}")
    return int(math.prod(shape)) * np.dtype(kind).itemsize


def _hash(data: memoryview | bytes) -> hashlib.blake2b:
    """Return the BLAKE2b hash object of ``data``.

    BLAKE2b takes 0.3 s per 100 MB; SHA-256 takes 0.5 s without hardware support.
    """
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
    """Return the arrays and the strings of a value, by name; the name of a value that is a single array is "".

    Raises NotPlain as ``pack`` does.
    """
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
        raise OtherFormat(f"it contains {theirs or 'nothing'}; this version expects {ours}")
    return arrays[""] if issubclass(result, np.ndarray) else result(**arrays, **words)
