"""Comparison with the right answers by sequences of words: ROUGE-L and BLEU, as computed by ragas."""

from __future__ import annotations

import importlib.metadata
import os
import warnings
from abc import abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from functools import cached_property
from typing import Any

from ragsweep.core.languages import fold
from ragsweep.core.types import Answer, Passage, Question
from ragsweep.parts.metrics.answer_metric import AnswerMetric, answer_text, clamp, reason_incomparable


class _Overlap(AnswerMetric):
    """The best score over the right answers; a refusal scores 0, unanswerable questions are not scored."""

    needs = ("answer", "reference")

    def fingerprint(self) -> Mapping[str, str]:
        """Return the versions of the libraries that compute."""
        return {name: importlib.metadata.version(name) for name in ("ragas", "rouge-score", "sacrebleu")}

    def skip_reason(self, question: Question) -> str:
        """Leave out questions without a right answer."""
        return reason_incomparable(question)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Compare with every right answer."""
        given = answer_text(answer)
        return max(self.compare(given, right) for right in question.expected) if given else 0.0

    @abstractmethod
    def compare(self, given: str, right: str) -> float:
        """Compare an answer with one right answer."""


class RougeL(_Overlap):
    """F-measure of the longest common subsequence of words (Lin 2004, "ROUGE"), with English stems.

    Accents are removed first: the library drops letters that carry them.
    """

    VERSION = "1"
    name = "rouge_l"

    def compare(self, given: str, right: str) -> float:
        """Return ragas' score."""
        return _value(self._metric.ascore(reference=fold(right), response=fold(given)))

    @cached_property
    def _metric(self) -> Any:
        return _ragas().RougeScore(rouge_type="rougeL", mode="fmeasure")


class Bleu(_Overlap):
    """BLEU of one answer (Papineni et al. 2002), with as many orders of n-grams as its length permits.

    ragas 0.4.3 splits both texts at ". " and scores the first sentence only; line breaks keep the answer whole.
    """

    VERSION = "1"
    name = "bleu"

    def compare(self, given: str, right: str) -> float:
        """Return ragas' score."""
        whole = [text.replace(". ", ".\n") for text in (right, given)]  # white space to sacrebleu
        return _value(self._metric.ascore(reference=whole[0], response=whole[1]))

    @cached_property
    def _metric(self) -> Any:
        return _ragas().BleuScore(kwargs={"use_effective_order": True})


def _ragas() -> Any:
    """Import ragas, which takes seconds, without telemetry and warnings."""
    os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ragas.metrics import collections
    return collections


def _value(score: Coroutine[Any, Any, Any]) -> float:
    """Run a coroutine that never waits, which works inside a running event loop, too."""
    try:
        score.send(None)
    except StopIteration as end:
        return clamp(float(end.value.value), (0.0, 1.0))
    raise RuntimeError("ragas' metric waits, though it only computes")
