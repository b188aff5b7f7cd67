"""Read files of one record a line, plain or gzipped, and collect every fault with its line."""

from __future__ import annotations

import gzip
import json
import unicodedata
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from ragsweep.errors import Faults, nearest

_BOM = b"\xef\xbb\xbf"
_LARGEST = 1e9


def existing(path: Path) -> Path:
    """Return the path, or with ".gz" appended where only that file exists."""
    zipped = path.with_name(path.name + ".gz")
    return zipped if not path.exists() and zipped.exists() else path


def read_lines(path: Path, faults: Faults) -> Iterator[tuple[str, str]]:
    """Yield (``file:line``, text) of every line that is not blank.

    UTF-8, with or without byte order mark; lines end with LF or CRLF. A name that ends in ".gz" is unzipped. What is
    left out is added to the faults: a line that is not UTF-8, a file that cannot be read.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, data in enumerate(file, start=1):
                line = _decoded(data.removeprefix(_BOM) if number == 1 else data, f"{path}:{number}", faults)
                if line.strip():
                    yield f"{path}:{number}", line.rstrip("\r\n")
    except FileNotFoundError:
        faults.add(str(path), f"no such file (seen from {Path.cwd()})")
    except IsADirectoryError:
        faults.add(str(path), "is a folder where a file is needed")
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        faults.add(str(path), f"cannot be read: {reason[:1].lower()}{reason[1:]}")


def _decoded(data: bytes, where: str, faults: Faults) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        fact = f"byte {error.start + 1} (0x{data[error.start]:02x}) is not UTF-8; save the file as UTF-8"
        faults.add(where, fact)
        return ""


def read_rows(path: Path, faults: Faults) -> Iterator[Row]:
    """Yield every JSON object of a JSON-lines file; lines that hold none are added to the faults."""
    for where, line in read_lines(path, faults):
        try:
            value = json.loads(line, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
            if "\\u" in line:
                json.dumps(value, ensure_ascii=False).encode("utf-8")
        except json.JSONDecodeError as error:
            faults.add(f"{where}:{error.colno}", f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}")
        except UnicodeEncodeError:
            faults.add(where, r"holds half of a surrogate pair (\ud800 to \udfff alone), which is no character")
        except RecursionError:
            faults.add(where, "not readable: nested too deeply")
        except ValueError as error:
            faults.add(where, f"not JSON: {error}")
        else:
            if isinstance(value, dict):
                yield Row(where, value, faults)
            else:
                faults.add(where, f"{_shown(value)} where an object {{...}} is needed")


def _refuse_constant(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is no JSON value; use a number or null")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'key "{twice}" is given twice')
    return values


class Row:
    """Hold one JSON object; its fields are taken by type, and what does not fit is added to the faults.

    ``null`` is the same as a field that is not there.
    """

    def __init__(self, where: str, values: Mapping[str, Any], faults: Faults) -> None:
        self.where = where
        self._values = values
        self._faults = faults

    def fault(self, fact: str) -> None:
        """Note what is wrong with this row."""
        self._faults.add(self.where, fact)

    def check_keys(self, known: Collection[str]) -> None:
        """Fault every key that is not known."""
        for name in self._values:
            if name not in known:
                self.fault(f'unknown key "{name}"{nearest(name, known)}')

    def text(self, name: str, default: str = "") -> str:
        """Take a text."""
        value = self._take(name, (str,), "a text in quotes")
        return default if value is None else str(value)

    def given_text(self, name: str) -> str:
        """Take a text that must be there, but may be empty."""
        if self._values.get(name) is None:
            self.fault(f'has no "{name}"')
        return self.text(name)

    def filled_text(self, name: str) -> str:
        """Take a text that must be there and must not be blank."""
        text = self.given_text(name)
        if isinstance(self._values.get(name), str) and not text.strip():
            self.fault(f'"{name}" is blank')
        return text

    def identifier(self, name: str) -> str:
        """Take an id: a text that is not blank, in Unicode's composed form (NFC), so that what looks equal is equal."""
        return unicodedata.normalize("NFC", self.filled_text(name))

    def flag(self, name: str, default: bool) -> bool:
        """Take true or false."""
        value = self._take(name, (bool,), "true or false")
        return default if value is None else bool(value)

    def number(self, name: str, default: float) -> float:
        """Take a finite number."""
        value = self._take(name, (int, float), "a number")
        if value is not None and abs(value) > _LARGEST:
            self.fault(f'"{name}" is {_shown(value)}, which is beyond {_LARGEST:g}')
            return default
        return default if value is None else float(value)

    def position(self, name: str) -> int | None:
        """Take a whole number of 0 or more."""
        value = self._take(name, (int,), "a whole number")
        if value is not None and value < 0:
            self.fault(f'"{name}" is {value}; positions count from 0')
        return None if value is None else int(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """Take a list of texts."""
        items = self._take(name, (list,), "a list") or []
        wrong = [item for item in items if not isinstance(item, str)]
        if wrong:
            self.fault(f'"{name}" holds {_shown(wrong[0])} where a text in quotes is needed')
        return tuple(item for item in items if isinstance(item, str))

    def rows(self, name: str) -> list[Row]:
        """Take a list of objects."""
        items = self._take(name, (list,), "a list") or []
        wrong = [item for item in items if not isinstance(item, dict)]
        if wrong:
            self.fault(f'"{name}" holds {_shown(wrong[0])} where an object {{...}} is needed')
        return [Row(self.where, item, self._faults) for item in items if isinstance(item, dict)]

    def row(self, name: str) -> Row:
        """Take an object; empty if it is not there."""
        return Row(self.where, self._take(name, (dict,), "an object {...}") or {}, self._faults)

    def scalars(self) -> dict[str, str]:
        """Return all fields that are texts, numbers, true or false, as texts."""
        plain = {name: value for name, value in self._values.items() if isinstance(value, str | bool | int | float)}
        return {name: value if isinstance(value, str) else json.dumps(value) for name, value in plain.items()}

    def _take(self, name: str, kinds: tuple[type, ...], wanted: str) -> Any:
        value = self._values.get(name)
        if value is None or type(value) in kinds:
            return value
        self.fault(f'"{name}" is {_shown(value)}, not {wanted}')
        return None


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}..."


class Seen:
    """Find ids that are given more than once."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._first: dict[str, str] = {}

    def note(self, identifier: str, row: Row) -> None:
        """Fault the row if its id was seen before, and say where."""
        first = self._first.setdefault(identifier, row.where)
        if identifier and first != row.where:
            row.fault(f'{self._what} "{identifier}" is given twice; first in {first}')
