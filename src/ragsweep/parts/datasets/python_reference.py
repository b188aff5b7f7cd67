"""The Python language reference that every CPython carries, with hand-written questions about it."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ragsweep.core.errors import Faults
from ragsweep.core.types import Corpus, Dataset
from ragsweep.golden.golden_format import read_questions
from ragsweep.golden.golden_set import Found, Selection, golden_set

GOLDEN_FILE = Path(__file__).with_name("python_reference.jsonl")


@dataclass(eq=False)
class PythonReference:
    """Read the topics of ``help()`` and the golden set that comes with ragsweep.

    The topics are those of the Python that runs; many passages stand in several of them.

    Args:
        limit, seed: How many questions to draw, None for all, and by which seed.
    """

    VERSION: ClassVar[str] = "1"

    limit: int | None
    seed: int

    def load(self) -> Dataset:
        """Take the topics and read the questions.

        Raises:
            ConfigError: ``limit`` makes no sense.
            InputError: an anchor does not resolve in the topics of this Python.
        """
        selection, faults = Selection("error", self.limit, self.seed).check(), Faults()
        corpus = _topics()
        questions = read_questions(GOLDEN_FILE, corpus.version, faults)
        faults.raise_any()
        golden = golden_set(Found(str(GOLDEN_FILE), questions), corpus, selection, repeated_passages=True)
        note = f"corpus: the {len(corpus.ids)} topics of the language reference in Python {corpus.version}"
        return Dataset("python_reference", corpus, golden, (note,))


def _topics() -> Corpus:
    from pydoc_data.topics import topics

    ids = sorted(topics)
    return Corpus(ids, [""] * len(ids), [topics[name] for name in ids], platform.python_version())
