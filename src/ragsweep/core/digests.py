"""Hash large files, such as the weights of models, once per user instead of once per command."""

import functools
import hashlib
import os
import re
import time
from contextlib import suppress
from pathlib import Path

from ragsweep.core.identity import content_hash
from ragsweep.core.locks import replace_file

LARGE_BYTES = 2**20
"""Minimum size of a file whose digest is also cached on disk; smaller files are hashed faster than a cache is read."""
SETTLED_SECONDS = 2.0
"""Minimum age of a file's last change for the cache on disk: a later write could leave the same time stamp."""
_DIGEST = re.compile(rb"[0-9a-f]{64}")  # a power failure can leave an entry with other bytes


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file; the result is cached until the file changes.

    A change is detected by device, inode, size, ``mtime`` and ``ctime``; programs cannot reset ``ctime``. The digests
    of files from LARGE_BYTES are cached on disk too, in ``ragsweep/digests`` in the user's cache folder.
    """
    state = path.stat()
    return _digest(path.resolve(), (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns))


@functools.lru_cache(maxsize=256)
def _digest(path: Path, version: tuple[int, ...]) -> str:
    _, _, size, *changes = version
    kept = size >= LARGE_BYTES and time.time() - max(changes) / 1e9 > SETTLED_SECONDS
    with suppress(OSError, RuntimeError):  # no such file; no home folder
        if kept and _DIGEST.fullmatch(known := _place(path, version).read_bytes()):
            return known.decode("ascii")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    with suppress(OSError, RuntimeError):  # the cache only saves time
        if kept:
            replace_file(_place(path, version), digest.encode("ascii"), private=True)
    return digest


def _place(path: Path, version: tuple[int, ...]) -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "ragsweep" / "digests" / content_hash([str(path), *version])
