"""Files that are written whole: what a kill leaves."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragsweep.core.errors import InputError
from ragsweep_golden.sets.files import write_whole

WRITE_FOR_EVER = """
import itertools, pathlib, sys
from ragsweep_golden.sets.files import write_whole
for letter in itertools.cycle("ab"):
    write_whole(pathlib.Path(sys.argv[1]), letter * 20_000_000)
"""


@pytest.mark.nightly
@pytest.mark.parametrize("wait", [0, 0.02, 0.05, 0.1])
def test_a_kill_leaves_the_file_of_before_or_after(tmp_path: Path, wait: float) -> None:
    path = tmp_path / "golden.jsonl"
    process = subprocess.Popen([sys.executable, "-c", WRITE_FOR_EVER, str(path)])
    while not path.exists():
        time.sleep(0.01)
    time.sleep(wait)
    process.kill()
    process.wait()
    text = path.read_text()
    assert len(text) == 20_000_000
    assert text.count(text[0]) == len(text)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("folder", "is a folder"),
        ("file/golden.jsonl", "/file: is a file"),
        ("file/a/golden.jsonl", "/file: is a file"),
        ("golden.parquet", "golden.parquet: Parquet files can be read, but not written"),
    ],
)
def test_what_is_in_the_way_is_named_and_stays(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match=message):
        write_whole(tmp_path / name, "new")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "mine"


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written: File name too long"):
        write_whole(tmp_path / f"{'a' * 300}/golden.jsonl", "new")
