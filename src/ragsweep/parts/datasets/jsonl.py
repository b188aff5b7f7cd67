"""Our own format: a corpus file and a golden file, one JSON object a line (described in docs/datasets.md)."""

from __future__ import annotations

from pathlib import Path

from ragsweep.core.errors import Faults
from ragsweep.core.types import Dataset
from ragsweep.golden.corpora import read_corpus
from ragsweep.golden.golden_format import read_questions
from ragsweep.golden.golden_set import Found, Selection, golden_set


class Jsonl:
    """Read a corpus and a golden set in our own format.

    Args:
        corpus: File of the documents.
        golden: File of the questions.
        unknown: "error", or "drop" to leave out and count labels that cannot be used.
        limit: How many questions to draw; None for all.
        seed: Chooses which questions are drawn.
        repeated_passages: An anchor found in another document too marks the same passage there.
    """

    VERSION = "1"

    def __init__(
        self, corpus: str, golden: str, unknown: str, limit: int | None, seed: int, repeated_passages: bool
    ) -> None:
        self._corpus = Path(corpus).expanduser()
        self._golden = Path(golden).expanduser()
        self._selection = Selection(unknown, limit, seed)
        self._repeated_passages = repeated_passages

    def load(self) -> Dataset:
        """Read both files.

        Raises:
            ConfigError: ``unknown`` or ``limit`` make no sense.
            InputError: faults of the files, all at once.
        """
        selection, faults = self._selection.check(), Faults()
        corpus = read_corpus(self._corpus, faults)
        questions = read_questions(self._golden, corpus.version, faults)
        faults.raise_any()
        golden = golden_set(Found(str(self._golden), questions), corpus, selection, self._repeated_passages)
        return Dataset(self._golden.name.removesuffix(".gz").removesuffix(".jsonl"), corpus, golden)
