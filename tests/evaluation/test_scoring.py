"""A metric that fails costs its own scores: the config goes on, and the reason names the error and its line."""

import inspect
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import NO_ANSWERS
from ragsweep.core.results import PARTIAL
from ragsweep.core.trust import TRUSTED
from ragsweep.core.types import Answer, Case, EvaluationView, Judgement, Scores
from ragsweep.evaluation.evaluator import Evaluator
from ragsweep.evaluation.metric_trial import find_faults
from ragsweep.evaluation.scoring import Failures, catch_judge_errors, score_metric
from ragsweep.parts.metrics import Recall
from ragsweep.stats.summaries import collect_scores
from ragsweep.sweep.running.session import Session
from ragsweep.testing.metrics import example
from support.commands import composed, prepare, write_option
from test_evaluator import experiment

HERE = Path(__file__).name


class Own:
    """A user's metric that is right."""

    name = "own"
    needs: tuple[str, ...] = ()
    unit = ""
    higher_is_better = True
    bounds = (0.0, 1.0)
    quantile = None

    def score(self, view: EvaluationView) -> Scores:
        count = len(view.questions)
        return Scores(np.ones(count), np.full(count, ""))


class Typo(Own):
    name = "typo"

    def score(self, view: EvaluationView) -> Scores:
        return self.counted(view)

    def counted(self, view: EvaluationView) -> Scores:
        return np.arange(int(view.contxt[0]))  # type: ignore[attr-defined]


class Within(Own):
    """Fails in a library that it calls."""

    name = "within"

    def score(self, view: EvaluationView) -> Scores:
        return json.loads("{")


class Odd(Own):
    def __init__(self, found: Any) -> None:
        self.name = "odd"
        self.found = found

    def score(self, view: EvaluationView) -> Scores:
        return self.found


def line_of(method: Callable[..., Any], text: str) -> int:
    lines, first = inspect.getsourcelines(method)
    return first + next(n for n, line in enumerate(lines) if text in line)


def test_metric_with_a_typo_is_nan_with_error_and_line_and_the_others_are_measured() -> None:
    ready = experiment()
    result = Evaluator().evaluate(replace(ready, metrics=(*ready.metrics, Typo(), Own()), coverage=0.9))
    summary = result.summaries.metrics["typo"]
    assert math.isnan(summary.value)
    assert (summary.n_failed, summary.n_total) == (4, 4)
    (reason,) = summary.reasons
    place = f"({HERE}:{line_of(Typo.counted, 'contxt')})"
    assert reason.startswith("AttributeError: 'EvaluationView' object has no attribute 'contxt'")
    assert reason.endswith(place)
    assert result.summaries.metrics["own"].value == 1.0
    assert result.summaries.metrics["recall_at_3"].n_scored == 3
    assert result.run.state == PARTIAL  # and says so: one of its metrics is not known


def test_place_is_the_metrics_own_line_where_a_library_raises() -> None:
    (reason,) = set(score_metric(Within(), example()).reasons)
    assert f"({HERE}:{line_of(Within.score, 'loads')})" in reason


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "score returned NoneType; return"),
        ([1.0], "score returned list; return"),
        (Scores(np.full(10, 7.0), np.full(10, "")), "the score 7 is outside the metric's bounds, (0.0, 1.0)"),
        (Scores(np.ones(3), np.full(3, "")), "values of shape (3,)"),
        (Scores(np.full(10, np.inf), np.full(10, "")), "infinite"),
        (Scores(np.array(["a"] * 10), np.full(10, "")), "could not convert"),
    ],
)
def test_what_are_no_scores_is_a_failure_at_the_method(found: Any, said: str) -> None:
    scores = score_metric(Odd(found), example())
    assert np.isnan(scores.values).all()
    (reason,) = set(scores.reasons)
    assert said in reason
    assert reason.endswith(f"({HERE}:{Odd.score.__code__.co_firstlineno})")


def test_score_that_is_missing_without_a_reason_gets_one() -> None:
    scores = score_metric(Odd(Scores(np.full(10, np.nan), np.full(10, ""))), example())
    assert set(scores.reasons) == {"the metric states no reason"}


@pytest.mark.parametrize("reasons", [np.full(10, "right"), np.full(10, None)])
def test_score_with_a_reason_is_a_failure_and_not_both_scored_and_missing(reasons: Any) -> None:
    scores = score_metric(Odd(Scores(np.full(10, 0.5), reasons)), example())
    (reason,) = set(scores.reasons)
    assert f"the score 0.5 has the reason '{reasons[0]}'" in reason
    summary = collect_scores([Own()], {"own": scores}).summarise()["own"]
    assert (summary.n_scored, summary.n_failed) == (0, 10)


def test_what_would_fail_for_every_config_is_raised() -> None:
    class Refuses(Own):
        def score(self, view: EvaluationView) -> Scores:
            raise ConfigError("no model")

    with pytest.raises(ConfigError, match="no model"):
        score_metric(Refuses(), example())


