"""A mapped array is outside of the process's memory; without a disk it is in memory."""

import os
import resource
from pathlib import Path

import numpy as np
import pytest

from ragsweep.core.mapped_array import mapped_array


@pytest.mark.parametrize("shape", [(0,), (3,), (2, 5), (0, 4)])
def test_it_keeps_what_is_written_and_leaves_no_file(shape: tuple[int, ...], tmp_path: Path) -> None:
    array = mapped_array(shape, np.float32, tmp_path)
    array[...] = np.arange(array.size, dtype=np.float32).reshape(shape)
    assert array.shape == shape
    assert array.dtype == np.float32
    assert array.ravel().tolist() == list(range(array.size))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux reports anonymous memory")
def test_it_is_not_the_memory_of_the_process(tmp_path: Path) -> None:
    before = _anonymous()
    array = mapped_array((64 * 2**20,), np.uint8, tmp_path)
    array[:] = 1
    assert _anonymous() - before < 16 * 2**20


def test_it_is_in_memory_without_a_folder_or_on_a_full_disk(tmp_path: Path) -> None:
    assert mapped_array((10,), np.int32, tmp_path / "missing").shape == (10,)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # EFBIG stands for ENOSPC: the same call refuses
    try:
        array = mapped_array((100_000,), np.uint8, tmp_path)
        array[:] = 3
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert array.sum() == 300_000


def _anonymous() -> int:
    """Count the bytes of memory that no file stands behind."""
    text = Path(f"/proc/{os.getpid()}/status").read_text()
    return 1024 * int(next(line.split()[1] for line in text.splitlines() if line.startswith("RssAnon")))
