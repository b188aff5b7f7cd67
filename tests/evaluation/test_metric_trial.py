"""Metrics of other packages are tried on one question before anything runs."""

from pathlib import Path

from ragsweep.core.types import Answer, EvaluationView, Scores
from ragsweep.evaluation.metric_trial import find_faults
from ragsweep.parts.metrics import Recall
from test_scoring import Own, Typo, experiment


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
    assert f"({Path(Typo.score.__code__.co_filename).name}:" in found["typo"]


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