@pytest.mark.parametrize(
    ("reported", "said"),
    [
        ([(0, 0.5)], "judge reported float; it must report a Judgement"),
        ([(0, Judgement(None))], "Judgement.value must be of the type float, got None"),  # type: ignore[arg-type]
        ([(0, Judgement(0.5)), (0, Judgement(0.5))], "judge reported case 0 twice"),
        ([(3, Judgement(0.5))], "there is no case 3"),
        ([(0, Judgement(0.5))], "judge reported 1 of 3 cases"),
        ([(0, Judgement(0.5)), (1, KeyError("verdict"))], f"KeyError: 'verdict' ({HERE}:"),
    ],
)
def test_judge_that_raises_or_does_not_report_a_judgement_of_every_case_leaves_verdicts_that_say_so(
    reported: list[tuple[int, Any]], said: str
) -> None:
    class Judge(Own):
        def judge(self, cases: Sequence[Case], done: Callable[[int, Judgement], None]) -> None:
            for number, verdict in reported:
                if isinstance(verdict, Exception):
                    raise verdict
                done(number, verdict)

    found: dict[int, Judgement] = {}
    catch_judge_errors(Judge(), Judge().judge)([Case("a"), Case("b"), Case("c")], found.__setitem__)
    assert sorted(found) == [0, 1, 2]
    assert all(isinstance(one, Judgement) for one in found.values())
    assert said in found[2].reason
    kept = {
        number: verdict
        for number, verdict in reported
        if isinstance(verdict, Judgement) and verdict.value and number < 3
    }
    assert kept.items() <= found.items()


@pytest.mark.parametrize(
    ("name", "attributes", "message"),
    [
        ("half", "name = 'half'", r"metrics\.n: N lacks needs, unit, .*, score; implement"),
        (
            "need",
            "name = unit = ''; higher_is_better, bounds, quantile, score = True, (0, 1), None, 0; needs = 'answers',",
            r'metrics\.n: unknown in needs: answers; did you mean "answer"',
        ),
    ],
)
def test_class_that_lacks_something_of_a_metric_or_has_an_unknown_need_is_refused_with_its_key(
    name: str, attributes: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(TRUSTED, f"own_{name}")
    (tmp_path / f"own_{name}.py").write_text(f"class N:\n    {attributes}\n")
    with pytest.raises(ConfigError, match=message):
        prepare(Session(folder=tmp_path), "retriever=bm25", f"+metrics.n={{_target_: own_{name}.N}}")


@pytest.mark.parametrize(
    ("group", "lacking"), [("dataset", "load"), ("output", "read"), ("tracking", "identity, .*risk")]
)
def test_part_of_any_group_that_lacks_a_method_is_refused_with_its_key(
    group: str, lacking: str, cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(cwd)
    monkeypatch.setenv(TRUSTED, "own_empty")
    (cwd / "own_empty.py").write_text("class N:\n    pass\n")
    write_option(cwd / "conf", f"{group}/own", "_target_: own_empty.N\n")
    with pytest.raises(ConfigError, match=rf"^{group}: N lacks {lacking}.*; implement ragsweep\."):
        _prepare_with_tracker(Session(folder=cwd), f"{group}=own", "retriever=bm25")


def test_target_that_lacks_a_method_is_refused_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(TRUSTED, "own_target")
    (tmp_path / "own_target.py").write_text("class N:\n    pass\n")
    with pytest.raises(ConfigError, match=r"^targets\.mrr: N lacks evaluate; implement ragsweep\."):
        prepare(Session(folder=tmp_path), "retriever=bm25", "+targets.mrr={_target_: own_target.N}")


def _prepare_with_tracker(session: Session, *overrides: str) -> None:
    session.tracker(composed(*overrides).values)
    prepare(session, *overrides)


# --- before anything runs, metrics of other packages are tried on one question ---


class Answered(Own):
    """Reads everything of a question that was answered."""

    name = "answered"

    def score(self, view: EvaluationView) -> Scores:
        assert view.answers is not None
        (answer,), (passages,) = view.answers.answers, view.answers.passages
        assert isinstance(answer, Answer)
        assert answer.text
        assert passages[0].text
        assert view.context.shape == (1, view.top_k)
        assert view.first_rank.tolist() == [1] * len(view.evidence_question)
        assert view.evidence_covered.all()
        return super().score(view)


def test_a_metric_that_fails_is_found_with_its_place() -> None:
    metrics = (Recall(cutoff=3), Own(), Typo(), Answered())
    found = find_faults(metrics, experiment().dataset, answered=True, routed=True)
    assert list(found) == ["typo"]
    assert f"({HERE}:" in found["typo"]


class Waited(Own):
    """Reads the time of a stage that this config has."""

    name = "waited"

    def score(self, view: EvaluationView) -> Scores:
        assert view.latency["generate"].shape == view.latency["retrieve/bm25"].shape == (1,)
        return super().score(view)


def test_a_metric_that_reads_the_latency_of_a_stage_of_its_config_does_not_fail() -> None:
    stages = ("retrieve/bm25", "generate")
    assert find_faults((Waited(),), experiment().dataset, answered=True, routed=False, stages=stages) == {}
    assert list(find_faults((Waited(),), experiment().dataset, answered=True, routed=False, stages=stages[:1]))


class Penalty(Own):
    """Judges from -1 to 0."""

    name = "penalty"
    needs, uses, bounds = ("judge", "answer"), ("answer",), (-1.0, 0.0)

    def judge(self, cases: Sequence[Case], done: Callable[[int, Judgement], None]) -> None:
        """Judge nothing: a trial calls no judge."""

    def score(self, view: EvaluationView) -> Scores:
        return Scores(np.array([one.value for one in view.judgements[self.name]]), np.array([""]))


def test_a_judged_metric_is_tried_with_a_verdict_within_its_bounds() -> None:
    assert find_faults((Penalty(),), experiment().dataset, answered=True, routed=False) == {}


def test_with_a_system_that_only_searches_failures_leave_the_scores_of_other_questions() -> None:
    """A metric may score questions without their answers, for example unanswerable ones."""
    failed = np.array(["", "", "timeout"])
    scores = Scores(np.array([0.5, math.nan, math.nan]), np.array(["", NO_ANSWERS, "timeout"]))
    kept = Failures(failed, failed, np.zeros(3, dtype=bool)).drop(scores, Recall(cutoff=1))
    assert (kept.values[0], kept.reasons.tolist()) == (0.5, ["", NO_ANSWERS, NO_ANSWERS])
