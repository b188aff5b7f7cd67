"""Read text files, plain or gzipped, in UTF-8 or another encoding, and collect all faults with their locations."""

import codecs
import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from ragsweep.core.errors import ConfigError, Faults, InputError

LONGEST_LINE = 8 << 20
"""Maximum length of a line in bytes: a longer line indicates a file without line ends."""

MOST_UNZIPPED = 200
"""Maximum ratio of the unzipped to the compressed size. Text rarely exceeds a ratio of 100; zip bombs exceed 200."""

LARGEST_WHOLE = 128 << 20
"""Maximum size in bytes, unzipped, of a file that is read as a whole (a document, or a single JSON value)."""

MOST_BLANK = 100_000
"""Maximum number of consecutive blank lines; more indicate a damaged file."""

_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",  # before UTF-16, whose mark is a prefix of this one
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_DECLARED = re.compile(
    rb"""(?i)<meta\s[^>]*?charset\s*=\s*["']?\s*([\w.:-]+)|<\?xml\s[^>]*?encoding\s*=\s*["']([\w.:-]+)"""
)
_ESCAPE = b"\x1b"  # indicates ISO-2022, whose bytes are all ASCII and therefore valid UTF-8
_PRESCANNED = 4096  # leading bytes of a page that may declare its encoding
_AS_BROWSERS = {
    **dict.fromkeys(("iso-8859-1", "iso8859-1", "latin1", "latin-1", "us-ascii", "ascii"), "windows-1252"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis", "windows-31j"), "cp932"),
    **dict.fromkeys(("gb2312", "gbk", "x-gbk"), "gb18030"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987"), "cp949"),
    **dict.fromkeys(("iso-8859-9", "latin5"), "windows-1254"),
}
"""Declared encoding -> the encoding that it means in browsers (https://encoding.spec.whatwg.org/#names)."""
_HARMLESS = 4 << 20  # unzipped bytes that are always accepted
_SIZE_BYTES = 4
_WORKBOOK = "is an Excel workbook or another zip archive; save the table as CSV, or unzip the archive"
_BINARY = {
    b"PK\x03\x04": _WORKBOOK,
    b"\xd0\xcf\x11\xe0": _WORKBOOK,  # Excel before 2007
    b"\x1f\x8b": "is gzipped; add .gz to its name",
    b"PAR1\x15": "is a Parquet file; convert it to JSON or, if it is a corpus or a golden file, name it .parquet",
}
"""The first bytes of a file that is not text -> the fault."""
BOMB = f"unzips to more than {MOST_UNZIPPED} times its size; unzip it yourself if you trust it"


def most_unzipped(size: int) -> int:
    """Return the maximum number of bytes that a compressed file of ``size`` bytes may have when unzipped."""
    return max(_HARMLESS, MOST_UNZIPPED * size)


def collect_faults(encoding: str | None, key: str = "dataset.encoding") -> Faults:
    """Return an empty Faults for files in ``encoding``; None means UTF-8, unless a file states its encoding.

    Raises a ConfigError that names the config key ``key`` if Python does not support the encoding.
    """
    if encoding and not _decodes(bytes(4), encoding):
        way = "name one that Python supports, such as windows-1252, utf-16 or shift_jis, or null to detect it"
        raise ConfigError(f'{key}: "{encoding}" is not a text encoding; {way}')
    return Faults(encoding, key)


def path_of(value: str, key: str) -> Path:
    """Return the path that ``key`` sets, with ``~`` expanded.

    Raises ConfigError for a blank path, and for ``~NAME`` if no user has this name.
    """
    if not value.strip():
        raise ConfigError(f"{key}: requires a value; set {key}=...")
    try:
        return Path(value).expanduser()
    except RuntimeError:
        raise ConfigError(f"{key}: there is no home folder {value.partition('/')[0]}; write the whole path") from None


def plain_or_gzipped(path: Path) -> Path:
    """Return the path, or the path with ".gz" appended if only that file exists.

    Raises InputError for a path without a file name.
    """
    if not path.name:
        raise InputError(f'"{path}": names no file (an empty path is read as "."); give the path of a file')
    zipped = path.with_name(path.name + ".gz")
    return zipped if not os.path.exists(path) and os.path.exists(zipped) else path  # noqa: PTH110


def check_folder(path: Path, needs: str) -> None:
    """Raise InputError unless the path is a readable folder; the message ends with ``needs``, the expected content."""
    try:
        os.scandir(path).close()
    except (OSError, ValueError) as error:
        reason = "no such folder" if isinstance(error, FileNotFoundError) else _reason(error)
        raise InputError(f"{path}: {reason}; {needs}") from None


def read_lines(path: Path, faults: Faults) -> Iterator[tuple[str, str]]:
    """Yield (``file:line``, text) for every non-blank line, without line ends.

    The encoding is determined by the byte order mark, else by ``faults.encoding``, else UTF-8; lines end with LF or
    CRLF. A file whose name ends in ".gz" is unzipped. A line that cannot be decoded and a file that cannot be read are
    faults. Reading stops with a fault if a line, a run of blank lines or the unzipped size exceeds its maximum in this
    module.
    """
    for number, line in read_raw_lines(path, faults):
        if line.strip():
            yield f"{path}:{number}", line.rstrip("\r\n")


def read_raw_lines(path: Path, faults: Faults) -> Iterator[tuple[int, str]]:
    """Yield (number, text) for every line, even if blank, with its line end; otherwise like ``read_lines``.

    A line that cannot be decoded is yielded as "".
    """
    read = blank = 0
    with _errors_as_faults(path, faults), _open(path) as (file, most):
        encoding, mark = _encoding(file.read(4), path, faults)
        if "\n".encode(encoding) != b"\n":  # the bytes cannot be split into lines
            yield from enumerate(io.StringIO(read_text(path, faults), newline="\n"), start=1)
            return
        file.seek(len(mark))
        for number, data in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), start=1):
            read += len(data)
            if len(data) > LONGEST_LINE:
                fact = f"the line is longer than {LONGEST_LINE >> 20} MiB"
                faults.add(f"{path}:{number}", f"{fact}; put one record on each line, and split long documents")
                return
            if read > most:
                raise ValueError(BOMB)
            blank = blank + 1 if data.isspace() else 0
            if blank > MOST_BLANK:
                faults.add(f"{path}:{number}", f"{MOST_BLANK:,} consecutive blank lines; remove them")
                return
            yield number, _decoded(data, encoding, path, faults, number)


