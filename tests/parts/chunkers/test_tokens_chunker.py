"""Windows of tokens, by the bundled model's tokenizer and by one made here that cuts characters in bytes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutting import corpus, cut
from ragsweep.core import model_files
from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError
from ragsweep.parts.chunkers import Tokens
from ragsweep.testing.chunkers import ChunkerContract, assert_lawful

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


class TestTokens(ChunkerContract):
    def part(self) -> Tokens:
        return Tokens(size=10, overlap=3)


class TestTokensThatAreBytes(ChunkerContract):
    @pytest.fixture(autouse=True)
    def _tokenizer(self, bytewise: Path) -> None:
        self.path = bytewise

    def part(self) -> Tokens:
        return Tokens(size=5, overlap=4, tokenizer=str(self.path))


def count(text: str) -> int:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(BUNDLED))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return len(tokenizer.encode(text, add_special_tokens=False))


def test_windows_of_a_hand_computed_example() -> None:
    assert cut(Tokens(2), "the cat sat on the mat") == ["the cat ", "sat on ", "the mat"]
    assert cut(Tokens(3, 1), "the cat sat on the mat") == ["the cat sat ", "sat on the ", "the mat"]
    assert cut(Tokens(3), " Tokenization,  it is") == [" Tokenization,  ", "it is"]  # token, ##ization, comma


def test_long_text_is_read_to_its_end() -> None:
    chunks = cut(Tokens(100), "the cat sat " * 400)
    assert [count(chunk) for chunk in chunks] == [100] * 12
    assert "".join(chunks) == "the cat sat " * 400


def test_character_of_several_tokens_is_in_one_piece(bytewise: Path) -> None:
    assert cut(Tokens(2, tokenizer=str(bytewise)), "ab🙂cd") == ["ab", "🙂", "cd"]
    assert cut(Tokens(6, tokenizer=str(bytewise)), "ab🙂cd") == ["ab🙂", "cd"]


@given(
    text=st.text(st.sampled_from("ab .é漢🙂\u0301\x00\ud800\n"), max_size=40), size=st.integers(1, 9), data=st.data()
)
def test_windows_lose_no_text_and_hold_no_more_tokens(
    text: str, size: int, data: st.DataObject, bytewise: Path
) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    spans = Tokens(size, overlap, str(bytewise)).split(corpus(text))
    assert_lawful(spans, corpus(text))
    for start, end in zip(spans.start, spans.end, strict=True):
        first = len(text[start : start + 1].encode("utf-8", "surrogatepass"))  # of which a window may hold the end only
        assert len(text[start:end].encode("utf-8", "replace")) <= size + first - 1 or not text.strip()


def test_tokenizer_is_known_by_what_it_holds_and_not_by_its_place(tmp_path: Path, bytewise: Path) -> None:
    def digest(**parameters: object) -> str:
        return Builder().build({"_target_": "ragsweep.parts.chunkers.Tokens", **parameters}, "chunker").spec.digest

    copy = tmp_path / "copy.json"
    shutil.copy(BUNDLED, copy)
    assert digest(tokenizer=str(copy)) == digest(tokenizer=str(BUNDLED.parent)) == digest()
    assert len({digest(), digest(tokenizer=str(bytewise)), digest(size=9), digest(overlap=9)}) == 4
    copy.write_text(copy.read_text("utf-8").replace('"lowercase":true', '"lowercase":false'), "utf-8")
    assert digest(tokenizer=str(copy)) != digest()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"size": 0}, r"chunker\.size is 0; it counts tokens and must be 1 or more"),
        ({"size": 9, "overlap": 9}, r"chunker\.overlap is 9; .* less than chunker\.size, 9"),
        ({"tokenizer": "./absent.json"}, r"chunker\.tokenizer is './absent\.json', and there is no such folder"),
        ({"tokenizer": "nobody/none"}, r"not in the local hub cache; .* chunker\.download=true"),
    ],
)
def test_wrong_parameters_are_refused_before_anything_is_cut(
    parameters: dict, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ConfigError, match=message):
        Tokens(**parameters).fingerprint()


def test_model_without_a_tokenizer_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    with pytest.raises(ConfigError, match=r"there is no tokenizer\.json in .*; name a model that has one"):
        Tokens(tokenizer=str(tmp_path)).fingerprint()
