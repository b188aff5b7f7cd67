"""Pages made from code, configs and results equal what their scripts make; all pages together are short."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs"


def script(name: str) -> Any:
    """Import a script of the folder docs/, which is not a package."""
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
    assert "`conversation=...`" in made.page(), "a key whose value is a list on lines of its own"
    assert "| not used |" not in made.page()


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


@pytest.fixture(name="tables")
def benchmarks_tables(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script that keeps results of benchmarks, and fills the page of measurements."""
    monkeypatch.syspath_prepend(str(DOCS.parent / "benchmarks"))
    import tables

    return tables


def test_page_of_measurements_is_what_is_made_of_the_results(tables: Any) -> None:
    text = (DOCS / "measurements.md").read_text("utf-8")
    assert tables.page(text) == text, "run benchmarks/tables.py"
    assert sorted(re.findall(r"<!-- ([\w-]+): begin -->", text)) == sorted(tables.SHOWN)
    assert [name for name in tables.SHOWN if len(tables.marked(name)) < 9] == [], "no row matches"


def test_every_file_of_results_states_how_it_was_measured(tables: Any) -> None:
    files = sorted(tables.RESULTS.glob("*.json"))
    assert {shown.result for shown in tables.SHOWN.values()} <= {path.stem for path in files}
    for path in files:
        result = json.loads(path.read_text("utf-8"))
        assert set(result) == {"command", "date", "conditions", "tables"}, path
        assert result["command"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", result["date"])
        for table in result["tables"]:
            assert {len(row) for row in table["rows"]} == {len(table["columns"])}, path


def test_results_of_a_benchmark_are_kept_as_it_prints_them(
    tables: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "measurements.md"
    page.write_text("<!-- one: begin -->\n<!-- one: end -->\n")
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    monkeypatch.setattr(tables, "PAGE", page)
    shown = tables.SHOWN["rerank"]._replace(result="mine", table=1, rows="^b", columns=("", "y"))
    monkeypatch.setattr(tables, "SHOWN", {"one": shown})
    head = ["|  | x | y |", "| --- | --- | --- |"]
    first, second = [*head, "| a | 1 | [.2, .3] |"], [*head, "| a | 3 | 4 |", "| b | 5 | 6 |"]
    lines = ["Two cores.", "", "## First", "", *first, "", *second, "", "12 s in all."]
    tables.keep_results("mine", lines)
    kept = json.loads((tmp_path / "mine.json").read_text("utf-8"))
    assert kept["conditions"][1:] == ["Two cores.", "12 s in all."]
    assert [table["caption"] for table in kept["tables"]] == ["First", ""]
    assert kept["tables"][0]["rows"] == [["a", "1", "[.2, .3]"]]
    assert page.read_text("utf-8").splitlines()[2:5] == ["|  | y |", "| --- | --- |", "| b | 6 |"]


def test_pages_have_few_words(tables: Any) -> None:
    from house import count_words

    assert sum(count_words(DOCS).values()) <= 35_000
