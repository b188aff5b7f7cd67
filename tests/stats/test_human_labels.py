"""Labels count for the very answers that they were given to, and decide differences of configs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.commands.compare import compare
from ragsweep.commands.gate import gate
from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.results import HumanLabel, Result
from ragsweep.golden.human_labels import check_scale, read_labels
from ragsweep.stats.human_labels import MatchedLabels, RunLabels, correct_difference, match_labels, reason_uncorrected
from ragsweep.stats.inference.matrix import Matrix, score_matrix
from ragsweep.stats.inference.prediction_powered import Corrected, prediction_powered
from support.inputs.human_labels import COUNT, M, answered, biased, label, pair, written
from support.matrices import matrix
from support.results import changed, record, table_rows

ALL = np.ones(4, dtype=bool)


def matched(labels: list[HumanLabel], *results: Result) -> MatchedLabels:
    matrix = score_matrix(results, M)
    runs = [f"{n}{result.name}" for n, result in enumerate(results)]
    return match_labels(RunLabels(labels, runs), results, matrix)


FIRST = answered("a", ["same", "x", "y", "z"])
SECOND = answered("b", ["same", "u", "v", "w"])


def test_a_label_without_run_or_answer_counts_for_no_answer_that_differs() -> None:
    found = matched([label(0), label(1)], FIRST, SECOND)
    assert np.isnan(found.of((0, 1), ALL)).all()  # the one that fits was selected by being the same
    assert "of 2 labels, these are unused: 1 with neither run nor answer" in found.why_unused()
    assert matched([label(0), label(1)], FIRST).of((0,), ALL)[0, :2].tolist() == [1, 1]


@pytest.mark.parametrize("name", ["a", "0a"])
def test_a_label_of_a_run_counts_for_it_and_for_equal_answers_only_together(name: str) -> None:
    found = matched([label(0, run=name), label(1, run=name)], FIRST, SECOND)
    labels = found.of((0, 1), ALL)
    assert labels[0, :2].tolist() == [1, 1]
    assert np.isnan(labels[1]).all()
    whole = matched([label(0, run=name), label(1, run=name), label(1, 0.0, run="b")], FIRST, SECOND)
    assert whole.of((0, 1), ALL)[1, :2].tolist() == [1, 0]


def test_an_answer_names_its_config_whatever_its_whitespace_and_a_stale_one_none() -> None:
    found = matched([label(1, answer=" x\n"), label(1, 0.0, answer="u")], FIRST, SECOND)
    assert found.of((0, 1), ALL)[:, 1].tolist() == [1, 0]
    stale = matched([label(1, run="a", answer="old")], FIRST, SECOND)
    assert np.isnan(stale.of((0, 1), ALL)).all()
    assert "of 1 label, these are unused: 1 whose answer was not given" in stale.why_unused()
    assert "label more answers" in stale.way_out()
    nameless = matched([label(1, run="sweep")], FIRST, SECOND).way_out()
    assert "1 whose run is neither the run id nor the name" in nameless
    assert 'into the column "run"' in nameless  # which exists
    assert "give the labels a column" not in nameless
    part = matched([label(1, answer="x"), label(2, answer="v")], FIRST, SECOND)
    assert np.isnan(part.of((0, 1), ALL)).all()  # each config's labels were selected by whose answer they are


def test_equal_answers_from_other_contexts_are_other_cases() -> None:
    other = answered("b", ["same", "u", "v", "w"], contexts="c")
    assert np.isnan(matched([label(0, run="a")], FIRST, other).of((1,), ALL)).all()
    assert matched([label(0, answer="same")], FIRST, other).unused
    assert matched([label(0, run="a")], FIRST, SECOND).of((1,), ALL)[0, 0] == 1


@pytest.mark.parametrize("metric", ["success_rate", "semantic_similarity", "ragas_factual_correctness"])
def test_a_label_of_a_metric_that_reads_the_answer_alone_counts_for_it_from_any_context(metric: str) -> None:
    results = [FIRST, answered("b", ["same", "u", "v", "w"], contexts="c")]
    labels = RunLabels([label(0, answer="same")], ["", ""])
    found = match_labels(labels, results, replace(score_matrix(results, M), metric=metric))
    assert found.of((0, 1), ALL)[:, 0].tolist() == [1, 1]
    assert not found.unused


def test_labels_that_are_enough_but_on_one_document_need_others() -> None:
    found = Corrected(np.nan, np.nan, np.nan, 0.5, np.nan, labels=12)
    assert "10 are needed" not in reason_uncorrected(matched([], FIRST), found)
    assert "on one source document" in reason_uncorrected(matched([], FIRST), found)


def test_a_run_that_names_two_configs_is_refused() -> None:
    with pytest.raises(InputError, match='"a" matches 2 configs'):
        matched([label(0, run="a")], FIRST, FIRST)


def test_columns_run_and_answer_are_read(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text('question_id,metric,label,run,answer\nq1,m,1,7f3a,"a, b"\nq1,m,0,7f3b,\n', "utf-8")
    first, second = HumanLabel("q1", "m", 1, "7f3a", "a, b"), HumanLabel("q1", "m", 0, "7f3b")
    assert read_labels(path) == [first._replace(where=f"{path}:2"), second._replace(where=f"{path}:3")]
    path.write_text("question_id,metric,label,run\nq1,m,1,a\nq1,m,0,a\n", "utf-8")
    with pytest.raises(InputError, match=r"labels\.csv:3: .* occurs twice"):
        read_labels(path)


@pytest.mark.parametrize(
    ("values", "bounds", "line", "meaning"),
    [
        ((4, 5, 1), (0, 1), 2, r"on a scale of 1 to 5, replace each label by \(label - 1\) / 4"),
        ((0.5, 85, 100), (0, 1), 3, "divide percentages by 100"),
        ((0, 8, 7.5), (0, 1), 3, "divide points out of 10 by 10"),
        ((0.5, -3, 1), (-1, 1), 3, "use scores from -1 to 1, or only 0 and 1"),
    ],
)
def test_labels_beyond_the_bounds_of_their_metric_are_refused_with_line_and_meaning(
    tmp_path: Path, values: tuple[float, ...], bounds: tuple[float, float], line: int, meaning: str
) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("question_id,metric,label\n" + "".join(f"q{n},m,{value}\n" for n, value in enumerate(values)))
    with pytest.raises(InputError, match=rf"^{path}:{line}: the label .* of m is not between .*{meaning}"):
        check_scale(read_labels(path), {"m": bounds})


@given(st.lists(st.floats(-2, 3)), st.booleans())
def test_labels_within_bounds_and_marks_of_right_and_wrong_are_accepted(values: list[float], marks: bool) -> None:
    labels = [HumanLabel(f"q{n}", "m", float(value > 0) if marks else value) for n, value in enumerate(values)]
    check_scale(labels, {"m": (0.5, 0.6) if marks else (-2, 3), "unlabelled": (0, 0)})


def test_intervals_hold_where_some_answers_are_the_same_and_those_of_both_were_labelled_apart() -> None:
    held = 0
    for seed in range(400):
        people, judged, same = biased(seed)
        chosen = np.random.default_rng([seed, 1]).random((2, COUNT)) < 0.25
        settled = np.tile(np.where(same, 0.0, np.nan), (2, 1))
        found = prediction_powered(matrix(judged), np.where(chosen, people, np.nan), (-1, 1), settled=settled)
        held += found.low <= 0 <= found.high
    assert 0.91 <= held / 400 <= 0.98


def test_compare_decides_by_the_corrected_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, labels = pair()
    runs = record(tmp_path, *results)
    options = [*runs, "--path", str(tmp_path), "--labels", written(tmp_path / "l.jsonl", labels)]
    assert compare([*options, "--json"]) == 0
    (row,) = table_rows(json.loads(capsys.readouterr().out)["table"])
    assert (row["judged_verdict"], row["verdict"]) == ("shown better", "open")
    assert row["corrected_low"] < 0 < row["corrected_high"]
    assert row["difference"] > 0.1
    nameless = [one._replace(run="") for one in labels[::2]]
    with pytest.raises(InputError, match=r'neither run nor answer.*give the labels a column "run"'):
        compare([*runs, "--path", str(tmp_path), "--labels", written(tmp_path / "n.jsonl", nameless)])
    other = [one._replace(metric="mrr") for one in labels]
    with pytest.raises(InputError, match=r"are of mrr, none of a compared metric \(ragas_faithfulness\)"):
        compare([*runs, "--path", str(tmp_path), "--labels", written(tmp_path / "o.jsonl", other)])


def test_labels_of_a_metric_that_tables_do_not_show_are_in_the_report(tmp_path: Path) -> None:
    results, labels = pair()
    other = [
        changed(
            one,
            {"other": one.questions[M]},
            config={"objective": "other", "headline": ["other"]},
            metrics={**one.summaries.metrics, "other": replace(one.summaries.metrics[M], name="other")},
        )
        for one in results
    ]
    options = [*record(tmp_path, *other), "--path", str(tmp_path), "--labels", written(tmp_path / "l.jsonl", labels)]
    assert compare([*options, "--report", str(tmp_path / "pair")]) == 0
    shown = json.loads((tmp_path / "pair" / "comparison.json").read_text())["metrics"]
    assert [(one["metric"], one["labels"] > 0) for one in shown] == [("other", False), (M, True)]


def test_weights_count_in_corrections() -> None:
    results, _ = pair()
    weights = np.tile([0.5, 1.5], COUNT // 2).tolist()
    weighed = [changed(one, {"weight": weights}) for one in results]
    matrix: Matrix = score_matrix(weighed, M)
    whole = [label(n, results[row].questions[M][n], run) for n in range(COUNT) for row, run in ((0, "a"), (1, "b"))]
    found = correct_difference(matrix, match_labels(RunLabels(whole, ["", ""]), weighed, matrix), (0, 1))
    differences = matrix.scores[1] - matrix.scores[0]
    assert found.value == pytest.approx(np.average(differences, weights=weights))


def gated(folder: Path, results: list[Result], labels: list[HumanLabel], *conditions: str) -> list[dict[str, Any]]:
    """Run the gate with labels; return its checks."""
    if not (folder / "ledger.db").exists():
        record(folder, *results)
    options = ["--baseline", "1" * 32, "--candidate", "2" * 32, "--path", str(folder), "--json", str(folder / "g.json")]
    gate([*options, "--labels", written(folder / "l.jsonl", labels), *conditions])
    return table_rows(json.loads((folder / "g.json").read_text())["checks"])


def test_the_gate_decides_by_what_the_labels_correct(tmp_path: Path) -> None:
    results, labels = pair()
    (gain,) = gated(tmp_path, results, labels, "--at-least", f"{M}=+.05")
    assert (gain["judged_decision"], gain["decision"], gain["labels"]) == ("pass", "fail", 72)
    matrix = score_matrix(results, M)
    found = correct_difference(matrix, match_labels(RunLabels(labels, ["", ""]), results, matrix), (0, 1), 0.9)
    assert gain["difference"] == pytest.approx(found.value)
    assert (gain["low"], gain["high"]) == pytest.approx((found.low - 0.05, found.high - 0.05))
    (level,) = gated(tmp_path, results, labels, "--at-least", f"{M}=.65")
    people = [one.value for one in labels if one.run == "b"]
    assert (level["judged_decision"], level["decision"]) == ("pass", "fail")
    assert level["candidate"] == pytest.approx(np.mean(people), abs=0.05)
    (share,) = gated(tmp_path, results, labels, "--margin", f"{M}=10%")
    assert share["margin"] == pytest.approx(0.1 * share["baseline"])
    assert share["slack"] == pytest.approx(share["difference"] + share["margin"], abs=0.05)
    assert share["judged_low"] > 0 > share["low"]


def test_questions_that_the_candidate_failed_stay_the_worst_case(tmp_path: Path) -> None:
    results, labels = pair(gain=0.3)
    failed = set(range(0, COUNT, 3))
    scores = [np.nan if n in failed else one for n, one in enumerate(results[1].questions[M])]
    texts = ["" if n in failed else one for n, one in enumerate(results[1].questions["answer"])]
    unscored = [json.dumps({M: "timed out"}) if n in failed else "{}" for n in range(COUNT)]
    after = changed(answered("b", texts, scores), {"unscored": unscored})
    given = [one for one in labels if one.run == "a" or int(one.question[1:]) not in failed]
    found, level = gated(tmp_path, [results[0], after], given, "--margin", f"{M}=.02", "--at-least", f"{M}=.6")
    truth = biased(1, gain=0.3)[0]
    truth[1, list(failed)] = 0
    assert found["low"] - 0.02 <= truth[1].mean() - truth[0].mean() <= found["high"] - 0.02
    assert found["decision"] == "fail"  # though the answers that there are have improved
    assert level["candidate"] == pytest.approx(truth[1].mean(), abs=0.03)
    elsewhere = [one for one in given if one.run == "a" or int(one.question[1:]) % 2]
    (apart,) = gated(tmp_path, [], elsewhere, "--margin", f"{M}=.05")
    assert apart["low"] - 0.05 <= truth[1].mean() - truth[0].mean() <= apart["high"] - 0.05


def test_the_gate_says_what_it_cannot_correct(tmp_path: Path) -> None:
    results, labels = pair()
    (few,) = gated(tmp_path, results, labels[:18], "--margin", f"{M}=.05")
    assert (few["judged_decision"], few["decision"]) == ("pass", "inconclusive")
    assert "10 are needed" in few["note"]
    for option in ("--sequential", "--each"):
        with pytest.raises(ConfigError, match=f"{option} and --labels"):
            gated(tmp_path, results, labels, "--margin", f"{M}=.05", option)
    with pytest.raises(InputError, match="neither run nor answer"):
        gated(tmp_path, results, [one._replace(run="") for one in labels[::2]], "--margin", f"{M}=.05")


def test_equal_answers_are_no_proof_with_labels_either(tmp_path: Path) -> None:
    results, labels = pair()
    twin = answered("b", results[0].questions["answer"], results[0].questions[M])
    (found,) = gated(tmp_path, [results[0], twin], labels[::2], "--margin", f"{M}=.005")
    assert (found["difference"], found["decision"]) == (0, "inconclusive")
    assert found["low"] == found["judged_low"] < 0
