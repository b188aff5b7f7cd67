"""The table of a sweep: what varies, best first, no wider than it must be, always with the configs that matter."""

import json
import math
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ragsweep.core.missing import NO_CITATIONS, NO_KEYWORDS
from ragsweep.core.question_results import QuestionResults
from ragsweep.core.results import Result, Summary, TargetResult
from ragsweep.report.document import GAP
from ragsweep.report.naming import all_settings, own_settings
from ragsweep.report.numbers import cell
from ragsweep.report.sweep_table import SweepTable, label_table, slice_table, sweep_table, swept
from support.results import changed, compared, drawn, scored


def config(number: int, mean: float, draw: int = 0, **set_: str) -> Result:
    """Make a numbered config that sets some keys."""
    overrides = tuple(f"{key}={value}" for key, value in set_.items())
    metrics = {"ndcg": drawn(mean, 60, 0.1, draw), "tokens": [100.0 + number] * 60, "recall": drawn(mean, 60)}
    result = scored(metrics, name=f"#{number} config", overrides=overrides, parameters=set_)
    return changed(result, settings={"headline": ["ndcg", "recall", "tokens"]})


def width(table: SweepTable) -> int:
    rows = [[name.removeprefix(">") for name in table.header], *table.rows]
    return sum(max(map(len, column)) for column in zip(*rows, strict=True)) + GAP * (len(table.header) - 1)


RESULTS = [config(n, 0.4 + n / 100, n, top_k=str(n), seed="1") for n in range(1, 41)]


def test_only_what_varies_has_a_column_and_the_best_stands_first() -> None:
    table = sweep_table(RESULTS, ["ndcg"], compared(RESULTS, RESULTS[0].name))
    assert table.header[:3] == [">#", ">top_k", ">ndcg"]
    assert [row[0] for row in table.rows] == [*(str(n) for n in range(40, 31, -1)), "1"]
    assert table.hidden == 30


@pytest.mark.parametrize(
    ("models", "shown"),
    [(("/m/a/onnx", "/m/b/onnx"), ("/m/a/onnx", "/m/b/onnx")), (("/m/a", "/m/b", "minilm"), ("a", "b", "minilm"))],
)
def test_paths_are_shown_by_their_last_parts_if_these_differ(models: tuple[str, ...], shown: tuple[str, ...]) -> None:
    results = [config(n, 0.5, n, model=model) for n, model in enumerate(models, 1)]
    assert swept(results) == f"model = {', '.join(shown)}"
    assert {row[1] for row in sweep_table(results, ["ndcg"]).rows} == {*shown}


def test_a_deleted_key_has_no_value() -> None:
    deleted = changed(config(1, 0.5), overrides=("~size=null", "model=a"), parameters={"model": "a"})
    results = [deleted, *(config(n, 0.5, n, size=f"{n}00", model="a") for n in (2, 3))]
    assert own_settings(deleted) == {"size": "~", "model": "a"}
    assert all_settings(results)[0] == {"model": "a"}
    assert swept(results) == "size = 200, 300"
    assert sorted(row[1] for row in sweep_table(results, ["ndcg"]).rows) == ["", "200", "300"]


@pytest.mark.parametrize(("value", "low"), [("[1, 2]", math.nan), ("1", math.nan), ("1", 0.4)])
def test_brackets_in_a_setting_are_no_intervals(value: str, low: float) -> None:
    results = [changed(config(n, 0.5, k=k), measured={"ndcg": {"low": low}}) for n, k in enumerate((value, "3"), 1)]
    table = sweep_table(results, ["ndcg"])
    assert value in {row[1] for row in table.rows}
    assert table.has_intervals == math.isfinite(low)


