"""Read records from JSON lines, JSON, YAML or Parquet, check their fields, and collect all faults with locations."""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from ragsweep.core.errors import Faults, nearest
from ragsweep.golden.structured_cells import TOO_DEEP, is_deep, is_structure
from ragsweep.golden.text_files import MOST_UNZIPPED, most_unzipped, read_lines, read_text

_NOTHING = object()
_YAML_NULL = "tag:yaml.org,2002:null"
_LARGEST = 1e9
_PANDAS_INDEX = "__index_level_"  # prefix of the columns in which pandas stores the index of a filtered table
_BOMB = f"expands to more than {MOST_UNZIPPED} times its size; convert it to JSON lines if you trust it"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def read_rows(path: Path, faults: Faults, of_records: Faults | None = None) -> Iterator[Row]:
    """Yield every object of JSON lines or of a JSON array, or every row of Parquet; other values are faults.

    The faults of single records are added to ``of_records``, by default ``faults``. If ``of_records`` is given, text
    that is not JSON is a fault of each line, not of the file.
    """
    of_records = of_records or faults
    if path.suffix.lower() == ".parquet":
        values = _read_parquet(path, faults)
        records = ((f"{path}:row {n}", value) for n, value in enumerate(values, start=1))
    elif (kind := _kind(path, faults)) is str and of_records is faults:
        way = "write one JSON object on each line, or, if the file is a table, name it .csv or .tsv"
        if path.suffix.lower() in (".csv", ".tsv", ".tab"):
            made = f"ragsweep golden import {shlex.quote(str(path))} out=GOLDEN.jsonl corpus=FOLDER"
            way = f"write documents as JSON lines; to convert a table of questions, run {made}"
        faults.add(f"{path}:1", f"not JSON lines; {way}")
        return
    elif kind is list:
        values = _read_value(path, faults)
        records = ((f"{path}:$[{n}]", value) for n, value in enumerate(values if isinstance(values, list) else ()))
    else:
        records = ((where, _decode(line, where, of_records)) for where, line in read_lines(path, faults))
    for where, value in records:
        if row := _as_row(value, where, of_records):
            yield row


def _kind(path: Path, faults: Faults) -> type:
    """Return the kind of a file by its beginning: dict for JSON lines, list for a single JSON array, else str.

    An empty or unreadable file is treated as JSON lines.
    """
    lines = (line for _, line in read_lines(path, faults.apart()))
    first = (next(lines, "") or read_text(path, faults.apart())).strip()  # an array may be one very long line
    if not first or first.startswith("{"):
        return str if first == "{" else dict  # "{": an object on several lines
    if first.startswith("[") and not next(lines, None):
        return list
    if _decode(first, "", Faults()) is not _NOTHING:
        return dict
    return list if first.startswith("[") else str


def _read_parquet(path: Path, faults: Faults) -> list[dict[str, Any]]:
    """Return the rows of a Parquet file or folder, without the index of pandas; [] after a fault.

    Values of types that JSON lacks, such as dates, and bytes in UTF-8 are converted to strings. Other bytes become an
    object, so they are a fault wherever a string is required.
    """
    from pyarrow import dataset  # type: ignore[import-untyped, unused-ignore]
    from pyarrow.lib import ArrowException

    rows, read = [], 0
    try:
        table = dataset.dataset(path, format="parquet", partitioning="hive")
        # A value shared by many rows is stored once: the expanded size is limited as for gzip.
        most = most_unzipped(sum(Path(name).stat().st_size for name in table.files))
        columns = [name for name in table.schema.names if not name.startswith(_PANDAS_INDEX)]
        for batch in table.to_batches(columns=columns, batch_readahead=0, fragment_readahead=0):
            if batch.nbytes > most:
                raise ValueError(_BOMB)
            for number in range(len(batch)):
                text = json.dumps(batch.slice(number, 1).to_pylist()[0], default=_as_json)
                if (read := read + len(text)) > most:
                    raise ValueError(_BOMB)
                rows.append(json.loads(text))
    except FileNotFoundError:
        faults.add(str(path), f"no such file (current folder: {Path.cwd()})")
        return []
    except (OSError, ValueError, ArrowException) as error:
        way = "" if str(error) == _BOMB else "; write the file again, or convert it to JSON lines"
        faults.add(str(path), f"cannot be read as Parquet: {error}{way}")
        return []
    return rows


def _as_json(value: Any) -> Any:
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"bytes": len(value)}


