"""Sentences, and windows of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutting import corpus, cut
from ragsweep.core.errors import ConfigError
from ragsweep.core.sentences import sentences
from ragsweep.parts.chunkers import SentenceWindow
from ragsweep.testing.chunkers import ChunkerContract, assert_lawful


class TestSentenceWindow(ChunkerContract):
    def part(self) -> SentenceWindow:
        return SentenceWindow(sentences=3, stride=2)


class TestSentenceWindowInFrench(ChunkerContract):
    def part(self) -> SentenceWindow:
        return SentenceWindow(sentences=1, stride=1, language="french")


def told(text: str, language: str = "english") -> list[str]:
    return [text[start:end].strip() for start, end in sentences(text, language)]


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("english", ["Dr. Smith went to Washington.", "He paid $3.50, i.e. too much!", '"Why?" he asked.']),
        ("english", ["J. R. R. Tolkien wrote it.", "Call os.path.join now.", "See Sec. 3.2 for more."]),
        ("english", ["A line\nthat is broken goes on.", "Another one\n\nA heading is one of its own"]),
        ("french", ["M. Dupont et MM. Durand sont là.", "Mme. Curie aussi.", "Quoi ?", "Oui !"]),
        ("french", ["Alexandre naît en 356 av. J.-C. à Pella.", "Voir cf. art. 12 et vol. 3."]),
        ("french", ["É. Zola a écrit Nana.", "Le Dr. Martin l'a lu.", "Il a dit : « Bonjour. »", "Puis il est parti."]),
    ],
)
def test_abbreviations_names_and_numbers_end_no_sentence(language: str, expected: list[str]) -> None:
    pieces = [part for sentence in expected for part in sentence.split("\n\n")]
    assert told("\n\n".join(" ".join(expected).split("\n\n")), language) == pieces


def test_windows_hold_so_many_sentences_and_begin_every_so_many() -> None:
    text = "One. Two. Three. Four. Five."
    assert cut(SentenceWindow(2, 2), text) == ["One. Two. ", "Three. Four. ", "Five."]
    assert cut(SentenceWindow(3, 1), text) == ["One. Two. Three. ", "Two. Three. Four. ", "Three. Four. Five."]
    assert cut(SentenceWindow(3, 2), text) == ["One. Two. Three. ", "Three. Four. Five."]
    assert cut(SentenceWindow(9, 9), text) == [text]


@pytest.mark.parametrize("space", "\x85\xa0\u2028\u2029\u202f\u3000")
def test_space_of_any_kind_may_stand_before_a_full_stop(space: str) -> None:
    text = "Il a vu M . Ici. Là !"
    assert sentences(text.replace(" ", space), "french") == sentences(text, "french")


@given(st.text(st.sampled_from("Ab.?! \n«»é漢🙂\u2028\ud800M-"), max_size=60), st.sampled_from(["english", "french"]))
def test_sentences_are_the_whole_text_in_order(text: str, language: str) -> None:
    found = sentences(text, language)
    assert "".join(text[start:end] for start, end in found) == text
    assert len(found) == 1 or all(text[start:end].strip() for start, end in found)


@given(st.lists(st.text(st.sampled_from("Ab. \n"), max_size=60), max_size=3), st.integers(1, 5), st.data())
def test_windows_lose_no_text(texts: list[str], size: int, data: st.DataObject) -> None:
    stride = data.draw(st.integers(1, size))
    assert_lawful(SentenceWindow(size, stride).split(corpus(*texts)), corpus(*texts))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"sentences": 0}, r"chunker\.sentences is 0; it counts sentences and must be 1 or more"),
        ({"sentences": 2, "stride": 3}, r"chunker\.stride is 3; .* at most chunker\.sentences, 2"),
        ({"stride": 0}, r"chunker\.stride is 0"),
        ({"language": "englich"}, r"chunker\.language is .englich.; did you mean .english."),
    ],
)
def test_impossible_windows_are_refused(parameters: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SentenceWindow(**parameters)


def test_librarys_version_is_part_of_what_it_is() -> None:
    assert set(SentenceWindow().fingerprint()) == {"sentencex"}