def test_metrics_in_a_typed_headline_are_left_out_last_and_never_silently() -> None:
    headline = {"headline": ["recall"], "answer_headline": []}
    typed = [changed(one, settings=headline, overrides=("headline=[recall]",)) for one in RESULTS[:2]]
    shown, width = ["tokens", "recall"], 60
    assert ">recall" in sweep_table(typed, shown, compared(RESULTS[:2]), width=width).header
    assert ">recall" not in sweep_table(RESULTS[:2], shown, compared(RESULTS[:2]), width=width).header
    assert sweep_table(typed, shown, compared(RESULTS[:2]), width=30).left_out == ("tokens", "recall")


def test_a_metric_that_applies_to_no_question_has_a_column_only_if_it_is_asked_for() -> None:
    def shown(skipped: int, objective: str = "ndcg", why: str = NO_KEYWORDS, **changes: Any) -> bool:
        results = []
        for one in RESULTS[:2]:
            counts = {"n_scored": 0, "n_skipped": skipped, "n_failed": 60 - skipped, "reasons": {why: skipped}}
            none = {"tokens": {"value": math.nan, **counts}}
            results.append(changed(one, settings={"objective": objective}, measured=none, **changes))
        return ">tokens" in sweep_table(results, ["ndcg", "tokens"], compared(RESULTS[:2])).header

    assert not shown(60)
    assert shown(59)  # one question failed
    assert shown(60, why=NO_CITATIONS)  # the answers lack something, not the questions
    assert shown(60, objective="tokens")
    assert shown(60, overrides=("headline=[tokens]",))
    assert shown(60, targets=(TargetResult("tokens", "not judged"),))


def test_metrics_take_the_room_that_one_column_of_labels_leaves() -> None:
    keys = [f"a_parameter_with_a_long_name_{letter}" for letter in "abc"]
    results = [config(n, 0.5, n, **dict.fromkeys(keys, str(n))) for n in (1, 2)]
    table = sweep_table(results, ["ndcg", "recall", "tokens"], compared(results), width=100)
    assert table.header[:5] == [">#", "config", ">ndcg", ">recall", ">tokens"]
    assert width(table) <= 100


def test_judged_metrics_are_left_out_last_and_never_silently() -> None:
    judged = {f"faithful_{n}": drawn(0.5, 60, 0.1, n) for n in range(9)}
    steps = [json.dumps({f"judge/{name}": {"ms": 1.0} for name in judged})] * 60
    more = scored(judged).summaries.metrics
    results = [changed(one, {"steps": steps}, metrics={**one.summaries.metrics, **more}) for one in RESULTS[:2]]
    shown = ["ndcg", "recall", "tokens", *judged]
    narrow = sweep_table(results, shown, compared(RESULTS[:2]), width=100)
    columns = {name.removeprefix(">") for name in narrow.header}
    assert not columns & {"recall", "tokens"}
    assert set(narrow.left_out) == {*shown} - columns
    assert 0 < len(narrow.left_out) < len(judged)
    (line,) = narrow.omissions("abc")
    assert line == f"... {len(narrow.left_out)} more metrics: ragsweep show abc#{narrow.rows[0][0]}"
    assert not sweep_table(results, shown, compared(RESULTS[:2]), width=400).left_out
    (baseline,) = SweepTable([">#"], [["prod"]], [], 0, ("faithful_1",)).omissions("abc")
    assert baseline == "... 1 more metric: ragsweep show prod"


def test_baseline_and_choice_have_a_row_and_a_mark() -> None:
    table = sweep_table(RESULTS, ["ndcg"], compared(RESULTS, "#1 config"), choice="#7 config", most=4)
    marks = {row[0]: row[-1] for row in table.rows}
    assert list(marks) == ["40", "39", "7", "1"]
    assert marks["1"] == "baseline"
    assert marks["7"].endswith(", choice")
    assert not any("choice" in marks[number] for number in ("40", "39"))


def test_a_baseline_that_is_the_choice_has_both_marks() -> None:
    table = sweep_table(RESULTS[:2], ["ndcg"], compared(RESULTS[:2], "#1 config"), choice="#1 config")
    assert {row[0]: row[-1] for row in table.rows}["1"] == "baseline, choice"


