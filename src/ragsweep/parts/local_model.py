"""What parts share that compute with a model on this machine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from ragsweep.parts import model_files


class LocalModel:
    """Locate, check and load a model.

    Addresses contain the hash of the model's files and the resolved dtype: see ``fingerprint``.
    """

    OPERATIONAL: ClassVar[frozenset[str]] = frozenset({"model", "device", "dtype", "batch_size", "download"})
    KEY: ClassVar[str]  # of the part in a config, for messages

    model: str | None
    device: str
    dtype: str
    batch_size: int
    max_length: int | None
    download: bool

    def check(self) -> None:
        """Raise ConfigError where the model cannot be loaded as configured; loads nothing."""
        self._resolved_dtype()
        model_files.check_reading(self._folder(), str(self.model), self.KEY, self.batch_size, self.max_length)

    def fingerprint(self) -> Mapping[str, str]:
        """Hash the model's files, and name the dtype it computes in and the versions of the libraries that compute."""
        return {**model_files.facts(self._folder()), "dtype": self._resolved_dtype(), **model_files.versions()}

    def _folder(self) -> Path:
        return model_files.locate(str(self.model), f"{self.KEY}.model", self.download)

    def _resolved_dtype(self) -> str:
        return model_files.resolve_dtype(self.dtype, self.device, f"{self.KEY}.dtype")

    def _load(self, load: Callable[..., Any], **arguments: Any) -> Any:
        """Load the model by a class of sentence-transformers."""
        folder = self._folder()
        import torch

        silence_libraries()
        with model_files.loading(str(self.model), f"{self.KEY}.model"):
            return load(
                str(folder),
                device=None if self.device == "auto" else self.device,
                trust_remote_code=False,
                local_files_only=True,
                model_kwargs={"dtype": getattr(torch, self._resolved_dtype()), "use_safetensors": True},
                **arguments,
            ).eval()


def silence_libraries() -> None:
    """Keep transformers and sentence-transformers from writing to the terminal while they load a model."""
    from transformers.utils import logging as transformers_logging

    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
