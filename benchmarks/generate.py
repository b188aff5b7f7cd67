"""Compare ways to run one local model, in llama.cpp, transformers and ONNX Runtime: speed, memory, changed answers.

    pip install --no-deps accelerate onnxruntime-genai onnx_ir
    RAGSWEEP_COLLECTIONS=... PYTHONPATH=src python benchmarks/generate.py [requests]

Every way answers the same questions of SQuAD 2.0, each with its paragraph, in a separate process, one way after the
other in one run. "CPU s a request" counts the seconds of all processors, which other processes change less. "other"
counts the answers that differ from those of the first way with the same engine; "unstable" those of the first 4
requests that change if the same model answers them again, in reverse order and without the others.
"""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from ragsweep.core.types import Answer, Passage, Request, Usage
from ragsweep.parts.generators import Gguf, Transformers
from ragsweep.parts.prompts import Prompt
from ragsweep.testing.contract import collect

NEW_TOKENS, WINDOW, AGAIN = 32, 2048, 4
Q4_1, Q8_0, FLOAT32 = "llama.cpp, Q4_1", "llama.cpp, Q8_0", "transformers, float32"
ONNX = "ONNX Runtime, float32"
WAYS = {
    f"{Q4_1}: 1 request, 1 thread": {"parallel": 1},
    f"{Q4_1}: 2 requests, 1 thread each": {"parallel": 2},
    f"{Q8_0}: 2 requests, 1 thread each": {"parallel": 2},
    f"{FLOAT32}: 1 request, 1 thread": {"batch": 1},
    f"{FLOAT32}: batches of 4, 1 thread": {"batch": 4},
    f"{ONNX}: 1 request, 1 thread": {},
}
"""Settings of llm=gguf or llm=transformers by engine and way; Q4_1 is the file of the package."""


class Onnx:
    """Answers with onnxruntime-genai, one request after the other; not a part, but only for this comparison."""

    def __init__(self, folder: Path, prompt: Prompt) -> None:
        import onnxruntime_genai
        from transformers import AutoTokenizer

        self.library, self.prompt = onnxruntime_genai, prompt
        self.model, self.tokenizer = (
            onnxruntime_genai.Model(str(folder / "onnx")),
            AutoTokenizer.from_pretrained(folder),
        )

    def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Answer every request greedily."""
        for number, request in enumerate(requests):
            given = self.tokenizer.apply_chat_template(
                self.prompt.messages(request), add_generation_prompt=True, return_dict=True
            )["input_ids"]
            settings = self.library.GeneratorParams(self.model)
            settings.set_search_options(max_length=len(given) + NEW_TOKENS, do_sample=False)
            writer = self.library.Generator(self.model, settings)
            writer.append_tokens(given)
            while not writer.is_done():
                writer.generate_next_token()
            written = writer.get_sequence(0)[len(given) :]
            text = self.tokenizer.decode(written, skip_special_tokens=True)
            done(number, Answer(text, usage=Usage(0, len(given), len(written))))


def export(folder: Path) -> None:
    """Export the float32 weights for onnxruntime-genai, to compute in one thread."""
    builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", str(folder), "-o", str(folder / "onnx")]
    subprocess.run([*builder, "-p", "fp32", "-e", "cpu"], check=True, stdout=subprocess.DEVNULL)
    settings = folder / "onnx" / "genai_config.json"
    config = json.loads(settings.read_text())
    config["model"]["decoder"]["session_options"]["intra_op_num_threads"] = 1
    settings.write_text(json.dumps(config))


def read_requests(count: int) -> list[Request]:
    """Read questions with their paragraphs."""
    folder = Path(os.environ["RAGSWEEP_COLLECTIONS"]) / "squad2_dev"
    texts = {row["_id"]: row["text"] for row in map(json.loads, (folder / "corpus.jsonl").read_text().splitlines())}
    rows = [json.loads(line) for line in (folder / "golden.jsonl").read_text().splitlines()]
    asked = [row for row in rows if row["answerable"]]
    asked = asked[:: max(len(asked) // count, 1)][:count]
    return [
        Request(row["question"], (Passage(name, texts[name]),))
        for row in asked
        for name in row["relevant_chunk_ids"][:1]
    ]


def prompt() -> Prompt:
    """Return the default prompt."""
    settings = yaml.safe_load((Path(__file__).parents[1] / "conf/prompt/default.yaml").read_text())
    settings.pop("_target_")
    return Prompt(**settings)


def convert(folder: Path) -> None:
    """Write the package's weights to a folder in float32, as transformers and ONNX Runtime read them."""
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = Gguf("smollm2", prompt())._file()
    found = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    AutoTokenizer.from_pretrained(**found).save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(**found, dtype="float32")
    weights = {name: one.clone() for name, one in model.state_dict().items() if name != "lm_head.weight"}  # is tied
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    settings = model.config.to_dict() | {"architectures": [type(model).__name__], "quantization_config": None}
    (folder / "config.json").write_text(json.dumps({name: one for name, one in settings.items() if one is not None}))
    export(folder)


