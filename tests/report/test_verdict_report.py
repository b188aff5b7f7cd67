"""The verdict as files: tables, a page, a picture."""

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ragsweep.core.escaping import markdown_text
from ragsweep.report.artifacts import artifacts, numbers
from ragsweep.report.document import texts
from ragsweep.report.page import charts
from ragsweep.report.sweep_document import conclusion_statements, remedies
from ragsweep.report.sweep_report import SweepReport
from ragsweep.report.verdict import change, detectable, limits, size
from ragsweep.stats.compare_configs import compare_configs
from ragsweep.stats.comparison import NoComparison
from ragsweep.stats.conclude import conclude
from support.results import METRIC, changed, compared, csv_rows, noisy, one_metric

CATEGORIES = [("how-to", "concept")[n % 2] for n in range(100)]
RESULTS = [
    one_metric("=a", noisy(0.4), CATEGORIES, context_tokens=100.0),
    one_metric("b|c", noisy(0.6, seed=1), CATEGORIES, context_tokens=300.0),
    one_metric("d", noisy(0.4, seed=2), CATEGORIES, context_tokens=200.0),
]
VERDICT = compared(RESULTS, baseline="=a")


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return artifacts({"name": "sweep"}, RESULTS, [], [METRIC], conclude(VERDICT))


def test_table_of_differences_has_a_line_a_metric_and_config(files: dict[str, bytes]) -> None:
    found = csv_rows(files["verdict/differences.csv"])
    assert [(row["metric"], row["config"]) for row in found] == [
        (metric, config) for metric in (METRIC, "context_tokens") for config in ("'=a", "b|c", "d")
    ]
    base, better, _ = found[:3]
    assert better["verdict"] == "shown better"
    assert (base["difference"], base["note"], base["verdict"]) == ("0.0", "the reference", "")
    assert float(better["difference"]) == pytest.approx(np.mean(noisy(0.6, seed=1) - noisy(0.4)))
    assert float(better["low"]) < float(better["difference"]) < float(better["high"])
    assert float(better["probability_better"]) > 0.99
    assert [row["may_be_best"] for row in found] == ["False", "True", "False", "", "", ""]
    assert float(better["randomisation_p_holm"]) < 0.001 < float(found[2]["randomisation_p_holm"])


def test_table_of_differences_calls_no_config_the_baseline_that_was_not_declared() -> None:
    verdict = compare_configs(RESULTS)
    rows = csv_rows(artifacts({"name": "sweep"}, RESULTS, [], [METRIC], conclude(verdict))["verdict/differences.csv"])
    notes = {row["config"]: row["note"] for row in rows if row["metric"] == METRIC}
    assert notes == {"'=a": "", "b|c": "the reference", "d": ""}


def test_table_of_slices_has_a_line_a_slice_and_config(files: dict[str, bytes]) -> None:
    found = csv_rows(files["verdict/slices.csv"])
    assert {(row["label"], row["value"], row["questions"]) for row in found} == {
        ("category", "how-to", "50"), ("category", "concept", "50")
    }  # fmt: skip
    assert len(found) == 6


def test_page_says_it_and_lists_the_best_first(files: dict[str, bytes]) -> None:
    page = files["verdict/verdict.md"].decode()
    assert page.startswith(f"# Verdict on {METRIC}\n")
    headings = [part.split("**")[1] for part in page.split("\n\n") if part.startswith("**")]
    assert headings == ["Choice.", "Evidence.", "Limits."]
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    assert [line.split(" | ")[0] for line in lines[2:]] == [r"| b\|c", "| =a", "| d"]


def test_difference_is_config_minus_reference_where_less_is_better() -> None:
    """Of 60 questions b takes 4 less than a on 45 and 1 more on 15: -4 * 3/4 + 1/4 = -2.75, which is better."""
    few = [n % 4 == 0 for n in range(60)]
    category, before = ["rare" if one else "usual" for one in few], [10.0 + n % 7 for n in range(60)]
    after = [value + (1 if one else -4) for value, one in zip(before, few, strict=True)]
    results = [one_metric(name, row, category, direction=False) for name, row in {"a": before, "b": after}.items()]
    verdict = compared(results, baseline="a")
    row = csv_rows(artifacts({"name": "sweep"}, results, [], [], conclude(verdict))["verdict/differences.csv"])[1]
    assert (row["config"], row["verdict"], float(row["difference"])) == ("b", "shown better", -2.75)
    low, high = (f"-{abs(float(row[end])):.1f}" for end in ("low", "high"))
    assert change(verdict, 1) == f"-2.8 [{low}, {high}]"
    page = artifacts({"name": "sweep"}, results, [], [], conclude(verdict))["verdict/verdict.md"].decode()
    assert f"| b | 10.15 | -2.8 [{low}, {high}] | shown better |" in page
    assert f"shown better b -2.8 [{low}, {high}]" in page
    assert "b is better on average, perhaps worse on rare: +1.00 [1.00, 1.00]" in page
    assert "positive" not in page
    figure = charts.differences(verdict, "b")
    assert figure["data"][0]["x"] == [-2.75, 0.0]  # b on top
    assert figure["layout"]["xaxis"]["autorange"] == "reversed"  # so that right is better


