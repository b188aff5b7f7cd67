"""Computing in int8: close to float32, independent of the other texts, and from a file that is complete or rebuilt."""

import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
from onnx.numpy_helper import from_array
from transformers import ModernBertConfig, ModernBertModel

from ragsweep.core.digests import file_digest
from ragsweep.core.errors import ConfigError
from ragsweep.core.interruption import deadline
from ragsweep.parts import model_files, onnx_model
from ragsweep.parts.embedders import SentenceTransformerEmbedder
from ragsweep.parts.generators import Transformers
from ragsweep.parts.onnx_graph import export, quantise, session_of
from ragsweep.parts.onnx_model import weight_bits
from ragsweep.parts.prompts import Prompt
from ragsweep.parts.rerankers import CrossEncoder, LateInteraction
from ragsweep.testing.embedders import TEXTS, EmbedderContract
from ragsweep.testing.rerankers import PAIRS, RerankerContract

PROMPT = Prompt("", "", "{passages} {question}", "{text}", [], False)


def embedder(folder: Path, dtype: str = "int8", **parameters: object) -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(str(folder), **{"device": "cpu", "dtype": dtype, **parameters})


@pytest.fixture(scope="module")
def loaded(tiny_embedder: Path) -> SentenceTransformerEmbedder:
    return embedder(tiny_embedder, batch_size=2)


@pytest.fixture(scope="module")
def scorer(tiny_classifier: Path) -> CrossEncoder:
    return CrossEncoder(str(tiny_classifier), device="cpu", dtype="int8", batch_size=3)


class TestEmbedderInInt8(EmbedderContract):
    tolerance = 1e-6  # of averaging; what the model computes is equal

    @pytest.fixture(autouse=True)
    def _model(self, loaded: SentenceTransformerEmbedder) -> None:
        self.part = lambda: loaded


class TestCrossEncoderInInt8(RerankerContract):
    @pytest.fixture(autouse=True)
    def _model(self, scorer: CrossEncoder) -> None:
        self.part = lambda: scorer


class TestLateInteractionInInt8(RerankerContract):
    @pytest.fixture(autouse=True)
    def _model(self, loaded: SentenceTransformerEmbedder) -> None:
        self.part = lambda: LateInteraction(loaded)


def test_a_texts_tokens_are_equal_alone_and_beside_any_other(loaded: SentenceTransformerEmbedder) -> None:
    together = loaded.embed_tokens(TEXTS, "document")
    for text, vectors in zip(TEXTS, together, strict=True):
        np.testing.assert_array_equal(loaded.embed_tokens([text], "document")[0], vectors)


def test_scores_of_a_pair_are_equal_alone_and_beside_any_other(scorer: CrossEncoder) -> None:
    together = scorer.score(PAIRS)
    np.testing.assert_array_equal([scorer.score([pair])[0] for pair in PAIRS], together)


def test_int8_is_near_to_float32_and_is_not_it(
    loaded: SentenceTransformerEmbedder, tiny_embedder: Path, scorer: CrossEncoder, tiny_classifier: Path
) -> None:
    small, whole = loaded.embed_queries(TEXTS), embedder(tiny_embedder, "float32").embed_queries(TEXTS)
    assert 1e-6 < np.abs(small - whole).max() < 0.01
    plain = CrossEncoder(str(tiny_classifier), device="cpu", dtype="float32").score(PAIRS)
    assert 0 < np.abs(scorer.score(PAIRS) - plain).max() < 0.2 * np.ptp(plain)


# --- the graph ---------------------------------------------------------------------------------------------------


def product(matrix: np.ndarray) -> onnx.ModelProto:
    """Make a graph of one product with a constant matrix."""
    value = make_tensor_value_info("a", onnx.TensorProto.FLOAT, [1, None, len(matrix)])
    found = make_tensor_value_info("found", onnx.TensorProto.FLOAT, [1, None, matrix.shape[1]])
    graph = make_graph([make_node("MatMul", ["a", "w"], ["found"])], "g", [value], [found], [from_array(matrix, "w")])
    versions = [make_opsetid("", 17), make_opsetid("com.microsoft", 1)]
    return make_model(graph, opset_imports=versions, ir_version=10)


