"""Faithfulness by natural language inference: a local model decides which sentences the context entails."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import ABSTAINED, NOT_CONFIGURED, NOTHING_SAID
from ragsweep.core.sentences import LIBRARY
from ragsweep.core.types import Answer, Case, Judgement, Passage, Question
from ragsweep.parts.local_model import LocalModel
from ragsweep.parts.metrics.answer_metric import (
    JudgedAnswerMetric,
    batches,
    check_threshold,
    is_refusal,
    reason_conversational,
    without_citations,
)
from ragsweep.parts.metrics.grounding import sentences_of

ENTAILMENT = "entailment"
TOGETHER = 16
"""Number of cases judged at once; judgements are stored after each batch."""


class FaithfulnessNli(LocalModel, JudgedAnswerMetric):
    """Proportion of the answer's sentences that some passage of its context entails.

    Each passage is a premise of its own, as in Laban et al. 2022, "SummaC", at the granularity of paragraphs; a passage
    longer than the model's window is cut. An answer without passages scores 0.

    Args:
        model: Folder or hub id of a cross-encoder with a class named entailment; None: nothing is judged.
        threshold: Probability of entailment from which a sentence counts.
        max_length: Maximum tokens of passage and sentence together; None: the model's own limit.
        device: "auto", "cpu", "cuda", ...
        dtype: "auto", "float32", "bfloat16" or "float16".
        batch_size: Number of pairs computed at once.
        download: Whether the model may be fetched from the hub.
    """

    VERSION = "1"
    name = "faithfulness_nli"
    uses = ("answer", "contexts")
    KEY = "metrics.faithfulness_nli"

    def __init__(
        self,
        model: str | None = None,
        threshold: float = 0.5,
        max_length: int | None = None,
        device: str = "auto",
        dtype: str = "auto",
        batch_size: int = 32,
        download: bool = False,
    ) -> None:
        self.model = model
        self.threshold = check_threshold(threshold, self.name)
        self.max_length = max_length
        self.device = device
        self.dtype = dtype
        self.batch_size = batch_size
        self.download = download

    def check(self) -> None:
        """Raise ConfigError where the model cannot be loaded or has no class entailment, without loading it."""
        if self.model is not None:
            super().check()
            self._entailment()

    def fingerprint(self) -> Mapping[str, str]:
        """Return the hash of the model's files, the resolved dtype, and the versions of the libraries that compute."""
        if self.model is None:
            return {"weights": "none"}
        return {LIBRARY: importlib.metadata.version(LIBRARY), **super().fingerprint()}

    def judge(self, cases: Sequence[Case], done: Callable[[int, Judgement], None]) -> None:
        """Judge every pair of passage and sentence."""
        for some in batches(cases, TOGETHER):
            stated = {n: sentences_of(without_citations(case.answer)) for n, case in some}
            pairs = [(text, one) for n, case in some for one in stated[n] for text in case.contexts]
            known = dict(zip(dict.fromkeys(pairs), self._entailed(list(dict.fromkeys(pairs))), strict=True))
            for n, case in some:
                done(n, self._judge_case(stated[n], case.contexts, known))

    def skip_reason(self, question: Question) -> str:
        """Leave out conversation; everything where there is no model."""
        return NOT_CONFIGURED if self.model is None else reason_conversational(question)

    def unjudged_score(self, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score answers without passages 0."""
        return ABSTAINED if is_refusal(answer) else "" if passages else 0.0

    def _judge_case(
        self, stated: Sequence[str], contexts: Sequence[str], known: Mapping[tuple[str, str], float]
    ) -> Judgement:
        if self.model is None:
            return Judgement(reason=NOT_CONFIGURED)
        if not stated:
            return Judgement(reason=NOTHING_SAID)
        best = [max((known[text, one] for text in contexts), default=0.0) for one in stated]
        return Judgement(float(np.mean(np.array(best) >= self.threshold)))

    def _entailed(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the probability that each pair's first text entails its second."""
        if not pairs or self.model is None:
            return [0.0] * len(pairs)
        found = self._loaded.predict(
            list(pairs), batch_size=self.batch_size, show_progress_bar=False, apply_softmax=True
        )
        chances = np.asarray(found, dtype=np.float64)[:, self._entailment()]
        if not np.isfinite(chances).all():
            raise ConfigError(
                f"{self.KEY}.model is {self.model!r}, which gave numbers that are not finite; try dtype=float32"
            )
        return [float(chance) for chance in chances]

    def _entailment(self) -> int:
        """Return the number of the class entailment."""
        path = self._folder() / "config.json"
        config = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        named = {int(n): str(label).lower() for n, label in (config.get("id2label") or {}).items()}
        for n, label in named.items():
            if label == ENTAILMENT and len(named) > 1:
                return n
        known = ", ".join(named.values()) or "none"
        raise ConfigError(
            f"{self.KEY}.model is {self.model!r}, whose classes are {known}; "
            f'name a model with a class "{ENTAILMENT}" and another'
        )

    @cached_property
    def _loaded(self) -> Any:
        from sentence_transformers import CrossEncoder

        return self._load(CrossEncoder, max_length=self.max_length)
