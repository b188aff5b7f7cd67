"""Rerank with a model that reads question and chunk together."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ragsweep.core import model_files
from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.types import Floats
from ragsweep.parts.reordering import REORDERING, Reordering

ARCHITECTURE = "ForSequenceClassification"
"""What the name of a reranker's class ends with; any other model would be given a head of random weights."""


class CrossEncoder:
    """Score a pair by the logit of a classifier with one output: higher is better, 0 is where its sigmoid is .5.

    The logit and not its sigmoid, which in single precision makes all good candidates equal. ``max_length`` (tokens of
    question and chunk together, None: the model's own limit) cuts the longer of the two first.
    """

    VERSION = "1"
    REORDERING = REORDERING
    # The model goes into addresses by what its files hold, the dtype by what it resolves to: see fingerprint.
    OPERATIONAL = frozenset({"model", "device", "dtype", "batch_size", "download"})

    def __init__(
        self,
        model: str,
        candidates: int = 50,
        min_score: float | None = None,
        mix: float = 0.0,
        max_length: int | None = None,
        device: str = "auto",
        dtype: str = "auto",
        batch_size: int = 32,
        download: bool = False,
    ) -> None:
        """Name the model; nothing is loaded before it is used. Raise ConfigError for a number out of range."""
        self.model = model
        self.candidates = candidates
        self.min_score = min_score
        self.mix = mix
        self.max_length = max_length
        self.device = device
        self.dtype = dtype
        self.batch_size = batch_size
        self.download = download
        Reordering(candidates, min_score, mix).check()

    def check(self) -> None:
        """Raise ConfigError where the model cannot be loaded as configured, or is no reranker; loads nothing."""
        self._dtype()
        folder = self._folder()
        self._check_architecture(folder)
        model_files.check_reading(folder, self.model, "reranker", self.batch_size, self.max_length)

    def fingerprint(self) -> Mapping[str, str]:
        """Hash the model's files, and name the dtype it computes in and the versions of the libraries that compute."""
        return {**model_files.facts(self._folder()), "dtype": self._dtype(), **model_files.versions()}

    def score(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Score pairs; the longest are scored first, so that pairs of one length share a batch."""
        if not pairs:
            return np.empty(0, dtype=np.float32)
        from torch import nn

        found = self._model.predict(
            list(pairs), batch_size=self.batch_size, show_progress_bar=False, activation_fn=nn.Identity()
        )
        scores: Floats = np.asarray(found, dtype=np.float32)
        if not np.isfinite(scores).all():
            raise InputError(f"the model {self.model} gave scores that are not finite; try reranker.dtype=float32")
        return scores

    def _folder(self) -> Path:
        return model_files.locate(self.model, "reranker.model", self.download)

    def _dtype(self) -> str:
        return model_files.resolve_dtype(self.dtype, self.device, "reranker.dtype")

    def _check_architecture(self, folder: Path) -> None:
        path = folder / "config.json"
        config = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        named = (config.get("architectures") or ["nothing"])[0]
        if not str(named).endswith(ARCHITECTURE):
            raise ConfigError(
                f"reranker.model is {self.model!r}, which holds {named} and no cross-encoder (...{ARCHITECTURE}); "
                "an embedding model reranks with reranker=late_interaction"
            )
        outputs = len(config.get("id2label") or {"0": ""})
        if outputs != 1:
            raise ConfigError(f"reranker.model is {self.model!r}, which gives {outputs} scores a pair; name one of one")

    @cached_property
    def _model(self) -> Any:
        folder = self._folder()
        import torch
        from sentence_transformers import CrossEncoder as Model
        from transformers.utils import logging as transformers_logging

        logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
        transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        with model_files.loading(self.model, "reranker.model"):
            return Model(
                str(folder),
                device=None if self.device == "auto" else self.device,
                trust_remote_code=False,
                local_files_only=True,
                max_length=self.max_length,
                model_kwargs={"dtype": getattr(torch, self._dtype()), "use_safetensors": True},
            ).eval()
