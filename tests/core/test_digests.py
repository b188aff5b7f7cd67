"""A file's hash is that of its content, however often and by whomever it was hashed before."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ragsweep.core import digests
from ragsweep.core.digests import LARGE, digest, remembered_in


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is large enough to be remembered, and has stood for long."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(digests, "SETTLED", -1.0)
    path = tmp_path / "weights"
    path.write_bytes(b"a" * LARGE)
    return path


def anew(path: Path) -> str:
    """Hash in another process."""
    code = "import sys, pathlib; from ragsweep.core import digests; digests.SETTLED = -1.0;" \
           " print(digests.digest(pathlib.Path(sys.argv[1])))"  # fmt: skip
    return subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True).stdout.strip()


def whole(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_large_file_is_read_once_by_all_processes(large: Path) -> None:
    assert digest(large) == whole(large)
    (note,) = remembered_in().iterdir()
    note.write_text(note.read_text().replace(whole(large), "from the note"))
    assert anew(large) == "from the note"


def test_file_that_changed_is_read_again_though_its_size_and_time_are_what_they_were(large: Path) -> None:
    digest(large)
    before = large.stat()
    with large.open("r+b") as file:
        file.write(b"b")
    os.utime(large, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert digest(large) == anew(large) == whole(large)
    other = large.with_name("other")
    other.write_bytes(b"c" * LARGE)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(large)
    assert digest(large) == anew(large) == whole(large)


def test_file_that_has_just_changed_is_not_remembered(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "SETTLED", 60.0)
    assert digest(large) == whole(large)
    assert not remembered_in().exists()


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b"{}", b"\xff", b'{"facts": [1, 2]}'])
def test_damaged_note_is_as_good_as_none(large: Path, note: bytes) -> None:
    digest(large)
    (path,) = remembered_in().iterdir()
    path.write_bytes(note)
    assert anew(large) == whole(large)
    assert anew(large) == whole(large)


@pytest.mark.parametrize("cache", ["weights", "~nobody-of-this-name"])  # a file, no folder; a user without a home
def test_where_nothing_can_be_remembered_files_are_hashed_all_the_same(
    large: Path, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    monkeypatch.chdir(large.parent)
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    assert digest(large) == whole(large)


def test_small_file_leaves_no_note(large: Path) -> None:
    large.write_bytes(b"small")
    assert digest(large) == whole(large)
    assert not remembered_in().exists()
