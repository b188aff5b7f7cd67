"""A folder of pages (text, Markdown, reStructuredText, HTML, PDF) with a golden file in our own format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ragsweep.core.errors import Faults
from ragsweep.core.types import Dataset
from ragsweep.golden.corpora import read_folder
from ragsweep.golden.golden_format import read_questions
from ragsweep.golden.golden_set import Found, Selection, golden_set
from ragsweep.golden.text_files import check_folder


@dataclass(eq=False)
class Folder:
    """Read every page in a folder and below; its id is its path from there, with slashes.

    Links are not followed, and names that begin with a dot are ignored.

    Args:
        path: The folder.
        golden: File of the questions.
        exclude: Patterns of ids that are no documents; ``*`` stands for anything, slashes too.
        unknown: "error", or "drop" to leave out and count labels that cannot be used.
        limit, seed: How many questions to draw, None for all, and by which seed.
        repeated_passages: An anchor found in another document too marks the same passage there.
    """

    VERSION: ClassVar[str] = "2"

    path: str
    golden: str
    exclude: Sequence[str]
    unknown: str
    limit: int | None
    seed: int
    repeated_passages: bool

    def load(self) -> Dataset:
        """Read the pages and the golden file.

        Raises:
            ConfigError: ``unknown`` or ``limit`` make no sense.
            InputError: the folder does not exist, or faults of the files, all at once.
        """
        selection = Selection(self.unknown, self.limit, self.seed).check()
        faults, folder, file = Faults(), Path(self.path).expanduser(), Path(self.golden).expanduser()
        check_folder(folder, "dataset.path needs the documents' folder")
        corpus, notes = read_folder(folder, self.exclude, faults)
        questions = read_questions(file, corpus.version, faults)
        faults.raise_any()
        golden = golden_set(Found(str(file), questions), corpus, selection, self.repeated_passages)
        return Dataset(folder.resolve().name, corpus, golden, notes)
