"""A local language model, tiny and random: it loads and writes as large ones do."""

import json
import shutil
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.missing import THINKING, TOO_LONG
from ragsweep.core.types import Passage, Request, Turn
from ragsweep.parts.generators import Transformers
from ragsweep.parts.prompts import Prompt
from ragsweep.testing.contract import collect
from ragsweep.testing.generators import GeneratorContract
from support.models import PROMPT, WORDS, save_for_transformers

SHORT = Prompt("the {refusal}", "the", "{passages} {question}", "{text}", ["who knows"], False)
ASKED = Request("who sat", (Passage("n", "the cat sat"),))


def writer(folder: Path, **parameters: Any) -> Transformers:
    return Transformers(
        str(folder), **{"prompt": SHORT, "max_new_tokens": 8, "device": "cpu", "dtype": "float32", **parameters}
    )


class TestTransformers(GeneratorContract):
    parameters: ClassVar = {"temperature": 1.5, "seed": 5, "max_new_tokens": 3}  # what is drawn is repeatable, too

    @pytest.fixture(autouse=True)
    def _model(self, tiny_writer: Path) -> None:
        part = writer(tiny_writer, **self.parameters)
        self.part = lambda: part


class TestBatches(TestTransformers):
    parameters: ClassVar = {"batch": 3}


