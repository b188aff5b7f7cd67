"""Generate answers with a local language model in transformers format."""

import math
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.missing import THINKING, TOO_LONG
from ragsweep.core.types import Answer, PartTraits, Request, Usage
from ragsweep.parts import model_files
from ragsweep.parts.limits import SEEDS, check_at_least, check_drawing
from ragsweep.parts.local_model import LocalModel, silence_libraries
from ragsweep.parts.prompts import Prompt
from ragsweep.services.thoughts import TAGS, check_tags, is_tag, separate

ARCHITECTURES = ("ForCausalLM", "LMHeadModel")
"""Suffixes of the supported model classes; a model of another class could get a randomly initialised output layer."""

STEP = 64
"""If ``batch`` is more than 1, prompts are padded to a multiple of this number of tokens, to share batches."""


@dataclass(eq=False)
class Transformers(LocalModel):
    """A generator that completes each request's prompt, formatted by the model's chat template.

    If the model has no chat template, the prompt is plain text. Every batch has ``batch`` rows: an incomplete batch
    repeats its last prompt. If ``batch`` is more than 1, prompts are padded to a multiple of STEP tokens. The shape of
    a batch determines rounding; an answer therefore depends on its request and on ``batch``, but not on other requests.
    If a prompt leaves room for fewer than ``max_new_tokens`` tokens within the model's maximum length, or if the reply
    ends with unclosed thoughts, the answer counts as failed. The usage of an answer counts tokens but no calls, so an
    answer costs nothing.
    """

    TRAITS: ClassVar[PartTraits] = replace(LocalModel.TRAITS.with_operational("replicates"), version="1")
    KEY: ClassVar[str] = "llm"

    model: str
    prompt: Prompt
    max_new_tokens: int = 256
    temperature: float = 0.0
    seed: int = 0
    thoughts: Sequence[str] | None = TAGS
    replicates: int = 1
    batch: int = 1

    def check(self) -> None:
        """Raise ConfigError for invalid settings, unsuitable model files and an unsupported architecture.

        The model is not loaded. If ``download`` is true, missing and outdated files of a hub model are downloaded.
        """
        super().check()
        check_tags(self.thoughts, "llm")
        check_drawing(self.max_new_tokens, self.temperature, self.replicates)
        check_at_least("llm", 1, batch=self.batch)
        if self.batch > 1 and self.temperature:
            raise ConfigError(
                f"llm.batch is {self.batch} and llm.temperature is {self.temperature}: samples depend on the"
                " other requests of a batch; set llm.batch=1, or llm.temperature=0"
            )
        longest = self._longest_input
        if longest and self.max_new_tokens >= longest:
            raise ConfigError(
                f"llm.max_new_tokens is {self.max_new_tokens}, which leaves no token for a prompt: the maximum length"
                f" of {self.model} is {longest} tokens; lower llm.max_new_tokens, or use another model"
            )
        architecture = str((self._config().get("architectures") or ["unknown"])[0])
        if not architecture.endswith(ARCHITECTURES):
            raise ConfigError(
                f"llm.model is {self.model!r}, whose architecture is {architecture}; use a model whose architecture"
                f" ends with {' or '.join(ARCHITECTURES)}"
            )

    def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None], replicate: int = 0) -> None:
        """Answer all requests, at most ``batch`` at a time, with the seed of repetition ``replicate``, counted from 0.

        The ``seconds`` of an answer are the duration of its whole batch.

        Raises:
            ConfigError: The model or the device cannot be used.
            InputError: The model's chat template rejects a prompt.
        """
        if requests:
            self._loaded  # noqa: B018 (load the model before time is measured)
        prompts = [self._read(request) for request in requests]
        widths: dict[int, list[int]] = {}  # padded length -> indices of prompts; a batch has one padded length
        for number, prompt in enumerate(prompts):
            if len(prompt) + self.max_new_tokens > (self._longest_input or math.inf):
                done(number, Answer(failed=TOO_LONG))
            else:
                widths.setdefault(self._width(prompt), []).append(number)
        starts = [(numbers, start) for numbers in widths.values() for start in range(0, len(numbers), self.batch)]
        for numbers, start in starts:
            batch = numbers[start : start + self.batch]
            begin = time.perf_counter()
            written = self._write([prompts[number] for number in batch], self.seed + replicate * SEEDS)
            seconds = time.perf_counter() - begin
            for number, tokens in zip(batch, written, strict=True):
                done(number, self._answer(prompts[number], tokens)._replace(seconds=seconds))

    repeat = generate

    def _width(self, prompt: list[int]) -> int:
        """Return the length, in tokens, to which a prompt is padded.

        If ``batch`` is more than 1, every prompt gets at least one token of padding, because the transformers library
        applies no mask to a batch without padding.
        """
        return len(prompt) if self.batch == 1 else len(prompt) // STEP * STEP + STEP

    def _write(self, prompts: Sequence[list[int]], seed: int) -> list[list[int]]:
        """Complete prompts of equal padded length in one batch; return the new tokens of each, up to its end token."""
        import torch

        tokenizer, model = self._loaded
        width = self._width(prompts[0])
        rows = [*prompts, *[prompts[-1]] * (self.batch - len(prompts))]
        filler = next((n for n in (tokenizer.pad_token_id, tokenizer.eos_token_id) if n is not None), 0)
        read = torch.tensor([[filler] * (width - len(row)) + row for row in rows], device=model.device)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=model.device)
        torch.manual_seed(seed)
        drawn = {"do_sample": True, "temperature": self.temperature} if self.temperature else {"do_sample": False}
        limits = {"max_new_tokens": self.max_new_tokens, "pad_token_id": filler}
        with torch.inference_mode():
            whole = model.generate(read, attention_mask=mask, **limits, **drawn)
        ends = model.generation_config.eos_token_id
        ends = set(ends if isinstance(ends, list) else [ends])
        return [_until(row, ends) for row in whole[: len(prompts), width:].tolist()]

    def _answer(self, read: list[int], written: list[int]) -> Answer:
        tokenizer = self._loaded[0]
        # Special tokens are removed, except for the tags of thoughts, such as [THINK] of Mistral's models.
        added = tokenizer.added_tokens_decoder.items()
        left_out = {n for n, token in added if token.special and not is_tag(token.content, self.thoughts)}
        said = str(tokenizer.decode([n for n in written if n not in left_out])).strip()
        text, thoughts, unclosed = separate(said, self.thoughts, str(tokenizer.decode(read)))
        declined, usage = not unclosed and self.prompt.is_refusal(text), Usage(0, len(read), len(written))
        return Answer(text, declined, THINKING if unclosed else "", usage=usage, thoughts=thoughts)

    def _read(self, request: Request) -> list[int]:
        tokenizer = self._loaded[0]
        messages = self.prompt.messages(request)
        if tokenizer.chat_template:
            try:
                read = tokenizer.apply_chat_template(
                    messages, add_generation_prompt=True, tokenize=True, return_dict=True
                )
            except Exception as fault:  # a template is a program and may raise anything
                raise InputError(
                    f"llm.model is {self.model!r}, whose chat template rejects the prompt: {fault}; use another model,"
                    " or, if the template has no system role, set prompt.system='' and prompt.system_alone=''"
                ) from fault
        else:
            text = "\n\n".join([*(message["content"] for message in messages), "Answer:"])
            read = tokenizer(text, verbose=False)
        return list(read["input_ids"])

    @cached_property
    def _longest_input(self) -> int | None:
        """The maximum input length of the model in tokens (``n_positions`` for GPT-2); None if config.json omits it."""
        return super()._longest_input or self._config().get("n_positions") or None

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        folder = str(self._folder())
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        silence_libraries()
        device = self._usable_device() or ("cuda" if torch.cuda.is_available() else "cpu")
        with model_files.loading(self.model, "llm.model"):
            safe: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
            tokenizer = AutoTokenizer.from_pretrained(folder, **safe)
            dtype = getattr(torch, self._resolved_dtype())
            model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, use_safetensors=True, **safe)
            return tokenizer, model.to(device).eval()


def _until(tokens: list[int], ends: Set[int]) -> list[int]:
    """Return the tokens up to and including the first end token (later tokens are padding), or all if there is none."""
    return tokens[: next((n for n, token in enumerate(tokens, 1) if token in ends), len(tokens))]
