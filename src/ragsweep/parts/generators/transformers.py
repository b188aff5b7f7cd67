"""Generate answers with a local language model in transformers' format."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import THINKING, TOO_LONG
from ragsweep.core.types import Answer, Request, Usage
from ragsweep.parts import model_files
from ragsweep.parts.drawing import SEEDS, check_drawing
from ragsweep.parts.local_model import LocalModel, silence_libraries
from ragsweep.parts.prompts import Prompt
from ragsweep.services.thoughts import TAGS, check_tags, is_tag, separate

ARCHITECTURES = ("ForCausalLM", "LMHeadModel")
"""Suffixes of classes that generate text; any other class would get a head of random weights."""


@dataclass(eq=False)
class Transformers(LocalModel):
    """Continue a prompt: the model's chat template where it has one, else the messages as plain text.

    Requests are answered one by one, so that an answer depends on its request only. A prompt that leaves no room for
    ``max_new_tokens`` in the model's window is a failed answer. Usage counts tokens but no calls: it costs nothing.
    """

    VERSION: ClassVar[str] = "1"
    OPERATIONAL: ClassVar[frozenset[str]] = frozenset({"model", "device", "dtype", "download", "replicates"})
    KEY: ClassVar[str] = "llm"
    INT8: ClassVar[bool] = False

    model: str
    prompt: Prompt
    max_new_tokens: int = 256
    temperature: float = 0.0
    seed: int = 0
    thoughts: Sequence[str] | None = TAGS
    device: str = "auto"
    dtype: str = "auto"
    download: bool = False
    replicates: int = 1

    def check(self) -> None:
        """Raise ConfigError where the model cannot be loaded or generates no text, without loading it."""
        self._resolved_dtype()
        check_tags(self.thoughts, "llm")
        check_drawing(self)
        architecture = str((self._config().get("architectures") or ["nothing"])[0])
        if not architecture.endswith(ARCHITECTURES):
            raise ConfigError(
                f"model is {self.model!r}, which contains {architecture} and no language model (...ForCausalLM)"
            )

    def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Answer one request after the other."""
        self.repeat(requests, done, 0)

    def repeat(self, requests: Sequence[Request], done: Callable[[int, Answer], None], replicate: int) -> None:
        """Answer one request after the other, with the seed of one repetition."""
        if requests:
            self._loaded  # noqa: B018 (loading is no part of a question's time)
        for number, request in enumerate(requests):
            begin = time.perf_counter()
            answer = self._answer(request, self.seed + replicate * SEEDS)
            done(number, answer._replace(seconds=time.perf_counter() - begin))

    def _answer(self, request: Request, seed: int) -> Answer:
        import torch

        tokenizer, model = self._loaded
        read = self._read(request).to(model.device)
        length = read.shape[1]
        if length + self.max_new_tokens > (self._longest_input or math.inf):
            return Answer(failed=TOO_LONG)
        torch.manual_seed(seed)
        drawn = {"do_sample": True, "temperature": self.temperature} if self.temperature else {"do_sample": False}
        with torch.inference_mode():
            whole = model.generate(
                read, attention_mask=torch.ones_like(read), max_new_tokens=self.max_new_tokens,
                pad_token_id=tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id,
                **drawn,
            )[0]  # fmt: skip
        written = whole[length:]
        text, thoughts, unclosed = separate(self._decode(written), self.thoughts, str(tokenizer.decode(read[0])))
        declined, usage = not unclosed and self.prompt.is_refusal(text), Usage(0, length, len(written))
        return Answer(text, declined, THINKING if unclosed else "", usage=usage, thoughts=thoughts)

    def _decode(self, written: Any) -> str:
        """Decode tokens without the special ones, except for those that are tags of thoughts (Mistral's [THINK])."""
        tokenizer = self._loaded[0]
        added = tokenizer.added_tokens_decoder.items()
        left_out = {n for n, token in added if token.special and not is_tag(token.content, self.thoughts)}
        return str(tokenizer.decode([n for n in written.tolist() if n not in left_out])).strip()

    def _read(self, request: Request) -> Any:
        """Return the prompt's tokens (1, tokens)."""
        tokenizer = self._loaded[0]
        messages = self.prompt.messages(request)
        if not tokenizer.chat_template:
            text = "\n\n".join([*(message["content"] for message in messages), "Answer:"])
            return tokenizer([text], return_tensors="pt", verbose=False)["input_ids"]
        return tokenizer.apply_chat_template(
            [messages], add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
        )["input_ids"]

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        """Load tokenizer and model."""
        folder = str(self._folder())
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        silence_libraries()
        device = self.device if self.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
        with model_files.loading(self.model, "llm.model"):
            safe: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
            tokenizer = AutoTokenizer.from_pretrained(folder, **safe)
            dtype = getattr(torch, self._resolved_dtype())
            model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, use_safetensors=True, **safe)
            return tokenizer, model.to(device).eval()
