"""RAGAS's judged metrics, with the prompts and arithmetic of ``ragas.metrics.collections`` and ragsweep's own calls.

The scores differ from ragas' scores in four cases:

- If a call fails, the score is NaN with a reason, whereas ragas may average over the remaining calls.
- If a text contains no statements, the score is NaN (except in RagasFactualCorrectness), whereas ragas'
  AnswerCorrectness assumes a perfect match.
- If the judge classifies none of the statements, the score is NaN, whereas ragas' AnswerCorrectness assumes a perfect
  match, and its FactualCorrectness scores 0.
- If the judge derives an empty question from an answer, the score is NaN, whereas ragas' AnswerRelevancy skips empty
  questions and scores 0 if all are empty.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from ragsweep.core.errors import ConfigError
from ragsweep.core.escaping import well_formed
from ragsweep.core.missing import MALFORMED, NO_STATEMENTS
from ragsweep.core.types import Case, CostEstimate, Judgement, PartTraits, RequestSize
from ragsweep.parts.judging import Judge
from ragsweep.parts.libraries import versions
from ragsweep.parts.limits import check_at_least
from ragsweep.parts.metrics.bases import clamp
from ragsweep.parts.metrics.judge_metric import CachedJudge, JudgeMetric
from ragsweep.parts.metrics.ragas_calls import VERSION, JudgeSession, NothingToJudge, library, map_texts, scorer
from ragsweep.services.errors import CallFailed
from ragsweep.services.usage import sum_usage

_RAGAS_FIELDS = {
    "question": "user_input",
    "answer": "response",
    "contexts": "retrieved_contexts",
    "reference": "reference",
}
_ROUNDING = 1e-6
PROMPT = 1500
"""Approximate number of tokens of ragas' longest prompt, with its examples and schema but without the judged texts."""


class RagasMetric(JudgeMetric):
    """Base class of ragas' judged metrics; ``of_ragas`` is the name of the metric's class in ragas.

    If ``strict`` is true, a case is scored only if all of its texts contain statements; otherwise, one text with
    statements is enough. A sample of a case costs up to ``chats`` chat calls, ``chats_a_passage`` more for each
    passage, and ``embeds`` embedding calls, not counting retries.
    """

    of_ragas: ClassVar[str]
    strict: ClassVar[bool] = True
    chats: int = 1
    chats_a_passage: ClassVar[int] = 0
    embeds: ClassVar[int] = 0
    options: Mapping[str, Any] = {}

    def fingerprint(self) -> dict[str, str]:
        """Return the versions of ragas and of ``ragas_calls``, because both determine the prompts."""
        return {**versions(["ragas"]), "prompts": VERSION}

    def estimate_cost(self, size: RequestSize) -> CostEstimate:
        """Return an estimate of the highest cost of judging one case, with all samples.

        The number of output tokens is NaN if the metric makes chat calls and the judge has no ``max_tokens``.
        """
        judge = self._judge
        chats = self.chats + (self.chats_a_passage * size.passages if self.chats_a_passage else 0.0)
        context = (self.chats + self.chats_a_passage) * size.context if chats else 0.0
        embeds = self.embeds if getattr(judge, "embeddings_model", None) else 0
        read = chats * (PROMPT + size.rest) + context + embeds * size.rest
        written = chats * float(getattr(judge, "max_tokens", None) or math.nan) if chats else 0.0
        calls = chats + embeds
        return CostEstimate(judge.samples * calls, judge.samples * read, judge.samples * written, self.model)

    def _prepare(self) -> None:
        library()

    async def _sample(self, case: Case, judge: CachedJudge, number: int) -> Judgement:
        session = JudgeSession(judge, number, self.strict)
        texts = {_RAGAS_FIELDS[name]: map_texts(well_formed, getattr(case, name)) for name in self.uses}
        try:
            ascore = scorer(self.of_ragas, session, self.embeddings, self.options)
            value = (await ascore(**texts)).value
        except CallFailed as failure:
            return Judgement(math.nan, failure.reason, sum_usage(session.usage, failure.usage))
        except NothingToJudge:
            return Judgement(math.nan, NO_STATEMENTS, session.usage)
        except (ValueError, IndexError, ArithmeticError):  # inconsistent replies: more classifications than statements
            judge.discard(number)  # the replies are stored, because each one alone is valid
            return Judgement(math.nan, MALFORMED, session.usage)
        if session.statements and not any(session.statements):
            return Judgement(math.nan, NO_STATEMENTS, session.usage)
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or abs(clamp(value, self.bounds) - value) > _ROUNDING:
            judge.discard(number)
            return Judgement(math.nan, MALFORMED, session.usage)
        return Judgement(clamp(value, self.bounds), "", session.usage)


class RagasFaithfulness(RagasMetric):
    """Proportion of the statements in the answer that follow from the context; the judge extracts the statements."""

    TRAITS = PartTraits(version="1", skips_abstained=True)
    name = "ragas_faithfulness"
    uses = ("question", "answer", "contexts")
    of_ragas = "Faithfulness"
    chats = 2


