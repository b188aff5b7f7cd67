"""The embedder, on a tiny model made here and on the bundled one."""

import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.parts import model_files
from ragsweep.parts.embedders import SentenceTransformerEmbedder
from ragsweep.testing.embedders import TEXTS, EmbedderContract

pytestmark = pytest.mark.slow

SENTENCES = [
    "How do I copy a list?",
    "A shallow copy of a list can be made by slicing it.",
    "The planet Saturn has rings of ice.",
    "Exceptions are raised with the raise statement.",
]


@pytest.fixture(scope="session")
def bundled() -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder("bundled", device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def loaded(tiny_embedder: Path, static_model: Path) -> dict[str, SentenceTransformerEmbedder]:
    half = embedder(tiny_embedder, dtype="bfloat16", batch_size=2)
    return {
        "whole": embedder(tiny_embedder, batch_size=2),
        "half": half,
        "static": embedder(static_model, batch_size=2),
    }


class TestTinyModel(EmbedderContract):
    name = "whole"

    @pytest.fixture(autouse=True)
    def _model(self, loaded: dict[str, SentenceTransformerEmbedder]) -> None:
        part = loaded[self.name]
        self.part = lambda: part


class TestTinyModelInHalfPrecision(TestTinyModel):
    name = "half"
    tolerance = 0.05


class TestStaticModel(TestTinyModel):
    name = "static"


def embedder(tiny_embedder: Path, **parameters: object) -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(str(tiny_embedder), **{"device": "cpu", "dtype": "float32", **parameters})


def test_tokens_are_counted_with_special_ones_and_read_up_to_the_limit(tiny_embedder: Path) -> None:
    _, tokens, read = embedder(tiny_embedder).embed_documents(["the cat", "", "cat " * 30])
    assert tokens.tolist() == [4, 2, 32]
    assert read.tolist() == [4, 2, 24]
    _, tokens, read = embedder(tiny_embedder, max_length=20, document_prompt="passage ").embed_documents(["cat " * 30])
    assert (tokens.tolist(), read.tolist()) == ([33], [20])


def test_queries_in_half_precision_do_not_depend_on_the_number_of_threads() -> None:
    import torch

    words = " ".join(SENTENCES * 3).split()
    queries = [" ".join(words[:length]) for length in range(28, 64, 2)]
    part, before = SentenceTransformerEmbedder("bundled", device="cpu", dtype="bfloat16"), torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append((part.embed_queries(queries), np.concatenate(part.embed_tokens(queries, "query"))))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_tokens_beyond_the_limit_change_nothing(tiny_embedder: Path) -> None:
    part = embedder(tiny_embedder, normalize=False)
    one, other, shorter = part.embed_documents(["cat " * 22 + "mat", "cat " * 22 + "stars moons", "cat " * 21]).vectors
    np.testing.assert_allclose(one, other, atol=1e-6)
    assert np.abs(one - shorter).max() > 1e-4


def test_vectors_have_length_one_unless_configured_otherwise(tiny_embedder: Path) -> None:
    for dtype in ("float32", "bfloat16"):
        lengths = np.linalg.norm(embedder(tiny_embedder, dtype=dtype).embed_queries(TEXTS), axis=1)
        np.testing.assert_allclose(lengths, 1, atol=1e-6)
    raw = embedder(tiny_embedder, normalize=False).embed_queries(["cat"])
    assert abs(np.linalg.norm(raw) - 1) > 0.1
    np.testing.assert_allclose(raw / np.linalg.norm(raw), embedder(tiny_embedder).embed_queries(["cat"]), atol=1e-6)


def test_prompts_are_put_before_queries_and_documents(tiny_embedder: Path) -> None:
    plain, prompted = (
        embedder(tiny_embedder),
        embedder(tiny_embedder, query_prompt="query ", document_prompt="passage "),
    )
    np.testing.assert_allclose(prompted.embed_queries(["cat"]), plain.embed_queries(["query cat"]), atol=1e-6)
    documents = prompted.embed_documents(["cat"]).vectors
    np.testing.assert_allclose(documents, plain.embed_documents(["passage cat"]).vectors, atol=1e-6)


def with_prompts(tiny_embedder: Path, copy: Path, prompts: dict[str, str], default: str | None = None) -> Path:
    """Copy a model, and let it state prompts of its own."""
    shutil.copytree(tiny_embedder, copy)
    path = copy / model_files.PROMPTS
    stated = json.loads(path.read_text("utf-8")) | {"prompts": prompts, "default_prompt_name": default}
    path.write_text(json.dumps(stated), "utf-8")
    return copy


@pytest.mark.parametrize(
    ("prompts", "default", "query", "document"),
    [
        ({"query": "query ", "document": "passage "}, None, "query ", "passage "),
        ({"query": "query ", "passage": "passage "}, None, "query ", "passage "),
        ({"query": "query ", "document": ""}, "query", "query ", ""),  # none is an answer, too
        ({"all": "stars "}, "all", "stars ", "stars "),
        ({"all": "stars ", "document": "passage "}, "all", "stars ", "passage "),
        ({"all": "stars "}, None, "", ""),
    ],
)
def test_prompts_of_the_model_itself_are_used_and_are_part_of_what_it_is(
    tiny_embedder: Path, tmp_path: Path, prompts: dict[str, str], default: str | None, query: str, document: str
) -> None:
    own = embedder(with_prompts(tiny_embedder, tmp_path / "own", prompts, default))
    plain = embedder(tiny_embedder)
    np.testing.assert_allclose(own.embed_queries(["cat"]), plain.embed_queries([f"{query}cat"]), atol=1e-6)
    found, expected = own.embed_documents(["cat"]), plain.embed_documents([f"{document}cat"])
    np.testing.assert_allclose(found.vectors, expected.vectors, atol=1e-6)
    assert found.tokens.tolist() == expected.tokens.tolist()
    assert own.fingerprint()["settings"] != plain.fingerprint()["settings"]
    silent = embedder(tmp_path / "own", query_prompt="", document_prompt="")
    np.testing.assert_allclose(silent.embed_queries(["cat"]), plain.embed_queries(["cat"]), atol=1e-6)


def test_static_model_averages_its_tokens(static_model: Path) -> None:
    from safetensors.numpy import load_file

    rows = load_file(static_model / "model.safetensors")["embeddings"]
    part = embedder(static_model, normalize=False)
    found = part.embed_documents(["the cat", "Cat", ""])
    expected = [rows[[1, 2]].mean(axis=0), rows[2], np.zeros(8)]
    np.testing.assert_allclose(found.vectors, expected, atol=1e-6)
    assert found.tokens.tolist() == found.tokens_read.tolist() == [2, 1, 0]
    with pytest.raises(InputError, match="returns no token vectors"):
        part.embed_tokens(["cat"], "query")


def test_numbers_that_are_not_finite_are_refused_in_vectors_of_texts_and_of_tokens(tiny_embedder: Path) -> None:
    part = embedder(tiny_embedder)
    for weights in part._model.parameters():
        weights.data.fill_(float("nan"))
    for embed in (part.embed_documents, part.embed_queries, partial(part.embed_tokens, kind="query")):
        with pytest.raises(InputError, match="returned NaN or infinite values"):
            embed(["the cat"])


def test_static_model_reads_as_many_tokens_as_it_is_set_to(static_model: Path) -> None:
    found = embedder(static_model, max_length=3).embed_documents(["the cat sat on the mat", "the cat sat"])
    assert (found.tokens.tolist(), found.tokens_read.tolist()) == ([6, 3], [3, 3])
    np.testing.assert_array_equal(found.vectors[0], found.vectors[1])


def test_query_in_half_precision_does_not_depend_on_its_company_at_all(tiny_embedder: Path) -> None:
    part = embedder(tiny_embedder, dtype="bfloat16")
    together = part.embed_queries(TEXTS)
    for row, text in enumerate(TEXTS):
        np.testing.assert_array_equal(part.embed_queries([text])[0], together[row])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"dtype": "float23"}, r'embedder\.dtype is .float23.; did you mean "float32"'),
        ({"batch_size": 0}, r"embedder\.batch_size must be .*, got 0"),
        ({"max_length": 49}, r"embedder\.max_length must be between 1 and 48, .*, got 49"),
        ({"max_length": 0}, r"embedder\.max_length must be .*, got 0"),
    ],
)
def test_wrong_parameters_are_refused_before_loading(tiny_embedder: Path, parameters: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        embedder(tiny_embedder, **parameters).check()


def alone(code: str, embedder: Path, classifier: Path) -> str:
    """Run code with two parts in a process of its own, and return what it writes."""
    parts = (
        "import sys; from ragsweep.parts.embedders import SentenceTransformerEmbedder as E;"
        "from ragsweep.parts.rerankers import CrossEncoder as C;"
        f"parts = E({str(embedder)!r}), C({str(classifier)!r});"
    )
    found = subprocess.run([sys.executable, "-c", parts + code], capture_output=True, text=True, check=True)
    return found.stdout + found.stderr


def test_checking_and_hashing_load_no_library(tiny_embedder: Path, tiny_classifier: Path) -> None:
    code = (
        "[(part.check(), part.fingerprint()) for part in parts];"
        "print([name for name in ('torch', 'transformers', 'tokenizers') if name in sys.modules])"
    )
    assert alone(code, tiny_embedder, tiny_classifier) == "[]\n"


@pytest.mark.nightly
def test_loading_writes_nothing_to_the_terminal(tiny_embedder: Path, tiny_classifier: Path) -> None:
    code = "parts[0].embed_queries(['who']); parts[1].score([('who', 'the cat')])"
    assert alone(code, tiny_embedder, tiny_classifier) == ""


def test_bundled_model_puts_the_answer_first(bundled: SentenceTransformerEmbedder) -> None:
    bundled.check()
    likeness = bundled.embed_queries(SENTENCES[:1]) @ bundled.embed_documents(SENTENCES).vectors[1:].T
    assert likeness.shape == (1, 3)
    assert likeness.argmax() == 0
    assert bundled.embed_documents(["word " * 400]).tokens_read.tolist() == [256]


def test_half_precision_keeps_the_direction_of_vectors(loaded: dict[str, SentenceTransformerEmbedder]) -> None:
    whole, half = (loaded[name].embed_queries(SENTENCES) for name in ("whole", "half"))
    cosines = np.sum(whole * half, axis=1)
    assert cosines.min() > 0.99
    assert cosines.max() < 1 - 1e-7  # it did compute in another precision