@pytest.mark.parametrize(
    ("baseline", "against", "shown"),
    [("#1 config", "#1", {"2": "+.010", "1": ""}), (None, "#2", {"2": "", "1": "-.010"})],
)
def test_differences_are_from_the_baseline_or_choice(baseline: str | None, against: str, shown: dict[str, str]) -> None:
    found = compared(RESULTS[:2], baseline)
    table = sweep_table(RESULTS[:2], ["ndcg"], found, choice="#2 config")
    assert table.header[-2] == f">ndcg vs {against}"
    assert {row[0]: row[-2].partition(" ")[0] for row in table.rows} == shown
    assert {row[0]: row[-1] for row in table.rows}["2"].endswith("choice")


def test_limits_of_a_recorded_baseline_are_no_column() -> None:
    limited = config(3, 0.5, 3, top_k="3", seed="1")
    limits = ("budget.calls=100", "timeout=60", "coverage=0.9", "constraints.context_tokens=500")
    limited = changed(limited, overrides=(*limited.run.overrides, *limits))
    rows = [*RESULTS[:2], limited]
    assert sweep_table(rows, ["ndcg"]).header[:3] == [">#", ">top_k", ">ndcg"]
    budgets = [changed(one, overrides=(*one.run.overrides, f"budget.calls={n}")) for n, one in enumerate(rows[:2])]
    assert ">calls" in sweep_table(budgets, ["ndcg"]).header


def test_a_recorded_baseline_is_a_row_beside_the_sweep() -> None:
    """It is compared with the sweep, though it is no config of it."""
    before = changed(config(9, 0.3, 9, top_k="9", seed="1", baseline="2"), name="ffea9bd0#3 top_k=9")
    rows = [*RESULTS[:2], before]
    assert swept(rows) == "top_k = 1, 2, 9"
    assert slice_table(rows[1:], "category", "ndcg", 120).header[2:] == [">#2", ">ffea9bd0#3"]
    table = sweep_table(rows, ["ndcg"], compared(rows, before.name), "#2 config")
    assert table.header[-2] == ">ndcg vs ffea9bd0#3"
    assert table.rows[-1][0] == "ffea9bd0#3"
    assert table.rows[-1][-1] == "baseline"


@pytest.mark.parametrize("narrow", [64, 80, 100, 120])
def test_metrics_are_dropped_from_the_right_until_it_fits_but_never_the_objective(narrow: int) -> None:
    table = sweep_table(RESULTS, ["ndcg", "recall", "tokens"], compared(RESULTS), width=narrow)
    assert ">ndcg" in table.header
    assert width(table) <= narrow
    if ">tokens" in table.header:
        assert ">recall" in table.header


def test_forty_trials_with_eight_parameters_fit_into_120_columns() -> None:
    parts = {"retriever": ("k", "k1", "b"), "chunker": ("size", "overlap")}
    keys = ["retriever", "top_k", "depth", *(f"{part}.{name}" for part, names in parts.items() for name in names)]
    results = [config(n, 0.4 + n / 100, n, **dict.fromkeys(keys, f"{n * 1.23456789:.9f}")) for n in range(1, 41)]
    table = sweep_table(results, ["ndcg", "recall", "tokens"], compared(results))
    assert width(table) <= 120
    assert {">k", ">k1", ">b", ">size", ">overlap", ">top_k", ">depth"} <= set(table.header)


def test_without_a_comparison_the_objective_orders_and_nothing_is_marked() -> None:
    table = sweep_table(RESULTS[:3], ["ndcg"])
    assert [row[0] for row in table.rows] == ["3", "2", "1"]
    assert table.header == [">#", ">top_k", ">ndcg"]


@hypothesis_settings(max_examples=25)
@given(st.integers(1, 12), st.integers(1, 12))
def test_every_config_has_a_row_or_is_counted(configs: int, most: int) -> None:
    results = RESULTS[:configs]
    table = sweep_table(results, ["ndcg"], most=most)
    assert len(table.rows) + table.hidden == configs
    assert len(table.rows) <= most


