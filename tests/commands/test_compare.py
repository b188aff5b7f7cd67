"""`ragsweep compare`: two recorded configs, question by question."""

import io
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest
from scipy import stats

from ragsweep.commands.ablate import changes_document
from ragsweep.commands.compare import compare
from ragsweep.commands.gate import gate
from ragsweep.commands.power import power
from ragsweep.core.results import PARTIAL
from ragsweep.records.ledger import Ledger
from ragsweep.report.numbers import signed
from ragsweep.stats.compare_configs import compare_configs
from ragsweep.stats.comparison import SweepComparison
from ragsweep.sweep.concluding.summarise import summarise_sweep
from support import output, printed_json
from support.results import (
    FACTS,
    break_constraints,
    changed,
    changed_table,
    drawn,
    record,
    record_sweep,
    refuse,
    scored,
    table_rows,
)

CATEGORY = ["how-to"] * 20 + ["trouble"] * 20


@pytest.fixture
def pair(tmp_path: Path) -> list[str]:
    """Two runs: the second is better by .2 on average, and worse by .3 on one of two categories."""
    before, gains = drawn(0.5), drawn(0.7, 20, 0.05, 1) + drawn(-0.3, 20, 0.05, 2)
    after = [one + gain for one, gain in zip(before, gains, strict=True)]
    labels, rows = {"category": CATEGORY}, (("3", before), ("5", after))
    results = [scored({"ndcg": row}, labels, name=f"top_k={k}", parameters={"top_k": k}) for k, row in rows]
    return [*record(tmp_path, *results), "--path", str(tmp_path)]


