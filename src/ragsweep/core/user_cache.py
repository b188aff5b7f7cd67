"""Cache values on disk for all commands of a user."""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ragsweep.core.locks import replace_file


def cached(name: str, compute: Callable[[], bytes]) -> bytes:
    """Return the value that is cached under ``name``, a relative path; if there is none, compute and cache it.

    The files are in the folder ``ragsweep`` of the user's cache folder. Each begins with the SHA-256 of the value: a
    damaged file is replaced. If the folder cannot be used, the value is only computed.
    """
    try:
        path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ragsweep" / name
    except RuntimeError:  # no home folder
        return compute()
    with suppress(OSError):
        content = path.read_bytes()
        if hashlib.sha256(content[32:]).digest() == content[:32]:
            return content[32:]
    value = compute()
    with suppress(OSError):  # the cache only saves time
        replace_file(path, hashlib.sha256(value).digest() + value, private=True)
    return value
