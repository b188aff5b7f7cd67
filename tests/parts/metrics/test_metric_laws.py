"""What holds for every metric, whatever the chunking, the evidence and the ranking."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.types import Chunks, Corpus, EvaluationView, Evidence, GoldenSet, Metric, Question, Rankings, Spans
from ragsweep.evaluation.evidence import cover, view
from ragsweep.parts import metrics

OPTIONS = Path(__file__).parents[3] / "conf" / "metrics" / "retrieval.yaml"
TEXT = "one two, three four. five six; seven eight"


def shipped() -> dict[str, Metric]:
    """Build every metric of the shipped option as its YAML says."""
    entries = yaml.safe_load(OPTIONS.read_text(encoding="utf-8"))
    made = {}
    for name, entry in entries.items():
        module, _, target = entry.pop("_target_").rpartition(".")
        assert module == "ragsweep.parts.metrics"
        made[name] = getattr(metrics, target)(**entry)
    return made


SHIPPED = shipped()


@st.composite
def looks(draw: st.DrawFn) -> EvaluationView:
    """A view of overlapping chunks of one text, with evidences of many lengths, and a ranking of some of the chunks."""
    letters = [n for n, letter in enumerate(TEXT) if letter != " "]  # a context of blank chunks has no token precision
    starts = sorted(draw(st.sets(st.sampled_from(letters), max_size=6)) | {0})
    ends = [min(len(TEXT), end + draw(st.integers(0, 9))) for end in [*starts[1:], len(TEXT)]]
    chunks = Chunks(
        Corpus(["d"], [draw(st.sampled_from(["", "A title"]))], [TEXT]),
        Spans(np.zeros(len(starts), np.int32), np.array(starts), np.array(ends)),
    )
    questions = tuple(Question(f"q{n}", "", evidence=_evidence(draw)) for n in range(draw(st.integers(1, 3))))
    rows = [draw(st.permutations(range(len(starts)))) for _ in questions]
    positions = np.array(rows, dtype=np.int32).reshape(len(questions), len(starts))
    length = np.array([draw(st.integers(0, len(starts))) for _ in questions])
    positions = np.where(np.arange(len(starts)) < length[:, None], positions, -1).astype(np.int32)
    rankings = Rankings(positions, np.where(positions < 0, -np.inf, 1.0).astype(np.float32))
    return view(cover(chunks, GoldenSet(questions)), rankings, draw(st.integers(1, 8)))


def _evidence(draw: st.DrawFn) -> tuple[Evidence, ...]:
    found = []
    for _ in range(draw(st.integers(0, 5))):
        start = draw(st.sampled_from([n for n, letter in enumerate(TEXT) if letter != " "]))
        anchor = TEXT[start : start + draw(st.integers(1, 25))].rstrip()
        place = draw(st.sampled_from([(anchor, start), (None, None)]))
        found.append(Evidence("d", *place, draw(st.sampled_from([1.0, 2.0, 3.0]))))
    return tuple(found)


def test_shipped_metrics_are_keyed_by_their_names() -> None:
    assert {key: metric.name for key, metric in SHIPPED.items()} == {key: key for key in SHIPPED}
    assert {"ndcg_at_10", "recall_at_10", "precision_at_5", "hit_rate_at_5", "f1_at_5", "mrr", "map", "context_recall",
            "context_precision", "context_ndcg", "context_tokens", "latency_p95_ms"} <= set(SHIPPED)  # fmt: skip


@given(looks())
def test_every_metric_stays_within_its_bounds_and_gives_a_reason_exactly_where_nan(looked: EvaluationView) -> None:
    for metric in SHIPPED.values():
        values, reasons = metric.score(looked)
        lowest, highest = metric.bounds
        measured = values[reasons == ""]
        assert not np.isnan(measured).any(), metric.name
        assert np.isnan(values[reasons != ""]).all(), metric.name
        assert lowest is None or (measured >= lowest).all(), metric.name
        assert highest is None or (measured <= highest).all(), metric.name


@given(looks())
def test_recall_and_hit_rate_never_fall_with_the_cutoff(looked: EvaluationView) -> None:
    for kind in (metrics.Recall, metrics.HitRate):
        values = np.array([kind(cutoff).score(looked).values for cutoff in range(1, 10)])
        assert (np.diff(np.nan_to_num(values), axis=0) >= 0).all()


@given(looks())
def test_context_recall_and_ndcg_are_those_of_the_ranking_cut_at_top_k(looked: EvaluationView) -> None:
    np.testing.assert_array_equal(
        metrics.ContextRecall().score(looked).values, metrics.Recall(looked.top_k).score(looked).values
    )
    np.testing.assert_array_equal(
        metrics.ContextNdcg().score(looked).values, metrics.Ndcg(looked.top_k).score(looked).values
    )


@given(looks())
def test_number_of_scored_questions_does_not_depend_on_what_was_found(looked: EvaluationView) -> None:
    with_evidence = sum(any(evidence.grade > 0 for evidence in question.evidence) for question in looked.questions)
    for metric in (metrics.Recall(1), metrics.Ndcg(), metrics.ContextPrecision(), metrics.ContextTokenPrecision()):
        assert np.isfinite(metric.score(looked).values).sum() == with_evidence
