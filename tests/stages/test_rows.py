"""A table of rows gives back what it was given, and takes no more memory than it may."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.types import Rankings
from ragsweep.stages.rows import RowTable, RowTables

KEYS = st.lists(st.text("abc", max_size=2), max_size=8)


def value(rows: list[str]) -> Rankings:
    column = np.array([[len(row), n] for n, row in enumerate(rows)], np.int32).reshape(len(rows), 2)
    return Rankings(column, column.astype(np.float32), "chunks")


@given(st.lists(KEYS, min_size=1, max_size=5), st.data())
def test_each_key_keeps_its_first_value_also_where_keys_are_repeated(
    batches: list[list[str]], data: st.DataObject
) -> None:
    table, first = RowTable(), {}
    for rows in batches:
        given_value = value(rows)
        new, added = table.add(rows, given_value)
        assert list(new) == [row for row in dict.fromkeys(rows) if row not in first]
        assert len(added.positions) == len(new)
        for n, row in enumerate(rows):
            first.setdefault(row, given_value.positions[n].tolist())
    asked = data.draw(st.lists(st.sampled_from(sorted(first)), max_size=6) if first else st.just([]))
    assert table.take(asked).positions.tolist() == [first[row] for row in asked]
    assert table.missing([*asked, "new"]) == ["new"]


def test_slice_does_not_keep_what_it_was_cut_from() -> None:
    table, large = RowTable(), np.zeros((10, 1000))
    table.add([str(n) for n in range(10)], large[:, :2])
    assert table.columns.base is None or table.columns.base.nbytes <= 160


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 20), st.booleans()), max_size=30), st.integers(0, 20_000))
def test_tables_stay_below_the_limit_and_those_used_last_remain(uses: list[tuple[int, int, bool]], most: int) -> None:
    tables, last = RowTables(), {}
    for n, (name, rows, cacheable) in enumerate(uses):
        table = tables.of(str(name))
        table.add([f"{n} {row}" for row in range(rows)], np.zeros((rows, 10)))
        table.cacheable = table.cacheable and cacheable
        tables.put(str(name), table, most)
        last[str(name)] = (n, table.cacheable)
        held = {other for other in last if tables.of(other).columns is not None}
        assert str(name) in held
        assert all(other in held for other, (_, stays) in last.items() if not stays)
        free = sum(tables.of(other).bytes for other in held if other != str(name) and tables.of(other).cacheable)
        assert tables.bytes <= most or free == 0
        last = {other: used for other, used in last.items() if other in held}


def test_least_used_goes_first() -> None:
    tables = RowTables()
    for name in "abc":
        table = tables.of(name)
        table.add(["row"], np.zeros((1, 1000)))
        tables.put(name, table, 10**6)
    tables.of("a")  # used again
    tables.put("d", RowTable(), 20_000)
    assert [name for name in "abc" if tables.of(name).columns is not None] == ["a", "c"]
