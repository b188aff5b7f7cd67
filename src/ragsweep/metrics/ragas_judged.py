"""RAGAS's metrics that a judge decides: ragas' own prompts and arithmetic (ragas.metrics.collections), our calls.

A verdict is one number, or NaN and the reason: ragas averages what is missing away, and we do not. Where ragas makes a
number of nothing (1 for an answer without a single statement, 0 for an empty answer of the judge) the verdict is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from ragsweep.calls import CallFailed, each
from ragsweep.errors import ConfigError
from ragsweep.fences import printable
from ragsweep.injections import is_suspicious
from ragsweep.judging import Judge, total
from ragsweep.metrics.ragas_library import NothingToJudge, Sitting, library, scorer, versions
from ragsweep.reasons import ABSTAINED, CONVERSATIONAL, MALFORMED, NO_STATEMENTS, NOT_JUDGED, score_where
from ragsweep.types import Ahead, Case, Scores, Size, Usage, Verdict, View

_RAGAS_WORDS = {"question": "user_input", "answer": "response", "contexts": "retrieved_contexts",
                "reference": "reference"}  # fmt: skip
_ROUNDING = 1e-6
PROMPT = 1500
"""Tokens of one of ragas' prompts with its examples and schema, before anything is filled in: the longest, about."""


class Ragas:
    """What the metrics below have in common; each states the metric of ragas and what it looks at.

    SKIPS_ABSTAINED says that an answer that declines is not judged. ``strict`` says that a text in which the judge
    finds no statement has no score. ``chats``, ``chats_a_passage`` and ``embeds`` count the calls that ragas makes for
    one case.
    """

    VERSION = "1"
    unit = ""
    higher_is_better: bool | None = True
    bounds: tuple[float | None, float | None] = (0.0, 1.0)
    quantile: float | None = None
    name: str
    uses: tuple[str, ...]
    of_ragas: ClassVar[str]
    embeddings: ClassVar[bool] = False
    SKIPS_ABSTAINED: ClassVar[bool] = True
    strict: ClassVar[bool] = True
    chats: int = 1
    chats_a_passage: ClassVar[int] = 0
    embeds: ClassVar[int] = 0

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.options: dict[str, Any] = {}

    @property
    def needs(self) -> tuple[str, ...]:
        """Say that a judge is needed, and what of a question this metric looks at."""
        return ("judge", *(name for name in ("answer", "reference") if name in self.uses))

    @property
    def model(self) -> str:
        """Name the model whose price the calls have; the few embeddings beside chats are taken to cost as much."""
        named = "model" if self.chats or self.chats_a_passage else "embeddings_model"
        return str(getattr(self._judge, named, None) or "")

    def check(self) -> None:
        """Raise ConfigError where the judge cannot decide this metric; asks nobody."""
        self._judge.ready(self.name, self.embeddings)

    def fingerprint(self) -> dict[str, str]:
        """Return what else decides a verdict: the versions of ragas and of our way to ask."""
        return versions()

    def ahead(self, size: Size) -> Ahead:
        """Tell what one verdict costs at most, where the judge says how long its answers may be."""
        judge, again = self._judge, self._judge.samples
        each_passage = self.chats_a_passage * size.passages if self.chats_a_passage else 0.0
        chats = self.chats + each_passage
        context = (self.chats * size.context if self.chats else 0.0) + (
            self.chats_a_passage * size.context if self.chats_a_passage else 0.0
        )
        embeds = self.embeds if getattr(judge, "embeddings_model", None) else 0
        read = chats * (PROMPT + size.rest) + context + embeds * size.rest
        written = chats * float(getattr(judge, "max_tokens", math.nan)) if chats else 0.0
        return Ahead(again * (chats + embeds), again * read, again * written, self.model)

    def judge(self, cases: Sequence[Case], done: Callable[[int, Verdict], None]) -> None:
        """Judge all cases at once; how many calls are open is the endpoint's affair.

        Raises EndpointFailed where the endpoint cannot be asked at all.
        """
        library()  # here, and not in the loop that all calls share: importing ragas takes seconds
        each(cases, self._verdict, done)

    def score(self, view: View) -> Scores:
        """Score every question by its verdict; conversation, and mostly an answer that declines, has none."""
        verdicts = view.verdicts.get(self.name)
        if verdicts is None:
            verdicts = [Verdict(reason=NOT_JUDGED)] * len(view.questions)
        values = np.array([verdict.value for verdict in verdicts], dtype=np.float64)
        reasons = [verdict.reason for verdict in verdicts]
        for n, question in enumerate(view.questions):
            if not question.needs_retrieval:
                reasons[n] = CONVERSATIONAL
            elif self._declines(view, n):
                reasons[n] = ABSTAINED
        said = np.array(reasons, dtype=np.str_)
        return score_where(said == "", values, said)

    def _declines(self, view: View, n: int) -> bool:
        if "answer" not in self.uses or not self.SKIPS_ABSTAINED or view.answers is None:
            return False
        return view.answers.answers[n].abstained

    # --- one case ----------------------------------------------------------------------------------------------

    async def _verdict(self, case: Case) -> Verdict:
        given = {_RAGAS_WORDS[name]: _printable(getattr(case, name)) for name in self.uses}
        flagged = is_suspicious(case.question, case.answer, *case.contexts)
        sittings = [Sitting(self._judge, sample, self.strict) for sample in range(self._judge.samples)]
        values: list[float] = []
        reason = ""
        for sitting in sittings:
            value, reason, unpaid = await self._sample(sitting, given)
            sitting.usage = total(sitting.usage, unpaid)
            if reason:
                break
            values.append(value)
        paid = total(*(sitting.usage for sitting in sittings))
        if reason:
            return Verdict(reason=reason, usage=paid, suspicious=flagged, model=self.model)
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
        return Verdict(float(np.mean(values)), "", paid, flagged, spread, self.model)

    async def _sample(self, sitting: Sitting, given: dict[str, Any]) -> tuple[float, str, Usage]:
        """Judge once: a value or a reason, and what a call cost that failed."""
        try:
            score = scorer(self.of_ragas, sitting, self.embeddings, self.options)
            value = (await score(**given)).value
        except CallFailed as failure:
            return math.nan, failure.reason, failure.usage
        except NothingToJudge:
            return math.nan, NO_STATEMENTS, Usage()
        except (
            ValueError,
            IndexError,
            ArithmeticError,
        ):  # verdicts that do not fit together: more than statements, say
            return math.nan, MALFORMED, Usage()
        return *self._valid(value), Usage()

    def _valid(self, value: object) -> tuple[float, str]:
        """Take a finite number within the metric's bounds for a value, whatever else came for a failure."""
        lowest, highest = self.bounds
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return math.nan, MALFORMED
        least = -math.inf if lowest is None else lowest
        most = math.inf if highest is None else highest
        if not least - _ROUNDING <= value <= most + _ROUNDING:
            return math.nan, MALFORMED
        return min(max(float(value), least), most), ""