def read_yaml(path: Path, faults: Faults) -> list[Row]:
    """Return the objects in a YAML file; all scalars except null are read as strings.

    The file must be a list of objects or a single object. Invalid YAML and values that are not objects are faults.
    """
    import yaml  # type: ignore[import-untyped]

    before = len(faults.found)
    text = read_text(path, faults)
    if len(faults.found) > before:
        return []
    try:
        loader = yaml.BaseLoader(text)  # reads all scalars as strings
        loader.yaml_implicit_resolvers = {
            first: [(tag, form) for tag, form in resolvers if tag == _YAML_NULL]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }
        loader.yaml_constructors = {
            _YAML_NULL: yaml.SafeLoader.yaml_constructors[_YAML_NULL],
            "tag:yaml.org,2002:map": _yaml_object,
        }
        value = loader.get_single_data()
    except (yaml.YAMLError, RecursionError) as error:
        mark, fact = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        faults.add(where, f"not YAML: {fact or str(error).splitlines()[0]}; correct it")
        return []
    values = {f"$[{n}]": one for n, one in enumerate(value)} if isinstance(value, list) else {"$": value}
    return [row for place, one in values.items() if (row := _as_row(one, f"{path}:{place}", faults))]


def _yaml_object(loader: Any, node: Any) -> Any:
    """Return the object in a node; its keys are strings, as in JSON, even if they look like null."""
    for key, _ in node.value:
        key.tag = "tag:yaml.org,2002:str"
    return loader.construct_mapping(node)


def read_object(path: Path, faults: Faults) -> Row | None:
    """Return the content of a file that is a single JSON object, as a row at ``file:$``; None after a fault."""
    return _as_row(_read_value(path, faults), f"{path}:$", faults)


def _read_value(path: Path, faults: Faults) -> Any:
    """Return the content of a file that is a single JSON value; _NOTHING after a fault."""
    before = len(faults.found)
    text = read_text(path, faults)
    return _decode(text, f"{path}:$", faults, path) if len(faults.found) == before else _NOTHING


def read_row(text: str, where: str, faults: Faults) -> Row | None:
    """Return the JSON object on a line as a row at the location ``where``; None after a fault."""
    return _as_row(_decode(text, where, faults), where, faults)


def _as_row(value: Any, where: str, faults: Faults) -> Row | None:
    if is_deep(value):
        faults.add(where, TOO_DEEP)
    elif isinstance(value, dict):
        return Row(where, value, faults)
    elif value is not _NOTHING:
        faults.add(where, f"{_excerpt(value)} where an object {{...}} is required")
    return None


