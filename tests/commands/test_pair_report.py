"""`ragsweep compare --report`: the records and the page of two configs."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ragsweep.commands.compare import compare
from ragsweep.commands.pair_page import confusion, pair_document
from ragsweep.commands.pair_report import PairReport, stage_means
from ragsweep.core.results import HumanLabel, Result, TargetResult
from ragsweep.core.types import Question
from ragsweep.parts.metrics import TaskMetric
from ragsweep.report.document import Charts, Table
from ragsweep.stats.conclusion import Family, conclude_pair
from ragsweep.stats.human_labels import RunLabels
from ragsweep.stats.inference.differences import bootstrap_interval, student_interval
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.sweep.running.session import Session
from support.inputs.human_labels import M, pair
from support.results import changed, changed_table, drawn, record, record_sweep, scored

CATEGORY = ["tls"] * 20 + ["acl"] * 20
BEFORE = [min(max(one, 0), 1) for one in drawn(0.4)]
AFTER = [min(max(one + more, 0), 1) for one, more in zip(BEFORE, drawn(0.2, 40, 0.05, 1), strict=True)]


def matrix(clusters: list[int]) -> Matrix:
    return Matrix(
        np.array([BEFORE, AFTER]), np.array(clusters), ("a", "b"), tuple(f"q{n}" for n in range(40)), "m", asked=40
    )


def report_on(
    sweep: Sequence[Result], *metrics: str, folder: Path | str = "", labels: Sequence[HumanLabel] = ()
) -> PairReport:
    """Make the report on the first two configs of a sweep; ``folder`` is that of their ledger."""
    found = conclude_pair((sweep[0], sweep[1]), list(metrics), Family(sweep), RunLabels(labels, ("", "")))
    return PairReport(found, str(folder))


def test_student_interval_is_that_of_paired_t() -> None:
    found = stats.ttest_rel(AFTER, BEFORE).confidence_interval(0.95)
    assert student_interval(matrix(list(range(40)))) == pytest.approx((found.low, found.high))


def test_weights_alone_do_not_widen_the_student_interval() -> None:
    """An equal gain on every question is certain; adding it to others only moves their interval."""
    weights, plain = np.repeat([0.5, 1.5], 20), matrix(list(range(40)))
    one = replace(plain, values=np.array([BEFORE, AFTER]) * weights, weights=weights)
    low, high = student_interval(one)
    moved = replace(one, values=one.values + np.array([[0.0], [3.0]]) * weights)
    assert student_interval(moved) == pytest.approx((low + 3, high + 3))
    equal = replace(one, values=np.array([[1.0], [4.0]]) * weights)
    assert student_interval(equal) == pytest.approx((3, 3))


def test_bootstrap_interval_is_that_of_scipy_and_resamples_whole_clusters() -> None:
    gains = np.array(AFTER) - BEFORE
    expected = stats.bootstrap(
        (gains,), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(1)
    ).confidence_interval
    low, high = bootstrap_interval(matrix(list(range(40))))
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=0.1 * (high - low))
    halves = bootstrap_interval(matrix([0] * 20 + [1] * 20))
    assert halves == pytest.approx(sorted([gains[:20].mean(), gains[20:].mean()]))  # two clusters: either one twice
    assert np.isnan(bootstrap_interval(matrix([0] * 40))).all()


@pytest.fixture
def reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    def config(name: str, scores: list[float], retrieval: float) -> Any:
        steps = [json.dumps({"retrieve": {"ms": retrieval}, "generate": {"ms": 10}})] * 40
        value = float(np.mean(scores))
        target = TargetResult("solved", "pass" if value > 0.5 else "fail", value, 0.5, "good", True, "", 0.9, False)
        targets = {"solved": {"improvement": 0.1, "ideal_improvement": 0.5}, "enforce": False}
        latency = {"retrieve": {"mean_ms": retrieval}, "generate": {"mean_ms": 10.0}}
        found = {"name": name, "config": {"targets": targets}, "targets": (target,), "latency": latency}
        made = scored({"solved": scores}, {"category": CATEGORY}, **found)
        answers = [f"{name} says {n}" for n in range(40)]
        return changed(made, questions=changed_table(made, {"steps": steps, "answer": answers}))

    runs = record(tmp_path, config("alone", BEFORE, 0.0), config("rag", AFTER, 30.0))
    assert compare([*runs, "--path", str(tmp_path), "--report", str(tmp_path / "pair")]) == 0
    assert "comparison.html" in capsys.readouterr().out
    folder = tmp_path / "pair"
    return {
        "record": json.loads((folder / "comparison.json").read_text()),
        "cases": [json.loads(line) for line in (folder / "cases.jsonl").read_text().splitlines()],
        "page": (folder / "comparison.html").read_text(),
    }


def test_record_has_both_means_every_interval_and_the_tests_of_improvement(reported: dict[str, Any]) -> None:
    found = reported["record"]
    [row] = found["metrics"]
    assert (row["baseline"], row["candidate"]) == pytest.approx((np.mean(BEFORE), np.mean(AFTER)))
    assert row["student_low"] < row["difference"] < row["student_high"]
    assert row["bootstrap_low"] < row["difference"] < row["bootstrap_high"]
    assert row["p_wilcoxon"] < 0.001
    improvements = [(one["kind"], one["at_least"], one["decision"]) for one in found["improvements"]]
    assert improvements == [("minimal", 0.1, "pass"), ("ideal", 0.5, "fail")]
    assert found["candidate"]["mean_ms"] == {"retrieval": 30.0, "generate": 10.0, "all": 40.0}
    assert {part["value"] for part in found["slices"]} == {"tls", "acl"}


@pytest.mark.parametrize("metric", ["score", "latency_ms"])
def test_interval_of_a_required_improvement_is_that_of_its_difference(metric: str) -> None:
    before, after = drawn(10), drawn(11, 40, 0.1, 1)
    pair = [scored({metric: row}, config={"targets": {metric: {"improvement": 0.5}}}) for row in (before, after)]
    report = report_on(pair, metric)
    [found] = report.record()["improvements"]
    expected = stats.ttest_rel(after, before).confidence_interval(0.9)  # its ends are one-sided bounds at 95 %
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high))
    assert found["decision"] == ("fail" if metric == "latency_ms" else "pass")


def test_no_improvement_is_tested_of_a_metric_that_cannot_be_compared() -> None:
    """A metric without a direction ended the report with an error; a p95 was tested as if it were a mean."""
    required = {"improvement": 0.1}
    targets = dict.fromkeys(("solved", "results", "latency_p95_ms"), required)
    columns = {"solved": AFTER, "results": BEFORE, "latency_p95_ms": drawn(10)}
    one = scored(columns, config={"targets": targets})
    report = report_on([one, one], "solved")
    assert [metric for metric, *_ in report.improvements] == ["solved"]


def test_every_interval_is_of_the_questions_of_the_difference_beside_it() -> None:
    """The third config lacks the scores of the questions that gain, so the pair is compared on the others: -.125."""
    rows = [0.5] * 10, [0.9] * 2 + [0.25, 0.5] * 4, [math.nan] * 2 + [0.5] * 8
    sweep = [
        scored({"solved": list(row)}, name=name, config={"coverage": 0.7})
        for name, row in zip("abc", rows, strict=True)
    ]
    report = report_on(sweep, "solved")
    [row] = report.rows
    assert (row["questions"], row["difference"]) == (8, -0.125)
    assert (row["student_low"] + row["student_high"]) / 2 == pytest.approx(-0.125)
    assert -0.25 <= row["bootstrap_low"] < row["bootstrap_high"] <= 0  # no question of the eight gains


def test_each_case_is_one_record(reported: dict[str, Any]) -> None:
    first, *others = reported["cases"]
    assert len(others) == 39
    assert (first["question_id"], first["category"], first["candidate"]["answer"]) == ("q0", "tls", "rag says 0")
    assert first["baseline"]["scores"] == {"solved": BEFORE[0]}
    assert first["candidate"]["steps"]["retrieve"] == {"ms": 30.0}


def test_question_without_a_measured_step_has_no_time_and_an_old_record_no_reasons(tmp_path: Path) -> None:
    made = scored({"solved": BEFORE}, {"category": CATEGORY}, config={}, latency={})
    steps = [json.dumps({"judge/solved": {"words": "right"}})] * 40
    old = replace(changed_table(made, {"steps": steps}), unscored=())
    results = changed(made, name="a", questions=old), changed(made, name="b", questions=old)
    report = report_on(results, "solved", folder=tmp_path)
    assert np.isnan(np.array(report.milliseconds)).all()
    assert next(report.cases())["baseline"]["unscored"] == {}


def test_retrieval_that_was_not_measured_takes_no_time_from_the_sum() -> None:
    """Generation alone is the whole time only if it is all that was measured of both configs."""
    whole, answers, nothing = (
        changed(scored({"solved": BEFORE}), latency={stage: {"mean_ms": mean} for stage, mean in means.items()})
        for means in ({"retrieve": 2.0, "rerank": 1.0, "generate": 4.0}, {"generate": 5.0}, {})
    )
    measured = {"retrieval": 3.0, "generate": 4.0, "all": 7.0}
    assert stage_means((answers, whole)) == [{"generate": 5.0}, measured]
    assert stage_means((whole, nothing)) == [measured, {}]
    assert stage_means((answers, answers)) == [{"generate": 5.0, "all": 5.0}] * 2


def test_a_ratio_of_times_has_two_digits_and_no_exponent(tmp_path: Path) -> None:
    spent = ({"retrieve": 0.52, "generate": 800.0}, {"retrieve": 485.0, "generate": 900.0})
    found = [{stage: {"mean_ms": mean} for stage, mean in of.items()} for of in spent]
    results = [changed(scored({"solved": BEFORE}), name=f"{n}", latency=one) for n, one in enumerate(found)]
    record(tmp_path, *results)
    rows = page(report_on(results, "solved", folder=tmp_path), "cost")
    assert [row[-1] for row in rows if "ms per question" in row[0]] == ["x 930", "x 1.1", "x 1.7"]


def page(report: PairReport, key: str) -> list[list[str]]:
    """Return the rows of the table in a section of the page."""
    (table,) = next(section.blocks for section in pair_document(report).sections if section.key == key)
    assert isinstance(table, Table)
    return [list(row) for row in table.rows]


def test_improvement_of_a_metric_that_was_not_asked_for_has_its_own_direction(tmp_path: Path) -> None:
    """The latency falls by 50, which is a gain; the difference of only another metric is asked for."""
    target = TargetResult("latency_ms", "pass", 150.0, 200.0, "good", True, "")
    pair = [
        scored({"score": BEFORE, "latency_ms": drawn(mean, seed=n)}, targets=(target,),
               config={"targets": {"latency_ms": {"improvement": 20}}})
        for n, mean in enumerate((200, 150))
    ]  # fmt: skip
    record(tmp_path, *pair)
    report = report_on(pair, "score", folder=tmp_path)
    [cells] = page(report, "targets")
    assert cells[-2] == "shown: 50.0 of +20"


def test_page_shows_the_corrected_difference_beside_its_verdict(tmp_path: Path) -> None:
    results, labels = pair()
    record(tmp_path, *results)
    report = report_on(results, M, folder=tmp_path, labels=labels)
    [row], [cells] = report.rows, page(report, "result")
    assert (row["judged_verdict"], row["verdict"]) == ("shown better", "open")
    assert f"(shown better), corrected by {row['labels']} labels" in cells[-2]


def test_page_has_the_warnings_weights_and_notes_of_the_terminal(tmp_path: Path) -> None:
    """The first config declines a question, half of the questions count three times, and two parameters differ."""
    before, after = (
        changed_table(scored({"solved": column}), {"weight": [1.0, 3.0] * 20, "unscored": ["{}"] * 39 + [why]})
        for column, why in (([0.5] * 39 + [math.nan], '{"solved": "abstained"}'), (AFTER, "{}"))
    )
    sweep = [
        changed(scored({"solved": AFTER}), name=name, questions=questions, parameters={"a": name, "b": name})
        for name, questions in (("x", before), ("y", after))
    ]
    record(tmp_path, *sweep)
    report = report_on(sweep, "solved", folder=tmp_path)
    (table,) = next(section.blocks for section in pair_document(report).sections if section.key == "result")
    assert isinstance(table, Table)
    assert "The configs differ in 2 factors" in table.note
    assert "Weighted: 40 questions count as 32." in table.note
    assert "declined or nothing to measure, counted as the worst score: 1 of x" in table.rows[0][-1]


def test_page_has_targets_time_and_charts(reported: dict[str, Any]) -> None:
    page = reported["page"]
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    items = {section["id"]: section["items"] for section in data["sections"]}
    assert list(items) == ["result", "targets", "cost", "charts", "slices"]
    [[metric, before, _, after, ideal, minimal, far]] = items["targets"][0]["rows"]
    assert (metric, "fail" in before, "pass" in after, ideal) == ("solved", True, True, "fail (.90)")
    assert (minimal.split(":")[0], far.split(":")[0]) == ("shown", "not reached")
    assert [item["title"] for item in items["charts"]] == ["Means", "By label", "Response time against quality"]
    assert items["charts"][1]["note"].endswith("the dotted line is the mean.")
    assert items["cost"][0]["rows"][2][1:3] == ["10.0", "40.0"]


def test_history_has_the_sweeps_with_configs_of_the_same_signatures(tmp_path: Path) -> None:
    """A config of the same name can have other settings; one with another name can be the same config."""

    def sweep(parent: str, names: tuple[str, str], signatures: str, value: float) -> list[Any]:
        made = [
            scored({"ndcg": [value, value]}, name=name, signature=signature)
            for name, signature in zip(names, signatures, strict=True)
        ]
        record_sweep(tmp_path, parent * 32, *made)
        return made

    sweep("a", ("bm25", "vector"), "12", 0.25)
    sweep("b", ("bm25", "vector"), "34", 0.5)
    results = sweep("c", ("k=1 bm25", "k=1 vector"), "12", 0.75)
    results = [changed(one, name=f"#{n} {one.name}") for n, one in enumerate(results, 1)]
    report = report_on(results, "ndcg", folder=tmp_path)
    (history,) = [one for one in pair_document(report).sections if one.key == "history"]
    (block,) = history.blocks
    assert isinstance(block, Charts)
    assert [trace["y"] for trace in block.options[0]["figure"]["data"]] == [[0.25, 0.75]] * 2


def test_charts_of_quality_show_no_cost(tmp_path: Path) -> None:
    """Tokens have more distinct values than successes, but less of them is better."""
    made = scored({"solved": [0.0, 1.0] * 20, "context_tokens": drawn(500)}, {"category": CATEGORY})
    tokens = replace(made.summaries.metrics["context_tokens"], unit="tokens", higher_is_better=False)
    steps = [json.dumps({"retrieve": {"ms": 5.0}})] * 40
    made = changed(made, metrics={**made.summaries.metrics, "context_tokens": tokens},
                   questions=changed_table(made, {"steps": steps}))  # fmt: skip
    results = changed(made, name="a"), changed(made, name="b")
    record(tmp_path, *results)
    report = report_on(results, "context_tokens", "solved", folder=tmp_path)
    (section,) = [one for one in pair_document(report).sections if one.key == "charts"]
    shown = {block.title: block.options for block in section.blocks if isinstance(block, Charts)}
    for title in ("By label", "Response time against quality"):
        assert [one["figure"]["layout"]["yaxis"]["title"]["text"] for one in shown[title]] == ["solved"]


def test_ratios_on_the_page_have_their_intervals(tmp_path: Path) -> None:
    times = drawn(100, 40, 10), drawn(200, 40, 20, 1)
    results = [
        scored({"latency_ms": row}, {"category": CATEGORY}, name=name) for row, name in zip(times, "ab", strict=True)
    ]
    record(tmp_path, *results)
    report = report_on(results, "latency_ms", folder=tmp_path)
    shown = {section.key: section.blocks for section in pair_document(report).sections}
    for rows, column, key in ((report.rows, 7, "result"), (report.slices, 4, "slices")):
        (table,) = shown[key]
        assert isinstance(table, Table)
        expected = [f"x {row['ratio']:.2f} [{row['ratio_low']:.2f}, {row['ratio_high']:.2f}]" for row in rows]
        assert [cells[column] for cells in table.rows] == expected


def test_two_configs_of_one_name_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in two sweeps that differ in a setting that neither of them varies."""
    results = scored({"solved": BEFORE}, name="k=1"), scored({"solved": AFTER}, name="k=1")
    record(tmp_path, *results)
    monkeypatch.setattr(
        PairReport, "_pairs", lambda _, result: [("tls", "acl")] * int(100 * result.questions["solved"][0])
    )
    report = report_on(results, "solved", folder=tmp_path)
    counts = [int(100 * column[0]) for column in (BEFORE, AFTER)]
    assert [one["tls", "acl"] for one in report.confusions.values()] == counts
    assert pair_document(report).title == "k=1 (candidate) against k=1 (baseline)"


