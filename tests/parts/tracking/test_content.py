"""Keys and metrics in the forms that MLflow accepts."""

import io
import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.parquet import read_table

from ragsweep.core.errors import TrackingError
from ragsweep.core.results import TargetResult
from ragsweep.parts.tracking import Mlflow
from ragsweep.parts.tracking.files import key, metrics, parquet
from support.results import a_result, summary


@settings(deadline=None)  # shared machines stall, and libraries are loaded inside
@given(st.text(st.sampled_from("a.é /-:@\n_"), max_size=20).map(lambda text: text * 20))
def test_any_name_becomes_a_key_that_mlflow_takes(name: str) -> None:
    from mlflow.utils.validation import MAX_ENTITY_KEY_LENGTH, _validate_metric_name

    _validate_metric_name(key(name))
    assert len(key(name)) <= MAX_ENTITY_KEY_LENGTH


def test_table_of_questions_has_a_question_mark_in_place_of_half_a_character() -> None:
    texts, lists = ["a", None, "half \ud83d"], [["\ud83d", "b"], [], None]
    found = read_table(io.BytesIO(parquet(a_result(questions={"answer": texts, "context": lists}))))
    assert found["answer"].to_pylist() == ["a", None, "half ?"]
    assert found["context"].to_pylist() == [["?", "b"], [], None]


def test_objective_has_an_interval_and_metrics_at_a_rank_are_left_to_the_files() -> None:
    measured = {name: summary(name) for name in ("recall_at_5", "recall_at_10", "mrr", "map", "latency_p99_ms", "f1")}
    config = {"objective": "recall_at_10", "headline": ["mrr"]}
    sent = metrics(a_result(metrics=measured, config=config, groups={"category": {"a": measured}}, usage={}, race={}))
    decides = ["recall_at_10", "recall_at_10_low", "recall_at_10_high", "recall_at_10_n_failed"]
    assert sorted(sent) == sorted([*decides, "mrr", "mrr_low", "mrr_high", "mrr_n_failed", "map", "f1"])


def test_standard_metrics_of_rankings_and_metrics_with_a_target_are_logged_before_the_others() -> None:
    standard = ["ndcg_at_10", "recall_at_10", "mrr", "map", "precision_at_5", "hit_rate_at_5", "f1_at_5"]
    names = [*(f"m{n}" for n in range(60)), "recall_at_3", "recall_at_5", "latency_p50_ms", "latency_p95_ms", *standard]
    targets = (TargetResult("latency_p95_ms", "pass"), TargetResult("context_recall", "not judged"))
    sent = metrics(a_result(metrics={name: summary(name) for name in names}, config={"objective": "m50"},
                            targets=targets, usage={}, race={}))  # fmt: skip
    assert {"m50", "latency_p95_ms", *standard} <= sent.keys()
    assert {"recall_at_3", "recall_at_5", "latency_p50_ms", "context_recall"}.isdisjoint(sent)
    assert len(sent) == 40


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(0, 15), st.booleans())
def test_a_run_has_at_most_forty_metrics_and_those_that_were_paid_for_are_among_them(
    unpaid: int, judged: int, used: bool
) -> None:
    names = [f"m{n}" for n in range(unpaid)] + [f"j{n}" for n in range(judged)]
    steps = json.dumps({f"judge/j{n}": {"ms": 1.0} for n in range(judged)})
    spent = dict.fromkeys(("calls", "tokens_in", "tokens_out", "estimated", "money"), 1.0)
    known = a_result(metrics={name: summary(name) for name in names}, config={"objective": "m0", "headline": ["m50"]},
                     questions={"steps": [steps, "{}"]}, usage={"generate": spent, "judge": spent} if used else {},
                     race={})  # fmt: skip
    sent = metrics(known)
    assert {f"j{n}" for n in range(judged)} <= sent.keys()
    assert {"m0", "m50"} & set(names) <= sent.keys()
    assert len(sent) <= 40
    assert len(sent) == 40 or set(names) <= sent.keys()


def test_what_arithmetic_leaves_of_nothing_is_nothing() -> None:
    sent = metrics(a_result(metrics={"a": summary("a", -3.8e-17), "b": summary("b", 0.1 + 0.2)}))
    assert (sent["a"], sent["b"]) == (0.0, 0.3)


INVALID = r"invalid port or host; correct tracking\.uri"
DRIVER = r".*install the database's driver, .*tracking\.uri"


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("http://host:50OO", INVALID),
        ("https://host:70000", INVALID),
        ("http://[::1", INVALID),
        ("postgresql://me:geheim@[host/db", INVALID),
        ("http://me:geheim@host:50OO", INVALID),
        ("mysql://me:geheim@host/db", f"MySQLdb{DRIVER}"),
        ("postgresql+odd://me:geheim@host/db", f"Can't load plugin{DRIVER}"),
        ("mysql://me:geheim@host:port/db", DRIVER),
    ],
)
def test_unusable_address_is_one_sentence_without_its_password(
    uri: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "MySQLdb", None)
    tracker = Mlflow(uri)
    assert "geheim" not in tracker.risk()
    with pytest.raises(TrackingError, match=message) as told:
        tracker.check()
    assert "geheim" not in str(told.value)


def test_server_behind_a_proxy_is_not_called_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name may be unknown here; MLflow sends its requests to the proxy."""
    tracker = Mlflow("http://mlflow.invalid:5000")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    tracker.check()
    monkeypatch.setenv("no_proxy", ".invalid")
    with pytest.raises(TrackingError, match="no MLflow server answers"):
        tracker.check()