def test_few_values_of_a_parameter_are_listed_and_many_are_not() -> None:
    assert swept(RESULTS[:3]) == "top_k = 1, 2, 3"
    assert swept(RESULTS) == "top_k"


def test_the_sign_of_a_product_means_that_all_combinations_were_swept() -> None:
    grid = [config(n, 0.5, n, k=k, b=b) for n, (k, b) in enumerate([("3", "1"), ("3", "2"), ("5", "1"), ("5", "2")])]
    assert swept(grid) == swept([*grid, grid[0]]) == "k = 3, 5 × b = 1, 2"
    assert swept(grid[:3]) == "k = 3, 5; b = 1, 2 (3 of 4 combinations, without 5 2)"
    models = [config(n, 0.5, n, m=m, b=b) for n, (m, b) in enumerate([("/a/x", "1"), ("/a/x", "2"), ("/b/y", "1")])]
    assert swept(models) == "m = x, y; b = 1, 2 (3 of 4 combinations, without y 2)"
    assert swept([*grid[:3], config(3, 0.5, 3, k="5")]) == "k = 3, 5; b = 1, 2"
    many = [config(n, 0.5, n, k=str(n), b=str(n % 2)) for n in range(9)]
    assert swept(many) == "k; b = 0, 1"
    values = list(product("012345", repeat=4))[:1001]
    large = [config(n, 0.5, n, **dict(zip("abcd", one, strict=True))) for n, one in enumerate(values)]
    assert swept(large).endswith(" (1,001 of 1,080 combinations)")


def test_configs_whose_settings_differ_have_different_cells() -> None:
    values = ["1.5", "1.504946196027864", "1.3972921425661609"]
    results = [config(n, 0.4 + n / 100, n, k1=value) for n, value in enumerate(values, 1)]
    table = sweep_table(results, ["ndcg"])
    assert len({row[table.header.index(">k1")] for row in table.rows}) == len(values)
    assert len(set(swept(results).removeprefix("k1 = ").split(", "))) == len(values)


def test_auto_is_shown_as_in_the_names_of_configs_and_not_as_the_language_that_it_selected() -> None:
    first, second = config(1, 0.5, 1, language="french"), config(2, 0.5, 2, language="french")
    results = [changed(first, overrides=("language=auto",)), second]
    assert swept(results) == "language = auto, french"
    assert {row[1] for row in sweep_table(results, ["ndcg"]).rows} == {"auto", "french"}
    assert swept([results[0], changed(second, overrides=())]) == ""  # the other config has the default, French


def test_a_narrow_table_shortens_headings_and_drops_intervals_before_it_drops_a_metric() -> None:
    names = {"ndcg": "context_ndcg", "tokens": "context_tokens", "recall": "latency_p95_ms"}
    results = [
        changed(one, config={"objective": "context_ndcg"},
                questions=QuestionResults({names.get(key, key): column for key, column in one.questions.items()}),
                metrics={names[key]: replace(found, name=names[key]) for key, found in one.summaries.metrics.items()})
        for one in RESULTS[:3]
    ]  # fmt: skip
    found, metrics = compared(results), list(names.values())
    tables = [sweep_table(results, metrics, found, results[2].name, size) for size in range(130, 50, -1)]
    headers = [table.header[2:-2] for table in tables]
    intervals = [sum("[" in cell for cell in table.rows[0][2:-2]) for table in tables]
    short = headers.index([">ndcg", ">tokens", ">p95"])
    assert headers[0] == [f">{name}" for name in metrics]
    assert headers[short:] == sorted(headers[short:], key=len, reverse=True)
    assert intervals[:short] == [3] * short  # headings first
    assert intervals == sorted(intervals, reverse=True)
    fewer = next(n for n, names in enumerate(headers) if len(names) < 3)
    assert (intervals[fewer - 1], headers[fewer]) == (1, [">ndcg", ">tokens"])  # the last metrics go last of all
    assert all(table.rows[0][-1].endswith("choice") for table in tables)


