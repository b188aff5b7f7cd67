"""The hashing embedder: its contract, and that texts with common words are near each other."""

import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.parts.embedders import HashingEmbedder
from ragsweep.testing.embedders import EmbedderContract


class TestHashingEmbedder(EmbedderContract):
    part = HashingEmbedder


def test_common_words_and_parts_of_words_are_near() -> None:
    query, same, inflected, other = HashingEmbedder().embed_queries(
        ["assign a variable", "The VARIABLE: assign!", "assigned variables", "numbers of generators"]
    )
    assert query @ same > query @ inflected > query @ other + 0.2


def test_a_question_in_a_script_without_spaces_is_near_the_text_with_its_words() -> None:
    query, same, other = HashingEmbedder().embed_queries(
        ["检索器的深度是多少", "本章说明检索器的所有设置\uff0c以及深度", "天气很好\uff0c我们今天去公园散步"]
    )
    assert query @ same > query @ other + 0.2
    of_ligatures, plain = HashingEmbedder().embed_queries(["of\ufb01ce re\u00adimburse", "office reimburse"])
    assert of_ligatures @ plain == pytest.approx(1)


@pytest.mark.parametrize("wrong", [{"dimensions": 0}, {"ngram": 0}])
def test_impossible_values_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="must be at least 1"):
        HashingEmbedder(**wrong).check()
