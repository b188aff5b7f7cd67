"""The verdict as files: tables, a page, a picture, and short names."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.report import artifacts
from ragsweep.report.naming import ranges, short
from ragsweep.report.verdict_files import numbers
from ragsweep.stats.comparison import NoComparison, SweepComparison, compare_configs
from weighed import METRIC, noisy, scored

CATEGORIES = [("how-to", "concept")[n % 2] for n in range(100)]
RESULTS = [
    scored("=a", noisy(0.4), CATEGORIES, context_tokens=100.0),
    scored("b|c", noisy(0.6, seed=1), CATEGORIES, context_tokens=300.0),
    scored("d", noisy(0.4, seed=2), CATEGORIES, context_tokens=200.0),
]
VERDICT = compare_configs(RESULTS)


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return artifacts("sweep", RESULTS, [], [METRIC], VERDICT)


def rows(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode())))


def test_table_of_differences_has_a_line_a_metric_and_config(files: dict[str, bytes]) -> None:
    found = rows(files["verdict/differences.csv"])
    assert [(row["metric"], row["config"]) for row in found] == [
        (metric, config) for metric in (METRIC, "context_tokens") for config in ("'=a", "b|c", "d")
    ]
    base, better, _ = found[:3]
    assert (base["difference"], base["note"]) == ("0.0", "the baseline")
    assert float(better["difference"]) == pytest.approx(np.mean(noisy(0.6, seed=1) - noisy(0.4)))
    assert float(better["low"]) < float(better["difference"]) < float(better["high"])
    assert [row["in_best_set"] for row in found] == ["False", "True", "False", "", "", ""]
    assert sum(float(row["probability_of_best"]) for row in found[:3]) == pytest.approx(1)
    assert float(better["randomisation_p_holm"]) < 0.001 < float(found[2]["randomisation_p_holm"])


def test_table_of_slices_has_a_line_a_slice_and_config(files: dict[str, bytes]) -> None:
    found = rows(files["verdict/slices.csv"])
    assert {(row["label"], row["value"], row["questions"]) for row in found} == {
        ("category", "how-to", "50"), ("category", "concept", "50")
    }  # fmt: skip
    assert len(found) == 6


def test_page_says_it_and_lists_the_best_first(files: dict[str, bytes]) -> None:
    page = files["verdict/verdict.md"].decode()
    assert page.startswith(f"# Verdict on {METRIC}\n")
    assert "- b|c (.59 [.59, .59]) is better than =a in ndcg: +.192 [" in page
    assert "It takes 300 context tokens instead of 100 (x 3)." in page
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    assert [line.split(" | ")[0] for line in lines[2:]] == [r"| b\|c", "| =a", "| d"]


def test_results_json_holds_the_verdict(files: dict[str, bytes]) -> None:
    told = json.loads(files["results.json"])["sweep"]
    assert told["name"] == "sweep"
    assert told["verdict"]["best_set"] == ["b|c"]
    assert told["verdict"]["better"] == ["b|c"]
    assert told["verdict"]["worse"] == []
    result = json.loads(files["results.json"])["result"]
    assert (result["kind"], result["baseline"], result["recommended"]) == ("better", "=a", "b|c")
    assert result["from_baseline"]["low"] > 0
    assert told["verdict"]["baseline"] == "=a"
    assert f"{METRIC}: better than =a (the first config): b|c +.192" in " ".join(told["verdict"]["lines"])


def test_the_luck_of_an_adaptive_search_is_marked_as_a_lower_bound(files: dict[str, bytes]) -> None:
    assert isinstance(VERDICT, SweepComparison)
    searched = artifacts("sweep", RESULTS, [], [METRIC], replace(VERDICT, adaptive=True))
    verdicts = [json.loads(one["results.json"])["sweep"]["verdict"] for one in (files, searched)]
    assert [one.get("optimism_is_lower_bound") for one in verdicts] == [None, True]


def test_sweep_of_which_nothing_is_said_has_the_reason_and_no_tables() -> None:
    verdict = compare_configs(RESULTS[:1])
    assert isinstance(verdict, NoComparison)
    found = artifacts("sweep", RESULTS[:1], [], [], verdict)
    assert not [name for name in found if name.startswith("verdict/")]
    assert json.loads(found["results.json"])["sweep"]["verdict"]["sentence"] == verdict.why


def test_numbers_that_compare_sweeps_are_finite() -> None:
    assert isinstance(VERDICT, SweepComparison)
    told = numbers(VERDICT)
    assert told["verdict/configs"] == 3
    assert told["verdict/best_set"] == told["verdict/better"] == told["verdict/coverage"] == 1
    few = compare_configs([scored("a", [0.1] * 5), scored("b", [0.2] * 5)])
    assert isinstance(few, SweepComparison)
    assert "verdict/optimism" not in numbers(few)


def test_picture_is_a_png_of_any_number_of_configs(files: dict[str, bytes]) -> None:
    assert files["plots/differences.png"].startswith(b"\x89PNG")
    many = compare_configs([scored(f"$x={n}$", noisy(0.5, seed=n), direction=False) for n in range(60)])
    assert artifacts("sweep", [], [], [], many)["plots/differences.png"].startswith(b"\x89PNG")


# --- names --------------------------------------------------------------------------------------------------------

NAMES = ["r=rrf", *(f"r=c alpha={n / 10}" for n in range(1, 6)), "r=rrf k=1", "r=rrf k=2"]


def test_three_neighbours_or_more_are_a_range() -> None:
    assert ranges(NAMES, [3, 0, 2, 1, 6]) == ["r=c alpha=0.1 to 0.3", "r=rrf", "r=rrf k=1"]
    assert ranges(NAMES, [1, 3, 5]) == ["r=c alpha=0.1", "r=c alpha=0.3", "r=c alpha=0.5"]
    assert ranges(NAMES, [1, 2]) == ["r=c alpha=0.1", "r=c alpha=0.2"]


def test_of_two_numbers_the_one_with_the_longer_range_is_told() -> None:
    grid = [f"k={k} n={n}" for k in (1, 2, 3) for n in (1, 2, 3, 4)]
    assert ranges(grid, range(12)) == ["k=1 n=1 to 4", "k=2 n=1 to 4", "k=3 n=1 to 4"]


@given(st.sets(st.integers(0, 19)))
def test_ranges_name_each_chosen_config_once_and_no_other(chosen: set[int]) -> None:
    names = [f"x={n}" for n in range(20)]
    told: list[int] = []
    for text in ranges(names, sorted(chosen)):
        first, _, last = text.removeprefix("x=").partition(" to ")
        told += range(int(first), int(last or first) + 1)
    assert sorted(told) == sorted(chosen)


def test_long_names_and_numbers_are_short() -> None:
    assert short("alpha=0.30000000000000004") == "alpha=0.3"
    assert len(short("x" * 1000)) <= 60
