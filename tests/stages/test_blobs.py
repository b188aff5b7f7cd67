"""What was packed is what is unpacked, to the bit; anything else is an error and never a value."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ragsweep.core.types import Embeddings, Rankings
from ragsweep.stages.blobs import ALIGNED, FORMAT, MAGIC, Damaged, NotPlain, OtherFormat, pack, size, unpack

ADDRESS = "a" * 64
KINDS = ["|b1", "|i1", "<u2", "<i4", ">i8", "<f2", "<f4", ">f4", "<f8", "<c8", "<U3", "|S5"]
ARRAYS = hnp.arrays(st.sampled_from(KINDS), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
VIEWS = st.sampled_from(
    [lambda a: a, lambda a: a.T, lambda a: a[..., ::-1] if a.ndim else a, lambda a: a[::2] if a.ndim else a]
)


def packed(value: Any, address: str = ADDRESS, keys: tuple[str, ...] | None = None) -> bytes:
    return b"".join(pack(address, value, keys))


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    return bool(one == other)


ENTRY = packed(Rankings(np.arange(6, dtype=np.int32).reshape(2, 3), np.ones((2, 3), np.float32), "c"), keys=("é", "b"))


@given(ARRAYS, VIEWS)
def test_array_comes_back_to_the_bit(array: np.ndarray, look: Any) -> None:
    found = unpack(packed(look(array)), ADDRESS, np.ndarray)
    assert found.keys is None
    assert same(look(array), found.value)


@settings(max_examples=25)
@given(st.dictionaries(st.text(max_size=5), ARRAYS, max_size=3))
def test_named_arrays_come_back_to_the_bit(arrays: Mapping[str, np.ndarray]) -> None:
    found = unpack(packed(arrays), ADDRESS, dict).value
    assert list(found) == list(arrays)
    assert all(same(arrays[name], found[name]) for name in arrays)


@given(st.lists(st.text(st.characters(), max_size=4), max_size=5), st.text(st.characters(), max_size=5))
def test_rows_come_back_with_their_keys_and_words(keys: list[str], chunks: str) -> None:
    value = Rankings(np.zeros((len(keys), 2), np.int32), np.full((len(keys), 2), -np.inf, np.float32), chunks)
    found = unpack(packed(value, keys=tuple(keys)), ADDRESS, Rankings)
    assert found.keys == tuple(keys)
    assert all(same(one, other) for one, other in zip(value, found.value, strict=True))


@given(st.lists(st.integers(0xD800, 0xDFFF).map(chr), max_size=4).map("".join))
def test_half_characters_stay_two_keys(key: str) -> None:
    assert unpack(packed(np.zeros(1), keys=(key,)), ADDRESS, np.ndarray).keys == (key,)


def test_row_may_be_longer_than_a_million_bytes() -> None:
    rows = np.array([b"x" * 1_000_000, b"y"])
    assert same(unpack(packed(rows, keys=("long", "short")), ADDRESS, np.ndarray).value, rows)


def test_value_is_a_view_that_cannot_be_written() -> None:
    data = packed(np.arange(1000.0))
    found = unpack(data, ADDRESS, np.ndarray).value
    assert np.shares_memory(found, np.frombuffer(data, np.uint8))
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 1


def test_arrays_begin_where_every_processor_can_read_them() -> None:
    assert len(ENTRY) % ALIGNED == 0
    data = np.frombuffer(packed({"a": np.arange(3.0), "b": np.arange(5, dtype=np.int8)}), np.uint8)
    for array in unpack(data.data, ADDRESS, dict).value.values():
        assert (array.ctypes.data - data.ctypes.data) % ALIGNED == 0


@pytest.mark.parametrize("change", [0x01, 0xFF])
def test_every_changed_byte_is_found(change: int) -> None:
    for n in range(len(ENTRY)):
        mutant = bytearray(ENTRY)
        mutant[n] ^= change
        with pytest.raises(Damaged):
            unpack(bytes(mutant), ADDRESS, Rankings)


@given(st.dictionaries(st.text(max_size=3), ARRAYS, max_size=3))
def test_size_is_that_of_the_arrays_and_is_told_by_the_header(arrays: Mapping[str, np.ndarray]) -> None:
    entry = packed(dict(arrays))
    header = len(entry) - sum(array.nbytes + -array.nbytes % ALIGNED for array in arrays.values())
    assert size(entry) == size(entry[:header]) == sum(array.nbytes for array in arrays.values())


def test_every_missing_end_and_every_addition_is_found() -> None:
    for length in range(len(ENTRY)):
        with pytest.raises(Damaged):
            unpack(ENTRY[:length], ADDRESS, Rankings)
    for more in (b"\0", bytes(ALIGNED), ENTRY):
        with pytest.raises(Damaged, match="bytes"):
            unpack(ENTRY + more, ADDRESS, Rankings)


def test_entry_with_other_fields_is_of_another_version() -> None:
    with pytest.raises(OtherFormat, match="this version expects"):
        unpack(ENTRY, ADDRESS, Embeddings)
    with pytest.raises(OtherFormat, match="this version expects"):
        unpack(ENTRY, ADDRESS, np.ndarray)


@pytest.mark.parametrize(
    "value",
    [
        {"a": np.array([print], dtype=object)},
        {"a": np.zeros(1, dtype="M8[s]")},
        {"a": np.zeros(1, dtype=[("x", "f4")])},
        {"a": "word"},
        {1: np.zeros(1)},
        Rankings([1], np.zeros(1), ""),  # type: ignore[arg-type]
        7,
    ],
    ids=str,
)
def test_what_is_no_plain_array_is_refused_before_it_is_written(value: Any) -> None:
    with pytest.raises(NotPlain):
        packed(value)


# --- headers that say anything, with a checksum that is right -----------------------------------------------------


def forged(body: bytes = b"", **facts: Any) -> bytes:
    said = {"format": FORMAT, "address": ADDRESS, "arrays": [], "words": {}, "keys": None, **facts}
    return with_header(json.dumps(said).encode(), body)


def with_header(header: bytes, body: bytes = b"") -> bytes:
    header += b" " * (-(len(MAGIC) + 40 + len(header)) % ALIGNED)
    return MAGIC + len(header).to_bytes(8, "little") + hashlib.blake2b(header, digest_size=32).digest() + header + body


EMPTY = hashlib.blake2b(digest_size=32).hexdigest()
BLOCK = hashlib.blake2b(bytes(ALIGNED), digest_size=32).hexdigest()
KINDS_THAT_LIE = ["|O8", "O", "|V8", "<M8[s]", "f4,f4", "(2,)f4", "<f3", "<i99", None, 7, [["a", "<f4"]], "<U0", "a5"]
SHAPES_THAT_LIE = [[-1], [-8, -1], [2**32, 2**32], [2**70], [0, 2**70], [1.5], ["2"], [[8]], [True], 8, None, [2**40]]


@pytest.mark.parametrize(
    ("kind", "shape"),
    [*((kind, [8]) for kind in KINDS_THAT_LIE), *(("<f8", shape) for shape in SHAPES_THAT_LIE)],
    ids=repr,
)
def test_forged_kind_or_shape_of_array_is_an_error(kind: Any, shape: Any) -> None:
    for body, digest in ((b"", EMPTY), (bytes(ALIGNED), BLOCK)):
        with pytest.raises(Damaged):
            unpack(forged(body, arrays=[["", kind, shape, digest]]), ADDRESS, np.ndarray)


@pytest.mark.parametrize("header", [b"", b"null", b"\xff\xfe", b"[" * 100_000, b'{"format": ' + b"9" * 5000 + b"}"])
def test_header_that_is_not_an_object_of_json_is_an_error(header: bytes) -> None:
    with pytest.raises(Damaged):
        unpack(with_header(header), ADDRESS, dict)


LEAF = st.sampled_from([EMPTY, BLOCK, "<f8", "a", *KINDS_THAT_LIE]) | st.integers() | st.floats() | st.none()
JSON = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner), max_leaves=20
)


@given(
    st.dictionaries(st.sampled_from(["format", "address", "arrays", "words", "keys"]), JSON),
    st.sampled_from([np.ndarray, dict, Rankings]),
)
def test_forged_header_gives_two_errors_or_numbers_and_words_of_its_size(facts: dict[str, Any], result: type) -> None:
    try:
        size(forged(bytes(ALIGNED), **facts))
        found = unpack(forged(bytes(ALIGNED), **facts), ADDRESS, result).value
    except (Damaged, OtherFormat):
        return
    fields = {"": found} if isinstance(found, np.ndarray) else found if isinstance(found, dict) else found._asdict()
    arrays = [one for one in fields.values() if isinstance(one, np.ndarray)]
    assert all(isinstance(one, str) for one in fields.values() if not isinstance(one, np.ndarray))
    assert {one.dtype.kind for one in arrays} <= set("biuf")
    assert all(one.nbytes <= ALIGNED for one in arrays)


def test_forged_header_takes_no_memory() -> None:
    code = (
        f"import resource, sys; sys.path[:0] = {[str(path) for path in Path(__file__).parents[:2]]!r}\n"
        "import test_blobs as t, numpy as np\n"
        "limit = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize() + 200_000_000\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, limit))\n"
        "for shape in ([2**40], [2**33], [10**9, 10**9], [10**6, 10**6]):\n"
        "    try: t.unpack(t.forged(arrays=[['', '<f8', shape, t.EMPTY]]), t.ADDRESS, np.ndarray)\n"
        "    except t.Damaged: print('damaged')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "damaged\n" * 4, done.stderr


def test_another_format_is_not_damage() -> None:
    with pytest.raises(OtherFormat, match="format 2; this version reads format 1"):
        unpack(forged(format=2, arrays="anything"), ADDRESS, dict)
