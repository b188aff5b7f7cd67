"""`ragsweep judge`: what a judge is worth, from files and from the ledger."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from ragsweep.commands.judge import judge
from ragsweep.core.errors import InputError
from ragsweep.core.question_results import Repetitions
from ragsweep.core.results import Result, Summary
from ragsweep.records.ledger import Ledger
from ragsweep.stats.calibration import PassMark, measure
from support import output, printed_json, write_rows
from support.results import a_result, changed, changed_table, refuse

FAITHFUL = "ragas_faithfulness"


def drawn(count: int, seed: int = 0) -> tuple[dict[str, float], dict[str, float]]:
    """Draw a judge that finds 9 of 10 right answers and passes 2 of 10 wrong ones, and what people say."""
    chance = np.random.default_rng(seed)
    right = chance.random(count) < 0.6
    passed = np.where(right, chance.random(count) < 0.9, chance.random(count) < 0.2)
    ids = [f"q{n}" for n in range(count)]
    return dict(zip(ids, passed.astype(float), strict=True)), dict(zip(ids, right.astype(float), strict=True))


def rows_of(values: Mapping[str, float], name: str = "value") -> list[dict[str, Any]]:
    return [{"question_id": one, "metric": FAITHFUL, name: value} for one, value in values.items()]


def test_a_judge_is_compared_with_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verdicts, people = drawn(400)
    labelled = dict(list(people.items())[:100])
    flags = {one: bool(value) for one, value in labelled.items()}
    labels = write_rows(tmp_path / "labels.jsonl", rows_of(flags, "label"))
    given = write_rows(tmp_path / "verdicts.jsonl", rows_of(verdicts))
    (found,) = printed_json(capsys, judge, "calibrate", labels, "--verdicts", given)
    both = [(verdicts[one], value) for one, value in labelled.items()]
    assert (found["n_verdicts"], found["n_compared"]) == (400, 100)
    assert found["kappa"][0] == pytest.approx(cohen_kappa_score(*zip(*both, strict=True)))
    assert found["sensitivity"][0] == pytest.approx(np.mean([judged for judged, right in both if right]))
    assert found["specificity"][0] == pytest.approx(np.mean([1 - judged for judged, right in both if not right]))
    truth = float(np.mean(list(people.values())))
    low, high = found["corrected_passed"][1:]
    assert low <= truth <= high
    assert found["corrected_mean"][1] <= truth <= found["corrected_mean"][2]


@pytest.mark.parametrize(("count", "noted"), [(9, True), (60, False), (5001, True)])
def test_a_kappa_without_an_interval_has_a_reason(
    count: int, noted: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts, people = drawn(count)
    labels, given = (write_rows(tmp_path / f"{name}.jsonl", rows_of(values, name))
                     for name, values in (("label", people), ("value", verdicts)))  # fmt: skip
    assert judge(["calibrate", labels, "--verdicts", given]) == 0
    assert ("an interval for kappa needs 10 to 5,000 labels" in capsys.readouterr().out) == noted


def test_a_table_of_labels_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "labels.csv").write_text(
        "question_id,metric,label,who\na,m,1,x\nb,m,0,x\nc,m,yes,y\nd,m,false,y\ne,other,0.5,y\n", "utf-8"
    )
    (tmp_path / "verdicts.tsv").write_text(
        "question_id\tmetric\tvalue\na\tm\t1\nb\tm\t0\nc\tm\t1\nd\tm\t1\ne\tother\t0.25\n", "utf-8"
    )
    arguments = ("calibrate", str(tmp_path / "labels.csv"), "--verdicts", str(tmp_path / "verdicts.tsv"))
    first, second = printed_json(capsys, judge, *arguments)
    assert (first["metric"], first["sensitivity"][0], first["specificity"][0]) == ("m", 1, 0.5)
    assert second["corrected_passed"] == [None, None, None]
    (only,) = printed_json(capsys, judge, *arguments, "--metric", "other")
    assert only == second


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ({"question_id": "a", "metric": "m"}, 'has no number in "label"'),
        ({"question_id": "a", "metric": "m", "label": "good"}, '"good"; use a number'),
        ({"question_id": "a", "metric": "m", "label": "nan"}, '"nan"; use a number'),
        ({"question_id": "", "metric": "m", "label": 1}, "is blank"),
        ({"question_id": "b", "metric": "m", "label": 1}, "occurs twice"),
    ],
)
def test_a_bad_label_is_refused_with_its_line(row: dict[str, Any], fault: str, tmp_path: Path) -> None:
    labels = write_rows(tmp_path / "labels.jsonl", [{"question_id": "b", "metric": "m", "label": 1}, row])
    with pytest.raises(InputError, match=rf"labels\.jsonl:2: .*{fault}"):
        judge(["calibrate", labels, "--verdicts", labels])


def test_a_wrong_command_is_one_line() -> None:
    refuse(judge, {
        "invalid choice: 'calibrat'": ["calibrat"],
        "LABELS": ["calibrate"],
        "--run --verdicts is required": ["calibrate", "x.csv"],
        "--threshold: .* got nan": ["calibrate", "x.csv", "--run", "a", "--threshold", "nan"],
        "not allowed with": ["calibrate", "x.csv", "--run", "a", "--verdicts", "b"],
        "RUN": ["noise", "a"],
        "--such": ["noise", "a", "b", "--such"],
    })  # fmt: skip


def test_labels_without_verdicts_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no labelled question has a verdict"):
        measure("m", {"a": 1.0}, {"b": 1.0}, PassMark(0.5))
    labels = write_rows(tmp_path / "l.jsonl", [{"question_id": "b", "metric": "ragas_faithfull", "label": 1}])
    given = write_rows(tmp_path / "v.jsonl", [{"question_id": "b", "metric": FAITHFUL, "value": 1}])
    with pytest.raises(InputError, match=f'did you mean "{FAITHFUL}"'):
        judge(["calibrate", labels, "--verdicts", given])


def test_marks_of_right_and_wrong_do_not_correct_a_mean() -> None:
    verdicts = {f"q{n}": n / 40 for n in range(40)}
    marks = measure("m", verdicts, {f"q{n}": float(n % 4 == 0) for n in range(0, 40, 2)}, PassMark(0.5))
    scores = measure("m", verdicts, {f"q{n}": n / 40 - 0.1 for n in range(0, 40, 2)}, PassMark(0.5))
    assert math.isnan(marks.corrected_mean.value)
    assert scores.corrected_mean.value == pytest.approx(scores.mean - 0.1, abs=1e-3)


def test_marks_correct_no_mean_where_only_verdicts_without_a_label_are_fractions() -> None:
    verdicts = {f"q{n}": float(n % 2) if n < 20 else 0.75 for n in range(40)}
    assert math.isnan(
        measure("m", verdicts, {f"q{n}": n % 3 == 0 for n in range(20)}, PassMark(0.5)).corrected_mean.value
    )


@pytest.mark.parametrize("higher", [True, False])
def test_marks_mean_right_and_wrong_on_any_scale_of_the_verdicts(higher: bool) -> None:
    """A judge who gives 1 to 5 points, where 4 or more (or less than 4) pass, agrees with all people but one."""
    verdicts = {f"q{n}": 5.0 - n // 10 for n in range(40)}
    marks = {name: float(points >= 4) for name, points in verdicts.items()} | {"q0": 0.0}
    found = measure("m", verdicts, marks, PassMark(4.0, higher))
    agreed = (found.sensitivity.value, found.specificity.value)
    assert agreed == pytest.approx((1, 20 / 21) if higher else (20 / 21, 1))


def test_mirrored_scores_of_a_metric_where_lower_is_better_pass_the_same_answers() -> None:
    verdicts, people = drawn(60)
    mirrored = [{one: 1 - value for one, value in scores.items()} for scores in (verdicts, people)]
    higher, lower = measure("m", verdicts, people, PassMark(0.5)), measure("m", *mirrored, PassMark(0.5, False))
    for name in ("kappa", "sensitivity", "specificity", "n_right", "n_wrong", "passed", "corrected_passed"):
        assert getattr(lower, name) == getattr(higher, name), name


def judged(scores: list[float], replicate: int = 0, **parameters: str) -> Result:
    """Make a result with one judged metric."""
    ids = [f"q{n}" for n in range(len(scores))]
    summary = Summary(FAITHFUL, 0.5, 0.4, 0.6, len(scores), len(scores), 0, 0)
    outcomes = {
        "question_id": ids, "question": ids, "unscored": ["{}"] * len(scores), "context": [[] for _ in ids],
        FAITHFUL: scores,
    }  # fmt: skip
    return a_result(
        metrics={FAITHFUL: summary}, questions=outcomes, groups={}, targets=(),
        parameters={"judge.replicate": str(replicate), **parameters},
    )  # fmt: skip


def recorded(folder: Path, *results: Result) -> None:
    ledger = Ledger(folder)
    for n, one in enumerate(results):
        ledger.mark_tracked(ledger.write(None, n, one), f"run{n}abc")


def test_the_noise_of_two_judgings_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path, judged([0.5, 1.0, 0.0, math.nan]), judged([0.5, 0.5, 0.5, 1.0], replicate=1))
    found = printed_json(capsys, judge, "noise", "run0", "run1", "--path", str(tmp_path))
    assert found["differing"] == []
    assert found["metrics"][FAITHFUL]["n"] == 3
    assert found["metrics"][FAITHFUL]["spread"] == pytest.approx(0.5)


def test_what_is_no_repetition_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = judged([0.1, 0.3], top_k="3"), judged([0.1, 0.2], top_k="3")
    recorded(tmp_path, first, second, judged([0.1, 0.2], 1, top_k="9"))
    for run, said in (("run1", "same judge.replicate"), ("run2", "differ not only by chance, but also in: top_k")):
        assert said in output(capsys, judge, "noise", "run0", run, "--path", str(tmp_path))
        (warning,) = printed_json(capsys, judge, "noise", "run0", run, "--path", str(tmp_path))["warnings"]
        assert said in warning


def test_labels_are_compared_with_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path, judged([1.0, 0.0, math.nan]))
    labels = write_rows(tmp_path / "labels.jsonl", rows_of({f"q{n}": 1 for n in range(3)}, "label"))
    (found,) = printed_json(capsys, judge, "calibrate", labels, "--run", "run0abc", "--path", str(tmp_path))
    assert (found["n_labels"], found["n_compared"], found["n_verdicts"]) == (3, 2, 2)


def test_a_label_is_compared_with_the_score_of_the_answer_that_people_see(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [math.nan, 1.0, 1.0], [1.0, 1.0, 0.0]])
    result = judged(np.nanmean(scores, axis=1).tolist())
    repeated = Repetitions(np.zeros(scores.shape, np.int64), {FAITHFUL: scores})
    recorded(tmp_path, changed(result, questions=replace(result.questions, repetitions=repeated)))
    labels = write_rows(tmp_path / "labels.jsonl", rows_of({"q0": 1, "q1": 0, "q2": 1, "q3": 1}, "label"))
    (found,) = printed_json(capsys, judge, "calibrate", labels, "--run", "run0abc", "--path", str(tmp_path))
    assert (found["kappa"][0], found["sensitivity"][0], found["specificity"][0]) == (1, 1, 1)
    assert found["passed"][0] == pytest.approx(2 / 3)
    assert found["missing"] == {"first answer without a score": 1}


def test_a_runs_metric_where_lower_is_better_passes_below_the_threshold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = judged([1.0, 0.0, 0.0])
    summary = replace(result.summaries.metrics[FAITHFUL], higher_is_better=False)
    recorded(tmp_path, changed(result, metrics={FAITHFUL: summary}))
    labels = write_rows(tmp_path / "labels.jsonl", rows_of({"q0": 1, "q1": 0, "q2": 1}, "label"))
    (found,) = printed_json(capsys, judge, "calibrate", labels, "--run", "run0abc", "--path", str(tmp_path))
    assert (found["n_right"], found["n_wrong"]) == (1, 2)
    assert found["passed"][0] == pytest.approx(2 / 3)


def test_labels_without_a_verdict_are_counted_by_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = judged([1.0, 0.0, math.nan, math.nan, math.nan])
    why = [{}, {}, {FAITHFUL: "truncated"}, {FAITHFUL: "truncated"}, {FAITHFUL: "malformed"}]
    recorded(tmp_path, changed(result, questions=changed_table(result, {"unscored": list(map(json.dumps, why))})))
    rows = rows_of({f"q{n}": 1 for n in range(6)}, "label")
    source = ("--run", "run0abc", "--path", str(tmp_path))
    (found,) = printed_json(capsys, judge, "calibrate", write_rows(tmp_path / "labels.jsonl", rows), *source)
    unknown = "not among the judged questions (check question_id)"
    assert found["missing"] == {"truncated": 2, "malformed": 1, unknown: 1}
    assert found["n_compared"] + sum(found["missing"].values()) == found["n_labels"]
    assert judge(["calibrate", str(tmp_path / "labels.jsonl"), *source]) == 0
    assert f"2 truncated, 1 malformed, 1 {unknown}" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(InputError, match=r"no labelled question has a verdict: 2 truncated, 1 malformed; label"):
        judge(["calibrate", write_rows(tmp_path / "failed.jsonl", rows[2:5]), *source])


def test_a_run_that_is_not_there_or_not_one_is_an_error(tmp_path: Path) -> None:
    recorded(tmp_path, judged([1.0]), judged([0.0]))
    with pytest.raises(InputError, match='no run "x%" has a result'):
        judge(["noise", "x%", "run0", "--path", str(tmp_path)])
    with pytest.raises(InputError, match="the runs do not both have the metric"):
        judge(["noise", "run0", "run1", "--metric", "mrr", "--path", str(tmp_path)])
