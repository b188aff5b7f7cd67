"""How much was said, and how sure of it the generator was."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ragsweep.core.reasons import ABSTAINED, NO_PRICE, NOT_TOLD
from ragsweep.core.tokens import count
from ragsweep.core.types import Answer, Passage, Question, Scores, View
from ragsweep.parts.metrics.answer_metric import AnswerMetric, refused, without_citations
from ragsweep.parts.prices import Prices


class AnswerLength(AnswerMetric):
    """Count the tokens of the answer without its citations, by one tokenizer whatever the config; not of refusals."""

    VERSION = "1"
    name = "answer_length"
    unit = "tokens"
    higher_is_better = None
    bounds = (0.0, None)

    def of(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Count the tokens."""
        return ABSTAINED if refused(answer) else float(count(without_citations(answer.text)))


class AnswerTokensIn(AnswerMetric):
    """Count the tokens that the model read for this answer, by its own tokenizer; a generator without one has none."""

    VERSION = "1"
    name = "answer_tokens_in"
    unit = "tokens"
    higher_is_better = False
    bounds = (0.0, None)

    def of(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Read the usage."""
        return float(answer.usage.tokens_in) if answer.usage.tokens_in + answer.usage.tokens_out else NOT_TOLD


class AnswerTokensOut(AnswerMetric):
    """Count the tokens that the model wrote for this answer, by its own tokenizer; a generator without one has none."""

    VERSION = "1"
    name = "answer_tokens_out"
    unit = "tokens"
    higher_is_better = False
    bounds = (0.0, None)

    def of(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Read the usage."""
        return float(answer.usage.tokens_out) if answer.usage.tokens_in + answer.usage.tokens_out else NOT_TOLD


class CostPer1000(AnswerMetric):
    """Say what a thousand such answers cost in production: what the model reads and writes, in the prices' currency.

    Where a model writes the query, that is in it. What else finding the context costs (an embedding or rerank service,
    machines) is not.
    """

    VERSION = "1"
    name = "cost_per_1000"
    higher_is_better = False
    bounds = (0.0, None)

    def __init__(self, prices: Prices) -> None:
        """Take the prices."""
        self.prices = prices
        self.unit = prices.currency

    def score(self, view: View) -> Scores:
        """Price every answer, and its query where one was written."""
        answers = super().score(view)
        if view.queries is None:
            return answers
        spent = [self.prices.money(one.model, one.usage) if one.usage.calls else 0.0 for one in view.queries]
        reasons = [
            NO_PRICE if math.isnan(money) and not reason else reason
            for money, reason in zip(spent, answers.reasons.tolist(), strict=True)
        ]
        return Scores(answers.values + 1000 * np.array(spent), np.array(reasons, dtype=np.str_))

    def of(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Price the tokens; a generator that calls nobody costs nothing."""
        money = self.prices.money(answer.model, answer.usage)
        return NO_PRICE if math.isnan(money) else 1000 * money


class AnswerSupport(AnswerMetric):
    """Take how sure the generator is, on its own scale, refusals included; an abstention curve is made of it."""

    VERSION = "1"
    name = "answer_support"
    higher_is_better = None
    bounds = (None, None)

    def of(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Read what the generator says of itself."""
        return answer.support if math.isfinite(answer.support) else NOT_TOLD
