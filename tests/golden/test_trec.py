"""TREC files: written so that any tool keeps our order; and trec_eval's own files have trec_eval's values."""

import re
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragsweep.core.types import Evidence, Metric, Question
from ragsweep.evaluation.evidence import cover, view
from ragsweep.evaluation.trec_texts import grades, six_digits, strictly_falling, write_qrels, write_run
from ragsweep.parts.metrics import HitRate, MeanAveragePrecision, Mrr, Ndcg, Precision, Recall
from support.inputs.trec_files import align, read_qrels, read_run


def put(folder: Path, text: str | bytes) -> Path:
    path = folder / "file.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


PATTERNS = {
    r"ndcg": Ndcg, r"ndcg_cut_(\d+)": Ndcg, r"map": MeanAveragePrecision, r"map_cut_(\d+)": MeanAveragePrecision,
    r"recall_(\d+)": Recall, r"set_recall": Recall, r"P_(\d+)": Precision, r"success_(\d+)": HitRate,
    r"recip_rank": Mrr,
    r"ndcg_1=3,2=9,4=4.5": Ndcg,  # all relevant documents of this file have grade 1: one gain, of any size
}  # fmt: skip


def metric_for(measure: str) -> Metric | None:
    for pattern, kind in PATTERNS.items():
        if match := re.fullmatch(pattern, measure):
            return kind(*map(int, match.groups()))
    return None


@pytest.mark.parametrize(
    ("expected", "run", "values"),
    [("out.test", "results.test", 11), ("out.test.aq", "results.test", 172), ("out.test.aqc", "results.trunc", 172),
     ("out.test.meas_params", "results.test", 48)],
)  # fmt: skip
def test_every_value_of_trec_evals_expected_files(collections: Path, expected: str, run: str, values: int) -> None:
    folder = collections / "trec_eval"
    chunks, golden, rankings = align(read_run(folder / run), read_qrels(folder / "qrels.test"))
    looked = view(cover(chunks, golden), rankings, 10)
    row = {question.id: n for n, question in enumerate(golden.questions)}
    checked = 0
    for line in (folder / expected).read_text().splitlines():
        measure, question, value = line.split(maxsplit=2)
        if metric := metric_for(measure):
            scores = metric.score(looked).values
            ours = scores.mean() if question == "all" else scores[row[question]]
            assert f"{ours:.4f}" == value, f"{measure} of {question}"
            checked += 1
    assert checked == values


NUMBERS = st.floats(-(2.0**99), 2.0**99, width=32) | st.sampled_from([0.0, -0.0, 1.0, 2.0, 1e-45])
ROWS = st.lists(NUMBERS, min_size=1, max_size=9)


@given(ROWS)
def test_written_scores_fall_strictly_and_move_no_further_than_they_must(row: list[float]) -> None:
    scores = np.array(row, dtype=np.float32)
    written = strictly_falling(scores)
    assert (np.diff(written.astype(np.float64)) < 0).all()
    expected = [scores[0] + np.float32(0)]
    for score in scores[1:]:
        expected.append(min(score, np.nextafter(expected[-1], np.float32(-np.inf))))
    assert written.tolist() == [float(score) for score in expected]


def run_of(rows: dict[str, list[tuple[str, float]]], tag: str = "ragsweep") -> str:
    scores = np.array([score for row in rows.values() for _, score in row], dtype=np.float32)
    return write_run(list(rows), [[name for name, _ in row] for row in rows.values()], scores, tag)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS)
def test_written_run_is_read_in_its_order_by_us_and_pytrec_eval(tmp_path: Path, row: list[float]) -> None:
    names = [f"d{n}" for n in range(len(row))]
    path = put(tmp_path, run_of({"q": list(zip(names, row, strict=True))}))
    read = read_run(path)["q"]
    assert [document for document, _ in read] == names
    with path.open() as lines:
        parsed = pytrec_eval.parse_run(lines)
    for rank, name in enumerate(names, start=1):
        judged = pytrec_eval.RelevanceEvaluator({"q": {name: 1}}, {"recip_rank"}).evaluate(parsed)
        assert judged["q"]["recip_rank"] == pytest.approx(1 / rank)


def test_score_is_written_to_six_digits_and_more_only_where_two_would_be_equal() -> None:
    text = run_of({"q": [("a", 12.3456789), ("b", 0.1 + 0.2), ("c", 0.29999999), ("d", 0.25)]}, tag="top_k=3 llm=none")
    scores = ("a 1 12.3457", "b 2 0.3", "c 3 0.29999998", "d 4 0.25")
    assert text == "".join(f"q Q0 {score} top_k=3%20llm=none\n" for score in scores)


@given(st.lists(NUMBERS, min_size=1, max_size=9))
def test_six_digits_are_those_that_python_writes(scores: list[float]) -> None:
    rounded = six_digits(np.array(scores, dtype=np.float32))
    assert rounded.tolist() == [float(np.float32(f"{np.float32(score):.6g}")) for score in scores]


@given(st.lists(ROWS | st.just([]), max_size=4))
def test_lines_of_a_question_do_not_depend_on_the_other_questions(rows: list[list[float]]) -> None:
    run = {f"q{n}": [(f"d{place}", score) for place, score in enumerate(row)] for n, row in enumerate(rows)}
    assert run_of(run) == "".join(run_of({question: row}) for question, row in run.items())


def test_white_space_in_ids_does_not_break_the_columns(tmp_path: Path) -> None:
    assert read_run(put(tmp_path, run_of({"my question": [("a\tb", 1.0)]}))) == {"my%20question": [("a%09b", 1.0)]}


def test_labels_are_written_as_qrels_with_the_best_grade_of_a_document(tmp_path: Path) -> None:
    evidence = (Evidence("a", "x", grade=1.0), Evidence("a", "y", grade=2.0), Evidence("b", grade=-1.0))
    text = write_qrels(grades([Question("q", "", evidence=evidence), Question("none", "")]))
    assert text == "q 0 a 2\nq 0 b -1\n"
    assert read_qrels(put(tmp_path, text)) == {"q": {"a": 2.0, "b": -1.0}}