def make(way: str, folder: Path) -> Gguf | Transformers | Onnx:
    """Return the part of one way, with its model loaded."""
    if way.startswith(ONNX):
        return Onnx(folder, prompt())
    settings: dict[str, Any] = {"prompt": prompt(), "max_new_tokens": NEW_TOKENS, **WAYS[way]}
    if way.startswith(FLOAT32):
        written = Transformers(str(folder), device="cpu", dtype="float32", **settings)
        written._loaded  # noqa: B018
        return written
    part = Gguf("smollm2", window=WINDOW, quantization="Q8_0" if way.startswith(Q8_0) else None, **settings)
    part._servers  # noqa: B018
    return part


def measure(way: str, count: int, folder: Path) -> dict[str, Any]:
    """Answer all requests in one way, in a random order."""
    requests = list(enumerate(read_requests(count)))
    random.Random(way).shuffle(requests)
    begin = time.perf_counter()
    part = make(way, folder)
    loaded, used = time.perf_counter(), time.process_time()
    answers = collect(part.generate, [request for _, request in requests])
    seconds, used = time.perf_counter() - loaded, time.process_time() - used
    again = collect(part.generate, [request for _, request in requests[:AGAIN][::-1]])[::-1]
    texts = {number: answer.text for (number, _), answer in zip(requests, answers, strict=True)}
    return {
        "load": loaded - begin,
        "seconds": seconds,
        "used": used,
        "read": sum(answer.usage.tokens_in for answer in answers) / seconds,
        "written": sum(answer.usage.tokens_out for answer in answers) / seconds,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
        "unstable": sum(one.text != other.text for one, other in zip(answers, again, strict=False)),
        "texts": [texts[number] for number in sorted(texts)],
    }


def run(*arguments: object) -> str:
    """Run this file in a separate process, in which torch uses one thread; return its last line of output."""
    command = [sys.executable, __file__, *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
    return (printed.splitlines() or [""])[-1]


def compare(count: int, folder: Path) -> None:
    """Measure each way, and print a table."""
    names = ("way", "requests a second", "CPU s a request", "prompt tokens a second", "new tokens a second", "load s",
             "memory MB", "other", "unstable")  # fmt: skip
    print(f"| {' | '.join(names)} |\n|{' --- |' * len(names)}")
    first: dict[str, list[str]] = {}
    for way in WAYS:
        found = json.loads(run(way, count, folder))
        before = first.setdefault(way.partition(",")[0], found["texts"])
        other = sum(one != text for one, text in zip(before, found["texts"], strict=True))
        speed = f"{count / found['seconds']:.2f} | {found['used'] / count:.1f} | {found['read']:.0f}"
        rest = f"{found['written']:.1f} | {found['load']:.1f} | {found['memory']:.0f} | {other} of {count}"
        print(f"| {way} | {speed} | {rest} | {found['unstable']} of {min(count, AGAIN)} |", flush=True)


def main() -> None:
    """Convert the weights, and compare all ways."""
    if len(sys.argv) > 3:
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))))
    elif sys.argv[1:2] == ["convert"]:
        convert(Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            run("convert", folder)
            compare(int(sys.argv[1]) if len(sys.argv) > 1 else 24, Path(folder))


if __name__ == "__main__":
    main()