def _printable(value: Any) -> Any:
    return printable(value) if isinstance(value, str) else [printable(text) for text in value]


class RagasFaithfulness(Ragas):
    """Count the statements of the answer that follow from the context; the judge takes the answer apart first."""

    name = "ragas_faithfulness"
    uses = ("question", "answer", "contexts")
    of_ragas = "Faithfulness"
    chats = 2


class RagasAnswerRelevancy(Ragas):
    """Compare the question with those that the judge would put to get this answer: mean cosine of ``strictness``.

    0 where the judge calls the answer evasive every time.
    """

    name = "ragas_answer_relevancy"
    uses = ("question", "answer")
    of_ragas = "AnswerRelevancy"
    embeds = 2
    embeddings = True
    bounds = (-1.0, 1.0)

    def __init__(self, judge: Judge, strictness: int = 3) -> None:
        if strictness < 1:
            raise ConfigError(f"strictness is {strictness}; it must be 1 or more")
        super().__init__(judge)
        self.options = {"strictness": strictness}
        self.chats = strictness


class RagasContextPrecision(Ragas):
    """Average the precision at every chunk that helped to the reference answer, by the judge: early is better."""

    name = "ragas_context_precision"
    uses = ("question", "contexts", "reference")
    of_ragas = "ContextPrecisionWithReference"
    chats, chats_a_passage = 0, 1