def run(model: onnx.ModelProto, activations: np.ndarray) -> np.ndarray:
    found: np.ndarray = session_of(model.SerializeToString()).run(None, {"a": activations[None]})[0][0]
    return found


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from([63, 127][: weight_bits() - 6]), st.integers(1, 5), st.floats(1e-3, 1e3))
def test_product_errs_by_less_than_its_rounding_and_by_nothing_for_larger_neighbours(
    seed: int, steps: int, tokens: int, larger: float
) -> None:
    random = np.random.default_rng(seed)
    matrix = random.normal(size=(16, 3)).astype(np.float32)
    activations = random.normal(size=(tokens, 16)).astype(np.float32) * np.array([[larger], *[[1]] * (tokens - 1)])
    found = run(quantise(product(matrix), steps), activations.astype(np.float32))
    # Half a step of each factor, times the other at its largest: a token's step is a share of its own largest value.
    largest, widest = np.abs(activations).max(axis=1, keepdims=True), np.abs(matrix).max(axis=0)
    bound = 16 * largest * widest * (1 / (2 * steps) + 1.01 / 127 + 1 / (2 * steps * 127)) + 1e-4 * largest
    assert (np.abs(found - activations @ matrix) <= bound).all()


def test_matrix_column_and_token_of_zeros_stay_zero() -> None:
    found = run(quantise(product(np.array([[1, 0], [2, 0]], np.float32)), 127), np.array([[0, 0], [3, 1]], np.float32))
    np.testing.assert_allclose(found, [[0, 0], [5, 0]], atol=0.05)
    assert not found[0].any()
    assert not found[:, 1].any()


# --- the file ----------------------------------------------------------------------------------------------------


def counting(made: list[bytes]) -> Callable[[], bytes]:
    def make() -> bytes:
        made.append(b"graph")
        return b"graph"

    return make


def test_file_is_made_once_and_anew_when_damaged_or_under_another_name(tmp_path: Path) -> None:
    made: list[bytes] = []
    assert [onnx_model.kept(tmp_path, "one", counting(made)) for _ in range(3)] == [b"graph"] * 3
    assert len(made) == 1
    path = tmp_path / "one.onnx"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (tmp_path / "two.onnx").write_bytes(path.read_bytes())
    assert onnx_model.kept(tmp_path, "two", counting(made)) == b"graph"
    assert len(made) == 2
    for damaged in (b"", path.read_bytes()[:-1], path.read_bytes().replace(b"g", b"G")):
        path.write_bytes(damaged)
        assert onnx_model.kept(tmp_path, "one", counting(made)) == b"graph"
    assert len(made) == 5


