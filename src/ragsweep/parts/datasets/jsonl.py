"""Our own format: a corpus file and a golden file, one JSON object a line (described in docs/datasets.md)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ragsweep.core.errors import Faults
from ragsweep.core.types import Dataset
from ragsweep.golden.corpora import read_corpus
from ragsweep.golden.golden_format import read_questions
from ragsweep.golden.golden_set import Found, Selection, golden_set


@dataclass(eq=False)
class Jsonl:
    """Read a corpus and a golden set in our own format.

    Args:
        corpus: File of the documents.
        golden: File of the questions.
        unknown: "error", or "drop" to leave out and count labels that cannot be used.
        limit, seed: How many questions to draw, None for all, and by which seed.
        repeated_passages: An anchor found in another document too marks the same passage there.
    """

    VERSION: ClassVar[str] = "1"

    corpus: str
    golden: str
    unknown: str
    limit: int | None
    seed: int
    repeated_passages: bool

    def load(self) -> Dataset:
        """Read both files.

        Raises:
            ConfigError: ``unknown`` or ``limit`` make no sense.
            InputError: faults of the files, all at once.
        """
        selection, faults = Selection(self.unknown, self.limit, self.seed).check(), Faults()
        file = Path(self.golden).expanduser()
        corpus = read_corpus(Path(self.corpus).expanduser(), faults)
        questions = read_questions(file, corpus.version, faults)
        faults.raise_any()
        golden = golden_set(Found(str(file), questions), corpus, selection, self.repeated_passages)
        return Dataset(file.name.removesuffix(".gz").removesuffix(".jsonl"), corpus, golden)
