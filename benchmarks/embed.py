"""Measure the speed and the quality of embeddings in each precision, and write docs/measurements.md.

    RAGSWEEP_COLLECTIONS=... python benchmarks/embed.py [speed] [nearness] [queries] [padding] [quality] [reranking]

Without the name of a part, all parts are measured, which takes hours on processors without bfloat16. ``--variants``,
``--documents``, ``--rounds`` and ``--batch-sizes`` reduce the work. Figures are stored in a file (``--kept``), from
which the page is written, so a part, or the quality of one variant, can be measured separately. Variants alternate
within each round and are compared within it, so that ratios are reliable on a machine that runs other programs.
The folder contains scifact and python_faq_en. If onnx and onnxruntime are installed, int8 is measured, and so is
the library's own quantisation of padded batches (onnx_int8.py).
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from published import evaluate
from ragsweep.core.types import Chunks, Corpus
from ragsweep.parts import model_files
from ragsweep.parts.chunkers import Recursive
from ragsweep.parts.embedders import SentenceTransformerEmbedder
from ragsweep.sweep.running.session import Session
from tables import keep_results

PARTS = ("speed", "nearness", "queries", "padding", "quality", "reranking")
VARIANTS: dict[str, list[str]] = {
    "float32": ["embedder.dtype=float32"],
    "bfloat16": ["embedder.dtype=bfloat16"],
    "int8": ["embedder.dtype=int8"],
    "int8, padded": ["embedder._target_=onnx_int8.OnnxInt8Embedder", "embedder.dtype=float32"],
}
OTHERS: dict[str, list[str]] = {"embedder=wordllama": ["embedder=wordllama"], "embedder=hashing": ["embedder=hashing"]}
"""Embedders without a transformer, of which only the quality is measured."""

ORDERS = ("longest first", "as they come")
SHARDS = (64, 128, 256, 512, 1024)
FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the embedder.")
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--variants", nargs="+", choices=[*VARIANTS, *OTHERS], default=list(VARIANTS))
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[8, 32, 64, 128])
    parser.add_argument("--documents", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kept", type=Path, default=Path(tempfile.gettempdir()) / "ragsweep_embed.json")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return given


def embedder(variant: str, batch_size: int = 32) -> SentenceTransformerEmbedder:
    if variant != "int8, padded":
        return SentenceTransformerEmbedder("bundled", device="cpu", dtype=variant, batch_size=batch_size)
    from onnx_int8 import OnnxInt8Embedder

    return OnnxInt8Embedder("bundled", device="cpu", dtype="float32", batch_size=batch_size)


def read(name: str, collection: str = "scifact") -> list[str]:
    """Read the texts of documents or questions; a title precedes its text."""
    lines = (Path(os.environ["RAGSWEEP_COLLECTIONS"]) / collection / name).read_text("utf-8").splitlines()
    return [f"{row.get('title', '')} {row['text']}".strip() for row in map(json.loads, lines)]


def sample(texts: Sequence[str], size: int) -> list[str]:
    chosen = np.random.default_rng(0).choice(len(texts), min(size, len(texts)), replace=False)
    return [texts[place] for place in chosen]


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def both_clocks(work: Callable[[], object]) -> tuple[float, float]:
    """Return wall time, and processor time, which other programs affect less; both in seconds."""
    began = time.process_time()
    return seconds(work), time.process_time() - began


def speed(given: argparse.Namespace) -> dict[str, Any]:
    """Time every variant, order and batch size in turn; one call per batch."""
    texts = sample(read("corpus.jsonl"), given.documents)
    orders = dict(zip(ORDERS, (sorted(texts, key=len, reverse=True), texts), strict=True))
    parts = {name: embedder(name, batch_size=max(given.batch_sizes)) for name in given.variants}
    for part in parts.values():
        part.embed_documents(texts[:16])
    timings = []
    for turn in range(given.rounds):
        for order, ordered in orders.items():
            for size in given.batch_sizes:
                batches = [ordered[start : start + size] for start in range(0, len(ordered), size)]
                for name, part in parts.items():
                    wall, used = both_clocks(lambda: [part.embed_documents(batch) for batch in batches])  # noqa: B023
                    timings.append([turn, order, size, name, len(texts) / wall, len(texts) / used])
                    print(f"speed, round {turn}, {order}, batch {size}, {name}: {len(texts) / wall:.1f}", flush=True)
    return {"timings": timings, "documents": len(texts), "load": os.getloadavg()[0]}


def nearness(given: argparse.Namespace) -> dict[str, list[float]]:
    """Return cosines: with float32's vectors (mean, minimum), and of texts embedded alone and in batches (minimum)."""
    texts = sample(read("corpus.jsonl"), given.documents)
    plain = embedder("float32").embed_documents(texts).vectors
    found = {}
    for name in given.variants:
        part = embedder(name)
        together = part.embed_documents(texts).vectors
        alone = np.concatenate([part.embed_documents([text]).vectors for text in texts])
        near = np.sum(together * plain, axis=1)
        found[name] = [float(near.mean()), float(near.min()), float(np.sum(alone * together, axis=1).min())]
        print(f"nearness, {name}: {found[name]}", flush=True)
    return found


