"""Compare language detection by stop words and by py3langid, if installed, and BM25 by pairs and by single characters.

Run as ``python benchmarks/languages.py FOLDER`` with the collections python_faq_en, python_faq_fr, piaf_1_1 and
squad2_dev in the folder; ``pip install py3langid`` adds its rows.
"""

import importlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ragsweep.core.words import words
from ragsweep.parts.languages import detect_language, script_language
from ragsweep.parts.retrievers import Bm25

COLLECTIONS = {"python_faq_en": "en", "squad2_dev": "en", "python_faq_fr": "fr", "piaf_1_1": "fr"}

UNSPACED = Path(__file__).with_name("unspaced.json")
"""Language -> texts, of which every second one reuses characters of the previous one, and questions on the others."""

Detector = Callable[[str], str]


def detectors() -> dict[str, Detector]:
    """Return the detectors that are installed."""
    found: dict[str, Detector] = {"stop words": lambda text: script_language(text) or detect_language(text)}
    try:
        classify: Any = importlib.import_module("py3langid").classify
    except ImportError:
        return found
    classify("")  # loads the model
    return found | {"py3langid": lambda text: str(classify(text)[0])}


def measure(label: str, texts: Sequence[str], code: str) -> None:
    """Print a row for each detector."""
    for name, detect in detectors().items():
        detect_language.cache_clear()
        begin = time.perf_counter()
        counts = Counter(map(detect, texts))
        micros = 1e6 * (time.perf_counter() - begin) / len(texts)
        right, undecided = counts[code] / len(texts), counts[""] / len(texts)
        wrong = abs(1 - right - undecided)
        print(f"| {label} | {len(texts)} | {name} | {right:.1%} | {undecided:.1%} | {wrong:.1%} | {micros:.0f} |")


def texts_of(file: Path, key: str) -> list[str]:
    """Read one field of a JSONL file."""
    return [json.loads(line)[key] for line in file.read_text("utf-8").splitlines()]


def first_places(texts: Sequence[str], asked: Sequence[tuple[str, int]], split: Callable[[str], str]) -> int:
    """Count the questions whose text BM25 ranks first."""
    part = Bm25(language="none")
    index = part.build([split(text) for text in texts])
    found = part.retrieve(index, [split(question) for question, _ in asked], 1).positions[:, 0]
    return sum(int(position) == right for position, (_, right) in zip(found, asked, strict=True))


def single(text: str) -> str:
    """Separate the characters of a text, so that BM25 treats each as a word."""
    return " . ".join(words(text))


def main(folder: Path) -> None:
    """Print both tables."""
    for name, code in COLLECTIONS.items():
        asked = texts_of(folder / name / "golden.jsonl", "question")
        random.Random(0).shuffle(asked)
        measure(f"{name}, questions", asked[:500], code)
        measure(f"{name}, questions of up to 6 words", [one for one in asked if len(one.split()) <= 6][:500], code)
        documents = texts_of(folder / name / "corpus.jsonl", "text")
        measure(f"{name}, documents", [documents[n * len(documents) // 200][:1000] for n in range(200)], code)
    for language, made in json.loads(UNSPACED.read_text("utf-8")).items():
        questions = made["questions"]
        counts = [first_places(made["texts"], questions, split) for split in (str, single)]
        print(f"| {language} | {counts[0]} of {len(questions)} | {counts[1]} of {len(questions)} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