def test_difference_is_of_paired_questions(pair: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = printed_json(capsys, compare, *pair)
    (row,) = table_rows(found["table"])
    assert row["difference"] == pytest.approx(0.2)
    assert row["low"] < 0.2 < row["high"]
    assert (row["helped"], row["hurt"], row["alike"], row["questions"]) == (20, 20, 0, 40)
    gains = np.array([one["difference"] for one in table_rows(found["questions"])])
    assert row["p_wilcoxon"] == pytest.approx(stats.wilcoxon(gains, correction=False, method="asymptotic").pvalue)
    assert row["effect_size"] == pytest.approx(gains.mean() / gains.std(ddof=1))
    assert found["metrics"]["ndcg.difference"] == row["difference"]
    assert found["factors"] == [{"name": "top_k", "before": "3", "after": "5"}]
    assert found["warnings"] == []


def test_better_on_average_and_worse_somewhere_is_said(pair: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "better on average, shown worse on category trouble" in output(capsys, compare, *pair)
    slices = {one["value"]: one["verdict"] for one in table_rows(printed_json(capsys, compare, *pair)["slices"])}
    assert slices == {"how-to": "shown better", "trouble": "shown worse"}


def test_mlflow_takes_the_metrics_and_reads_the_tables(pair: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    from mlflow.utils.validation import _validate_metric_name

    found = printed_json(capsys, compare, *pair)
    for name, value in found["metrics"].items():
        _validate_metric_name(name)
        assert isinstance(value, float)
    for name in ("table", "slices", "questions"):
        read = pandas.read_json(io.StringIO(json.dumps(found[name])), orient="split")  # what mlflow.load_table does
        assert list(read.columns) == found[name]["columns"]
        assert len(read) == len(found[name]["data"])


def test_one_question_and_one_document_are_in_the_singular(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = replace(FACTS, questions=1, documents=1)
    results = [scored({"ndcg": [one]}, dataset=facts, parameters={"k": f"{one}"}) for one in (0.2, 0.3)]
    first, second = record(tmp_path, *results)
    path = ["--path", str(tmp_path)]
    assert compare([first, second, *path]) == 0
    assert gate(["--baseline", first, "--candidate", second, "--margin", "ndcg=.1", *path]) == 3
    printed = output(capsys, power, first, second, *path) + changes_document(results, None).statements[0].text
    assert printed.count("1 question") >= 4
    assert "1 questions" not in printed
    assert "1 documents" not in printed


def test_the_same_config_twice_has_no_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = scored({"ndcg": drawn(0.5)})
    runs = record(tmp_path, one, one)
    found = printed_json(capsys, compare, *runs, "--path", str(tmp_path))
    (row,) = table_rows(found["table"])
    assert (row["difference"], row["low"], row["high"], row["verdict"]) == (0, 0, 0, "the same")
    assert "both runs have the same config" in found["warnings"][0]
    assert found["questions"] == {"columns": [], "data": []}


def test_questions_that_one_lacks_are_left_out_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = drawn(0.5)
    runs = record(tmp_path, scored({"ndcg": scores}), scored({"ndcg": [float("nan"), *scores[1:]]}))
    assert "compared on 39 of 40 questions" in output(capsys, compare, *runs, "--path", str(tmp_path))


def test_two_changes_at_once_are_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = drawn(0.5)
    one = scored({"ndcg": scores}, parameters={"top_k": "3", "depth": "50"})
    runs = record(tmp_path, one, changed(one, parameters={"top_k": "5", "depth": "100"}))
    assert "differ in 2 factors" in output(capsys, compare, *runs, "--path", str(tmp_path))


def test_what_cannot_be_compared_is_one_clear_line(tmp_path: Path) -> None:
    one = scored({"ndcg": drawn(0.5), "mrr": drawn(0.5)})
    others = [changed(one, dataset=replace(FACTS, golden_digest="e" * 64)), changed(one, state=PARTIAL)]
    first, elsewhere, partial, last = record(tmp_path, one, *others, one)
    record_sweep(tmp_path, "feed" * 8, one, one)
    refuse(compare, {
        "^rebaseline: the golden set": [first, elsewhere],
        "is PARTIAL": [first, partial],
        'no run "9" has a result': [first, "9"],
        '"feed" is a sweep': [first, "feed"],
        'did you mean "ndcg"': [first, last, "--metric", "ndgc"],
        "RUN": [first],
        "not allowed with": [first, last, "--json", "--markdown"],
    }, "--path", str(tmp_path))  # fmt: skip


@pytest.mark.parametrize(("value", "told"), [(0.0004, "+.0004"), (-4e-5, "-.00004"), (1e-17, "+.000"), (0.2, "+.200")])
def test_number_near_zero_shows_on_which_side_it_lies(value: float, told: str) -> None:
    assert signed(value) == told


def test_configs_of_a_sweep_have_the_verdict_of_the_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Against a declared baseline, or among all pairs: a pair alone has a narrower interval."""
    rows = [drawn(0.5 + n / 100, seed=n) for n in range(5)]
    for parent, config in (("a" * 32, {}), ("b" * 32, {"baseline": 1})):
        results = [scored({"ndcg": row}, name=f"k={n}", parameters={"k": f"{n}"}, overrides=(f"k={n}",), config=config)
                   for n, row in enumerate(rows)]  # fmt: skip
        record_sweep(tmp_path, parent, *results)
        named = [changed(one, name=f"#{n} {one.name}") for n, one in enumerate(results, start=1)]
        whole = compare_configs(named, baseline=named[0].name if config else None)
        for other in (row for row in range(5) if row != whole.reference):
            runs = [f"{parent}#{whole.reference + 1}", f"{parent}#{other + 1}"]
            (row,) = table_rows(printed_json(capsys, compare, *runs, "--path", str(tmp_path))["table"])
            low, high = (float(one[other]) for one in (whole.differences.low, whole.differences.high))
            assert (row["low"], row["high"]) == pytest.approx((low, high))
            assert row["verdict"].startswith(whole.verdicts[other].kind)
            assert row["compared_among"] == 5


def test_trials_outside_the_constraints_do_not_widen_a_pair_unless_they_are_one_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [drawn(0.5 + n / 100, seed=n) for n in range(6)]
    results = [
        scored({"ndcg": row}, name=f"k={n}", parameters={"k": f"{n}"}, overrides=(f"k={n}",))
        for n, row in enumerate(rows)
    ]
    record_sweep(tmp_path, "a" * 32, *results)
    break_constraints(tmp_path, 1, 2, 4)
    ledger = Ledger(tmp_path)
    verdict = summarise_sweep(ledger, ledger.records(ledger.sweeps()[0].id)).verdict
    assert isinstance(verdict, SweepComparison)
    assert list(verdict.matrix.configs) == ["#1 k=0", "#4 k=3", "#6 k=5"]
    (first,) = (number for number, row in ((1, 0), (4, 1), (6, 2)) if row == verdict.reference)
    for number, row in ((1, 0), (4, 1), (6, 2), (2, None)):
        if number != first:
            found = printed_json(capsys, compare, f"aaaa#{first}", f"aaaa#{number}", "--path", str(tmp_path))
            (pair,) = table_rows(found["table"])
            assert pair["compared_among"] == (4 if row is None else 3)
            if row is not None:
                ends = float(verdict.differences.low[row]), float(verdict.differences.high[row])
                assert (pair["low"], pair["high"]) == pytest.approx(ends)


def test_configs_of_a_sweep_with_other_questions_are_no_part_of_the_comparison(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sweep over two golden sets has no verdict, but a pair on one of them does, as if they were swept alone."""
    for folder, number in (("one", 1), ("both", 2)):
        results = []
        for golden in range(number):
            for n in range(3):
                facts = replace(FACTS, golden_digest=f"{golden}" * 64)
                settings = {"golden": f"{golden}", "k": f"{n}"}
                one = scored({"ndcg": drawn(0.5 + n / 10, seed=n)}, name=f"g={golden} k={n}", parameters=settings,
                             overrides=(f"g={golden}", f"k={n}"), dataset=facts)  # fmt: skip
                ids = [f"{golden}-{n}" for n in range(40)]
                results.append(changed(one, questions=changed_table(one, {"question_id": ids})))
        record_sweep(tmp_path / folder, "a" * 32, *results)
    found = []
    for folder in ("one", "both"):
        runs = ["aaaa#1", "aaaa#3", "--path", str(tmp_path / folder)]
        compared = printed_json(capsys, compare, *runs)["table"]
        found.append((compared, printed_json(capsys, power, *runs)["table"]))
    assert found[1] == found[0]


def test_a_slice_is_called_perhaps_worse_by_its_ratio(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One question is so slow that a slice's mean rises, although the candidate is typically faster in it."""
    draws = np.random.default_rng(0)
    before = np.exp(draws.normal(5, 0.3, 80))
    after = before * np.exp(draws.normal(-0.3, 0.45, 80))
    before[0], after[0] = 400, 2400
    labels = {"category": ["a"] * 40 + ["b"] * 40}
    results = [scored({"latency_ms": one.tolist()}, labels, signature=str(one[1])) for one in (before, after)]
    found = printed_json(capsys, compare, *record(tmp_path, *results), "--path", str(tmp_path))
    first, _ = table_rows(found["slices"])
    assert (first["difference"] > 0, first["ratio"] < 1, first["note"] != "") == (True, True, True)
    assert "perhaps worse" not in output(capsys, compare, "1" * 32, "2" * 32, "--path", str(tmp_path))


def test_amounts_are_compared_by_their_ratio(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, gains = drawn(3, 40, 1.0), drawn(0.25, 40, 0.1, 1)
    after = [one + more for one, more in zip(before, gains, strict=True)]
    columns = [{"latency_ms": np.exp(one).tolist()} for one in (before, after)]
    labels = {"category": CATEGORY}
    runs = record(tmp_path, scored(columns[0], labels), scored(columns[1], labels, parameters={"top_k": "9"}))
    found = printed_json(capsys, compare, *runs, "--path", str(tmp_path))
    (row,) = table_rows(found["table"])
    assert row["ratio"] == pytest.approx(math.exp(np.mean(gains)))
    assert row["ratio_low"] < row["ratio"] < row["ratio_high"]
    assert (row["low"], row["high"]) == (None, None)
    assert row["difference"] == pytest.approx(row["candidate"] - row["baseline"])
    assert all(part["ratio_low"] < part["ratio"] for part in table_rows(found["slices"]))
    assert f"x {row['ratio']:.2f} [" in output(capsys, compare, *runs, "--markdown", "--path", str(tmp_path))
