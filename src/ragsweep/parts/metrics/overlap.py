"""Compare an answer with the right ones by runs of words: ROUGE-L and BLEU, as ragas computes them."""

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
from ragsweep.parts.metrics.answer_metric import AnswerMetric, clamped, said, unanswerable


class OfOverlap(AnswerMetric):
    """Take the best score of an answer over the right ones; a refusal has 0, an unanswerable question no score."""

    needs = ("answer", "reference")

    def fingerprint(self) -> Mapping[str, str]:
        """Name the versions of the libraries that compute."""
        return {name: importlib.metadata.version(name) for name in ("ragas", "rouge-score", "sacrebleu")}

    def lacking(self, question: Question) -> str:
        """There must be a right answer."""
        return unanswerable(question)

    def of(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Compare with every right answer."""
        given = said(answer)
        return max(self.compare(given, right) for right in question.expected) if given else 0.0

    @abstractmethod
    def compare(self, given: str, right: str) -> float:
        """Compare an answer with one right answer."""


class RougeL(OfOverlap):
    """Take the F-measure of the longest common subsequence of words (Lin 2004, "ROUGE"), stemmed as English.

    Accents are taken away first: the library behind it drops the letters that carry them.
    """

    VERSION = "1"
    name = "rouge_l"

    def compare(self, given: str, right: str) -> float:
        """Ask ragas."""
        return _value(self._metric.ascore(reference=fold(right), response=fold(given)))

    @cached_property
    def _metric(self) -> Any:
        return _ragas().RougeScore(rouge_type="rougeL", mode="fmeasure")


class Bleu(OfOverlap):
    """Take BLEU of one answer (Papineni et al. 2002), of as many orders of n-grams as it is long enough for.

    ragas 0.4.3 cuts both texts at ". " and then scores the first sentence of the answer only; so that the whole answer
    is scored, no such blank reaches it.
    """

    VERSION = "1"
    name = "bleu"

    def compare(self, given: str, right: str) -> float:
        """Ask ragas."""
        whole = [text.replace(". ", ".\n") for text in (right, given)]  # a line's end is a blank to sacrebleu
        return _value(self._metric.ascore(reference=whole[0], response=whole[1]))

    @cached_property
    def _metric(self) -> Any:
        return _ragas().BleuScore(kwargs={"use_effective_order": True})


def _ragas() -> Any:
    """Import ragas, which takes seconds, without letting it tell anybody that it is used."""
    os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the libraries that it imports
        from ragas.metrics import collections
    return collections


def _value(score: Coroutine[Any, Any, Any]) -> float:
    """Finish a coroutine that waits for nothing; a loop of events could not be run where one runs already."""
    try:
        score.send(None)
    except StopIteration as end:
        return clamped(float(end.value.value), (0.0, 1.0))
    raise RuntimeError("ragas waits for something to score a text")
