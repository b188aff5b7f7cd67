import gzip
import json
import math
from pathlib import Path

import pandas
import pyarrow
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsweep.core.errors import ConfigError, Faults, InputError
from ragsweep.golden.reading import Row, UniqueIds, read_rows
from ragsweep.golden.text_files import LONGEST_LINE, path_of, plain_or_gzipped, read_lines


def written(folder: Path, content: bytes, name: str = "rows.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def rows_and_faults(path: Path) -> tuple[list[Row], list[str]]:
    faults = Faults()
    return list(read_rows(path, faults)), faults.found


def test_bom_crlf_blank_lines_and_a_missing_final_newline_load_fine(tmp_path: Path) -> None:
    path = written(tmp_path, b'\xef\xbb\xbf{"id": "a"}\r\n\r\n  \n{"id": "b"}')
    rows, faults = rows_and_faults(path)
    assert [(row.text("id"), row.where) for row in rows] == [("a", f"{path}:1"), ("b", f"{path}:4")]
    assert faults == []


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('{"text": "a\u2028b\x85c"}'.encode(), "a\u2028b\x85c"),  # separators within a text do not end its line
        (rb'{"text": "\ud83d\ude00"}', "\U0001f600"),  # a pair of surrogates is one character
    ],
)
def test_text_is_read_from_a_plain_and_from_a_gzipped_file(tmp_path: Path, line: bytes, text: str) -> None:
    for path in (written(tmp_path, line), written(tmp_path, gzip.compress(line), "rows.jsonl.gz")):
        rows, faults = rows_and_faults(path)
        assert [row.text("text") for row in rows] == [text]
        assert faults == []


