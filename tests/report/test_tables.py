"""Rows, JSON and CSV say what was measured, and nothing else."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.question_results import QuestionResults
from ragsweep.core.results import DatasetFacts, Failure, Result, Run, Summaries, Summary
from ragsweep.report.artifacts import artifacts
from ragsweep.report.numbers import cell
from ragsweep.report.sweep_document import heading
from ragsweep.report.tables import evidence_note, headline, partial_note, results_csv, results_json
from support.results import changed, csv_rows

NAN = math.nan
FACTS = DatasetFacts("python", "c", "g", 79, 1500, 1100, 400, {"no label": 7})
FAILURE = Failure("top_k=0", ("top_k=0",), {"top_k": "0", "seed": "0"}, "=boom", "Traceback")


def summary(name: str, value: float, low: float = NAN, high: float = NAN, unit: str = "", scored: int = 3) -> Summary:
    return Summary(name, value, low, high, 5, scored, 1, 4 - scored, unit, True, {"no evidence": 1})


def a_result(name: str, top_k: str, *summaries: Summary, **parameters: str) -> Result:
    known = {one.name: one for one in summaries}
    groups = {"category": {"factual": known}}
    settings = {"top_k": top_k, "seed": "0", **parameters}
    config = {"top_k": int(top_k), "alpha": math.inf}
    run = Run("s" * 64, name, (name,), config, settings, FACTS, {"fuse": {"seconds": 0.5}})
    return Result(run, QuestionResults({"question_id": ["a"]}), Summaries(known, groups))


TWO = [
    a_result("top_k=3", "3", summary("recall", 0.5, 0.25, 0.75), summary("mrr", NAN, scored=0)),
    a_result("top_k=5", "5", summary("recall", 0.625)),
]


def test_objective_has_a_column_though_no_headline_names_it() -> None:
    named = {"objective": ["mrr", "absent"], "headline": ["recall"]}
    assert headline([changed(TWO[0], config=named)]) == ["recall", "mrr"]


@pytest.mark.parametrize(
    ("measured", "written"),
    [
        (summary("recall", 0.614, 0.526, 0.694), ".61 [.53, .69]"),
        (summary("recall", 1.0, 0.996, 1.0), "1.00 [1.00, 1.00]"),
        (summary("recall", 0.0, 0.0, 0.0049), ".00 [.00, .00]"),
        (summary("difference", -0.25, -0.5, 0.125), "-.25 [-.50, .12]"),
        (summary("context_tokens", 1380.4, 1210, 1550, "tokens"), "1,380 [1,210, 1,550]"),
        (summary("latency_p95_ms", 9.14, 8.7, 12.3, "ms"), "9.1 ms [8.7, 12]"),
        (summary("latency_p50_ms", 0.0213, NAN, NAN, "ms"), "0.021 ms"),
        (summary("latency_p50_ms", 0.31, 0.25, 0.5, "ms"), "0.31 ms [0.25, 0.50]"),
        (summary("results", 99.5, 98, 100), "100 [98, 100]"),
        (summary("recall", NAN), "-"),
        (summary("recall", 0.5), ".50"),
    ],
)
def test_cell_is_as_short_as_it_can_be_read(measured: Summary, written: str) -> None:
    assert cell(measured) == written


def test_coverage_just_below_the_required_one_is_not_rounded_up_to_it() -> None:
    known = replace(summary("recall", 0.5), coverage=0.979, reasons={"timed out": 1})
    few = changed(a_result("top_k=3", "3", known), config={"coverage": 0.98})
    assert "recall is known for 97.9 % of its questions (1 timed out), less than coverage=0.98" in partial_note(few)
    nearly = changed(a_result("top_k=3", "3", replace(known, coverage=0.9996)), config={"coverage": 1.0})
    assert "recall is known for 99.96 % of its questions" in partial_note(nearly)


def test_note_states_the_denominator_and_what_was_left_out() -> None:
    some = "1,100 of 1,500 questions have evidence (for recall, nDCG)"
    assert evidence_note(FACTS) == f"{some}; 400 unanswerable (for refusals); 7 left out: no label"
    assert evidence_note(replace(FACTS, unanswerable=0)) == f"{some}; 7 left out: no label"
    every = replace(FACTS, questions=3, with_evidence=3, unanswerable=0, left_out={})
    assert evidence_note(every) == "3 of 3 questions have evidence"


def test_note_on_different_golden_sets_states_only_what_is_true_for_all() -> None:
    assert evidence_note(FACTS, FACTS) == evidence_note(FACTS)
    fewer = replace(FACTS, questions=20, with_evidence=18, left_out={"no label": 7, "beyond dataset.limit=20": 1480})
    more = replace(fewer, questions=40, with_evidence=37, left_out={"no label": 7, "beyond dataset.limit=40": 1460})
    said = evidence_note(replace(more, unanswerable=3), replace(fewer, unanswerable=0))
    assert said == (
        "18 to 37 of 20 to 40 questions have evidence (for recall, nDCG);"
        " 0 to 3 unanswerable (for refusals); 7 left out: no label"
    )


def test_heading_has_the_names_of_all_datasets_and_their_common_notes() -> None:
    one, other = replace(FACTS, name="a", notes=("x", "y")), replace(FACTS, name="b", notes=("y",))
    texts = [statement.text for statement in heading("swept", one, other).items]
    assert texts == ["swept", f"a, b: {evidence_note(FACTS)}", "y"]


def no_constant(name: str) -> Any:
    raise AssertionError(f"{name} is not JSON")


def test_json_is_strict_and_holds_null_with_reasons_where_not_measured() -> None:
    document = json.loads(results_json(TWO, [FAILURE], {"name": "a sweep"}), parse_constant=no_constant)
    assert document["format"] == "ragsweep.results/1"
    assert document["sweep"] == {"name": "a sweep"}
    first = document["configs"][0]
    assert first["metrics"]["mrr"] == {
        "value": None, "low": None, "high": None, "n_total": 5, "n_scored": 0, "n_skipped": 1, "n_failed": 4,
        "unit": "", "higher_is_better": True, "reasons": {"no evidence": 1},
        "low_bound": None, "high_bound": None, "coverage": 1.0,
    }  # fmt: skip
    assert first["metrics"]["recall"]["value"] == 0.5
    assert first["groups"]["category"]["factual"]["recall"]["high"] == 0.75
    assert first["config"] == {"top_k": 3, "alpha": None}
    assert first["dataset"]["left_out"] == {"no label": 7}
    assert first["overrides"] == ["top_k=3"]
    assert document["failures"][0]["error"] == "=boom"


def test_numbers_of_numpy_become_json() -> None:
    facts = {"a": np.float32(0.5), "b": np.int64(3), "c": np.float64("nan"), "d": np.bool_(True), "e": {1: (2,)}}
    document = json.loads(results_json([], [], facts), parse_constant=no_constant)
    assert document["sweep"] == {"a": 0.5, "b": 3, "c": None, "d": True, "e": {"1": [2]}}


def test_csv_has_one_line_a_config_with_intervals_counts_and_only_swept_parameters() -> None:
    lines = csv_rows(results_csv(TWO, [FAILURE]))
    assert lines[0] == {
        "config": "top_k=3", "status": "finished", "error": "", "signature": "s" * 64, "dataset": "python",
        "n_questions": "1500", "params.top_k": "3",
        "recall": "0.5", "recall_low": "0.25", "recall_high": "0.75", "recall_n_scored": "3", "recall_n_failed": "1",
        "mrr": "", "mrr_low": "", "mrr_high": "", "mrr_n_scored": "0", "mrr_n_failed": "4",
    }  # fmt: skip
    assert (lines[1]["recall"], lines[1]["recall_low"], lines[1]["mrr_n_scored"]) == ("0.625", "", "")
    assert (lines[2]["config"], lines[2]["status"], lines[2]["params.top_k"]) == ("top_k=0", "failed", "0")
    assert lines[2]["error"] == "'=boom"
    assert len(lines) == 3


def test_a_config_whose_process_died_adds_no_columns_of_parameters() -> None:
    """Its parameters are unknown."""
    lost = replace(FAILURE, parameters={})
    assert list(csv_rows(results_csv(TWO, [lost]))[0]) == list(csv_rows(results_csv(TWO))[0])


@pytest.mark.parametrize(
    ("typed", "written"),
    [("=1+1", "'=1+1"), ("+cmd", "'+cmd"), ("-x", "'-x"), ("@a", "'@a"), ("\tx", "'\tx"), ("-1.5", "-1.5"),
     ("a=b", "a=b")],
)  # fmt: skip
def test_text_that_looks_like_a_formula_is_quoted_and_a_number_is_not(typed: str, written: str) -> None:
    results = [a_result("a", "3", prompt=typed), a_result(typed, "3", prompt="other")]
    lines = csv_rows(results_csv(results))
    assert lines[0]["params.prompt"] == written
    assert lines[1]["config"] == written


@given(st.text(st.characters(exclude_categories=["Cs"]).filter(lambda c: c != "\x00"), max_size=20), st.floats())
def test_csv_gives_back_names_and_every_digit(name: str, value: float) -> None:
    (line,) = csv_rows(results_csv([a_result(f"n{name}", "3", summary("recall", value))]))
    assert line["config"] == f"n{name}"
    assert (float(line["recall"]) == value) if math.isfinite(value) else line["recall"] == ""


def test_artifacts_are_json_csv_and_pictures() -> None:
    files = artifacts({"name": "a sweep"}, TWO, [FAILURE], ["recall", "unknown"])
    pictures = [f"plots/metric_by_{what}.{kind}" for what in ("category", "config") for kind in ("png", "svg")]
    assert sorted(files) == [*pictures, "results.csv", "results.json"]
    assert json.loads(files["results.json"])["sweep"] == {"name": "a sweep"}


def test_artifacts_of_a_sweep_in_which_all_failed_still_tell_why() -> None:
    files = artifacts({"name": "a sweep"}, [], [FAILURE], ["recall"])
    assert sorted(files) == ["results.csv", "results.json"]
    assert csv_rows(files["results.csv"])[0]["error"] == "'=boom"
