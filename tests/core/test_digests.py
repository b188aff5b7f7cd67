"""Laws of the digests of files: they follow the content, also when they are cached on disk."""

import hashlib
import os
from pathlib import Path

import pytest

from ragsweep.core import digests


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cache on disk, in which the digests of all files are cached, however new and small."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(digests, "LARGE_BYTES", 0)
    monkeypatch.setattr(digests, "SETTLED_SECONDS", -1.0)
    return tmp_path / "ragsweep" / "digests"


def in_new_process(path: Path) -> str:
    digests._digest.cache_clear()
    return digests.file_digest(path)


def test_changed_file_is_hashed_again_though_size_and_mtime_are_equal(tmp_path: Path, cache: Path) -> None:
    path, other = tmp_path / "weights", tmp_path / "other"
    path.write_bytes(b"aaaa")
    first, before = digests.file_digest(path), path.stat()
    path.write_bytes(b"bbbb")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = digests.file_digest(path)
    other.write_bytes(b"cccc")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)
    found = [first, second, digests.file_digest(path)]
    assert found == [hashlib.sha256(content).hexdigest() for content in (b"aaaa", b"bbbb", b"cccc")]


def test_a_large_file_is_hashed_once_per_user(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"aaaa")
    assert in_new_process(path) == hashlib.sha256(b"aaaa").hexdigest()
    (entry,) = cache.iterdir()
    entry.write_bytes(hashlib.sha256(b"f" * 64).digest() + b"f" * 64)
    assert in_new_process(path) == "f" * 64


def test_small_and_recently_changed_files_are_not_cached_on_disk(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"aaaa")
    monkeypatch.setattr(digests, "LARGE_BYTES", 5)
    in_new_process(path)
    monkeypatch.setattr(digests, "LARGE_BYTES", 0)
    monkeypatch.setattr(digests, "SETTLED_SECONDS", 3600.0)
    in_new_process(path)
    assert not cache.exists()
