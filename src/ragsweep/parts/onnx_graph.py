"""Export a transformer as an ONNX graph that reads one text at a time, and quantise its matrix products."""

import tempfile
import warnings
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ragsweep.core.errors import first_line
from ragsweep.core.interruption import raise_overdue

OPSET = 17
ATTENTION = "ragsweep_onnx"
"""Name of the attention implementation that ``_register_attention`` adds to transformers."""

OUTPUTS = ("logits", "last_hidden_state")
PROBES = (5, 160)
"""Lengths, in tokens, of the texts on which an exported graph and its model are compared.

The longer text reveals models whose tokens attend only to a window of the text.
"""

TOLERANCE = 1e-4
"""Maximum difference between the values of a float32 graph and its model, as a share of the largest absolute value."""

LEAST = "ragsweep/least"
"""Name of a tiny constant in the graph, the divisor for a token whose activations are all 0."""


def output_of(transformer: Any) -> str:
    """Return the name of the output to export: "logits" (of a classifier), else "last_hidden_state" (token vectors).

    Raises ValueError for a model that returns neither.
    """
    import torch

    with torch.inference_mode():
        found = transformer(**_inputs(_ids(2), None))
    for name in OUTPUTS:
        if name in found:
            return name
    raise ValueError(f"returns {', '.join(found)}, not {' or '.join(OUTPUTS)}")


def export(transformer: Any, output: str, typed: bool) -> Any:
    """Return an ONNX graph of a transformer that reads one text without padding.

    The inputs are ``ids`` and, if ``typed`` is true, ``kinds`` (token types), both (1, tokens); the output is named
    ``found``. Attention is exported as one operator. If this fails, or if values of graph and model differ by more than
    TOLERANCE, attention is exported as several operators. Raises ValueError if the second export also fails or differs.
    The attention implementation of ``transformer`` is changed and not restored.
    """
    _register_attention()
    for implementation in (ATTENTION, "eager"):
        try:
            transformer.set_attn_implementation(implementation)
            graph = _trace(transformer, output, typed)
            difference = _difference(transformer, graph, output, typed)
        except Exception as fault:  # torch, transformers, ONNX Runtime and a model's code may raise anything
            raise_overdue(fault)
            reason = first_line(fault)
        else:
            if difference <= TOLERANCE:
                return graph
            reason = f"the exported graph's values differ by {difference:.2g} times the largest value"
    raise ValueError(f"cannot be exported for int8 ({reason})")


def quantise(graph: Any, steps: int) -> Any:
    """Quantise a graph in place and return it: products with constant matrices become products of 8-bit integers.

    Other operations stay in float32. A weight becomes an integer from -``steps`` to ``steps``, times the scale of its
    column. Activations get a scale and a zero point for the whole text, computed at run time. Activations can be twenty
    times as large for some tokens as for others. If only one product reads the activations, the activations of each
    token are therefore first divided by their largest absolute value, and the product is multiplied by this value. Sums
    are exact in int32.
    """
    from onnx import numpy_helper

    weights = {tensor.name: tensor for tensor in graph.graph.initializer}
    products = [node for node in graph.graph.node if _is_product(node, weights)]
    readers = Counter(node.input[0] for node in products)
    nodes, quantised = [], set()
    for node in graph.graph.node:
        if not _is_product(node, weights):
            nodes.append(node)
            continue
        source, matrix, by_token = node.input[0], node.input[1], readers[node.input[0]] == 1
        if source not in quantised:
            quantised.add(source)
            nodes += _quantise_activations(source, by_token=by_token)
        arrays = _rounded(numpy_helper.to_array(weights[matrix]), steps)
        for name, array in zip((f"{matrix}/int8", f"{matrix}/step"), arrays, strict=True):
            weights[name] = numpy_helper.from_array(array, name)
        nodes += _multiply(source, matrix, node.output[0], by_token=by_token)
    weights[LEAST] = numpy_helper.from_array(np.array(1e-12, dtype=np.float32), LEAST)
    used = {name for node in nodes for name in node.input}
    del graph.graph.node[:], graph.graph.initializer[:]
    graph.graph.node.extend(nodes)
    graph.graph.initializer.extend(tensor for name, tensor in weights.items() if name in used)
    return graph


def _is_product(node: Any, weights: Mapping[str, Any]) -> bool:
    matrix = weights.get(node.input[1]) if node.op_type == "MatMul" else None
    return matrix is not None and len(matrix.dims) == 2 and matrix.data_type == 1  # float32


def _quantise_activations(source: str, *, by_token: bool) -> list[Any]:
    """Return the nodes that quantise the tensor ``source`` to ``source/int8``, with its scale and its zero point.

    If ``by_token`` is true, the nodes first divide by ``source/size``, the largest absolute value of each token.
    """
    from onnx.helper import make_node

    outputs = [f"{source}/int8", f"{source}/scale", f"{source}/zero"]
    if not by_token:
        return [make_node("DynamicQuantizeLinear", [source], outputs)]
    most, least, negated, size, even = (f"{source}/{name}" for name in ("most", "least", "negated", "size", "even"))
    return [
        make_node("ReduceMax", [source], [most], axes=[-1], keepdims=1),
        make_node("ReduceMin", [source], [least], axes=[-1], keepdims=1),
        make_node("Neg", [least], [negated]),
        make_node("Max", [most, negated, LEAST], [size]),
        make_node("Div", [source, size], [even]),
        make_node("DynamicQuantizeLinear", [even], outputs),
    ]


