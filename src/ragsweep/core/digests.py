"""Hash large files, such as the weights of models, once per user instead of once per command."""

import functools
import hashlib
import time
from pathlib import Path

from ragsweep.core.identity import content_hash
from ragsweep.core.user_cache import cached

LARGE_BYTES = 2**20
"""Minimum size of a file whose digest is also cached on disk; smaller files are hashed faster than a cache is read."""
SETTLED_SECONDS = 2.0
"""Minimum age of a file's last change for the cache on disk: a later write could leave the same time stamp."""


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file; the result is cached until the file changes.

    A change is detected by device, inode, size, ``mtime`` and ``ctime``; programs cannot reset ``ctime``. The digests
    of files from LARGE_BYTES are also cached on disk.
    """
    state = path.stat()
    return _digest(path.resolve(), (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns))


@functools.lru_cache(maxsize=256)
def _digest(path: Path, version: tuple[int, ...]) -> str:
    def compute() -> bytes:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest().encode()

    _, _, size, *changes = version
    if size >= LARGE_BYTES and time.time() - max(changes) / 1e9 > SETTLED_SECONDS:
        return cached(f"digests/{content_hash([str(path), *version])}", compute).decode()
    return compute().decode()