class RagasAnswerRelevancy(RagasMetric):
    """Mean cosine between the question and questions that the judge derives from the answer.

    The judge is called ``strictness`` times and derives one question per call. The score is 0 if the judge finds the
    answer evasive in every call.
    """

    TRAITS = PartTraits(version="1", skips_abstained=True)
    name = "ragas_answer_relevancy"
    uses = ("question", "answer")
    of_ragas = "AnswerRelevancy"
    embeds = 2
    embeddings = True
    bounds = (-1.0, 1.0)

    def __init__(self, judge: Judge, strictness: int = 3) -> None:
        check_at_least(f"metrics.{self.name}", 1, strictness=strictness)
        super().__init__(judge)
        self.options = {"strictness": strictness}
        self.chats = strictness


class RagasContextPrecision(RagasMetric):
    """Average precision of the context; a chunk is relevant if the judge finds it useful for deriving the reference."""

    TRAITS = PartTraits(version="1", skips_abstained=True)
    name = "ragas_context_precision"
    uses = ("question", "contexts", "reference")
    of_ragas = "ContextPrecisionWithReference"
    chats, chats_a_passage = 0, 1


class RagasContextPrecisionWithoutReference(RagasMetric):
    """Average precision of the context; a chunk is relevant if the judge finds it useful for deriving the answer."""

    TRAITS = PartTraits(version="1", skips_abstained=True)
    name = "ragas_context_precision_without_reference"
    uses = ("question", "answer", "contexts")
    of_ragas = "ContextPrecisionWithoutReference"
    chats, chats_a_passage = 0, 1


class RagasContextRecall(RagasMetric):
    """Proportion of the statements in the reference answer that the context supports, according to the judge."""

    TRAITS = PartTraits(version="1", skips_abstained=True)
    name = "ragas_context_recall"
    uses = ("question", "contexts", "reference")
    of_ragas = "ContextRecall"


class RagasAnswerCorrectness(RagasMetric):
    """Weighted mean of two comparisons with the reference: F-beta of the statements, and cosine of the embeddings.

    ``factuality`` is the weight of the F-beta score, and ``similarity`` is the weight of the cosine. Refusals with text
    are also judged.
    """

    TRAITS = PartTraits(version="2")
    name = "ragas_answer_correctness"
    uses = ("question", "answer", "reference")
    of_ragas = "AnswerCorrectness"
    chats, embeds = 3, 2
    embeddings = True

    def __init__(self, judge: Judge, factuality: float = 0.75, similarity: float = 0.25, beta: float = 1.0) -> None:
        if min(factuality, similarity) < 0 or not factuality + similarity > 0 or not beta > 0:
            raise ConfigError(
                "factuality and similarity must be at least 0 and not both 0, and beta must be above 0, got"
                f" {factuality}, {similarity} and {beta}"
            )
        super().__init__(judge)
        self.options = {"weights": [float(factuality), float(similarity)], "beta": float(beta)}
        self.bounds = (-similarity / (factuality + similarity), 1.0)

    def check(self) -> None:
        """Raise ConfigError if there is no judge, or if the judge has no embeddings and ``similarity`` is above 0."""
        self._judge.check_metric(self.name, self.options["weights"][1] > 0)


class RagasFactualCorrectness(RagasMetric):
    """Precision (of the answer's claims), recall (of the reference's claims) or F-beta, rounded to two decimals.

    Refusals with text are also judged. If only the reference contains claims, the score is 0, as in ragas. If neither
    text contains claims, the question is not scored. With ``mode`` "precision", which extracts no claims from the
    reference, an answer without claims is not scored.
    """

    TRAITS = PartTraits(version="3")
    name = "ragas_factual_correctness"
    uses = ("answer", "reference")
    of_ragas = "FactualCorrectness"
    strict = False

    def __init__(
        self,
        judge: Judge,
        mode: Literal["f1", "precision", "recall"] = "f1",
        beta: float = 1.0,
        atomicity: Literal["low", "high"] = "low",
        coverage: Literal["low", "high"] = "low",
    ) -> None:
        if not beta > 0:
            raise ConfigError(f"beta must be above 0, got {beta}")
        super().__init__(judge)
        self.chats = 2 if mode == "precision" else 4
        self.options = {"mode": mode, "beta": float(beta), "atomicity": atomicity, "coverage": coverage}


class RagasSemanticSimilarity(RagasMetric):
    """Cosine between the judge's embeddings of the answer and of the reference; refusals with text are also scored."""

    TRAITS = PartTraits(version="1")
    name = "ragas_semantic_similarity"
    uses = ("answer", "reference")
    of_ragas = "SemanticSimilarity"
    priced = "embeddings_model"
    chats, embeds = 0, 1
    embeddings = True
    bounds = (-1.0, 1.0)


class RagasNoiseSensitivity(RagasMetric):
    """Proportion of the statements in the answer that are wrong and follow from a chunk; lower is better.

    A chunk is relevant if it supports a statement of the reference. With ``mode`` "relevant", a statement counts if it
    follows from a relevant chunk; with "irrelevant", if it follows only from other chunks.
    """

    TRAITS = PartTraits(version="1", skips_abstained=True)
    name = "ragas_noise_sensitivity"
    uses = ("question", "answer", "contexts", "reference")
    of_ragas = "NoiseSensitivity"
    chats, chats_a_passage = 3, 2
    higher_is_better = False

    def __init__(self, judge: Judge, mode: Literal["relevant", "irrelevant"] = "relevant") -> None:
        super().__init__(judge)
        self.options = {"mode": mode}