def test_where_nothing_can_be_written_it_is_made_and_not_kept(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file")
    assert onnx_model.kept(tmp_path / "models", "one", counting([])) == b"graph"
    (tmp_path / "one.onnx").mkdir()  # which no file can replace
    made: list[bytes] = []
    assert onnx_model.kept(tmp_path, "one", counting(made)) == b"graph"
    assert len(made) == 1


def test_timeout_is_not_taken_for_a_fault_of_the_folder_or_of_the_model(tmp_path: Path) -> None:
    made: list[str] = []

    def wait(*_: object) -> bytes:
        made.append("")
        time.sleep(5)
        return b""

    import transformers  # noqa: F401 (loaded before the time is limited)

    steps = (
        lambda: onnx_model.kept(tmp_path, "name", wait),
        lambda: export(SimpleNamespace(set_attn_implementation=wait), "logits", typed=False),
        lambda: model_files.loading("model", "embedder.model")(wait)(),
    )
    for number, step in enumerate(steps, 1):
        with pytest.raises(TimeoutError, match="raise timeout"), deadline(0.2):
            step()
        assert len(made) == number


def test_of_two_processes_one_makes_the_file(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from ragsweep.parts.onnx_model import kept\n"
        "folder = Path(sys.argv[1])\n"
        "def make():\n"
        "    with (folder / 'made').open('a') as file: file.write('x')\n"
        "    time.sleep(.5); return b'graph'\n"
        "assert kept(folder, 'one', make) == b'graph'"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(2)]
    assert [process.wait(60) for process in processes] == [0, 0]
    assert (tmp_path / "made").read_text() == "x"


def test_kept_file_is_what_a_second_embedder_computes_with(
    tiny_embedder: Path, tmp_path: Path, loaded: SentenceTransformerEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = embedder(tiny_embedder), embedder(tiny_embedder)
    first.exports = second.exports = tmp_path
    np.testing.assert_array_equal(first.embed_queries(["cat"]), loaded.embed_queries(["cat"]))
    monkeypatch.setattr(onnx_model, "export", lambda *_: pytest.fail("exported again"))
    np.testing.assert_array_equal(second.embed_queries(["cat"]), loaded.embed_queries(["cat"]))


# --- what is refused, and what auto is -----------------------------------------------------------------------------


def test_fingerprint_names_bits_and_versions(tiny_embedder: Path) -> None:
    whole, small = embedder(tiny_embedder, "float32").fingerprint(), embedder(tiny_embedder).fingerprint()
    assert small["dtype"] == "int8"
    assert set(small) - set(whole) == {"int8", "onnx", "onnxruntime"}


def test_weights_have_seven_bits_where_sums_of_two_products_would_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    for machine, flags, bits in (("x86_64", {"avx2"}, 7), ("x86_64", {"avx_vnni"}, 8), ("aarch64", set(), 8)):
        monkeypatch.setattr(onnx_model.platform, "machine", lambda machine=machine: machine)
        monkeypatch.setattr(onnx_model, "cpu_flags", lambda flags=flags: frozenset(flags))
        assert onnx_model.facts()["int8"].endswith(f"{bits} bits")


def test_export_of_a_modernbert_is_rejected() -> None:
    """Its tokens attend to 64 tokens on each side; the graph ignores this window, which only longer texts reveal."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 20, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
             "num_attention_heads": 2, "initializer_range": 0.5}  # fmt: skip
    ids = {f"{name}_token_id": n for n, name in enumerate(("pad", "bos", "eos", "cls", "sep"))}
    model = ModernBertModel(ModernBertConfig(**sizes, **ids)).eval()
    with pytest.raises(ValueError, match=r"cannot be exported for int8 \(the exported graph's values differ by 0\."):
        export(model, "last_hidden_state", typed=False)


def test_static_model_and_language_model_are_refused(static_model: Path, tiny_writer: Path) -> None:
    with pytest.raises(ConfigError, match=r"embedder\.dtype is 'int8', but .* has no transformer"):
        embedder(static_model).embed_queries(["cat"])
    with pytest.raises(ConfigError, match=r"llm\.dtype is 'int8', which this part does not support"):
        Transformers(str(tiny_writer), PROMPT, dtype="int8").check()


def test_another_device_is_refused(tiny_embedder: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"int8', which runs on the CPU, but embedder\.device is .*; set embedder\.device=cpu"
    ):
        embedder(tiny_embedder, device="cuda").check()


@pytest.mark.parametrize(("further", "dtype"), [(set(), "float32"), ({"avx512_bf16"}, "bfloat16")])
def test_auto_never_computes_tokens_in_int8_and_says_so(
    further: set[str], dtype: str, tiny_embedder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_files, "cpu_flags", lambda: frozenset({"avx512_vnni", *further}))
    weights = file_digest(tiny_embedder / model_files.WEIGHTS)
    monkeypatch.setattr(model_files, "RANKED_ALIKE_IN_INT8", frozenset({weights}))
    auto, exact, int8 = (embedder(tiny_embedder, dtype=dtype) for dtype in ("auto", dtype, "int8"))
    (found,), (expected,), (other,) = (part.embed_tokens(["the cat sat"], "document") for part in (auto, exact, int8))
    np.testing.assert_array_equal(found, expected)
    assert not np.array_equal(other, expected)
    facts = auto.fingerprint()
    assert (facts["dtype"], facts["dtype of tokens"]) == ("int8", dtype)
    assert "dtype of tokens" not in {**exact.fingerprint(), **int8.fingerprint()}


def test_auto_is_int8_only_for_weights_that_were_measured(tiny_embedder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_files, "cpu_flags", lambda: frozenset({"avx512_vnni"}))
    bundled = model_files.locate(model_files.BUNDLED, "model") / model_files.WEIGHTS
    for weights, device, expected in (
        (bundled, "cpu", "int8"),
        (tiny_embedder / model_files.WEIGHTS, "cpu", "float32"),
        (None, "cpu", "float32"),
        (bundled, "cuda", "float32"),
    ):
        assert model_files.resolve_dtype("auto", device, "dtype", weights) == expected
    monkeypatch.setattr(model_files, "GPUS", (str(tiny_embedder),))  # a device that exists
    assert model_files.resolve_dtype("auto", "auto", "dtype", bundled) == "float32"
    monkeypatch.setattr(model_files, "cpu_flags", lambda: frozenset({"amx_tile", "amx_bf16"}))
    assert model_files.resolve_dtype("auto", "cpu", "dtype", bundled) == "bfloat16"
    assert model_files.resolve_dtype("auto", "auto", "dtype", bundled) == "float32"
