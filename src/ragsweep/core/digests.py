"""Hash files by their content; what a large file had when it was last hashed is remembered from process to process."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import tempfile
import time
from pathlib import Path

LARGE = 4 << 20
"""Bytes from which on a file's hash is remembered; to hash less takes no longer than to look it up."""

SETTLED = 2.0
"""Seconds that a file must have stood unchanged: one that is being written may change twice within one tick."""

Facts = tuple[int, int, int, int, int]


def digest(path: Path) -> str:
    """Hash a file by SHA-256; one that has not changed is read once.

    A file has not changed while its size, its place on the disk and both of its times are what they were: the time of
    the last change of any kind (``ctime``) is set by the system, and nobody can set it back.
    """
    return _digest(path.resolve(), _facts(path))


def remembered_in() -> Path:
    """Say where hashes are remembered: in the folder that a user has for what may be lost.

    Raises RuntimeError for a user without a home.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ragsweep" / "digests"


def _facts(path: Path) -> Facts:
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@functools.lru_cache(maxsize=256)
def _digest(path: Path, facts: Facts) -> str:
    if facts[2] < LARGE:
        return _read(path)
    with contextlib.suppress(OSError, RuntimeError, ValueError, KeyError, TypeError):
        known = json.loads(_note(path).read_text("utf-8"))
        if known["facts"] == list(facts):
            return str(known["sha256"])
    found = _read(path)
    if _facts(path) == facts and time.time() - facts[4] / 1e9 > SETTLED:
        with contextlib.suppress(OSError, RuntimeError):
            _write(_note(path), json.dumps({"facts": facts, "sha256": found}))
    return found


def _note(path: Path) -> Path:
    return remembered_in() / hashlib.sha256(os.fsencode(path)).hexdigest()


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(note: Path, text: str) -> None:
    """Write a note whole or not at all: other processes read it."""
    note.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=note.parent, delete=False) as file:
        file.write(text)
    Path(file.name).replace(note)
