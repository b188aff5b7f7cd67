"""Locks between processes on one machine (the kernel releases them when a process ends), and safe writing of files."""

import fcntl
import hashlib
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from optuna_sweeper.processes import LAPSE as LAPSE
from optuna_sweeper.processes import Holder as Holder
from optuna_sweeper.processes import Liveness as Liveness
from optuna_sweeper.processes import myself as myself


class Locks:
    """Named locks, each on one byte of the same file, so that lock files do not accumulate.

    The locks are reentrant: a process may acquire a lock that it already holds.
    """

    def __init__(self, path: Path) -> None:
        """Open the lock file, or create it if it does not exist; raise OSError if this fails."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._held: dict[int, int] = {}

    @contextmanager
    def alone(self, name: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold the named lock during the block; if another process holds it, call ``waiting`` once, then wait."""
        byte = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
        if not self._held.get(byte):
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            except BlockingIOError:
                waiting()
                fcntl.lockf(self._file, fcntl.LOCK_EX, 1, byte)
        self._held[byte] = self._held.get(byte, 0) + 1
        try:
            yield
        finally:
            self._held[byte] -= 1
            if not self._held[byte]:
                del self._held[byte]
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)


def private_folder(path: Path) -> None:
    """Create a folder and its missing parents with access for the owner only; existing folders keep their mode."""
    for folder in reversed([path, *path.parents]):
        if not folder.exists():
            folder.mkdir(exist_ok=True, mode=0o700)


def private_file(path: Path) -> None:
    """Create an empty file that only its owner can access; an existing file is left unchanged."""
    if not path.exists():  # never opened if it exists: closing a file releases SQLite's locks on it
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def replace_file(path: Path, data: bytes, unfinished: str = ".unfinished.", *, private: bool = False) -> None:
    """Write a file under a temporary name that begins with ``unfinished``, then rename it to ``path``.

    A killed process leaves either the old or the new file. Missing folders are created. If ``private``, only the owner
    can access the file; otherwise, the mode of a replaced file is kept. If ``path`` is a symbolic link, its target is
    replaced. Raises OSError, and removes the temporary file, if writing fails.
    """
    path = path.resolve() if path.is_symlink() else path
    path.parent.mkdir(parents=True, exist_ok=True)
    # A unique name: two processes that write the same file must not share a temporary file.
    partial = path.with_name(f"{unfinished}{uuid.uuid4().hex}")
    try:
        if private:
            partial.touch(0o600)
        elif path.exists():
            partial.touch()
            partial.chmod(path.stat().st_mode & 0o777)
        partial.write_bytes(data)
        partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def locks(path: Path) -> Locks:
    """Return this process's only `Locks` object for a file; closing a second object would release the locks of both."""
    return _opened(path.resolve(), os.getpid())


@cache
def _opened(path: Path, process: int) -> Locks:
    return Locks(path)
