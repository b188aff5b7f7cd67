"""What tests share: results, parts, models and commands to test with."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragsweep.core.errors import InputError


def nightly(*values: Any) -> Any:
    """Leave a case of a test to the nightly run."""
    return pytest.param(*values, marks=pytest.mark.nightly)


def faults_of(load: Callable[[], object], folder: Path) -> list[str]:
    """Return the lines of the InputError that ``load`` raises, with paths below the folder."""
    with pytest.raises(InputError) as caught:
        load()
    return str(caught.value).replace(f"{folder}/", "").splitlines()


def wait_until(condition: Callable[[], object], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)