class RagasContextPrecisionWithoutReference(Ragas):
    """Average the precision at every chunk that helped to the answer given, by the judge; needs no reference."""

    name = "ragas_context_precision_without_reference"
    uses = ("question", "answer", "contexts")
    of_ragas = "ContextPrecisionWithoutReference"
    chats, chats_a_passage = 0, 1


class RagasContextRecall(Ragas):
    """Count the statements of the reference answer that the context holds, by the judge."""

    name = "ragas_context_recall"
    uses = ("question", "contexts", "reference")
    of_ragas = "ContextRecall"


class RagasAnswerCorrectness(Ragas):
    """Mix how well the statements of answer and reference agree (F-beta) with how alike the texts are (cosine).

    An answer that declines is judged too: it is not the right one.
    """

    name = "ragas_answer_correctness"
    uses = ("question", "answer", "reference")
    of_ragas = "AnswerCorrectness"
    chats, embeds = 3, 2
    embeddings = True
    SKIPS_ABSTAINED = False

    def __init__(self, judge: Judge, factuality: float = 0.75, similarity: float = 0.25, beta: float = 1.0) -> None:
        if min(factuality, similarity) < 0 or not factuality + similarity > 0 or not beta > 0:
            raise ConfigError(
                f"factuality {factuality}, similarity {similarity} and beta {beta}: weights must be 0 or more, one of"
                " them more, and beta more than 0"
            )
        super().__init__(judge)
        self.options = {"weights": [float(factuality), float(similarity)], "beta": float(beta)}
        self.bounds = (-similarity / (factuality + similarity), 1.0)

    def check(self) -> None:
        """Raise ConfigError where the judge has no embeddings, and they are needed."""
        self._judge.ready(self.name, self.options["weights"][1] > 0)


class RagasFactualCorrectness(Ragas):
    """Compare the claims of answer and reference, both ways unless ``mode`` is precision; rounded to two places.

    An answer that declines is judged too: it is not the right one. An answer without claims scores 0, as in ragas.
    """

    name = "ragas_factual_correctness"
    uses = ("answer", "reference")
    of_ragas = "FactualCorrectness"
    SKIPS_ABSTAINED = False
    strict = False

    def __init__(
        self,
        judge: Judge,
        mode: Literal["f1", "precision", "recall"] = "f1",
        beta: float = 1.0,
        atomicity: Literal["low", "high"] = "low",
        coverage: Literal["low", "high"] = "low",
    ) -> None:
        super().__init__(judge)
        self.chats = 2 if mode == "precision" else 4
        self.options = {"mode": mode, "beta": float(beta), "atomicity": atomicity, "coverage": coverage}


class RagasSemanticSimilarity(Ragas):
    """Compare the answer with the reference by the cosine of the judge's embeddings. An answer that declines counts."""

    name = "ragas_semantic_similarity"
    uses = ("answer", "reference")
    of_ragas = "SemanticSimilarity"
    chats, embeds = 0, 1
    embeddings = True
    SKIPS_ABSTAINED = False
    bounds = (-1.0, 1.0)


class RagasNoiseSensitivity(Ragas):
    """Count the statements of the answer that are wrong and follow from a chunk, of all; lower is better.

    ``mode`` relevant looks at chunks that hold something of the reference, irrelevant at the others.
    """

    name = "ragas_noise_sensitivity"
    uses = ("question", "answer", "contexts", "reference")
    of_ragas = "NoiseSensitivity"
    chats, chats_a_passage = 3, 2
    higher_is_better = False

    def __init__(self, judge: Judge, mode: Literal["relevant", "irrelevant"] = "relevant") -> None:
        super().__init__(judge)
        self.options = {"mode": mode}
