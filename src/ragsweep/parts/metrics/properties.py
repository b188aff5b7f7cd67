"""Metrics that need no reference: latency, and the length, tokens, speed, cost, confidence and language of answers."""

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import ABSTAINED, NO_PRICE, NOT_PROBED, NOT_TOLD, UNKNOWN_LANGUAGE, score_where
from ragsweep.core.types import Answer, EvaluationView, PartTraits, Passage, Question, Scores
from ragsweep.parts.metrics.bases import AnswerMetric, is_refusal, question_language, spoken_language, without_citations
from ragsweep.parts.prices import Prices
from ragsweep.parts.tokens import count


class AnswerLength(AnswerMetric):
    """Number of tokens in the answer without citations, counted with the same tokenizer for all configs.

    Refusals are not scored.
    """

    TRAITS = PartTraits(version="4")
    name = "answer_length"
    unit = "tokens"
    higher_is_better = None
    bounds = (0.0, None)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Return the number of tokens, or the reason why there is no score."""
        return ABSTAINED if is_refusal(answer) else float(count(without_citations(answer.text)))


class AnswerTokensIn(AnswerMetric):
    """Number of tokens that the model read to answer the question, as reported by the model's service or estimated.

    An answer without this number is not scored.
    """

    TRAITS = PartTraits(version="2")
    name = "answer_tokens_in"
    field = "tokens_in"
    unit = "tokens"
    higher_is_better = False
    bounds = (0.0, None)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Return the number of tokens in ``field`` of the usage, or the reason why there is no score."""
        return float(getattr(answer.usage, self.field)) or NOT_TOLD  # 0: the system reported only the other number


class AnswerTokensOut(AnswerTokensIn):
    """Number of tokens that the model wrote to answer the question, as reported by the model's service or estimated.

    An answer without this number is not scored.
    """

    TRAITS = PartTraits(version="2")
    name = "answer_tokens_out"
    field = "tokens_out"


class AnswerSpeed(AnswerMetric):
    """Number of tokens that the model wrote for the answer, divided by the seconds that the answer took.

    The number of tokens is reported by the model's service or estimated. An answer without a number of tokens, or
    without a time, is not scored.
    """

    TRAITS = PartTraits(version="1")
    name = "answer_tokens_per_second"
    unit = "tokens/s"
    bounds = (0.0, None)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Return tokens per second, or the reason why there is no score."""
        return answer.usage.tokens_out / answer.seconds if answer.usage.tokens_out and answer.seconds > 0 else NOT_TOLD


class CostPer1000(AnswerMetric):
    """Cost of the tokens for 1000 answers, and for the search queries that a model wrote for these answers.

    The unit is the currency of the price table. The cost of the router's calls, of embedding and reranking services,
    and of machines is not included.
    """

    TRAITS = PartTraits(version="1")
    name = "cost_per_1000"
    higher_is_better = False
    bounds = (0.0, None)

    def __init__(self, prices: Prices) -> None:
        self.unit = prices.currency

    def score(self, view: EvaluationView) -> Scores:
        """Return one score per question: 1000 times the price of its answer, and of its query if a model wrote it.

        A question whose answer is missing or failed, or whose price is unknown, gets NaN and a reason.
        """
        answers = super().score(view)
        if view.queries is None:
            return answers
        spent = np.array([query.money if query.usage.calls else 0.0 for query in view.queries])
        reasons = np.where((answers.reasons == "") & np.isnan(spent), NO_PRICE, answers.reasons)
        return Scores(answers.values + 1000 * spent, reasons)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Return 1000 times the price of one answer, or the reason why the price is unknown."""
        return NO_PRICE if math.isnan(answer.money) else 1000 * answer.money


class AnswerSupport(AnswerMetric):
    """The confidence in the answer, as returned by the generator; risk-coverage curves are based on it.

    Refusals are scored, too. An answer without a finite confidence is not scored.
    """

    TRAITS = PartTraits(version="1")
    name = "answer_support"
    higher_is_better = None
    bounds = (None, None)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Return the generator's confidence, or the reason why it is missing."""
        return answer.support if math.isfinite(answer.support) else NOT_TOLD


class AnswerLanguage(AnswerMetric):
    """Whether the answer is in the language of its question: 1 or 0.

    The question's language is given by its label ``language`` or, without this label, detected; the answer's language
    is detected. Detection counts stop words of English, French, German, Spanish, Italian, Dutch and Portuguese outside
    code. A question is not scored if the answer is a refusal or if one of the languages is unknown. For example, the
    language of a name, a number or code is unknown.
    """

    TRAITS = PartTraits(version="3")
    name = "answer_language"

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Return 1.0 if the languages are equal, 0.0 if they differ, or the reason why there is no score."""
        if is_refusal(answer):
            return ABSTAINED
        expected, detected = question_language(question), spoken_language(without_citations(answer.text))
        return float(expected == detected) if expected and detected else UNKNOWN_LANGUAGE


class Latency:
    """Milliseconds that a question takes in one stage or in all stages when it is processed alone.

    For answers, and for queries that a model wrote, the time is instead the duration of the original call, which may
    have been concurrent with other calls, or on another machine.

    The metric's value is the mean over the questions or, if ``quantile`` is set, this quantile; its name contains
    ``mean`` or, for instance, ``p95``. The stage "retrieval" means all stages except "generate"; None means all stages.
    A stage of a hybrid's legs, such as "retrieve", is summed over the legs; "retrieve/bm25" is the stage of one leg.
    Raises ConfigError unless ``quantile`` is None or between 0 and 1, both excluded.
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
        """Return milliseconds per question; NaN and a reason if any included stage has no latency for the question."""
        stages = [seconds for name, seconds in view.latency.items() if self._includes(name)]
        total = np.sum(stages, axis=0) * 1000.0 if stages else np.full(len(view.questions), np.nan)
        return score_where(~np.isnan(total), total, NOT_PROBED)

    def _includes(self, stage: str) -> bool:
        if self.stage == "retrieval":
            return stage != "generate"
        return self.stage is None or f"{stage}/".startswith(f"{self.stage}/")