def test_results_json_holds_the_verdict(files: dict[str, bytes]) -> None:
    told = json.loads(files["results.json"])["sweep"]
    assert told["name"] == "sweep"
    verdict, result = told["verdict"], json.loads(files["results.json"])["result"]
    assert verdict["best_set"] == ["b|c"]
    assert verdict["reference"] == "=a"
    assert verdict["configs"].keys() == {"b|c", "d"}
    assert verdict["configs"]["b|c"]["verdict"] == "shown better"
    assert verdict["configs"]["b|c"]["probability_better"] > 0.99
    assert (result["kind"], result["baseline"], result["choice"]) == ("better", "=a", "b|c")
    assert result["from_reference"]["low"] > 0
    assert set(result["evidence"]) <= set(verdict["lines"])


def test_the_files_have_every_limitation_that_is_printed() -> None:
    """Also those that are not of the comparison: here, how often the holdout was used."""
    conclusion = replace(conclude(VERDICT), holdout_views=2, holdout_configs=3)
    files = artifacts({"name": "sweep"}, RESULTS, [], [METRIC], conclusion)
    printed = [one.text for one in conclusion_statements(SweepReport("k", RESULTS, (), conclusion)).items]
    assert "The holdout was used twice" in printed[-1]
    assert json.loads(files["results.json"])["sweep"]["verdict"]["lines"] == printed
    assert markdown_text(printed[-1]) in files["verdict/verdict.md"].decode()


def test_a_warning_names_its_configs_unless_all_have_it() -> None:
    lists = [("all fail", "two fail"), ("all fail",), ("all fail", "two fail", "one fails", "one fails")]
    results = [changed(one, warnings=said) for one, said in zip(RESULTS, lists, strict=True)]
    conclusion = conclude(compare_configs(results, baseline="=a"))
    printed = [one.text for one in conclusion_statements(SweepReport("k", results, (), conclusion)).items]
    assert printed[-3:] == ["All fail.", "=a, d: two fail.", "d: one fails."]


@pytest.mark.parametrize(("tried", "advised"), [("490", True), ("480", False)])
def test_a_value_that_the_sweep_has_compared_is_not_advised(tried: str, advised: bool) -> None:
    warning = "9 of 90 chunks are longer; try chunker.size=480 instead of 800"
    long = changed(one_metric("#1 size=800", noisy(0.4)), warnings=(warning,), parameters={"chunker.size": "800"})
    other = changed(one_metric(f"#2 size={tried}", noisy(0.3)), warnings=(), parameters={"chunker.size": tried})
    (fix,) = remedies([long, other]).items
    kept = "#1 size=800: 9 of 90 chunks are longer; chunker.size=480 is among the compared configs."
    assert fix.text == (f"#1 size=800: {warning}." if advised else kept)


def test_the_luck_of_an_adaptive_search_is_marked_as_a_lower_bound(files: dict[str, bytes]) -> None:
    searched = artifacts({"name": "sweep"}, RESULTS, [], [METRIC], conclude(replace(VERDICT, adaptive=True)))
    verdicts = [json.loads(one["results.json"])["sweep"]["verdict"] for one in (files, searched)]
    assert [one.get("optimism_is_lower_bound") for one in verdicts] == [None, True]


def test_sweep_of_which_nothing_is_said_has_the_reason_and_no_tables() -> None:
    verdict = compare_configs(RESULTS[:1])
    assert isinstance(verdict, NoComparison)
    found = artifacts({"name": "sweep"}, RESULTS[:1], [], [], conclude(verdict))
    assert not [name for name in found if name.startswith("verdict/")]
    assert json.loads(found["results.json"])["sweep"]["verdict"]["lines"] == [f"No choice: {verdict.why}."]


