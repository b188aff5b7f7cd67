"""Divide the time of one text in int8 among its operators, and compare its matrix products with one large product.

    python benchmarks/int8_operators.py [--tokens 256]

On one core, as a text is computed. The large product (2,048 x 2,048 x 2,048, activations quantised like the model's)
shows the highest speed of ONNX Runtime on this CPU, which no arrangement of the model's products can exceed.
Prints a table in Markdown.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from sentence_transformers import SentenceTransformer

from ragsweep.parts import model_files
from ragsweep.parts.onnx_graph import OPSET, export, quantise

RUNS, LARGE = 40, 2048
PRODUCTS = ("DynamicQuantizeMatMul", "MatMulIntegerToFloat", "MatMul")
"""Operators that multiply by a constant matrix, their activations' quantisation included."""


def session(graph: Any, profile: Path | None = None) -> onnxruntime.InferenceSession:
    """Open a graph on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, str(profile)
    return onnxruntime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])


def milliseconds(graph: Any, given: dict[str, np.ndarray]) -> float:
    """Return the median milliseconds of processor time of a run."""
    opened, times = session(graph), []
    for _ in range(RUNS):
        began = time.process_time()
        opened.run(None, given)
        times.append(1000 * (time.process_time() - began))
    return statistics.median(times)


def shares(graph: Any, given: dict[str, np.ndarray]) -> Counter[str]:
    """Return the share of each operator in the time of a run."""
    with tempfile.TemporaryDirectory() as folder:
        opened = session(graph, Path(folder) / "profile")
        for _ in range(RUNS):
            opened.run(None, given)
        events = json.loads(Path(opened.end_profiling()).read_text())
    found: Counter[str] = Counter()
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            found[event["args"]["op_name"]] += event["dur"]
    return Counter({name: spent / found.total() for name, spent in found.items()})


def large_product() -> Any:
    """Make one product with a constant matrix, in float32; `quantise` turns it into one of 8-bit integers."""
    matrix = np.random.default_rng(0).normal(size=(LARGE, LARGE)).astype(np.float32)
    shape = [LARGE, LARGE]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["given", "matrix"], ["found"])], "large",
        [helper.make_tensor_value_info("given", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("found", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(matrix, "matrix")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def main() -> None:
    parser = argparse.ArgumentParser(description="Divide the time of int8 among operators.")
    parser.add_argument("--tokens", type=int, default=256)
    tokens = parser.parse_args().tokens
    transformer = SentenceTransformer(str(model_files.locate("bundled", "model")), device="cpu")[0].model
    plain = export(transformer, "last_hidden_state", typed=True)
    products = sum(weights.numel() for name, weights in transformer.named_parameters()
                   if weights.ndim == 2 and "encoder" in name)  # fmt: skip
    ids = (np.arange(tokens) % 20_000 + 1000)[None].astype(np.int64)
    given, rows = {"ids": ids, "kinds": np.zeros_like(ids)}, {}
    for name in ("float32", "int8"):
        graph = plain if name == "float32" else quantise(plain, 127)
        rows[name] = milliseconds(graph, given), shares(graph, given)
    dense = {"given": np.random.default_rng(1).normal(size=(LARGE, LARGE)).astype(np.float32)}
    print(f"{tokens} tokens, one core; milliseconds of processor time\n")
    print("| | all | products | attention | GELU | everything else | products, 10^9 operations a second | one large |")
    print("| --- " * 8 + "|")
    for name, (whole, part) in rows.items():
        product = sum(part[one] for one in PRODUCTS)
        cells = [product, part["MultiHeadAttention"], part["BiasGelu"]]
        cells.append(1 - sum(cells))
        graph = large_product()
        best = 2 * LARGE**3 / milliseconds(graph if name == "float32" else quantise(graph, 127), dense) / 1e6
        speed = 2 * products * tokens / (product * whole) / 1e6
        print(f"| {name} | {whole:.1f} | " + " | ".join(f"{whole * cell:.1f}" for cell in cells)
              + f" | {speed:.0f} | {best:.0f} |")  # fmt: skip


if __name__ == "__main__":
    main()
