"""Keys and metrics in the forms that MLflow accepts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ragsweep.parts.tracking.files import key, metrics
from recorded import a_result, summary


@settings(deadline=None)  # shared machines stall, and libraries are loaded inside
@given(st.text(st.sampled_from("a.é /-:@\n_"), max_size=20).map(lambda text: text * 20))
def test_any_name_becomes_a_key_that_mlflow_takes(name: str) -> None:
    from mlflow.utils.validation import MAX_ENTITY_KEY_LENGTH, _validate_metric_name

    _validate_metric_name(key(name))
    assert len(key(name)) <= MAX_ENTITY_KEY_LENGTH


@settings(deadline=None)  # shared machines stall, and libraries are loaded inside
@given(st.sets(st.text(st.sampled_from("ab+/."), max_size=3), max_size=6))
def test_groups_with_different_names_never_share_a_key(values: set[str]) -> None:
    grouped = {"category": {value: {"mrr": summary("mrr")} for value in values}}
    sent = metrics(a_result(summaries={}, first_stage={}, reranking={}, targets=(), indexes={}, groups=grouped))
    assert len(sent) == 2 * len(values)


def test_groups_are_sent_for_headline_metrics_only() -> None:
    grouped = {"category": {"a": {"mrr": summary("mrr"), "map": summary("map")}}}
    sent = metrics(
        a_result(
            summaries={},
            first_stage={},
            reranking={},
            targets=(),
            indexes={},
            groups=grouped,
            config={"headline": ["mrr"]},
        )
    )
    assert sorted(sent) == ["category/a/mrr", "n_scored/category/a/mrr"]