def test_numbers_that_compare_sweeps_are_finite() -> None:
    told = numbers(VERDICT)
    assert told["verdict_configs"] == 3
    assert told["verdict_best_set"] == told["verdict_coverage"] == 1
    few = compared([one_metric("a", [0.1] * 5), one_metric("b", [0.2] * 5)])
    assert "verdict_optimism" not in numbers(few)


def test_picture_is_a_png_of_any_number_of_configs(files: dict[str, bytes]) -> None:
    assert files["plots/differences.png"].startswith(b"\x89PNG")
    many = compare_configs([one_metric(f"$x={n}$", noisy(0.5, seed=n), direction=False) for n in range(60)])
    assert artifacts({"name": "sweep"}, [], [], [], conclude(many))["plots/differences.png"].startswith(b"\x89PNG")


def test_questions_without_what_the_metric_needs_are_counted_where_that_is_no_evidence() -> None:
    results = [one_metric("a", noisy(0.4)), one_metric("b", noisy(0.6, seed=1))]
    for why, counted in (("no reference answer", True), ("no evidence", False), ("unanswerable", False)):
        lacking = [
            changed(one, metrics={
                name: replace(summary, n_total=summary.n_total + 9, n_skipped=9, reasons={why: 9})
                for name, summary in one.summaries.metrics.items()
            })
            for one in results
        ]  # fmt: skip
        said = f"{METRIC} applies to 100 of 109 questions (9: {why})" in " ".join(texts(limits(compared(lacking))))
        assert said == counted


def test_a_difference_that_is_detectable_between_two_configs_alone_is_stated() -> None:
    """With ten questions, gains widen the spread so much that six configs have no detectable difference."""

    def stated(seed: int) -> str:
        draws = np.random.default_rng(seed).beta(0.3, 0.3, (6, 10))
        verdict = compared([one_metric(f"#{n} k={n}", scores) for n, scores in enumerate(draws)])
        (one,), power = detectable(verdict), verdict.power
        assert np.isnan(power.typical)
        missed = re.search(r" between two\. Smaller ones(, such as the .+,)? are often missed\.$", one.text)
        assert bool(missed) == (not np.isnan(power.alone))
        assert np.isnan(power.alone) or f"one of {size(verdict, power.alone)} between two" in one.text
        return one.text

    nothing = "With 10 questions, no simulated difference is detected with 80 % power among 6 configs"
    assert [stated(seed).startswith(nothing) for seed in (3, 16)] == [True, True]
    assert [stated(seed).endswith("6 configs.") for seed in (16, 3)] == [True, False]


def test_a_measured_gain_below_the_detectable_difference_is_stated_unless_it_is_shown() -> None:
    below = {}
    for gain in (-0.004, 0.004, 0.03, 0.3):
        verdict = compared([one_metric("a", noisy(0.4)), one_metric("b", noisy(0.4) + gain + noisy(0))])
        measured = abs(float(verdict.means[0] - verdict.means[1]))
        assert (measured < verdict.power.alone) == (gain < 0.3)
        (one,), rival = detectable(verdict), {"a": "b", "b": "a"}[verdict.matrix.configs[verdict.choice.row]]
        phrase = (
            f" Smaller ones, such as the measured gain of {size(verdict, measured)} over {rival}, are often missed."
        )
        assert ("measured" in one.text) == one.text.endswith(phrase)
        below[gain] = one.text.endswith(phrase)
        power = replace(verdict.power, typical=measured / 2, alone=measured / 3)
        assert "measured" not in next(detectable(replace(verdict, power=power))).text
    assert below == {-0.004: True, 0.004: True, 0.03: False, 0.3: False}


def test_questions_with_a_score_of_0_in_every_config_are_counted() -> None:
    def counts(shift: float = 0.0, **changes: Any) -> list[str]:
        low, high = (np.clip(noisy(0.1, seed=seed), 0.01, 1) + shift for seed in (0, 3))
        low[:20] = shift
        high[:20], high[10:15] = shift, shift + 0.3
        results = [one_metric("a", low, **changes), one_metric("b", high, **changes)]
        (one,) = detectable(compared(results))
        return re.findall(r" \((\d+) scores? 0 in every config\)", one.text)

    assert counts() == ["15"]
    assert [counts(direction=False), counts(unit="points"), counts(0.1)] == [[], [], []]