def test_plain_file_is_preferred_to_the_gzipped(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert plain_or_gzipped(path) == path
    zipped = written(tmp_path, b"", "rows.jsonl.gz")
    assert plain_or_gzipped(path) == zipped
    path.touch()
    assert plain_or_gzipped(path) == path


BAD_LINES = {
    b'{"id": "a"': "1:11: not JSON: expecting ',' delimiter; correct it",
    b'{"id": "caf\xe9"}': "1: byte 12 (0xe9) is not valid UTF-8; save the file as UTF-8",
    b'{"grade": NaN}': "1: not JSON: NaN is not a JSON value; use a number or null",
    b'{"grade": -Infinity}': "1: not JSON: -Infinity is not a JSON value; use a number or null",
    b'["a"]': '1: ["a"] where an object {...} is required',
    b'{"id": "a", "id": "b"}': '1: not JSON: key "id" occurs twice; keep one',
    rb'{"text": "\ud83d"}': r"1: contains a lone surrogate (\ud800 to \udfff), which is not a character; remove it",
    b'{"n": ' + b"[" * 200_000 + b"]" * 200_000 + b"}": "1: cannot be read: nested too deeply; flatten it",
}


@pytest.mark.parametrize("line", BAD_LINES, ids=range(len(BAD_LINES)))
def test_bad_line_is_a_fault_with_its_place_and_the_rest_is_read(tmp_path: Path, line: bytes) -> None:
    path = written(tmp_path, line + b'\n{"id": "good"}\n')
    rows, faults = rows_and_faults(path)
    assert [row.text("id") for row in rows] == ["good"]
    assert faults == [f"{path}:{BAD_LINES[line]}"]


@pytest.mark.parametrize("indent", [None, 2])
def test_json_array_reads_as_its_objects_a_line_each(tmp_path: Path, indent: int | None) -> None:
    path = written(tmp_path, json.dumps([{"id": "a"}, {"id": "b", "texts": ["x"]}], indent=indent).encode())
    rows, faults = rows_and_faults(path)
    assert [(row.text("id"), row.where) for row in rows] == [("a", f"{path}:$[0]"), ("b", f"{path}:$[1]")]
    assert faults == []


def test_json_array_may_be_one_line_that_is_longer_than_a_json_line(tmp_path: Path) -> None:
    given = [{"id": "a", "text": "x" * LONGEST_LINE}, {"id": "b"}]
    rows, faults = rows_and_faults(written(tmp_path, json.dumps(given).encode()))
    assert ([row.text("id") for row in rows], faults) == (["a", "b"], [])


def test_an_object_on_several_lines_is_one_fault(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps({"questions": [{"id": "a"}, {"id": "b"}]}, indent=1).encode())
    rows, (fault,) = rows_and_faults(path)
    assert rows == []
    assert fault.startswith(f"{path}:1: not JSON lines; write one JSON object on each line, or")


def test_a_table_is_one_fault_with_the_command_that_reads_it(tmp_path: Path) -> None:
    path = written(tmp_path, b"id,question\n" + b"1,Who?\n" * 30)
    rows, (fault,) = rows_and_faults(path)
    assert rows == []
    assert fault == (
        f"{path}:1: not JSON lines; write one JSON object on each line, or, if the file is a table, name it .csv or"
        " .tsv"
    )
    path = path.rename(tmp_path / "table.csv")
    rows, (fault,) = rows_and_faults(path)
    assert rows == []
    assert fault == (
        f"{path}:1: not JSON lines; write documents as JSON lines; to convert a table of questions, run ragsweep golden"
        f" import {path} out=GOLDEN.jsonl corpus=FOLDER"
    )


def test_faults_of_a_json_array_have_their_place(tmp_path: Path) -> None:
    path = written(tmp_path, b'[\n  {"id": "a"},\n  3\n]\n')
    assert rows_and_faults(path)[1] == [f"{path}:$[1]: 3 where an object {{...}} is required"]
    faults = rows_and_faults(written(tmp_path, b'[\n  {"id": "a"\n]\n'))[1]
    assert faults == [f"{path}:3:1: not JSON: expecting ',' delimiter; correct it"]


def test_all_faults_of_a_file_are_raised_at_once(tmp_path: Path) -> None:
    faults = Faults()
    list(read_rows(written(tmp_path, b"{,\n" * 25), faults))
    with pytest.raises(InputError) as caught:
        faults.raise_any()
    lines = str(caught.value).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "(and 5 more faults)"


def test_missing_file_and_folder_and_broken_archive_are_faults(tmp_path: Path) -> None:
    missing, broken = tmp_path / "no.jsonl", written(tmp_path, b"{}\n", "rows.jsonl.gz")
    cut = written(tmp_path, gzip.compress(b'{"id": "a"}\n' * 1000)[:-20], "cut.jsonl.gz")
    faults = Faults()
    for path in (missing, tmp_path, broken, cut):
        list(read_lines(path, faults))
    missing_fault, folder_fault, broken_fault, cut_fault = faults.found
    assert missing_fault.startswith(f"{missing}: no such file")
    assert folder_fault == f"{tmp_path}: is a folder where a file is required; give the path of a file"
    assert broken_fault.startswith(f"{broken}: cannot be read: not a gzipped file")
    assert cut_fault.startswith(f"{cut}: is truncated (copy it again), or ")


def row(values: dict[str, object]) -> tuple[Row, Faults]:
    faults = Faults()
    return Row("f:1", values, faults), faults


@pytest.mark.parametrize(
    ("take", "value", "fault"),
    [
        (lambda r: r.text("x"), 3, 'f:1: "x" is 3, not a string in quotes'),
        (lambda r: r.flag("x", True), "yes", 'f:1: "x" is "yes", not true or false'),
        (lambda r: r.number("x", 1.0), True, 'f:1: "x" is true, not a number'),
        (lambda r: r.number("x", 1.0), 10**400, f'f:1: "x" must be from -1e+09 to 1e+09, got 1{"0" * 36}...'),
        (lambda r: r.number("x", 1.0), math.nan, 'f:1: "x" must be from -1e+09 to 1e+09, got NaN'),
        (lambda r: r.position("x"), 1.0, 'f:1: "x" is 1.0, not a whole number'),
        (lambda r: r.position("x"), -1, 'f:1: "x" must be at least 0, got -1'),
        (lambda r: r.texts("x"), "a", 'f:1: "x" is "a", not a list'),
        (lambda r: r.texts("x"), ["a", 1], 'f:1: "x" contains 1 where a string in quotes is required'),
        (lambda r: r.rows("x"), ["a"], 'f:1: "x" contains "a" where an object {...} is required'),
        (lambda r: r.row("x"), [], 'f:1: "x" is [], not an object {...}'),
        (lambda r: r.filled_text("x"), " \n", 'f:1: "x" is blank'),
        (lambda r: r.filled_text("x"), None, 'f:1: has no "x"'),
        (lambda r: r.check_keys(["xs"]), 1, 'f:1: unknown key "x"; did you mean "xs"? known: xs'),
    ],
)
def test_field_of_the_wrong_type_is_one_fault(take, value: object, fault: str) -> None:  # noqa: ANN001
    taken, faults = row({"x": value})
    take(taken)
    assert faults.found == [fault]


def test_null_is_the_same_as_a_missing_field() -> None:
    taken, faults = row({"text": None, "flag": None, "number": None, "texts": None, "row": None})
    assert (taken.text("text", "d"), taken.flag("flag", True), taken.number("number", 2.0)) == ("d", True, 2.0)
    assert (taken.texts("texts"), taken.rows("texts"), taken.row("row").scalars()) == ((), [], {})
    assert faults.found == []


def test_scalars_are_texts_as_json_writes_them_without_other_values() -> None:
    taken, _ = row({"a": "x", "b": True, "c": 2, "d": 0.5, "e": None, "f": [1], "g": {}})
    assert taken.scalars() == {"a": "x", "b": "true", "c": "2", "d": "0.5"}


def test_ids_of_one_normal_form_are_duplicates_and_missing_ids_are_not() -> None:
    faults, unique = Faults(), UniqueIds("document")
    for line, identifier in enumerate(["caf\u00e9", "cafe", "cafe\u0301", None, None], start=1):
        taken = Row(f"f:{line}", {"id": identifier}, faults)
        unique.check(taken.identifier("id"), taken)
    twice = 'f:3: document "caf\u00e9" occurs twice; first in f:1; remove or rename one'
    assert faults.found == [twice, 'f:4: has no "id"', 'f:5: has no "id"']


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@settings(deadline=None)
@given(st.lists(st.dictionaries(st.text(), JSON_VALUES, max_size=4), max_size=5), st.booleans())
def test_whatever_json_writes_is_read_without_fault(
    tmp_path_factory: pytest.TempPathFactory, values: list[dict[str, object]], ascii_only: bool
) -> None:
    lines = [json.dumps(value, ensure_ascii=ascii_only) for value in values]
    path = written(tmp_path_factory.mktemp("json"), "\n".join(lines).encode())
    rows, faults = rows_and_faults(path)
    assert faults == []
    assert [row.scalars().keys() for row in rows] == [
        {name for name, item in value.items() if isinstance(item, str | int | float)} for value in values
    ]


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_as_rows_and_faults(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = written(tmp_path_factory.mktemp("bytes"), content)
    rows, faults = rows_and_faults(path)
    lines = [line for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
    assert len(rows) + len(faults) <= len(lines)
    assert all(fault.startswith(f"{path}:") for fault in faults)


def test_parquet_whose_rows_share_one_long_value_is_refused_as_a_bomb(tmp_path: Path) -> None:
    shared = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 200_000, pyarrow.int32()), ["x" * 20_000])
    parquet.write_table(pyarrow.table({"text": shared}), tmp_path / "rows.parquet")  # 4 GB as texts
    rows, (fault,) = rows_and_faults(tmp_path / "rows.parquet")
    assert rows == []
    assert "expands to more than 200 times its size; convert it to JSON lines" in fault


def test_bytes_in_parquet_are_texts_in_utf8_or_no_texts(tmp_path: Path) -> None:
    table = {"id": ["caf\u00e9".encode()], "text": ["caf\u00e9".encode("latin-1")]}
    parquet.write_table(pyarrow.table(table), tmp_path / "rows.parquet")
    (taken,), _ = rows_and_faults(tmp_path / "rows.parquet")
    assert (taken.text("id"), taken.text("text")) == ("caf\u00e9", "")
    (fault,) = taken.faults.found
    assert fault.endswith('rows.parquet:row 1: "text" is {"bytes": 4}, not a string in quotes')


def test_the_index_of_pandas_is_no_field(tmp_path: Path) -> None:
    frame = pandas.DataFrame([{"id": name} for name in "abcd"])
    frame[frame["id"] != "c"].to_parquet(tmp_path / "rows.parquet")
    rows, faults = rows_and_faults(tmp_path / "rows.parquet")
    assert ([dict(row.values) for row in rows], faults) == ([{"id": name} for name in "abd"], [])


def test_endings_are_read_in_any_case(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"id": ["a"]}), tmp_path / "ROWS.PARQUET")
    rows, faults = rows_and_faults(tmp_path / "ROWS.PARQUET")
    assert ([dict(row.values) for row in rows], faults) == ([{"id": "a"}], [])


def test_parquet_in_a_folder_of_several_files_is_read_with_its_partitions(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "rows.parquet" / f"part={name}").mkdir(parents=True)
        parquet.write_table(pyarrow.table({"id": [name]}), tmp_path / "rows.parquet" / f"part={name}" / "0.parquet")
    rows, faults = rows_and_faults(tmp_path / "rows.parquet")
    assert ([dict(row.values) for row in rows], faults) == ([{"id": one, "part": one} for one in ("a", "b")], [])


def test_the_home_folder_of_an_unknown_user_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match=r"^dataset\.golden: there is no home folder ~no_such_user; write the whole"):
        path_of("~no_such_user/questions.jsonl", "dataset.golden")
