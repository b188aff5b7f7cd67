"""Damage stored indexes in a child process with limits, and see that none ends it."""

from __future__ import annotations

import subprocess
import sys

CHILD = """
import resource, sys
import numpy as np
from ragsweep.core.errors import InputError
from ragsweep.parts.indexes import Hnsw, Ivf

resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
part, name, number = eval(sys.argv[1]), sys.argv[2], int(sys.argv[3])
vectors = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
good = part.build(vectors)[name]
refused = 0
for seed in range(number):
    chance = np.random.default_rng(seed)
    data = good.copy()
    near = len(data) if seed % 2 else min(len(data), 300)  # the beginning says how long everything is
    if seed % 5 == 0:
        data = data[: chance.integers(0, near)].copy()
    elif seed % 5 == 1:
        data[chance.integers(0, near, 3)] ^= np.uint8(1 << chance.integers(0, 8))
    elif seed % 5 == 2:
        data[chance.integers(0, near)] = chance.integers(0, 256)
    elif seed % 5 == 3:
        start = chance.integers(0, near - 8)
        data[start : start + 8] = chance.choice([0, 255, 127, 128], 8)
    else:
        data[:] = chance.integers(0, 256, len(data))
    try:
        part.search({name: data}, vectors, vectors[:20], 5)
    except InputError as fault:
        assert "the stored index is damaged (" in str(fault), fault
        refused += 1
print(refused)
"""


def survives(part: str, name: str, number: int) -> None:
    """Check that so many damaged copies of an index are each searched or refused with an error of ours."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, part, name, str(number)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > number / 3, "hardly any damage was noticed"
