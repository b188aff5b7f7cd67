"""MLflow's default tracking URI, which its functions use and which outlives the test that sets it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def restoring_tracking_uri() -> Iterator[None]:
    """Undo every ``mlflow.set_tracking_uri`` in the block, which also sets the variable of the environment."""
    import mlflow

    name = "MLFLOW_TRACKING_URI"
    before = os.environ.get(name)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(None)
        os.environ.update({name: before} if before is not None else {})


@pytest.fixture
def restored_uri() -> Iterator[None]:
    with restoring_tracking_uri():
        yield
