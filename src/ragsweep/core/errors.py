"""Errors that a user can fix. Each message states the problem, the value and the remedy; most exit with status 2."""

from __future__ import annotations

import difflib
import os
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path

SHOWN = 20
"""The maximum number of faults listed in an error, and of files listed in a note."""

_LIBRARIES = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib"))

_CONTROL = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}


class RagsweepError(Exception):
    """An error that the user can fix."""

    exit_status = 2


class InputError(RagsweepError):
    """An unusable file or file content."""


class ConfigError(RagsweepError):
    """An invalid config or option: an unknown name, an invalid value, or incompatible parts."""


class TrackingError(RagsweepError):
    """An unusable tracking destination."""


def describe_fault(fault: BaseException) -> str:
    """Return the class name and the message of an exception.

    For an exception other than a RagsweepError, return one line: the class name, the first line of the message, and the
    file and line of a traceback frame, as in ``KeyError: 'x' (my_parts.py:12)``. The frame is the innermost one in
    ragsweep's code or in code outside the standard library and the installed packages. Without such a frame, it is the
    innermost frame of the traceback. Without a traceback, the file and line are omitted.
    """
    name = type(fault).__name__
    if isinstance(fault, RagsweepError):
        return f"{name}: {fault}"
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(fault.__traceback__)]
    own = [place for place in frames if not place[0].startswith(_LIBRARIES) or f"{os.sep}ragsweep{os.sep}" in place[0]]
    where = "".join(f" ({Path(file).name}:{line})" for file, line in (own or frames)[-1:])
    message = next(iter(str(fault).splitlines()), "")
    return f"{name}: {message}{where}" if message else f"{name}{where}"


def first_line(fault: BaseException) -> str:
    """Return the first line of an exception's message, or the class name if the message is blank."""
    return next(iter(str(fault).strip().splitlines()), type(fault).__name__)


class Faults:
    """The faults of an input, to be raised as a single error, and notes on how the input's files were read.

    ``encoding`` is the encoding of text files without a byte order mark; ``key`` is the config key that sets this
    encoding, or "". If ``encoding`` is None, such files are read as UTF-8, except HTML pages that declare another
    encoding (see ``read_text``).
    """

    def __init__(self, encoding: str | None = None, key: str = "") -> None:
        self.found: list[str] = []
        self.encoding, self.key = encoding, key
        self._noted: dict[str, dict[str, None]] = {}

    def apart(self) -> Faults:
        """Return an empty Faults that has the same encoding and shares the notes, for faults that may be discarded."""
        other = Faults(self.encoding, self.key)
        other._noted = self._noted
        return other

    def note(self, where: str, fact: str) -> None:
        """Add a note on the file ``where``. A note is not a fault: ``raise_any`` ignores it."""
        self._noted.setdefault(fact, {})[where] = None

    @property
    def notes(self) -> tuple[str, ...]:
        """One string per noted fact: the fact, and the first ``SHOWN`` files that it concerns."""
        shown = {fact: [*files][:SHOWN] + ["..."] * (len(files) > SHOWN) for fact, files in self._noted.items()}
        return tuple(f"{fact}: {', '.join(files)}" for fact, files in shown.items())

    def add(self, where: str, fact: str) -> None:
        """Add a fault at ``where`` (``file:line``, a key or ""); ``fact`` is its description, including the remedy.

        Control characters, which could overwrite text on the terminal, are escaped.
        """
        self.found.append((f"{where}: {fact}" if where else fact).translate(_CONTROL))

    def raise_any(self) -> None:
        """If there are faults, raise InputError with the first ``SHOWN`` distinct faults and the number of others."""
        distinct = [*dict.fromkeys(self.found)]
        shown = distinct[:SHOWN]
        if more := len(distinct) - len(shown):
            shown.append(f"(and {more} more fault{'s' if more > 1 else ''})")
        if shown:
            raise InputError("\n".join(shown))


MOST_LISTED = 40
"""The maximum number of names that `nearest` lists in full; of a larger number, it lists at most ten."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a suggestion to append to a message about an unknown name: ``; did you mean "x"? known: x, y``.

    Of more than ``MOST_LISTED`` known names, at most ten are listed: the names similar to ``name`` or, if none is
    similar, the first names in alphabetical order. Return "" if ``known`` is empty.
    """
    names = sorted(set(known))
    close = difflib.get_close_matches(name, names, n=10, cutoff=0.5)
    hint = f'; did you mean "{close[0]}"?' if close else ";"
    if len(names) > MOST_LISTED:
        listed = close or names[:10]
        return f"{hint} known: {', '.join(listed)}, and {len(names) - len(listed)} others"
    return f"{hint} known: {', '.join(names)}" if names else ""
