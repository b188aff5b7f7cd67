"""Locate, check and load a model that runs on this machine."""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ragsweep.core.errors import ConfigError, first_line
from ragsweep.core.interruption import raise_overdue
from ragsweep.core.types import PartTraits
from ragsweep.parts import model_files, onnx_model
from ragsweep.parts.libraries import versions
from ragsweep.parts.limits import check_at_least

TORCH = {"int8": "float32"}
"""Dtypes for which a model is exported to ONNX -> the dtype in which torch loads the model for the export."""

DEVICE = re.compile(r"auto|cpu|(cuda|mps|xpu)(:\d+)?")

AFTER_PADDING = (
    "camembert",
    "data2vec-text",
    "ibert",
    "longformer",
    "mpnet",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
)
"""Types of models whose first token has the position after ``pad_token_id``, so that lower positions are unused."""

LIBRARIES = ("sentence-transformers", "tokenizers", "torch", "transformers")


@dataclass(eq=False, kw_only=True)
class LocalModel:
    """Base class of parts that run a model on this machine; it locates the model and checks the settings.

    The address of a result contains the ``fingerprint`` instead of the settings ``model`` and ``dtype``.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(operational=frozenset({"model", "device", "dtype", "download"}))
    KEY: ClassVar[str]  # the config key of the part, for messages
    INT8: ClassVar[bool] = False  # whether the model may run in int8

    model: str | None
    device: str = "auto"
    dtype: str = "auto"
    download: bool = False
    exports: Path | None = field(default=None, init=False, repr=False)
    """The folder in which int8 exports are cached; None: each process exports the model."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes to pickle, without cached properties: each worker process loads the model itself."""
        own = type(self)
        return {
            name: value
            for name, value in vars(self).items()
            if not isinstance(getattr(own, name, None), cached_property)
        }

    def check(self) -> None:
        """Raise ConfigError for an invalid device or dtype, and for missing or unsuitable model files.

        The model is not loaded. If ``download`` is true, missing and outdated files of a hub model are downloaded.
        """
        if not DEVICE.fullmatch(self.device):
            ways = "choose auto, cpu, cuda, mps or xpu; append a number to choose one of several devices, as in cuda:1"
            raise ConfigError(f"{self.KEY}.device is {self.device!r}; {ways}")
        self._resolved_dtype()

    def fingerprint(self) -> Mapping[str, str]:
        """Return the hashes of the model files, the compute dtype, and the versions of the libraries.

        If the compute dtype is int8, the entries of :func:`ragsweep.parts.onnx_model.facts` are added.
        """
        dtype = self._resolved_dtype()
        added = onnx_model.facts() if dtype == "int8" else {}
        return {**model_files.facts(self._folder()), "dtype": dtype, **versions(LIBRARIES), **added}

    @property
    def accelerator(self) -> str:
        """The configured device if the model runs on a GPU; "" on a CPU."""
        return self.device if model_files.on_gpu(self.device) and self._resolved_dtype() != "int8" else ""

    def _folder(self) -> Path:
        return model_files.locate(str(self.model), f"{self.KEY}.model", self.download)

    def _config(self) -> dict[str, Any]:
        """Return the content of the model's config.json; an empty dict if there is no such file."""
        return model_files.read_mapping(self._folder() / "config.json")

    @cached_property
    def _longest_input(self) -> int | None:
        """The maximum input length of the model in tokens, according to config.json; None if the file omits it."""
        config = self._config()
        positions = config.get("max_position_embeddings")
        if positions and config.get("model_type") in AFTER_PADDING:
            padding = config.get("pad_token_id")
            positions -= 2 if padding is None else padding + 1  # the default of these models is 1
        return positions or None

    def _resolved_dtype(self) -> str:
        weights = self._folder() / model_files.WEIGHTS if self.INT8 and self.dtype in ("auto", "int8") else None
        return model_files.resolve_dtype(self.dtype, self.device, f"{self.KEY}.dtype", weights)

    def _usable_device(self) -> str | None:
        """Return the configured device, or None for "auto".

        Raises ConfigError if torch cannot use the device on this machine. The method ``check`` does not call this
        method, because a sweep may be planned on a machine without the device.
        """
        if self.device == "auto":
            return None
        import torch

        try:
            torch.empty(1, device=self.device)
        except Exception as fault:
            raise_overdue(fault)
            raise ConfigError(
                f"{self.KEY}.device is {self.device!r}, which torch cannot use on this machine: {first_line(fault)};"
                f" set {self.KEY}.device=auto, which selects a GPU if torch can use one"
            ) from fault
        return self.device


@dataclass(eq=False, kw_only=True)
class SentenceTransformersModel(LocalModel):
    """Base class of parts that run a model of the sentence-transformers library, in batches."""

    TRAITS: ClassVar[PartTraits] = LocalModel.TRAITS.with_operational("batch_size")
    INT8: ClassVar[bool] = True

    batch_size: int = 32
    max_length: int | None = None

    def check(self) -> None:
        """Raise ConfigError as ``LocalModel.check`` does, and for a batch size or maximum length out of range."""
        super().check()
        longest = self._longest_input
        check_at_least(self.KEY, 1, batch_size=self.batch_size)
        if self.max_length is not None and not 1 <= self.max_length <= (longest or self.max_length):
            bounds = f"between 1 and {longest}, the maximum for {self.model}" if longest else "at least 1"
            raise ConfigError(f"{self.KEY}.max_length must be {bounds}, or null, got {self.max_length}")

    def _load(self, load: Callable[..., Any], **arguments: Any) -> Any:
        """Load the model with ``load``, a sentence-transformers class, and convert it if the dtype is int8.

        ``arguments`` are passed to ``load``. Raises ConfigError if the model cannot be loaded, the device cannot be
        used, or the model cannot be exported for int8.
        """
        folder, dtype = self._folder(), self._resolved_dtype()
        import torch

        silence_libraries()
        device = "cpu" if dtype == "int8" else self._usable_device()
        with model_files.loading(str(self.model), f"{self.KEY}.model"):
            model = load(
                str(folder),
                device=device,
                trust_remote_code=False,
                local_files_only=True,
                model_kwargs={"dtype": getattr(torch, TORCH.get(dtype, dtype)), "use_safetensors": True},
                **arguments,
            ).eval()
        longest = self._longest_input
        if longest and self._config().get("model_type") in AFTER_PADDING and (model.max_seq_length or 0) > longest:
            model.max_seq_length = longest  # the library also counts unused positions
        if dtype == "int8":
            try:
                onnx_model.compute_in_int8(model, self.fingerprint(), self.exports)
            except ValueError as fault:
                fact = f"{self.KEY}.dtype is {self.dtype!r}, but {self.model} {fault}"
                raise ConfigError(f"{fact}; set {self.KEY}.dtype=float32") from fault
        return model


def silence_libraries() -> None:
    """Hide the progress bars and warnings of transformers, and the informational messages of sentence-transformers.

    The change applies until the process ends.
    """
    from transformers.utils import logging as transformers_logging

    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
