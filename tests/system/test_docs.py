"""Pages that are made from the code say what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

DOCS = Path(__file__).parents[2] / "docs"


def script(name: str) -> Any:
    """Import a script of the folder docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_page_of_parts_is_what_is_made_of_the_configs() -> None:
    made = script("parts")
    assert (DOCS / "parts.md").read_text("utf-8") == made.page(), "run docs/parts.py"
    unsaid = [line for line in made.page().splitlines() if line.endswith("|  |") and "`${" not in line]
    assert unsaid == [], "an option without a cost, or a key without a comment"


def test_page_of_sizes_is_what_is_made_of_the_measured_constants() -> None:
    made = script("sizing")
    assert (DOCS / "sizing.md").read_text("utf-8") == made.page(), "run docs/sizing.py"
    dearer = made.page(made.Prices(core_hour=0.1, cores=4))
    assert "a worker has 4 cores, and a core costs 0.10 USD an hour" in dearer


def test_every_law_of_growth_is_one_at_its_own_size_and_never_shrinks() -> None:
    made = script("sizing")
    sizes = [10**power for power in range(4, 10)]
    for build, question in made.LAWS.values():
        for growth in (build, question):
            assert growth.scale(7.0, sizes[2], sizes[2]) == 7.0
            assert np.all(np.diff([growth.scale(1.0, sizes[0], size) for size in sizes]) > 0)
    assert made.LINEAR.scale(3.0, 10, 1000) == 300.0
    assert made.ROOTS.scale(3.0, 10, 1000) == 30.0
    assert made.GRAPHS.scale(1.0, 2**20, 2**24) == 16.0


def test_sizes_are_extrapolated_along_the_line_of_what_was_measured() -> None:
    made = script("sizing")
    rows = [{"size": 100, "memory": 60.0}, {"size": 1000, "memory": 150.0}]
    assert made._line(rows, "memory", 1000) == 150e6
    assert made._line(rows, "memory", 10_000) == 1050e6
    assert made._line(rows[1:], "memory", 10_000) == 1500e6
    assert made._line([rows[0], {"size": 1000, "memory": 50.0}], "memory", 10_000) == 50e6
