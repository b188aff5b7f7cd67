"""What tests share: results, parts, models and commands to test with."""

from typing import Any

import pytest


def nightly(*values: Any) -> Any:
    """Leave a case of a test to the nightly run."""
    return pytest.param(*values, marks=pytest.mark.nightly)
