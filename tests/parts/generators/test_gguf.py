"""A real language model in a GGUF file: its answers depend on the request alone, and faults have a sentence."""

from pathlib import Path
from typing import Any

import pytest

from ragsweep.core.digests import file_digest
from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import THINKING, TOO_LONG
from ragsweep.core.types import Passage, Request
from ragsweep.parts.generators import Gguf
from ragsweep.parts.generators.gguf import convert
from ragsweep.testing.contract import collect
from ragsweep.testing.generators import GeneratorContract
from support.models import smollm2

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model() -> Gguf:
    return smollm2()


SIZES = ["two layers", pytest.param("all", marks=pytest.mark.nightly)]
"""Two layers write nonsense, but by the same rules."""


@pytest.fixture(scope="module", params=SIZES)
def parameters(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"model": str(request.getfixturevalue("two_layers"))} if request.param == "two layers" else {}


@pytest.fixture(scope="module")
def brief(parameters: dict[str, Any]) -> Gguf:
    return smollm2(**parameters, max_new_tokens=2)


class TestGguf(GeneratorContract):
    @pytest.fixture(autouse=True)
    def _model(self, brief: Gguf) -> None:
        self.part = lambda: brief


def test_answers_do_not_depend_on_how_many_are_written_at_the_same_time(parameters: dict[str, Any]) -> None:
    questions = [Request(f"Name {n} things that are {kind}.", ()) for n in (2, 3) for kind in ("red", "round", "soft")]
    one, three = (
        [answer.text for answer in collect(smollm2(**parameters, parallel=number).generate, questions)]
        for number in (1, 3)
    )
    assert one == three
    assert len(set(one)) > 1


def test_answer_is_what_the_model_reads_in_the_passage(model: Gguf) -> None:
    asked = Request("Where is Normandy?", (Passage("n", "Normandy is a region in the north of France."),))
    (answer,) = collect(model.generate, [asked])
    assert "north" in answer.text
    assert answer.usage.calls == 0
    assert 30 < answer.usage.tokens_in < 80
    assert 0 < answer.usage.tokens_out <= 8


def test_prompt_without_room_for_its_answer_is_a_failed_answer(parameters: dict[str, Any]) -> None:
    requests = [Request("word " * count, ()) for count in (600, 490)]
    assert [answer.failed for answer in collect(smollm2(**parameters).generate, requests)] == [TOO_LONG, TOO_LONG]


def test_reply_that_ends_within_thoughts_that_the_chat_template_opens_is_no_answer(
    two_layers: Path, tmp_path: Path
) -> None:
    gguf, changed = pytest.importorskip("gguf"), tmp_path / "thinking.gguf"
    template = gguf.GGUFReader(two_layers).fields["tokenizer.chat_template"].contents().encode()
    opening = b"#}{{ messages[-1]['content'] }}<think>\n"
    changed.write_bytes(two_layers.read_bytes().replace(template, b"{#" + opening.rjust(len(template) - 2)))
    (answer,), (plain,) = (
        collect(smollm2(model=str(changed), thoughts=tags).generate, [Request("Who?", ())])
        for tags in (["think"], None)
    )
    assert (answer.text, answer.failed, answer.thoughts) == ("", THINKING, plain.text.strip())
    assert plain.text
    assert not plain.failed


def test_repetitions_are_drawn_with_their_own_seeds_and_repeatable(parameters: dict[str, Any]) -> None:
    part = smollm2(**parameters, temperature=1.5, replicates=2)
    asked = Request("Name a colour, an animal and a town.", ())
    drawn: list[str] = []
    for replicate in (0, 1, 0):
        part.repeat([asked], lambda _, answer: drawn.append(answer.text), replicate)
    assert drawn[0] == drawn[2] != drawn[1]


def test_weights_in_8_bits_are_those_of_the_file_within_a_hundredth_of_the_largest_of_each_block(
    parameters: dict[str, Any],
) -> None:
    gguf, source = pytest.importorskip("gguf"), smollm2(**parameters)._file()
    files = (source, convert(source, file_digest(source)))
    stored, converted = ({one.name: one for one in gguf.GGUFReader(path).tensors} for path in files)
    assert list(stored) == list(converted)
    for name in stored:
        pair = (gguf.quants.dequantize(one[name].data, one[name].tensor_type) for one in (stored, converted))
        blocks, others = (one.reshape(-1, 32) for one in pair)
        assert (abs(blocks - others) <= abs(blocks).max(axis=1, keepdims=True) / 100).all()


@pytest.mark.nightly
def test_conversion_is_in_the_fingerprint_and_answers_well() -> None:
    asked = Request("Where is Normandy?", (Passage("n", "Normandy is a region in the north of France."),))
    part = smollm2(quantization="Q8_0")
    (answer,) = collect(part.generate, [asked])
    assert "north" in answer.text
    assert part.fingerprint() != smollm2().fingerprint()


def test_file_with_equal_bytes_is_the_same_model_wherever_it_is(tmp_path: Path) -> None:
    part = smollm2()
    (tmp_path / "copy.gguf").symlink_to(part._file())
    assert smollm2(model=str(tmp_path / "copy.gguf")).fingerprint() == part.fingerprint()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"model": "none.gguf"}, "No such file or directory; use the path of a GGUF file, .* packaged model: smollm2"),
        ({"model": "."}, "Is a directory"),
        ({"model": __file__}, "which is not a GGUF file"),
        ({"max_new_tokens": 0}, r"llm\.max_new_tokens must be at least 1, got 0"),
        ({"window": 8}, r"llm\.window must be at least 9, got 8"),
        ({"threads": 0}, r"llm\.threads must be .*, got 0"),
        ({"parallel": 0}, r"llm\.parallel must be .*, got 0"),
        ({"quantization": "q4"}, r"llm\.quantization must be Q8_0 or null, got 'q4'"),
        ({"replicates": 2}, "all repetitions would be identical"),
        ({"thoughts": ["<x>"]}, "llm.thoughts"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_loaded(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        smollm2(**parameters).check()


def test_damaged_model_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "damaged.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    part = smollm2(model=str(path))
    part.check()
    with pytest.raises(ConfigError, match=r"damaged\.gguf', which cannot be loaded"):
        collect(part.generate, [Request("a", ())])
