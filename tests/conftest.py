"""Fixtures that several test files use."""

import gc
import importlib.metadata
import logging
import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

gc.disable()  # until all is imported and collected: next to nothing of it is garbage

pytest_plugins = (
    "support.commands",
    "support.default_tracking",
    "support.models",
    "support.servers.postgresql_server",
)

# Several test processes share the machine: threads that wait for each other cost more than they bring.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

os.environ["NO_PROXY"] = "127.0.0.1"  # the servers of tests are on this machine, whatever proxy it has

# No library changes during the tests, and its version is a file of metadata to parse each time.
importlib.metadata.version = cache(importlib.metadata.version)

# Timing never decides a test, and twenty examples are enough to break a law that does not hold.
settings.register_profile("ragsweep", deadline=None, max_examples=20)
settings.load_profile("ragsweep")


FIRST = ("system", "sweep", "commands")
"""Folders whose files are run first: two workers then end together, with the short ones."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files of slow folders first."""

    def folder(item: pytest.Item) -> int:
        name = item.path.relative_to(Path(__file__).parent).parts[0]
        return FIRST.index(name) if name in FIRST else len(FIRST)

    items.sort(key=folder)


def pytest_collection_finish() -> None:
    """Keep what was imported out of every search for garbage: it is large, and it stays."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 100)


def pytest_unconfigure() -> None:
    """Close log handlers that Hydra left: ragas logs at the end of the process, when their streams are closed."""
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
        with suppress(ValueError):  # the stream may be closed
            handler.close()


@pytest.fixture(autouse=True)
def _what_pytest_captures_stays_open() -> None:
    """Keep absl's log handler, which comes with ROUGE, from closing what standard error was when it was imported.

    It does so when Hydra sets up logging while standard error is another file, which in tests is all the time.
    """
    if "absl.logging" in sys.modules:
        from absl import logging

        logging.get_absl_handler().python_handler.stream = sys.__stderr__


@pytest.fixture
def cwd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the test's temporary folder, made the current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def collections() -> Path:
    """The folder with the real collections; tests on them skip where it is not given."""
    folder = os.environ.get("RAGSWEEP_COLLECTIONS")
    if not folder:
        pytest.skip("set RAGSWEEP_COLLECTIONS to the folder with the real collections")
    path = Path(folder).resolve()
    assert path.is_dir(), f"RAGSWEEP_COLLECTIONS={folder} is not a folder"
    return path
