"""Laws of the cache in the user's folder: it saves a computation, and never gives anything but its result."""

from pathlib import Path

import pytest

from ragsweep.core.user_cache import cached


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "ragsweep"


def never() -> bytes:
    raise AssertionError("computed although it is cached")


@pytest.mark.parametrize("value", [b"", b"value", bytes(100)])
def test_a_value_is_computed_once_and_only_its_owner_can_read_it(folder: Path, value: bytes) -> None:
    assert [cached("a/b", lambda: value), cached("a/b", never)] == [value, value]
    assert (folder / "a" / "b").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("content", [b"", b"aa", bytes(64), b"\xff" * 64])
def test_a_damaged_file_is_replaced(folder: Path, content: bytes) -> None:
    cached("a", lambda: b"value")
    (folder / "a").write_bytes(content)
    assert [cached("a", lambda: b"value"), cached("a", never)] == [b"value", b"value"]


def test_a_folder_that_cannot_be_used_only_costs_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_text("a file, where the folder should be")
    assert cached("a", lambda: b"value") == b"value"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home folder")))
    assert cached("a", lambda: b"value") == b"value"