def test_a_narrow_table_names_the_metric_of_the_differences_unless_it_is_the_objective() -> None:
    found, metrics = compared(RESULTS[:3]), ["ndcg", "recall", "tokens"]
    objectives: list[str | list[str]] = ["ndcg", ["ndcg", "recall"], "recall", ["recall", "ndcg"]]
    results = [[changed(one, config={"objective": objective}) for one in RESULTS[:3]] for objective in objectives]
    headers = [sweep_table(shown, metrics, found, width=60).header[-2] for shown in results]
    assert headers == [">vs #3", ">vs #3", ">ndcg vs #3", ">ndcg vs #3"]


def test_metrics_of_answers_are_dropped_last() -> None:
    results = [changed(one, settings={"answer_headline": ["tokens"]}) for one in RESULTS[:3]]
    found, metrics = compared(results), ["ndcg", "recall", "tokens"]
    headers = [sweep_table(results, metrics, found, width=size).header for size in (90, 70, 62)]
    shown = [{">ndcg", ">recall", ">tokens"} & set(header) for header in headers]
    assert {">ndcg", ">tokens"} in shown
    assert {">ndcg", ">recall"} not in shown


@pytest.mark.parametrize(("wide", "has_intervals"), [(120, True), (40, False)])
def test_slices_are_rows_and_configs_columns_with_intervals_that_fit(wide: int, has_intervals: bool) -> None:
    results = []
    for n in (3, 5, 6):
        groups = {
            "a": scored({"ndcg": [0.0] * 15}).summaries.metrics,
            "b": scored({"ndcg": drawn(n / 10, 25)}).summaries.metrics,
        }
        results.append(changed(scored({"ndcg": drawn(n / 10)}, name=f"#{n} top_k"), groups={"category": groups}))
    table = slice_table([results[2], results[0]], "category", "ndcg", wide)
    assert table.header == ["category", ">questions", ">#6", ">#3"]
    assert [row[:2] for row in table.rows] == [["a", "15"], ["b", "25"]]
    assert [cell.partition(" ")[0] for cell in table.rows[1][2:]] == [".60", ".30"]
    assert ("[" in table.rows[1][2]) == has_intervals
    assert width(table) <= wide


@pytest.mark.parametrize(("missing", "count"), [(0, ""), (1, "1 of 40 questions"), (30, "30 of 40 questions")])
def test_questions_without_the_label_are_counted_below_the_tables_of_slices(missing: int, count: str) -> None:
    """They are in no slice, so the numbers of questions in the rows do not add up to those of the set."""
    labels = {"category": [""] * missing + ["a", "b"] * ((40 - missing) // 2) + ["a"] * (missing % 2)}
    metrics = {value: scored({"ndcg": [0.5]}).summaries.metrics for value in ("a", "b")}
    one = changed(scored({"ndcg": drawn(0.5)}, labels), groups={"category": metrics})
    tables = [label_table(one, "category", ["ndcg"]), *(slice_table([one], "category", "ndcg", w) for w in (120, 10))]
    assert {table.note for table in tables} == {f"{count}: no category, so not shown" if missing else ""}


def test_an_interval_of_a_slice_without_any_hit_is_explained_where_it_is_shown() -> None:
    metrics = scored({"ndcg": [0.0] * 15}).summaries.metrics
    zero = replace(metrics["ndcg"], low=0.0, high=0.22)

    def note(found: Summary, wide: int = 200) -> str:
        one = changed(RESULTS[0], groups={"category": {"a": RESULTS[1].summaries.metrics, "b": {"ndcg": found}}})
        return slice_table([RESULTS[0], one], "category", "ndcg", wide).note

    assert note(zero).startswith(f"{cell(zero)}: 15 scores of 0")
    assert note(zero, 30) == note(replace(zero, value=0.1)) == note(replace(zero, high=0.0)) == ""