def queries(given: argparse.Namespace) -> dict[str, float]:
    """Time questions one by one, the variants in turn for each; median milliseconds."""
    asked = sample(read("queries.jsonl"), 50)
    parts = {name: embedder(name) for name in given.variants}
    for part in parts.values():
        part.embed_queries(asked[:3])
    spent: dict[str, list[float]] = {name: [] for name in parts}
    for text in asked:
        for name, part in parts.items():
            spent[name].append(seconds(lambda: part.embed_queries([text])))  # noqa: B023
    return {name: 1000 * float(np.median(times)) for name, times in spent.items()}


def padding(given: argparse.Namespace) -> dict[str, list[list[Any]]]:
    """Count computed tokens per token read (padding included), by shard, batch and limit, without timing."""
    tokenizer, rows = embedder("float32")._model.tokenizer, []
    for name, texts in (("SciFact, whole", read("corpus.jsonl")), ("python_faq_en, recursive 800", chunks())):
        tokens = np.array([len(ids) for ids in tokenizer(texts, verbose=False)["input_ids"]])
        longest = np.argsort([-len(text) for text in texts], kind="stable")
        for limit in (256, 512):
            for size in given.batch_sizes:
                cut = np.minimum(tokens, limit)[longest]
                rows.append([name, limit, size, [computed(cut, shard, size) for shard in SHARDS]])
    return {"rows": rows}


def chunks() -> list[str]:
    texts = read("corpus.jsonl", "python_faq_en")
    corpus = Corpus(list(map(str, range(len(texts)))), [""] * len(texts), texts)
    return list(Chunks(corpus, Recursive(size=800).split(corpus), ""))


def computed(lengths: np.ndarray, shard: int, size: int) -> float:
    """Return computed tokens per token read, if each shard is sorted by number of tokens."""
    total = 0
    for start in range(0, len(lengths), shard):
        inside = np.sort(lengths[start : start + shard])[::-1]
        batches = [inside[first : first + size] for first in range(0, len(inside), size)]
        total += sum(int(batch[0]) * len(batch) for batch in batches)
    return total / int(lengths.sum())


def quality(
    given: argparse.Namespace, known: Mapping[str, float], keep: Callable[[dict[str, float]], None], *search: str
) -> None:
    """Search all of SciFact with each variant without a stored result, and store its nDCG@10."""
    os.environ["RAGSWEEP_TRUSTED_PACKAGES"] = "onnx_int8"
    scifact, found = Path(os.environ["RAGSWEEP_COLLECTIONS"]) / "scifact", dict(known)
    for name in given.variants:
        if name not in found:
            result = evaluate(Session(), scifact, *{**VARIANTS, **OTHERS}[name], *search)
            found[name] = result.summaries.metrics["ndcg_at_10"].value
            print(f"quality, {name}: {found[name]:.4f}", flush=True)
            keep(found)