def read_text(path: Path, faults: Faults, declares: bool = False) -> str:
    """Return the whole text of a file with its original line ends; "" after a fault.

    The encoding is chosen as in ``read_lines``, except for HTML (``declares``), which may declare its encoding. The
    declared encoding is used if the file has no byte order mark, ``faults`` has no encoding, Python supports the
    declared encoding, and the bytes are not valid UTF-8 or contain ESC (as in ISO-2022). Text in another encoding is
    rarely valid UTF-8.
    """
    data = read_bytes(path, faults)
    encoding, mark = _encoding(data[:4], path, faults)
    found = _DECLARED.search(data[:_PRESCANNED]) if declares and not mark and not faults.encoding else None
    if found and (_ESCAPE in data or not _decodes(data, "utf-8")):
        declared = (found[1] or found[2]).decode("ascii").lower()
        declared = _AS_BROWSERS.get(declared, declared)
        if _decodes(b"<", declared):
            encoding = declared
            faults.note(path.name, f"read as {encoding}, the declared encoding")
    return _decoded(data[len(mark) :], encoding, path, faults)


def _encoding(head: bytes, path: Path, faults: Faults) -> tuple[str, bytes]:
    """Return the encoding of a file that begins with ``head``, and its byte order mark ("" for none)."""
    mark = next((one for one in _MARKS if head.startswith(one)), b"")
    if mark and _MARKS[mark] != "utf-8":
        faults.note(path.name, f"read as {_MARKS[mark]} because of its byte order mark")
    return _MARKS.get(mark, faults.encoding or "utf-8"), mark


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except (LookupError, ValueError):
        return False
    return True