class Keyed:
    """Reads the value of a key; the KeyError for a reply without the key means that the reply is unreadable."""

    def read(self, text: str) -> Any:
        return json.loads(text)["kind"]


class Kind(TaskMetric):
    """Whether the kind is that of the case."""

    name = "kind"

    def score_output(self, question: Question, output: Any) -> float:
        return float(output == question.category)

    def pairs(self, question: Question, output: Any) -> list[tuple[str, str]]:
        return [(question.category, output)]


def test_confusions_leave_out_every_answer_that_the_metrics_count_as_unreadable_or_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAGSWEEP_TRUSTED_PACKAGES", Kind.__module__)
    dataset = SimpleNamespace(golden=SimpleNamespace(questions=[Question(f"q{n}", "?", "tls") for n in range(4)]))
    monkeypatch.setattr(Session, "recorded_dataset", lambda *_: dataset)
    config = {
        "output": {"_target_": f"{Kind.__module__}.Keyed"},
        "metrics": {"k": {"_target_": f"{Kind.__module__}.Kind"}},
    }
    columns = {
        "answer": ['{"kind": "acl"}', '{"kin": 1}', "no", '{"kind": "tls"}'],
        "answer_failed": ["", "", "", "cut"],
    }
    one = scored({"solved": [0.0] * 4}, config=config)
    one = changed(one, questions=changed_table(one, columns))
    report = report_on([one, one], "solved")
    assert [*report.confusions.values()] == [{("tls", "acl"): 1}] * 2


def test_confusions_are_counted_by_kind_with_what_was_missed_and_invented() -> None:
    counts = Counter({("tls", "tls"): 3, ("tls", ""): 1, ("", "acl"): 2})
    [trace] = confusion(counts)["data"]
    assert trace["x"] == trace["y"] == ["acl", "tls", "(none)"]
    assert trace["z"] == [[0, 0, 0], [0, 3, 1], [2, 0, 0]]
