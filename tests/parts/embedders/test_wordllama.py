"""WordLlama: its contract, its files, and that it finds by meaning."""

import sys

import numpy as np
import pytest

from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError
from ragsweep.parts.embedders import WordLlamaEmbedder
from ragsweep.testing.embedders import EmbedderContract


@pytest.fixture(scope="module")
def loaded() -> WordLlamaEmbedder:
    return WordLlamaEmbedder()


class TestWordLlama(EmbedderContract):
    @pytest.fixture(autouse=True)
    def _model(self, loaded: WordLlamaEmbedder) -> None:
        self.part = lambda: loaded


def test_texts_of_one_meaning_are_near_without_a_common_word(loaded: WordLlamaEmbedder) -> None:
    query, near, far = loaded.embed_queries(["a kitten slept", "the cat is asleep", "interest rates of banks"])
    assert query @ near > query @ far + 0.2


def test_a_shorter_vector_is_the_beginning_of_the_longest(loaded: WordLlamaEmbedder) -> None:
    begin = loaded.embed_queries(["a kitten"])[0, :64]
    short = WordLlamaEmbedder(64).embed_queries(["a kitten"])[0]
    np.testing.assert_allclose(short, begin / np.linalg.norm(begin), atol=1e-6)


def test_a_text_is_equal_in_any_company(loaded: WordLlamaEmbedder) -> None:
    together = loaded.embed_documents(["a kitten", "a kitten " * 99, ""]).vectors
    np.testing.assert_array_equal(loaded.embed_documents(["a kitten"]).vectors[0], together[0])
    assert not together[2].any()


def test_wrong_length_and_a_missing_package_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"embedder\.dimensions: must be 64 or 128 or 256, got 100"):
        Builder().build({"_target_": "ragsweep.parts.embedders.WordLlamaEmbedder", "dimensions": 100}, "embedder")
    monkeypatch.setattr(WordLlamaEmbedder, "PACKAGE", "absent_package")
    with pytest.raises(ConfigError, match=r"not installed; pip install 'ragsweep\[wordllama\]'"):
        WordLlamaEmbedder().check()


def test_checking_imports_no_package(loaded: WordLlamaEmbedder) -> None:
    loaded.check()
    facts = loaded.fingerprint()
    assert [facts["weights"], facts["tokenizer"]] == list(loaded.DIGESTS.values())
    assert loaded.PACKAGE not in sys.modules