def _decode(text: str, where: str, faults: Faults, file: Path | None = None) -> Any:
    """Parse the JSON in a line, or in a whole ``file``, and return its value; return _NOTHING if it is faulty."""
    try:
        value = _DECODER.decode(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        place = f"{file}:{error.lineno}" if file else where
        faults.add(f"{place}:{error.colno}", f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}; correct it")
    except UnicodeEncodeError:
        faults.add(where, r"contains a lone surrogate (\ud800 to \udfff), which is not a character; remove it")
    except RecursionError:
        faults.add(where, "cannot be read: nested too deeply; flatten it")
    except ValueError as error:
        faults.add(where, f"not JSON: {error}")
    else:
        return value
    return _NOTHING


def _refuse_constant(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is not a JSON value; use a number or null")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'key "{twice}" occurs twice; keep one')
    return values


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)  # expensive to construct
_ENCODER = json.JSONEncoder(ensure_ascii=False)


def normal_id(identifier: str) -> str:
    """Return an id in Unicode's composed form (NFC), the form in which ids are compared."""
    return unicodedata.normalize("NFC", identifier)


@dataclass(frozen=True)
class Row:
    """A JSON object and its location in a file (``where``).

    A field that is null is treated as missing. The methods that read a field add a fault if its value has the wrong
    type, and then return the same value as for a missing field. If an item of a list has the wrong type, the methods
    that read a list omit it; only the first such item is a fault.
    """

    where: str
    values: Mapping[str, Any]
    faults: Faults

    def __contains__(self, name: str) -> bool:
        """Return whether a field exists and is not null."""
        return self.values.get(name) is not None

    def with_values(self, values: Mapping[str, Any]) -> Row:
        """Return a copy of this row with new values, at the same location and with the same faults."""
        return replace(self, values=values)

    def fault(self, fact: str) -> None:
        """Add a fault at the location of this row."""
        self.faults.add(self.where, fact)

    def check_keys(self, known: Collection[str]) -> None:
        """Add a fault for every key that is not in ``known``."""
        for name in self.values:
            if name not in known:
                self.fault(f'unknown key "{name}"{nearest(name, known)}')

    def text(self, name: str, default: str = "") -> str:
        """Return the string in a field, or the default if the field is missing."""
        value = self._take(name, (str,), "a string in quotes")
        return default if value is None else str(value)

    def given_text(self, name: str) -> str:
        """Return the possibly empty string in a required field; a missing field is a fault and gives ""."""
        if name not in self:
            self.fault(f'has no "{name}"')
        return self.text(name)

    def refuse_structure(self, *names: str) -> None:
        """Add a fault for each of the fields whose string is a list or an object in JSON or Python syntax."""
        for name in names:
            if isinstance(value := self.values.get(name), str) and is_structure(value):
                way = 'give its strings in "references"' if name == "reference" else "give its text"
                self.fault(f'"{name}" is a list or an object written as a string; {way}')

    def filled_text(self, name: str) -> str:
        """Return the string in a required field; a missing or blank string is a fault."""
        text = self.given_text(name)
        if isinstance(self.values.get(name), str) and not text.strip():
            self.fault(f'"{name}" is blank')
        return text

    def identifier(self, name: str) -> str:
        """Return the id in a required field in Unicode's composed form (NFC); it must be one line that is not blank.

        A whole number, as in GermanQuAD and in exports of databases, is accepted and becomes a string.
        """
        given = self.values.get(name)
        row = self.with_values({name: str(given)}) if type(given) is int else self
        text = normal_id(row.filled_text(name))
        if control := _CONTROL.search(text):
            self.fault(f'"{name}" has the control character U+{ord(control[0]):04X}; an id is one line of plain text')
        return text

    def flag(self, name: str, default: bool) -> bool:
        """Return the boolean in a field, or the default if the field is missing."""
        value = self._take(name, (bool,), "true or false")
        return default if value is None else bool(value)

    def number(self, name: str, default: float) -> float:
        """Return the number in a field, or the default if the field is missing.

        NaN and a number below -1e9 or above 1e9 are also faults; the default is then returned.
        """
        value = self._take(name, (int, float), "a number")
        if value is not None and not abs(value) <= _LARGEST:  # also NaN, which Parquet may contain
            self.fault(f'"{name}" must be from {-_LARGEST:g} to {_LARGEST:g}, got {_excerpt(value)}')
            value = None
        return default if value is None else float(value)

    def position(self, name: str) -> int | None:
        """Return a field's whole number, or None if it is missing; a negative number is returned, but is a fault."""
        value = self._take(name, (int,), "a whole number")
        if value is not None and value < 0:
            self.fault(f'"{name}" must be at least 0, got {value}')
        return None if value is None else int(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the strings in a list, or () if the list is missing."""
        return tuple(item for _, item in self._items(name, str, "a string in quotes"))

    def rows(self, name: str) -> list[Row]:
        """Return the objects in a list as rows at the location of this row, or [] if the list is missing."""
        return [self.with_values(item) for _, item in self._items(name, dict, "an object {...}")]

    def parts(self, name: str) -> list[Row]:
        """Return the objects in a list as rows at locations such as ``file:$.data[3]``, or [] if it is missing."""
        items = self._items(name, dict, "an object {...}")
        return [Row(f"{self.where}.{name}[{n}]", item, self.faults) for n, item in items]

    def _items(self, name: str, kind: type, wanted: str) -> list[tuple[int, Any]]:
        items = self._take(name, (list,), "a list") or []
        strange = [item for item in items if not isinstance(item, kind)]
        if strange:
            self.fault(f'"{name}" contains {_excerpt(strange[0])} where {wanted} is required')
        return [(n, item) for n, item in enumerate(items) if isinstance(item, kind)]

    def row(self, name: str) -> Row:
        """Return the object in a field as a row, or an empty row if the field is missing."""
        return self.with_values(self._take(name, (dict,), "an object {...}") or {})

    def only_scalars(self) -> dict[str, str]:
        """Return the labels in the fields as ``scalars`` does; values of other types are faults."""
        plain = self.scalars()
        for name, value in self.values.items():
            if name not in plain and value is not None:
                self.fault(f'label "{name}" is {_excerpt(value)}, not a string, a number, true or false')
        return plain

    def scalars(self) -> dict[str, str]:
        """Map the names of the fields with strings, numbers or booleans to these values, as strings."""
        plain = {name: value for name, value in self.values.items() if isinstance(value, str | bool | int | float)}
        return {name: value if isinstance(value, str) else json.dumps(value) for name, value in plain.items()}

    def _take(self, name: str, kinds: tuple[type, ...], wanted: str) -> Any:
        value = self.values.get(name)
        if value is None or type(value) in kinds:
            return value
        self.fault(f'"{name}" is {_excerpt(value)}, not {wanted}')
        return None


def _excerpt(value: Any) -> str:
    """Return at most 40 characters from the beginning of a value's JSON; the rest of a large value is not encoded."""
    text = "".join(islice(_ENCODER.iterencode(value[:40] if isinstance(value, str) else value), 40))
    return text if len(text) <= 40 else f"{text[:37]}..."


class UniqueIds:
    """A check that ids are unique; ``what`` is the noun for an item with an id in messages, such as "question"."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._first: dict[str, str] = {}

    def check(self, identifier: str, row: Row) -> None:
        """Add a fault to the row if an earlier row at another location has the same id; an empty id is not checked."""
        first = self._first.setdefault(identifier, row.where)
        if identifier and first != row.where:
            row.fault(f'{self._what} "{identifier}" occurs twice; first in {first}; remove or rename one')
