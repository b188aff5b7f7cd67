"""Whole documents, and windows of characters, sentences and tokens."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError
from ragsweep.parts import model_files
from ragsweep.parts.chunkers import FixedSize, Markdown, NoChunker, Recursive, Semantic, SentenceWindow, Tokens
from ragsweep.parts.sentences import sentences
from ragsweep.testing.chunkers import ChunkerContract, assert_lawful
from support.parts import Letters, cut, untitled

BUNDLED = model_files.locate_tokenizer("bundled", "chunker.tokenizer")


@pytest.fixture(scope="session")
def bytewise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a tokenizer whose tokens are bytes: four for an emoji."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    made = Tokenizer(models.BPE({letter: n for n, letter in enumerate(pre_tokenizers.ByteLevel.alphabet())}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    path = tmp_path_factory.mktemp("bytewise") / "tokenizer.json"
    made.save(str(path))
    return path


class TestNoChunker(ChunkerContract):
    part = NoChunker


class TestFixedSize(ChunkerContract):
    def part(self) -> FixedSize:
        return FixedSize(size=10, overlap=3)


class TestSentenceWindow(ChunkerContract):
    def part(self) -> SentenceWindow:
        return SentenceWindow(sentences=3, stride=2)


class TestTokens(ChunkerContract):
    def part(self) -> Tokens:
        return Tokens(size=10, overlap=3)


class TestTokensThatAreBytes(ChunkerContract):
    @pytest.fixture(autouse=True)
    def _tokenizer(self, bytewise: Path) -> None:
        self.path = bytewise

    def part(self) -> Tokens:
        return Tokens(size=5, overlap=4, tokenizer=str(self.path))


TEXTS = st.lists(st.text(st.sampled_from("Ab. ?!\n\t\r é漢🙂\u2028\ud800"), max_size=60), max_size=3)


def test_whole_documents_are_one_chunk_each_even_when_empty() -> None:
    assert list(zip(*NoChunker().split(untitled("abc", "", " ")), strict=True)) == [(0, 0, 3), (1, 0, 0), (2, 0, 1)]


def test_windows_of_characters_of_a_hand_computed_example() -> None:
    assert cut(FixedSize(4), "abcdefghij") == ["abcd", "efgh", "ij"]
    assert cut(FixedSize(4, 1), "abcdefghij") == ["abcd", "defg", "ghij"]
    assert cut(FixedSize(4, 3), "abcde") == ["abcd", "bcde"]
    assert cut(FixedSize(10, 9), "abc") == ["abc"]


@given(TEXTS, st.integers(1, 30), st.data())
def test_windows_lose_no_text_and_keep_their_size(texts: list[str], size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    spans = FixedSize(size, overlap).split(untitled(*texts))
    assert_lawful(spans, untitled(*texts))
    for document, start, end in zip(*spans, strict=True):
        assert end - start == size or end == len(texts[document]) or not texts[document].strip()
        assert start % (size - overlap) == 0


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
    text = "\n\n".join(" ".join(expected).split("\n\n"))
    assert [text[start:end].strip() for start, end in sentences(text, language)] == pieces


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


@given(TEXTS, st.integers(1, 5), st.data())
def test_windows_of_sentences_lose_no_text(texts: list[str], size: int, data: st.DataObject) -> None:
    stride = data.draw(st.integers(1, size))
    assert_lawful(SentenceWindow(size, stride).split(untitled(*texts)), untitled(*texts))


def test_windows_of_tokens_of_a_hand_computed_example() -> None:
    assert cut(Tokens(2), "the cat sat on the mat") == ["the cat ", "sat on ", "the mat"]
    assert cut(Tokens(3, 1), "the cat sat on the mat") == ["the cat sat ", "sat on the ", "the mat"]
    assert cut(Tokens(3), " Tokenization,  it is") == [" Tokenization,  ", "it is"]  # token, ##ization, comma


@pytest.mark.parametrize("text", ["図書館は毎日午前九時に開きます。", "圖書館每天早上九點開門。週日休息。"])
def test_windows_of_tokens_are_counted_by_the_models_tokenizer_where_words_have_no_spaces(text: str) -> None:
    tokenizer = Tokenizer.from_file(str(BUNDLED))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    pieces = cut(Tokens(16), text * 20)
    assert "".join(pieces) == text * 20
    sizes = [len(tokenizer.encode(piece, add_special_tokens=False).ids) for piece in pieces]
    assert set(sizes[:-1]) == {16}
    assert 0 < sizes[-1] <= 16


def test_long_text_is_read_to_its_end() -> None:
    assert cut(Tokens(300), "the cat sat " * 400) == ["the cat sat " * 100] * 4


def test_character_of_several_tokens_is_in_one_piece(bytewise: Path) -> None:
    assert cut(Tokens(2, tokenizer=str(bytewise)), "ab🙂cd") == ["ab", "🙂", "cd"]
    assert cut(Tokens(6, tokenizer=str(bytewise)), "ab🙂cd") == ["ab🙂", "cd"]


@given(
    text=st.text(st.sampled_from("ab .é漢🙂\u0301\x00\ud800\n"), max_size=40), size=st.integers(1, 9), data=st.data()
)
def test_windows_of_tokens_lose_no_text_and_hold_no_more_tokens(
    text: str, size: int, data: st.DataObject, bytewise: Path
) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    spans = Tokens(size, overlap, str(bytewise)).split(untitled(text))
    assert_lawful(spans, untitled(text))
    for start, end in zip(spans.start, spans.end, strict=True):
        first = len(text[start : start + 1].encode("utf-8", "surrogatepass"))  # of which a window may hold the end only
        assert len(text[start:end].encode("utf-8", "replace")) <= size + first - 1 or not text.strip()


def test_tokenizer_is_identified_by_its_content(tmp_path: Path, bytewise: Path) -> None:
    def digest(**parameters: object) -> str:
        return Builder().build({"_target_": "ragsweep.parts.chunkers.Tokens", **parameters}, "chunker").spec.digest

    copy = tmp_path / "copy.json"
    shutil.copy(BUNDLED, copy)
    assert digest(tokenizer=str(copy)) == digest(tokenizer=str(BUNDLED.parent)) == digest()
    shutil.copy(BUNDLED, tmp_path)
    assert digest(tokenizer=str(tmp_path)) == digest()  # a folder without weights
    assert len({digest(), digest(tokenizer=str(bytewise)), digest(size=9), digest(overlap=9)}) == 4
    copy.write_text(copy.read_text("utf-8").replace('"lowercase":true', '"lowercase":false'), "utf-8")
    assert digest(tokenizer=str(copy)) != digest()


def test_model_without_a_tokenizer_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    with pytest.raises(ConfigError, match=r"there is no tokenizer\.json in .*; use a model that has one"):
        Tokens(tokenizer=str(tmp_path)).fingerprint()


def test_file_that_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(
        ConfigError, match=r"^chunker\.tokenizer is '.*other\.json', which cannot be loaded: Model missing"
    ):
        Tokens(tokenizer=str(tmp_path / "other.json")).split(untitled("a"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FixedSize(0), r"chunker\.size must be .*, got 0"),
        (lambda: FixedSize(10, 10), r"chunker\.overlap must be .* less than chunker\.size \(10\), got 10"),
        (lambda: FixedSize(10, -1), r"chunker\.overlap must be .*, got -1"),
        (lambda: Recursive(0), r"chunker\.size must be .*, got 0"),
        (lambda: Recursive(10, 0), r"chunker\.min_characters must be .*, got 0"),
        (lambda: Markdown(0), r"chunker\.size must be .*, got 0"),
        (lambda: SentenceWindow(0), r"chunker\.sentences must be at least 1, got 0"),
        (lambda: SentenceWindow(2, 3), r"chunker\.stride must be .* at most chunker\.sentences \(2\), .*, got 3"),
        (lambda: SentenceWindow(stride=0), r"chunker\.stride must be .*, got 0"),
        (lambda: SentenceWindow(language="englich"), r"chunker\.language is .englich.; did you mean .english."),
        (lambda: Tokens(0), r"chunker\.size must be at least 1, got 0"),
        (lambda: Tokens(9, 9), r"chunker\.overlap must be .* less than chunker\.size \(9\), got 9"),
        (
            lambda: Tokens(tokenizer="./no.json").fingerprint(),
            r"chunker\.tokenizer is '\./no\.json', .* no such file",
        ),
        (
            lambda: Tokens(tokenizer="nobody/none").fingerprint(),
            r"in the local hub cache; .* chunker\.download=true",
        ),
        (lambda: Semantic(Letters(), 101), r"chunker\.percentile must be between 0 and 100, got 101"),
        (lambda: Semantic(Letters(), -1), r"chunker\.percentile must be .*, got -1"),
        (lambda: Semantic(Letters(), float("nan")), r"chunker\.percentile must be .*, got nan"),
        (lambda: Semantic(Letters(), size=0), r"chunker\.size must be .*, got 0"),
        (lambda: Semantic(Letters(), language="klingon"), r"chunker\.language is 'klingon'"),
    ],
)
def test_wrong_parameters_are_refused(
    make: object, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ConfigError, match=message):
        make()
