"""What metrics have in common that a judge decides: who is judged, how often, and what becomes of what failed."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from ragsweep.core.identity import content_hash, key_check
from ragsweep.core.reasons import ABSTAINED, CONVERSATIONAL, NOT_JUDGED, score_where
from ragsweep.core.types import Case, Judgement, Notes, Scores, Usage, View
from ragsweep.parts.injections import is_suspicious
from ragsweep.parts.judging import Judge, total
from ragsweep.parts.noting import Noted
from ragsweep.services.calls import each


class Sample(NamedTuple):
    """One judgement of a case: a value, or NaN and why there is none; and what it cost."""

    value: float
    reason: str
    usage: Usage


class Judged:
    """Judge cases by ``_sample``, which a metric defines: once, or as often as the judge has samples.

    SKIPS_ABSTAINED says that an answer that declines is not judged.
    """

    VERSION = "1"
    unit = ""
    higher_is_better: bool | None = True
    bounds: tuple[float | None, float | None] = (0.0, 1.0)
    quantile: float | None = None
    name: str
    uses: tuple[str, ...]
    embeddings: ClassVar[bool] = False
    SKIPS_ABSTAINED: ClassVar[bool] = True

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    @property
    def needs(self) -> tuple[str, ...]:
        """Say that a judge is needed, and what of a question this metric looks at."""
        return ("judge", *(name for name in ("answer", "reference") if name in self.uses))

    @property
    def model(self) -> str:
        """Name the model whose price the calls have."""
        return str(getattr(self._judge, "model", None) or "")

    def check(self) -> None:
        """Raise ConfigError where the judge cannot decide this metric; asks nobody."""
        self._judge.ready(self.name, self.embeddings)

    def check_key(self) -> None:
        """Raise ConfigError where the key of the judge is not in the environment; asks nobody."""
        if check := key_check(self._judge):
            check()

    def judge(self, cases: Sequence[Case], done: Callable[[int, Judgement], None]) -> None:
        """Judge all cases at once; how many calls are open is the endpoint's affair.

        Raises EndpointFailed where the endpoint cannot be asked at all.
        """
        self.judge_noting(cases, done, {})

    def judge_noting(self, cases: Sequence[Case], done: Callable[[int, Judgement], None], notes: Notes) -> None:
        """Judge as ``judge`` does, and note every call's answer: see :class:`ragsweep.core.types.Noting`."""
        self._prepare()  # here, and not in the loop that all calls share: an import may take seconds

        async def judgement(case: Case) -> Judgement:
            return await self._judge_case(case, Noted(self._judge, notes, content_hash([self.name, case._asdict()])))

        each(cases, judgement, done)

    def score(self, view: View) -> Scores:
        """Score every question by its judgement; conversation, and mostly an answer that declines, has none."""
        judgements = view.judgements.get(self.name)
        if judgements is None:
            judgements = [Judgement(reason=NOT_JUDGED)] * len(view.questions)
        values = np.array([judgement.value for judgement in judgements], dtype=np.float64)
        reasons = [judgement.reason for judgement in judgements]
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

    def _prepare(self) -> None:
        """Load what is slow to load."""

    async def _judge_case(self, case: Case, judge: Judge) -> Judgement:
        flagged = is_suspicious(case.question, case.answer, *case.contexts)
        samples: list[Sample] = []
        for number in range(judge.samples):
            samples.append(await self._sample(case, judge, number))
            if samples[-1].reason:
                break
        paid = total(*(sample.usage for sample in samples))
        if reason := samples[-1].reason:
            return Judgement(reason=reason, usage=paid, suspicious=flagged, model=self.model)
        values = [sample.value for sample in samples]
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
        return Judgement(float(np.mean(values)), "", paid, flagged, spread, self.model)

    @abstractmethod
    async def _sample(self, case: Case, judge: Judge, number: int) -> Sample:
        """Judge a case once; ``judge`` is this case's, ``number`` says which of the samples it is."""
