"""A metric that measures, with an entailment model, whether the context supports an answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import NOT_CONFIGURED, NOTHING_SAID
from ragsweep.core.types import Case, Judgement, Question
from ragsweep.parts.local_model import SentenceTransformersModel
from ragsweep.parts.metrics.bases import batches, check_threshold, without_citations
from ragsweep.parts.metrics.grounding import SentenceMetric, sentences_of

CASES_ENTAILED = 16
"""Number of cases in a batch; judgements are stored after each batch."""


@dataclass(eq=False)
class FaithfulnessNli(SentenceTransformersModel, SentenceMetric):
    """Proportion of the answer's sentences that at least one passage of the context entails.

    Each passage is a separate premise, as in Laban et al. 2022, "SummaC", at paragraph granularity. A passage entails
    a sentence if the model's probability of entailment is at least ``threshold``. Pairs of a passage and a sentence
    that exceed the model's input length are truncated. An answer without passages scores 0. Refusals, answers without
    sentences, and answers to conversational questions are not scored; without a ``model``, no answer is scored.
    """

    TRAITS = replace(SentenceTransformersModel.TRAITS, version="4", skips_abstained=True)
    name = "faithfulness_nli"
    KEY = "metrics.faithfulness_nli"

    model: str | None = None
    threshold: float = 0.5

    def __post_init__(self) -> None:
        check_threshold(self.threshold, self.name)

    def check(self) -> None:
        """Raise ConfigError for invalid settings or model files, and for a model without a class "entailment".

        The model is not loaded. If ``model`` is None, nothing is checked.
        """
        if self.model is not None:
            super().check()
            self._entailment_class()

    def fingerprint(self) -> Mapping[str, str]:
        """Return the hashes of the model files, the dtype and library versions; {"weights": "none"} without a model."""
        if self.model is None:
            return {"weights": "none"}
        return {**SentenceMetric.fingerprint(self), **super().fingerprint()}

    def judge(self, cases: Sequence[Case], done: Callable[[int, Judgement], None]) -> None:
        """Judge each case by the proportion of the answer's sentences that a passage entails.

        A case without sentences in its answer gets NaN and the reason "nothing said". If ``model`` is None, the reason
        of every case is "not configured".
        """
        if self.model is None:
            for n in range(len(cases)):
                done(n, Judgement(reason=NOT_CONFIGURED))
            return
        for batch in batches(cases, CASES_ENTAILED):
            answers = {n: sentences_of(without_citations(case.answer)) for n, case in batch}
            pairs = [(text, sentence) for n, case in batch for sentence in answers[n] for text in case.contexts]
            distinct = list(dict.fromkeys(pairs))
            chances = dict(zip(distinct, self._entailment_probabilities(distinct), strict=True))
            for n, case in batch:
                best = [max((chances[text, part] for text in case.contexts), default=0.0) for part in answers[n]]
                share = float(np.mean(np.array(best) >= self.threshold)) if best else np.nan
                done(n, Judgement(share, "" if best else NOTHING_SAID))

    def _skip_reason(self, question: Question) -> str:
        return NOT_CONFIGURED if self.model is None else super()._skip_reason(question)

    def _entailment_probabilities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return, for each pair, the probability that the first text entails the second.

        Raises ConfigError if a probability is not finite.
        """
        if not pairs:
            return []
        probabilities = self._loaded.predict(
            pairs, batch_size=self.batch_size, show_progress_bar=False, apply_softmax=True
        )
        chances = np.asarray(probabilities, dtype=np.float64)[:, self._entailment_class()]
        if not np.isfinite(chances).all():
            raise ConfigError(
                f"{self.KEY}.model is {self.model!r}, which returned numbers that are not finite; try"
                f" {self.KEY}.dtype=float32, or another model"
            )
        return [float(chance) for chance in chances]

    def _entailment_class(self) -> int:
        """Return the index of the model's class "entailment".

        Raises ConfigError if the model has no class "entailment" or only this class.
        """
        labels = {int(n): str(label).lower() for n, label in (self._config().get("id2label") or {}).items()}
        for n, label in labels.items():
            if label == "entailment" and len(labels) > 1:
                return n
        raise ConfigError(
            f"{self.KEY}.model is {self.model!r}, whose classes are {', '.join(labels.values()) or 'not named'}; "
            'use a model with a class "entailment" and at least one other class'
        )

    @cached_property
    def _loaded(self) -> Any:
        from sentence_transformers import CrossEncoder

        return self._load(CrossEncoder, max_length=self.max_length)
