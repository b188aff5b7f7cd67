"""Pages that are made from the code say what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_page_of_parts_is_what_is_made_of_the_configs() -> None:
    spec = importlib.util.spec_from_file_location("parts", DOCS / "parts.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert (DOCS / "parts.md").read_text("utf-8") == made.page(), "run docs/parts.py"
    unsaid = [line for line in made.page().splitlines() if line.endswith("|  |") and "`${" not in line]
    assert unsaid == [], "an option without a cost, or a key without a comment"