def _multiply(source: str, matrix: str, output: str, *, by_token: bool) -> list[Any]:
    from onnx.helper import make_node

    even = f"{output}/even" if by_token else output
    given = [f"{source}/int8", f"{matrix}/int8", f"{source}/scale", f"{matrix}/step", f"{source}/zero"]
    made = make_node("MatMulIntegerToFloat", given, [even], domain="com.microsoft")
    return [made, make_node("Mul", [even, f"{source}/size"], [output])] if by_token else [made]


def _rounded(matrix: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a matrix as int8 multiples (up to ``steps``) of a step size per column, and the step sizes (columns,)."""
    step = np.abs(matrix).max(axis=0) / steps
    step[step == 0] = 1
    return np.rint(matrix / step).astype(np.int8), step.astype(np.float32)


def _trace(transformer: Any, output: str, typed: bool) -> Any:
    import onnx
    import torch

    class OneText(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.transformer = transformer

        def forward(self, ids: torch.Tensor, kinds: torch.Tensor | None = None) -> torch.Tensor:
            found: torch.Tensor = self.transformer(**_inputs(ids, kinds))[output]
            return found

    names, ids = ["ids", "kinds"][: 1 + typed], _ids(PROBES[0])
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing warns of constant lengths, but the comparison on PROBES detects them
        path = Path(folder) / "model.onnx"
        torch.onnx.export(
            OneText().eval(),
            (ids, torch.zeros_like(ids))[: 1 + typed],
            str(path),
            dynamo=False,
            opset_version=OPSET,
            input_names=names,
            output_names=["found"],
            dynamic_axes={name: {1: "tokens"} for name in names},
            custom_opsets={"com.microsoft": 1},
        )
        return onnx.load(str(path))


def _difference(transformer: Any, graph: Any, output: str, typed: bool) -> float:
    """Return the largest difference between values of the model and the graph, relative to the largest absolute value.

    Model and graph process texts of the lengths in PROBES, cut to the maximum input length of the model.
    """
    import torch

    session, worst = session_of(graph.SerializeToString()), 0.0
    transformer.set_attn_implementation("eager")
    for length in PROBES:
        ids = _ids(min(length, getattr(transformer.config, "max_position_embeddings", None) or length))
        kinds = torch.zeros_like(ids) if typed else None
        with torch.inference_mode():
            whole = {"attention_mask": torch.ones_like(ids)}
            expected = transformer(**_inputs(ids, kinds), **whole)[output].float().numpy()
        given = {"ids": ids.numpy()} | ({"kinds": kinds.numpy()} if kinds is not None else {})
        found = session.run(None, given)[0]
        worst = max(worst, float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-9)))
    return worst


def session_of(graph: bytes) -> Any:
    """Return an ONNX Runtime session for a graph on the CPU; each run computes only in the thread that calls it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # fatal only: errors are raised as exceptions
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _ids(length: int) -> Any:
    """Return the token ids (1, length) of an artificial text: only the ids 3 to 9, which every vocabulary contains."""
    import torch

    return (torch.arange(length) % 7 + 3)[None]


def _inputs(ids: Any, kinds: Any) -> Mapping[str, Any]:
    return {"input_ids": ids, "return_dict": True} | ({} if kinds is None else {"token_type_ids": kinds})


def _register_attention() -> None:
    """Register ATTENTION in transformers: attention that is exported as one operator, for texts without padding."""
    import torch
    from transformers import AttentionInterface

    class MultiHeadAttention(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, query: Any, key: Any, value: Any, heads: int, scale: float) -> Any:
            return query  # tracing uses only the shape of the result

        @staticmethod
        def symbolic(graph: Any, query: Any, key: Any, value: Any, heads: int, scale: float) -> Any:
            named = {"num_heads_i": heads, "scale_f": scale}
            made = graph.op("com.microsoft::MultiHeadAttention", query, key, value, **named)
            return made.setType(query.type())

    def joined(heads: Any) -> Any:
        return heads.transpose(1, 2).flatten(2)

    def attend(
        module: Any, query: Any, key: Any, value: Any, mask: Any, scaling: float | None = None, **more: Any
    ) -> Any:
        if mask is not None or more.get("sliding_window") or getattr(module, "is_causal", False):
            raise ValueError("not every token attends to every other token")
        heads, width = int(query.shape[1]), int(query.shape[3])
        scale = width**-0.5 if scaling is None else float(scaling)
        joint = (joined(query), joined(key), joined(value))
        found = MultiHeadAttention.apply(*joint, heads, scale)  # type: ignore[no-untyped-call]
        return found.unflatten(2, (heads, width)), None

    AttentionInterface.register(ATTENTION, attend)
