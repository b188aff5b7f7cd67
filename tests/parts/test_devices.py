"""Models on a device other than the CPU: refused where there is none; on a GPU they compute as on the CPU."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Case, Passage, Request
from ragsweep.parts.embedders import SentenceTransformerEmbedder
from ragsweep.parts.generators import Transformers
from ragsweep.parts.metrics import FaithfulnessNli
from ragsweep.parts.rerankers import CrossEncoder
from ragsweep.testing.contract import collect
from support.models import PROMPT

TEXTS = ["the cat sat", "stars and planets and moons", "", "who", "many words " * 20]
PAIRS = [("who sat", text) for text in TEXTS]
REQUESTS = [Request("who sat", (Passage("n", text),)) for text in TEXTS]
CASES = [Case(answer=text, contexts=("the cat sat on the mat", "many moons")) for text in TEXTS if text]

Computed = Callable[..., Any]


@pytest.fixture(params=["embedder", "reranker", "llm", "metrics"])
def computed(request: pytest.FixtureRequest) -> tuple[str, Computed]:
    """Return a part's config key, and a function that computes with the part's tiny model, given its settings."""
    folders = {"embedder": "tiny_embedder", "reranker": "tiny_classifier", "llm": "tiny_writer",
               "metrics": "tiny_entailment"}  # fmt: skip
    folder = str(request.getfixturevalue(folders[request.param]))
    return request.param, lambda **settings: COMPUTE[request.param](folder, settings)


def _embed(folder: str, settings: dict[str, Any]) -> Any:
    part = SentenceTransformerEmbedder(folder, **settings)
    part.check()
    vectors = [part.embed_documents(TEXTS).vectors, part.embed_queries(TEXTS), *part.embed_tokens(TEXTS, "document")]
    return np.concatenate([one.ravel() for one in vectors])


def _score(folder: str, settings: dict[str, Any]) -> Any:
    part = CrossEncoder(folder, **settings)
    part.check()
    return part.score(PAIRS)


def _write(folder: str, settings: dict[str, Any]) -> Any:
    part = Transformers(folder, PROMPT, max_new_tokens=8, **settings)
    part.check()
    return [answer.text for answer in collect(part.generate, REQUESTS)]


def _judge(folder: str, settings: dict[str, Any]) -> Any:
    part = FaithfulnessNli(folder, **settings)
    part.check()
    return [judgement.value for judgement in collect(part.judge, CASES)]


COMPUTE = {"embedder": _embed, "reranker": _score, "llm": _write, "metrics": _judge}


def test_unknown_device_is_refused_before_a_model_loads(computed: tuple[str, Computed]) -> None:
    key, compute = computed
    with pytest.raises(ConfigError, match=rf"^{key}.*\.device is 'gpu'; choose auto, cpu, .*, as in cuda:1$"):
        compute(device="gpu")


def test_device_that_the_machine_lacks_is_refused_with_a_way_out(computed: tuple[str, Computed]) -> None:
    key, compute = computed
    refused = rf"^{key}.*\.device is 'cuda:63', which torch cannot use on this machine: .*; set {key}.*\.device=auto"
    with pytest.raises(ConfigError, match=refused):
        compute(device="cuda:63")


@pytest.mark.nightly
@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_gpu_computes_as_the_cpu_does(computed: tuple[str, Computed], device: str) -> None:
    cuda = pytest.importorskip("torch").cuda
    if not cuda.is_available():
        pytest.skip("torch has no CUDA device on this machine")
    _, compute = computed
    expected, before = compute(device="cpu", dtype="float32"), cuda.max_memory_allocated()
    found = compute(device=device)
    assert cuda.max_memory_allocated() > before
    if isinstance(expected[0], str):
        assert found == expected
    else:
        np.testing.assert_allclose(found, expected, atol=1e-5)
