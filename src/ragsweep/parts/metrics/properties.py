"""Properties that need no reference: the length, tokens, cost, confidence and language of answers, and latency."""

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import ABSTAINED, NO_PRICE, NOT_PROBED, NOT_TOLD, UNKNOWN_LANGUAGE, score_where
from ragsweep.core.types import Answer, EvaluationView, PartTraits, Passage, Question, Scores
from ragsweep.parts.languages import detect_language, language_code
from ragsweep.parts.metrics.bases import AnswerMetric, is_refusal, without_citations
from ragsweep.parts.prices import Prices
from ragsweep.parts.tokens import count


class AnswerLength(AnswerMetric):
    """Number of tokens of the answer without citations, counted by one fixed tokenizer; refusals are not scored."""

    TRAITS = PartTraits(version="2")
    name = "answer_length"
    unit = "tokens"
    higher_is_better = None
    bounds = (0.0, None)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score one answer, or return the reason why it has no score."""
        return ABSTAINED if is_refusal(answer) else float(count(without_citations(answer.text)))


class AnswerTokensIn(AnswerMetric):
    """Number of tokens that the model read for the answer, as reported by its service or estimated.

    An answer without token counts is not scored.
    """

    TRAITS = PartTraits(version="1")
    name = "answer_tokens_in"
    field = "tokens_in"
    unit = "tokens"
    higher_is_better = False
    bounds = (0.0, None)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score one answer, or return the reason why it has no score."""
        usage = answer.usage
        return float(getattr(usage, self.field)) if usage.tokens_in + usage.tokens_out else NOT_TOLD


class AnswerTokensOut(AnswerTokensIn):
    """Number of tokens that the model wrote for the answer, as reported by its service or estimated."""

    TRAITS = PartTraits(version="1")
    name = "answer_tokens_out"
    field = "tokens_out"


class AnswerSpeed(AnswerMetric):
    """Number of tokens that the model wrote per second for the answer, as reported or estimated."""

    TRAITS = PartTraits(version="1")
    name = "answer_tokens_per_second"
    unit = "tokens/s"
    bounds = (0.0, None)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score one answer, or return the reason why it has no score."""
        return answer.usage.tokens_out / answer.seconds if answer.usage.tokens_out and answer.seconds > 0 else NOT_TOLD


class CostPer1000(AnswerMetric):
    """Cost of the tokens for a thousand answers and their rewritten queries, in the price table's currency.

    Excludes the router's calls and other costs of finding the context (embedding and rerank services, machines).
    """

    TRAITS = PartTraits(version="1")
    name = "cost_per_1000"
    higher_is_better = False
    bounds = (0.0, None)

    def __init__(self, prices: Prices) -> None:
        self.unit = prices.currency

    def score(self, view: EvaluationView) -> Scores:
        """Score every question: the price of its rewritten query, if any, is added to the price of its answer."""
        answers = super().score(view)
        if view.queries is None:
            return answers
        spent = np.array([query.money if query.usage.calls else 0.0 for query in view.queries])
        reasons = np.where((answers.reasons == "") & np.isnan(spent), NO_PRICE, answers.reasons)
        return Scores(answers.values + 1000 * spent, reasons)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score one answer, or return the reason why it has no score."""
        return NO_PRICE if math.isnan(answer.money) else 1000 * answer.money


class AnswerSupport(AnswerMetric):
    """The generator's own confidence in its answer, even if that is a refusal; risk-coverage curves are based on it."""

    TRAITS = PartTraits(version="1")
    name = "answer_support"
    higher_is_better = None
    bounds = (None, None)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score one answer, or return the reason why it has no score."""
        return answer.support if math.isfinite(answer.support) else NOT_TOLD


class AnswerLanguage(AnswerMetric):
    """Whether the answer is in the language of its question: 1 or 0.

    The question's language is read from its label ``language`` or, without one, detected; the answer's is detected.
    Detection counts stop words of English, French, German, Spanish, Italian, Dutch and Portuguese. A question is not
    scored if either language is unknown, such as that of a name or a number, or if the answer is a refusal.
    """

    TRAITS = PartTraits(version="2")
    name = "answer_language"

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score one answer, or return the reason why it has no score."""
        if is_refusal(answer):
            return ABSTAINED
        label = question.labels.get("language", "")
        expected = language_code(label) if label else detect_language(question.text)
        detected = detect_language(without_citations(answer.text))
        return float(expected == detected) if expected and detected else UNKNOWN_LANGUAGE


class Latency:
    """Milliseconds that one question, run alone, takes in one stage or in all.

    The name says whether questions are summarised by their mean or by a quantile. The stage "retrieval" is the sum of
    all stages except "generate".
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")
    needs = ("latency",)
    unit = "ms"
    higher_is_better = False
    bounds = (0.0, None)

    def __init__(self, quantile: float | None = None, stage: str | None = None) -> None:
        if quantile is not None and not 0 < quantile < 1:
            raise ConfigError(f"quantile must be above 0 and below 1, or null for the mean, got {quantile}")
        kind = "mean" if quantile is None else f"p{quantile * 100:g}"
        self.name = "_".join(part for part in ("latency", stage, kind, "ms") if part)
        self.quantile = quantile
        self.stage = stage

    def score(self, view: EvaluationView) -> Scores:
        """Score every question that was probed in every included stage."""
        stages = [seconds for name, seconds in view.latency.items() if self._includes(name)]
        total = np.sum(stages, axis=0) * 1000.0 if stages else np.full(len(view.questions), np.nan)
        return score_where(~np.isnan(total), total, NOT_PROBED)

    def _includes(self, stage: str) -> bool:
        return stage != "generate" if self.stage == "retrieval" else self.stage in (None, stage)
