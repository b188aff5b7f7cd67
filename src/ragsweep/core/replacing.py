"""Replace a file atomically: a killed process leaves either the old or the new file."""

import uuid
from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, data: bytes, unfinished: str = ".unfinished.", *, private: bool = False) -> None:
    """Write a file under a temporary name that begins with ``unfinished``, then rename it to ``path``.

    Missing folders are created. If ``private``, only the owner can access the file; otherwise, the mode of a replaced
    file is kept. If ``path`` is a symbolic link, its target is replaced. Raises OSError, and removes the temporary
    file, if writing fails.
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
