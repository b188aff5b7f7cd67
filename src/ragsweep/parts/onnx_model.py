"""Run a transformer in int8 with ONNX Runtime: export it once, cache the file, and process each text separately.

Activations are quantised at run time, with one scale per tensor (dynamic quantisation: Zafrir et al. 2019, "Q8BERT",
section 2.1). In a padded batch, this scale would depend on all texts of the batch. Every text is therefore processed
separately and without padding, in parallel threads, so that its vector never depends on other texts.
"""

import hashlib
import platform
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ragsweep.core.identity import content_hash
from ragsweep.core.interruption import raise_overdue
from ragsweep.core.locks import locks, private_folder, replace_file
from ragsweep.parts.libraries import versions
from ragsweep.parts.model_files import cpu_flags
from ragsweep.parts.onnx_graph import export, output_of, quantise, session_of

VNNI = {"avx512_vnni", "avx_vnni"}

VERSION = "1"
"""Version of the export and the quantisation; increase it with every change that affects vectors."""


def facts() -> Mapping[str, str]:
    """Return the version of the export, the number of bits per weight, and the versions of the ONNX libraries."""
    return {"int8": f"{VERSION}, {weight_bits()} bits", **versions(["onnx", "onnxruntime"])}


def compute_in_int8(model: Any, fingerprint: Mapping[str, str], folder: Path | None) -> None:
    """Change ``model`` in place so that its transformers compute in int8, and free their float32 weights.

    ``model`` is a SentenceTransformer or CrossEncoder in float32 on the CPU. ``fingerprint`` contains everything that
    determines the exported files. The files are cached in ``folder`` (None: every process exports the model again).
    Raises ValueError if the model has no transformer, or if a transformer cannot be exported.
    """
    from sentence_transformers.base.modules import Transformer

    modules = [module for module in model.modules() if isinstance(module, Transformer)]
    if not modules:
        raise ValueError("has no transformer that can run in int8")
    for number, module in enumerate(modules):
        output = output_of(module.model)
        make = partial(_quantised, module.model, output, "token_type_ids" in module.tokenizer.model_input_names)
        graph = kept(folder, content_hash({**fingerprint, "part": number}), make) if folder else make()
        for weights in module.model.parameters():
            weights.data = weights.data.new_empty(0)
        module.model.forward = Int8Forward(graph, output)


def weight_bits() -> int:
    """Return the number of bits per weight: 8, or 7 on x86 without VNNI.

    Without VNNI, x86 adds pairs of products in 16 bits, and the sum may overflow if weights have 8 bits.
    """
    x86 = platform.machine().lower() in {"x86_64", "amd64", "i686"}
    return 7 if x86 and not VNNI & cpu_flags() else 8


def _quantised(transformer: Any, output: str, typed: bool) -> bytes:
    graph = quantise(export(transformer, output, typed), steps=2 ** (weight_bits() - 1) - 1)
    return bytes(graph.SerializeToString(deterministic=True))


def kept(folder: Path, name: str, make: Callable[[], bytes]) -> bytes:
    """Return the content cached in ``folder`` under ``name``; if it is missing or damaged, create it with ``make``.

    A cache file begins with a SHA-256 of its name and content. One process creates the file while others wait. If the
    folder cannot be used, for example because it is read-only, the content is created but not cached.
    """
    path = folder / f"{name}.onnx"
    try:
        private_folder(folder)
        with locks(folder / "locks").alone(name):
            content = path.read_bytes() if path.is_file() else b""
            if content and content[:32] == _digest(content[32:], name):
                return content[32:]
            made = make()
            with suppress(OSError):  # a full disk
                replace_file(path, _digest(made, name) + made, private=True)
            return made
    except OSError as fault:
        raise_overdue(fault)
        return make()


def _digest(graph: bytes, name: str) -> bytes:
    return hashlib.sha256(name.encode() + graph).digest()


class Int8Forward:
    """A replacement for a transformer's ``forward`` that processes each text of a batch separately, in parallel."""

    def __init__(self, graph: bytes, output: str) -> None:
        import torch

        self._session = session_of(graph)
        self._typed = len(self._session.get_inputs()) > 1
        self._output = output
        self._threads = torch.get_num_threads()

    def __call__(self, input_ids: Any, attention_mask: Any, token_type_ids: Any = None, **_: Any) -> Mapping[str, Any]:
        """Return a dict with one tensor: "logits" (texts, classes), or "last_hidden_state" (texts, tokens, dimension).

        The last hidden state is zero at padding.
        """
        import torch

        ids, read = input_ids.numpy(), attention_mask.numpy().astype(bool)
        kinds = np.zeros_like(ids) if token_type_ids is None else token_type_ids.numpy()
        longest_first = np.argsort(-read.sum(axis=1), kind="stable").tolist()

        def run(row: int) -> np.ndarray:
            inputs = {"ids": ids[row, read[row]][None]}
            if self._typed:
                inputs["kinds"] = kinds[row, read[row]][None]
            return np.asarray(self._session.run(None, inputs)[0][0])

        if len(ids) == 1:  # a single question needs no thread
            rows = [run(0)]
        else:
            with ThreadPoolExecutor(min(self._threads, len(ids)) or 1) as pool:
                found = dict(zip(longest_first, pool.map(run, longest_first), strict=True))
            rows = [found[row] for row in range(len(ids))]
        return {self._output: torch.from_numpy(np.stack(rows) if self._output == "logits" else padded(rows, read))}


def padded(rows: Sequence[np.ndarray], read: np.ndarray) -> np.ndarray:
    """Return token vectors as one array (texts, positions, dimension), with zeros at padding.

    ``rows`` has one array (tokens, dimension) per text, and ``read`` (texts, positions) is true at tokens.
    """
    whole = np.zeros((*read.shape, rows[0].shape[1]), dtype=np.float32)
    for vectors, row, tokens in zip(rows, whole, read, strict=True):
        row[tokens] = vectors
    return whole