def written(folder: Path, text: str, tokens: int) -> tuple[str, int]:
    """Write on by taking the likeliest word again and again, with nothing but the model's logits."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
    read = tokenizer(text, return_tensors="pt")["input_ids"]
    whole = read
    with torch.inference_mode():
        for _ in range(tokens):
            best = model(whole).logits[0, -1].argmax()
            whole = torch.cat([whole, best.reshape(1, 1)], dim=1)
            if best == tokenizer.eos_token_id:
                break
    return tokenizer.decode(whole[0, read.shape[1] :], skip_special_tokens=True).strip(), read.shape[1]


def test_answer_is_the_likeliest_text_behind_the_chat_template(tiny_writer: Path) -> None:
    request = ASKED._replace(history=(Turn("user", "stars"), Turn("assistant", "moons")))
    (answer,) = collect(writer(tiny_writer).generate, [request])
    said = "<system> the who knows <user> stars <assistant> moons <user> the cat sat who sat <assistant>"
    text, length = written(tiny_writer, said, 8)
    assert text
    assert (answer.text, answer.usage.tokens_in, answer.usage.calls) == (text, length, 0)
    assert 1 <= answer.usage.tokens_out <= 8


def test_without_a_template_the_messages_are_read_as_they_are(tiny_writer: Path, tmp_path: Path) -> None:
    plain = Path(shutil.copytree(tiny_writer, tmp_path / "plain"))
    (plain / "chat_template.jinja").unlink()
    (answer,) = collect(writer(plain).generate, [ASKED])
    assert answer.text == written(plain, "the who knows\n\nthe cat sat who sat\n\nAnswer:", 8)[0]


def test_template_without_a_system_role_refuses_a_system_message_and_takes_a_prompt_without(
    tiny_writer: Path, tmp_path: Path
) -> None:
    model = Path(shutil.copytree(tiny_writer, tmp_path / "gemma"))
    template = model / "chat_template.jinja"
    refusing = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    template.write_text(refusing + template.read_text())
    with pytest.raises(InputError, match=r"rejects the prompt: System role not supported; .* set prompt\.system=''"):
        collect(writer(model).generate, [ASKED])
    asked = [ASKED, ASKED._replace(passages=())]
    answers = collect(writer(model, prompt=replace(SHORT, system="", system_alone="")).generate, asked)
    assert [answer.failed for answer in answers] == ["", ""]


def test_prompt_beyond_the_window_is_a_failure_and_not_half_an_answer(tiny_writer: Path) -> None:
    long = Request("who sat", (Passage("n", "cat " * 120),))
    found = collect(writer(tiny_writer).generate, [long, ASKED])
    assert [answer.failed for answer in found] == [TOO_LONG, ""]


def test_window_that_a_model_states_in_the_words_of_gpt2_holds_too(tiny_writer: Path, tmp_path: Path) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    folder = Path(shutil.copytree(tiny_writer, tmp_path / "gpt2"))
    ends = {"bos_token_id": 1, "eos_token_id": 1}
    GPT2LMHeadModel(
        GPT2Config(vocab_size=5 + len(WORDS), n_positions=40, n_embd=8, n_layer=1, n_head=1, **ends)
    ).save_pretrained(folder)
    long = Request("who sat", (Passage("n", "cat " * 40),))
    assert [answer.failed for answer in collect(writer(folder).generate, [long, ASKED])] == [TOO_LONG, ""]


def asked(*lengths: int) -> list[Request]:
    """Ask about passages of so many words."""
    return [Request("who sat", (Passage("n", " ".join(WORDS[(n + k) % 9] for k in range(n))),)) for n in lengths]


def test_every_row_of_a_batch_is_the_likeliest_text_of_its_prompt(tiny_writer: Path) -> None:
    requests = asked(1, 7, 30, 80, 3)
    one = collect(writer(tiny_writer, max_new_tokens=20).generate, requests)
    assert len({answer.usage.tokens_out for answer in one}) > 1  # some end before their neighbours
    batched = collect(writer(tiny_writer, max_new_tokens=20, batch=4).generate, requests)
    assert [(answer.text, answer.usage) for answer in batched] == [(answer.text, answer.usage) for answer in one]


@given(lengths=st.lists(st.integers(0, 100), min_size=1, max_size=7), batch=st.integers(2, 4))
@example(lengths=[56, 3], batch=2)  # a prompt of 64 tokens, the width of the other: where no row has padding, no mask
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_shapes_that_a_prompt_is_computed_in_do_not_depend_on_other_requests(
    lengths: list[int], batch: int, tiny_writer: Path
) -> None:
    part, shapes = writer(tiny_writer, batch=batch, max_new_tokens=2), set()
    part._loaded[1].model.layers[0].register_forward_pre_hook(
        lambda _, read, given: shapes.add((read[0].shape, given["attention_mask"] is None)), with_kwargs=True
    )
    together = collect(part.generate, asked(*lengths))
    found, alone = set(shapes), []
    shapes.clear()
    for request in asked(*lengths):
        alone += collect(part.generate, [request])
    assert shapes == found
    assert [answer.text for answer in alone] == [answer.text for answer in together]


@pytest.mark.nightly
def test_answers_of_real_weights_do_not_depend_on_their_batch(tmp_path: Path) -> None:
    part = writer(save_for_transformers(tmp_path), prompt=PROMPT, batch=2)
    passages = ["Normandy is in France.", "Water boils at 100 degrees. " * 9]
    requests = [Request(f"Tell {n} facts.", (Passage("n", one),)) for n in (1, 2, 3) for one in passages]
    texts = [answer.text for answer in collect(part.generate, requests)]
    assert [answer.text for answer in collect(part.generate, requests[::-1])][::-1] == texts


def test_batch_that_is_written_is_done_before_the_next_begins(tiny_writer: Path) -> None:
    part, events = writer(tiny_writer, batch=2), []
    part._loaded[1].get_input_embeddings().register_forward_hook(lambda *_: events.append(-1))
    part.generate(asked(1, 100, 2, 3, 99), lambda number, _: events.append(number))
    assert [number for number, _ in groupby(events)] == [-1, 0, 2, -1, 3, -1, 1, 4]


def test_words_of_refusal_are_an_abstention(tiny_writer: Path) -> None:
    (said,) = collect(writer(tiny_writer).generate, [ASKED])
    first = Prompt("the {refusal}", "the", "{passages} {question}", "{text}", ["who knows", said.text], False)
    (answer,) = collect(writer(tiny_writer, prompt=first).generate, [ASKED])
    assert answer.abstained
    assert not said.abstained


@pytest.mark.parametrize(
    ("parameters", "said"),
    [({"max_new_tokens": 0}, "max_new_tokens must be .*, got 0"), ({"temperature": -1.0}, "temperature must be"),
     ({"dtype": "float7"}, "llm.dtype is 'float7'"), ({"batch": 0}, "llm.batch must be .*, got 0"),
     ({"max_new_tokens": 120}, "max_new_tokens is 120, which leaves no token for a prompt: .* is 120 tokens"),
     ({"batch": 2, "temperature": 0.5}, "llm.batch is 2 and llm.temperature is 0.5")],
)  # fmt: skip
def test_numbers_out_of_range_are_refused(parameters: dict[str, Any], said: str, tiny_writer: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        writer(tiny_writer, **parameters).check()


def test_model_that_writes_nothing_is_refused(tiny_classifier: Path) -> None:
    with pytest.raises(ConfigError, match="use a model whose architecture ends with"):
        writer(tiny_classifier).check()


def test_block_that_the_chat_template_opens_and_nothing_closes_is_no_answer(tiny_writer: Path) -> None:
    (answer,) = collect(writer(tiny_writer, thoughts=["assistant"]).generate, [ASKED])  # the template ends with it
    assert (answer.text, answer.failed) == ("", THINKING)
    assert answer.usage.tokens_out > 0
    with pytest.raises(ConfigError, match=r"llm.thoughts must be a list of tag names"):
        writer(tiny_writer, thoughts=["<think>"]).check()


def test_special_token_that_is_a_tag_separates_the_thoughts(tiny_writer: Path, tmp_path: Path) -> None:
    drawn = {"temperature": 2.0, "seed": 5, "max_new_tokens": 20}
    (plain,) = collect(writer(tiny_writer, **drawn).generate, [ASKED])
    words = plain.text.split()
    tag = next(word for word in words[1:] if word not in ["the", "who", "knows", "cat", "sat", words[0], words[-1]])
    folder = Path(shutil.copytree(tiny_writer, tmp_path / "thinker"))
    tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["[/THINK]"] = number = vocabulary.pop(tag)
    tokenizer["added_tokens"] += [{**tokenizer["added_tokens"][0], "id": number, "content": "[/THINK]"}]  # special
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    (answer,) = collect(writer(folder, **drawn).generate, [ASKED])
    last = max(n for n, word in enumerate(words) if word == tag)
    assert answer.text.split() == words[last + 1 :]
    assert answer.thoughts.split() == [word for word in words[:last] if word != tag]
    (answer,) = collect(writer(folder, thoughts=None, **drawn).generate, [ASKED])
    assert answer.text.split() == [word for word in words if word != tag]
