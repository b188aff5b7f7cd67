"""An embedder in int8 by onnxruntime's own quantisation: padded batches, with one scale for all texts of a batch.

The baseline for ``embedder.dtype=int8``; not in the package. Needs onnx and onnxruntime. Token vectors are
averaged, as the bundled model does.
"""

import tempfile
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ragsweep.core.types import Floats
from ragsweep.parts.embedders import SentenceTransformerEmbedder


class OnnxInt8Embedder(SentenceTransformerEmbedder):
    """Embed with weights and activations of matrix products in 8 bits, quantised when the model is loaded."""

    TRAITS = replace(SentenceTransformerEmbedder.TRAITS, version="int8")

    @cached_property
    def _session(self) -> Any:
        import onnxruntime  # type: ignore[import-not-found]
        from onnxruntime.quantization import QuantType, quantize_dynamic  # type: ignore[import-not-found]

        with tempfile.TemporaryDirectory() as folder:
            whole, small = Path(folder) / "float32.onnx", Path(folder) / "int8.onnx"
            export(self._model[0].model, whole)
            quantize_dynamic(whole, small, weight_type=QuantType.QInt8, per_channel=True)
            return onnxruntime.InferenceSession(small.read_bytes(), providers=["CPUExecutionProvider"])

    def _embed(self, kind: str, texts: list[str]) -> Floats:
        prompt = self._prompt(kind)
        inputs = self._model.preprocess([prompt + text for text in texts])
        ids, mask = inputs["input_ids"].numpy(), inputs["attention_mask"].numpy()
        tokens = self._session.run(None, {"ids": ids, "mask": mask})[0]
        read = mask[:, :, None].astype(np.float32)
        vectors: Floats = (tokens * read).sum(axis=1) / read.sum(axis=1)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors


class Plain(torch.nn.Module):
    """A transformer that maps ids and a mask to token vectors; computes the mask explicitly, so that it is traced."""

    def __init__(self, transformer: Any) -> None:
        super().__init__()
        self.transformer = transformer

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = ((1.0 - mask[:, None, None, :].float()) * -3e38).expand(-1, 1, ids.shape[1], -1)
        places = torch.cumsum(torch.ones_like(ids), 1) - 1
        kinds = torch.zeros_like(ids)
        found: torch.Tensor = self.transformer(
            input_ids=ids, attention_mask=hidden, position_ids=places, token_type_ids=kinds
        ).last_hidden_state
        return found


def export(transformer: Any, path: Path) -> None:
    transformer.set_attn_implementation("eager")
    example = torch.ones((2, 5), dtype=torch.int64)
    axes = {name: {0: "texts", 1: "tokens"} for name in ("ids", "mask", "vectors")}
    torch.onnx.export(
        Plain(transformer).eval(), (example, example), str(path), dynamo=False, opset_version=17,
        input_names=["ids", "mask"], output_names=["vectors"], dynamic_axes=axes,
    )  # fmt: skip
