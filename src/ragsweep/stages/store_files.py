"""The files of a store: whole values, their pieces, unfinished writes, and quarantine."""

import mmap
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ragsweep.core.locks import LAPSE, Holder, myself, private_folder


class StoreFiles:
    """The paths of a store's files, and atomic writes to them.

    The constructor creates the folders. It also removes files that dead processes left unfinished, and the pieces of
    complete values; files that cannot be removed stay. Raises OSError if a folder cannot be created or listed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("whole", "pieces", "temporary"):
            private_folder(folder / name)
        for path in (folder / "temporary").iterdir():
            with suppress(OSError):
                if not still_written(path.name, time.time() - path.stat().st_mtime):
                    path.unlink()
        for pieces in (folder / "pieces").iterdir():
            if self.whole(pieces.name).exists():
                shutil.rmtree(pieces, ignore_errors=True)

    def whole(self, address: str) -> Path:
        """Return the path of the file of a whole value."""
        return self.folder / "whole" / address

    def pieces(self, address: str) -> Path:
        """Return the path of the folder with the pieces of a whole value."""
        return self.folder / "pieces" / address

    def quarantine(self, name: str) -> Path:
        """Return a new path for a file in the quarantine folder; create the folder if it does not exist."""
        folder = self.folder / "quarantine"
        folder.mkdir(exist_ok=True, mode=0o700)
        return folder / f"{time.time_ns()}-{name}"

    def write(self, path: Path, parts: Iterator[memoryview | bytes]) -> int:
        """Write a file atomically and return its size in bytes; after an error, an existing file is unchanged."""
        temporary = self.temporary()
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                size = sum(_write_all(handle, part) for part in parts)
                os.fsync(handle)
            finally:
                os.close(handle)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return size

    def temporary(self) -> Path:
        """Return a new path for an unfinished file of this process; its name identifies the process."""
        return self.folder / "temporary" / "~".join(map(str, (*myself(), time.monotonic_ns())))


def map_file(path: Path) -> mmap.mmap | bytes:
    """Map a file into memory, read-only; return b"" for an empty file. Raises OSError if it cannot be read."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""


def still_written(name: str, silent: float) -> bool:
    """Return whether a temporary file may still be in use, because the process in its name may be alive.

    ``silent`` is the number of seconds since the last write. If the name contains no process, the file may be in use
    for LAPSE seconds after the last write.
    """
    host, process, started = (*name.split("~"), "", "")[:3]
    return Holder(host, int(process), started).lives(silent) if process.isdigit() else silent < LAPSE


def _write_all(handle: int, part: memoryview | bytes) -> int:
    view, done = memoryview(part), 0
    while done < len(view):
        done += os.write(handle, view[done:])
    return done