def _is_utf_8(data: bytes) -> bool:
    """Return whether the bytes are valid UTF-8, and not by chance, as UTF-16 and ISO 2022 may be."""
    return b"\0" not in data and _ESCAPE not in data and _decodes(data, "utf-8")


def read_bytes(path: Path, faults: Faults) -> bytes:
    """Return the content of a file, unzipped if its name ends in ".gz"; b"" after a fault."""
    with _errors_as_faults(path, faults), _open(path) as (file, most):
        rest, blocks = min(most, LARGEST_WHOLE) + 1, []
        while block := file.read(min(rest, 1 << 20)):  # a single read would allocate the memory at once
            blocks.append(block)
            rest -= len(block)
        data = b"".join(blocks)
        if len(data) > LARGEST_WHOLE:
            raise ValueError(f"is larger than {LARGEST_WHOLE >> 20} MiB; split it into several files")
        if len(data) > most:
            raise ValueError(BOMB)
        return data
    return b""


def _decoded(data: bytes, encoding: str, path: Path, faults: Faults, line: int = 0) -> str:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        fact = f"byte {error.start + 1} (0x{data[error.start]:02x}) is not valid {encoding.upper()}"
        way = "correct" if encoding == faults.encoding else "name its encoding, such as windows-1252, with"
        way = f"save the file as UTF-8{f', or {way} {faults.key}' if faults.key else ''}"
        if encoding == faults.encoding and _is_utf_8(data):
            other = "save the whole file" if line else "save the other files"
            way = f"the {'line' if line else 'file'} is valid UTF-8: omit {faults.key}, and {other} as UTF-8, too"
        faults.add(f"{path}:{line}" if line else str(path), f"{fact}; {way}")
        return ""
    # A single line may be valid UTF-8 by chance.
    if not line and encoding == faults.encoding and _is_utf_8(data) and text != data.decode():
        faults.note(path.name, f"valid UTF-8, but read as {encoding} because of {faults.key}")
    return text


@contextmanager
def _errors_as_faults(path: Path, faults: Faults) -> Iterator[None]:
    """If reading a file in the block fails, add the reason to ``faults`` and suppress the exception."""
    try:
        yield
    except (OSError, ValueError, EOFError, zlib.error) as error:
        faults.add(str(path), _reason(error))


@contextmanager
def _open(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file, unzip it if its name ends in ".gz", and yield it with the maximum number of bytes to read.

    Raises ValueError for a pipe, a device or a binary file (see ``_BINARY``), and for a gzip file that states an
    unzipped size above this maximum.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):  # opening a pipe could block forever
        raise ValueError("is a pipe or a device where a file is required; save its content to a file")
    most = most_unzipped(status.st_size)
    with path.open("rb") as file:
        if path.suffix != ".gz":
            head = file.read(8)
            for first, fact in _BINARY.items():
                if head.startswith(first):
                    raise ValueError(fact)
            file.seek(0)
            yield file, most
            return
        if status.st_size >= _SIZE_BYTES:  # gzip files, even most bombs, end with their true size
            file.seek(-_SIZE_BYTES, os.SEEK_END)
            if int.from_bytes(file.read(), "little") > most:
                raise ValueError(f"is truncated (copy it again), or {BOMB}")
            file.seek(0)
        with gzip.open(file) as unzipped:
            yield cast(BinaryIO, unzipped), most


def _reason(error: Exception) -> str:
    match error:
        case FileNotFoundError():
            return f"no such file (current folder: {Path.cwd()})"
        case IsADirectoryError():
            return "is a folder where a file is required; give the path of a file"
        case NotADirectoryError():
            return "is not a folder, or its parent is not a folder"
        case PermissionError():
            return "permission denied; make it readable with chmod u+r, and its folders accessible with chmod u+x"
        case ValueError() if "null" in str(error):
            return "is not a path: it contains a null character"
        case ValueError():
            return str(error)
        case gzip.BadGzipFile():
            way = "; copy the file again, or, if it is not gzipped, remove .gz from its name"
        case EOFError() | zlib.error():
            way = "; copy the file again"
        case _:
            way = ""
    reason = getattr(error, "strerror", None) or str(error)
    return f"cannot be read: {reason[:1].lower()}{reason[1:]}{way}"
