"""What tests share: results, parts, models and commands to test with."""

import time
from collections.abc import Callable
from typing import Any

import pytest


def nightly(*values: Any) -> Any:
    """Leave a case of a test to the nightly run."""
    return pytest.param(*values, marks=pytest.mark.nightly)


def wait_until(condition: Callable[[], object], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)
