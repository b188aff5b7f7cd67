"""Compare ways to run one local model, by llama.cpp and by transformers: speed, memory, and whether answers change.

    pip install --no-deps gguf accelerate
    RAGSWEEP_COLLECTIONS=... PYTHONPATH=src python benchmarks/generate.py [requests]

Every way answers the same questions of SQuAD 2.0, each with its paragraph, in a process of its own, one way after the
other in one run. "CPU s a request" counts the seconds of all processors, which other processes change less. "other"
counts the answers that differ from those of the first way with the same engine; "unstable" those of the first 4
requests that change where the same model answers them again, in reverse order and without the others.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from ragsweep.core.types import Passage, Request
from ragsweep.parts.generators import Gguf, Transformers
from ragsweep.parts.prompts import Prompt
from ragsweep.testing.requests import collect

NEW_TOKENS, WINDOW, AGAIN = 32, 2048, 4
Q4_1, Q8_0, FLOAT32 = "llama.cpp, Q4_1", "llama.cpp, Q8_0", "transformers, float32"
WAYS = {
    f"{Q4_1}: 1 request, 1 thread": {"parallel": 1},
    f"{Q4_1}: 2 requests, 1 thread each": {"parallel": 2},
    f"{Q8_0}: 2 requests, 1 thread each": {"parallel": 2},
    f"{FLOAT32}: 1 request, 1 thread": {"batch": 1},
    f"{FLOAT32}: batches of 4, 1 thread": {"batch": 4},
}
"""Settings of llm=gguf or llm=transformers by engine and way; Q4_1 is the file of the package."""


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
    """Write the package's weights to a folder: a GGUF file in Q8_0, and float32 in transformers' format."""
    import gguf
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
    read, written = gguf.GGUFReader(source), gguf.GGUFWriter(folder / "Q8_0.gguf", "llama")
    for field in read.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            written.add_key_value(field.name, field.contents(), field.types[0], sub_type=field.types[-1])
    for tensor in read.tensors:
        kind = gguf.GGMLQuantizationType.F32 if len(tensor.shape) == 1 else gguf.GGMLQuantizationType.Q8_0
        values = gguf.quants.quantize(gguf.quants.dequantize(tensor.data, tensor.tensor_type), kind)
        written.add_tensor(tensor.name, values, raw_dtype=kind)
    written.write_header_to_file()
    written.write_kv_data_to_file()
    written.write_tensors_to_file()
    written.close()


def make(way: str, folder: Path) -> Gguf | Transformers:
    """Return the part of one way, with its model loaded."""
    settings: dict[str, Any] = {"prompt": prompt(), "max_new_tokens": NEW_TOKENS, **WAYS[way]}
    if way.startswith(FLOAT32):
        written = Transformers(str(folder), device="cpu", dtype="float32", **settings)
        written._loaded  # noqa: B018
        return written
    part = Gguf("smollm2" if way.startswith(Q4_1) else str(folder / "Q8_0.gguf"), window=WINDOW, **settings)
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
    """Run this file in a process of its own, whose torch computes in one thread; return its last line."""
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