def page(kept: Mapping[str, Any]) -> str:
    """Write the tables of all stored measurements."""
    flags = [flag for flag in FLAGS if flag in model_files.cpu_flags()]
    lines = [
        f"`python benchmarks/embed.py`, {os.cpu_count()} cores with {', '.join(flags)}, all-MiniLM-L6-v2 (256 tokens), "
        + ", ".join(f"{name} {version(name)}" for name in ("sentence-transformers", "torch", "onnxruntime"))
        + "."
    ]
    if "speed" in kept:
        lines += ["", *speed_table(kept["speed"])]
    lines += ["", *variant_table(kept)]
    if "padding" in kept:
        lines += ["", *padding_table(kept["padding"]["rows"])]
    return "\n".join(lines)


def speed_table(kept: Mapping[str, Any]) -> list[str]:
    found: dict[tuple[str, int, str], dict[int, np.ndarray]] = {}
    for turn, order, size, name, rate, effort in kept["timings"]:
        found.setdefault((order, size, name), {})[turn] = np.array([rate, effort])
    sizes = sorted({size for _, size, _ in found})
    names = list(dict.fromkeys(name for _, _, name in found))

    def cell(order: str, size: int, name: str) -> str:
        rates, plain = found[order, size, name], found.get((order, size, "float32"), {})
        ratios = np.array([rates[turn] / plain[turn] for turn in rates if turn in plain])
        wall, effort = np.median(ratios, axis=0) if len(ratios) else (1, 1)
        beside = f" (x {wall:.2f}, CPU x {effort:.2f})" if name != "float32" else ""
        return f"{np.median([rate for rate, _ in rates.values()]):.1f}{beside}"

    rows = [
        f"| {name} | {order} | " + " | ".join(cell(order, size, name) for size in sizes) + " |"
        for name in names
        for order in ORDERS
    ]
    return [
        f"Documents a second ({kept['documents']} of SciFact; medians; x float32 in the same round, by wall and "
        f"processor's time; load {kept['load']:.0f}), by batch size:",
        "",
        "| variant | order | " + " | ".join(map(str, sizes)) + " |",
        "| --- | --- |" + " --- |" * len(sizes),
        *rows,
    ]


def variant_table(kept: Mapping[str, Any]) -> list[str]:
    def cells(name: str) -> list[str]:
        wait, near = kept.get("queries", {}).get(name), kept.get("nearness", {}).get(name)
        scores = [kept.get(part, {}).get(name) for part in ("quality", "reranking")]
        return [
            "not measured" if wait is None else f"{wait:.0f}",
            *(["not measured"] * 3 if near is None else (f"{cosine:.5f}" for cosine in near)),
            *("not measured" if score is None else f"{score:.4f}".lstrip("0") for score in scores),
        ]

    return [
        "nDCG@10 is of SciFact's test questions over all 5,183 documents.",
        "",
        "| variant | one question, ms | cosine with float32, mean | lowest | "
        "lowest cosine between a text's vectors alone and in a batch | nDCG@10 | nDCG@10, bm25 and late interaction |",
        "| --- |" + " --- |" * 6,
        *(f"| {name} | " + " | ".join(cells(name)) + " |" for name in [*VARIANTS, *OTHERS]),
    ]


def padding_table(rows: Sequence[Sequence[Any]]) -> list[str]:
    return [
        "Tokens computed for each token read (counted, not timed), by how many chunks are sorted together:",
        "",
        "| texts | limit | batch | " + " | ".join(map(str, SHARDS)) + " |",
        "| --- | --- | --- |" + " --- |" * len(SHARDS),
        *(
            f"| {name} | {limit} | {size} | " + " | ".join(f"{value:.3f}" for value in values) + " |"
            for name, limit, size, values in rows
        ),
    ]


def main() -> None:
    given = options()
    kept = json.loads(given.kept.read_text("utf-8")) if given.kept.is_file() else {}

    def keep(part: str, figures: object) -> None:
        kept[part] = figures
        given.kept.write_text(json.dumps(kept), "utf-8")

    measures = {"speed": speed, "nearness": nearness, "queries": queries, "padding": padding}
    searched = {"quality": ["retriever=vector"], "reranking": ["retriever=bm25", "reranker=late_interaction"]}
    for part in given.parts or PARTS:
        if part in searched:
            quality(given, kept.get(part, {}), lambda found: keep(part, found), *searched[part])  # noqa: B023
        else:
            keep(part, measures[part](given))
    keep_results("embed", page(kept).splitlines())
    print(page(kept))


if __name__ == "__main__":
    main()
