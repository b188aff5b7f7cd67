"""Replace a file atomically: a killed process leaves the old file or the new one."""

import uuid
from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, data: bytes, unfinished: str = ".unfinished.", *, private: bool = False) -> None:
    """Write a file under a temporary name that begins with ``unfinished``, then rename it; its folder is created.

    With ``private`` only the owner can access it; otherwise a replaced file keeps its mode. A symbolic link is kept,
    and its target is replaced.
    """
    path = path.resolve() if path.is_symlink() else path
    path.parent.mkdir(parents=True, exist_ok=True)
    # A unique name: two processes that write the same file must not share a temporary file.
    partial = path.with_name(f"{unfinished}{uuid.uuid4().hex}")
    try:
        partial.touch(0o600 if private else 0o666)
        if not private and path.exists():
            partial.chmod(path.stat().st_mode & 0o777)
        partial.write_bytes(data)
        partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise
