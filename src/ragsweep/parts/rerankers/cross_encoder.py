"""A reranker whose model reads the question and a chunk together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.types import Floats, PartTraits
from ragsweep.parts.local_model import SentenceTransformersModel
from ragsweep.parts.reordering import REORDERING, ReorderingSettings

ARCHITECTURE = "ForSequenceClassification"
"""Suffix of the architecture of a reranker; other models would be loaded with a randomly initialised head."""

DECIMALS = 4
"""Number of decimals of a score; the sixth decimal would depend on the other pairs in the batch."""


@dataclass(eq=False)
class CrossEncoder(ReorderingSettings, SentenceTransformersModel):
    """A reranker whose score is the logit of a classifier with one output; a higher logit means more relevant.

    A logit of 0 means a probability of 0.5. The probability itself is not used, because in single precision it is equal
    for all good candidates. The logit is rounded, because later decimals depend on the other pairs in the batch and
    would order equal passages by chance. ``max_length`` limits the tokens of the question and the chunk together (None:
    the model's own limit); the longer of the two is truncated first.
    """

    TRAITS: ClassVar[PartTraits] = replace(SentenceTransformersModel.TRAITS, version="2", reordering=REORDERING)
    KEY: ClassVar[str] = "reranker"

    model: str

    def check(self) -> None:
        """Raise ConfigError as the base class does, and for a model that is not a reranker with one output."""
        super().check()
        config = self._config()
        architecture = (config.get("architectures") or ["unknown"])[0]
        if not str(architecture).endswith(ARCHITECTURE):
            raise ConfigError(
                f"reranker.model is {self.model!r}, whose architecture is {architecture}; use a cross-encoder"
                f" (...{ARCHITECTURE}), or rerank with the embedder: reranker=late_interaction"
            )
        outputs = len(config.get("id2label") or {"0": ""})
        if outputs != 1:
            raise ConfigError(
                f"reranker.model is {self.model!r}, which returns {outputs} scores per pair; use a model that returns"
                " one score"
            )

    def score(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Return one score per pair (question, text). Raises InputError if a score is not finite."""
        if not pairs:
            return np.empty(0, dtype=np.float32)
        from torch import nn

        logits = self._model.predict(
            list(pairs), batch_size=self.batch_size, show_progress_bar=False, activation_fn=nn.Identity()
        )
        scores: Floats = np.asarray(logits, dtype=np.float32).round(DECIMALS)
        if not np.isfinite(scores).all():
            raise InputError(
                f"the model {self.model} returned scores that are not finite; try reranker.dtype=float32, or another"
                " reranker.model"
            )
        return scores

    @cached_property
    def _model(self) -> Any:
        from sentence_transformers import CrossEncoder as Model

        return self._load(Model, max_length=self.max_length)
