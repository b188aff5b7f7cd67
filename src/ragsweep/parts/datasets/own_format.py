"""Golden sets in ragsweep's format (docs/datasets.md), with a corpus file, a folder of pages or Python's reference."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ragsweep.core.errors import Faults
from ragsweep.core.types import Corpus, Dataset, GoldenSet, PartTraits
from ragsweep.golden.corpora import read_corpus, read_folder
from ragsweep.golden.golden_format import read_questions
from ragsweep.golden.golden_set import Selection, golden_set
from ragsweep.golden.text_files import check_folder, collect_faults

BUNDLED_QUESTIONS = Path(__file__).with_name("python_reference.jsonl")


@dataclass(eq=False)
class Jsonl:
    """Read a corpus file and a golden file, usually with one JSON object per line."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    corpus: str
    golden: str
    unknown: str
    limit: int | None
    seed: int
    repeated_passages: bool
    status: str | None = None
    encoding: str | None = None

    def load(self) -> Dataset:
        """Read both files. Raises ConfigError for invalid settings, and InputError with the faults of invalid files."""
        selection = Selection(self.unknown, self.limit, self.seed, self.status).check()
        faults = collect_faults(self.encoding)
        file = Path(self.golden).expanduser()
        corpus = read_corpus(Path(self.corpus).expanduser(), faults)
        golden = _read_golden(file, corpus, selection, faults, self.repeated_passages)
        return Dataset(file.name.removesuffix(".gz").removesuffix(".jsonl"), corpus, golden, faults.notes)


@dataclass(eq=False)
class Folder:
    """Read all pages (text, Markdown, reStructuredText, HTML, PDF) in a folder, recursively; a page's id is its path.

    The path is relative to the folder. Links are not followed. Files and folders whose name begins with a dot, and ids
    that match a pattern in ``exclude``, are ignored.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="2")

    path: str
    golden: str
    exclude: Sequence[str]
    unknown: str
    limit: int | None
    seed: int
    repeated_passages: bool
    status: str | None = None
    encoding: str | None = None

    def load(self) -> Dataset:
        """Read the pages and the golden file. Raises like :meth:`Jsonl.load`, and InputError for a missing folder."""
        selection = Selection(self.unknown, self.limit, self.seed, self.status).check()
        faults = collect_faults(self.encoding)
        folder = Path(self.path).expanduser()
        check_folder(folder, "dataset.path must be the documents' folder")
        corpus, notes = read_folder(folder, self.exclude, faults)
        golden = _read_golden(Path(self.golden).expanduser(), corpus, selection, faults, self.repeated_passages)
        return Dataset(folder.resolve().name, corpus, golden, (*notes, *faults.notes))


@dataclass(eq=False)
class PythonReference:
    """Read the Python language reference (the topics of ``help()``) and ragsweep's bundled golden set.

    The topics are those of the running Python; many passages occur in several topics.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    limit: int | None
    seed: int

    def load(self) -> Dataset:
        """Load topics and questions. Raises like :meth:`Jsonl.load`, for example if this Python lacks an anchor."""
        from pydoc_data.topics import topics

        selection, ids = Selection("error", self.limit, self.seed).check(), sorted(topics)
        corpus = Corpus(ids, [""] * len(ids), [topics[name] for name in ids], platform.python_version())
        golden = _read_golden(BUNDLED_QUESTIONS, corpus, selection, Faults(), repeated_passages=True)
        note = f"corpus: the {len(ids)} topics of the language reference in Python {corpus.version}"
        return Dataset("python_reference", corpus, golden, (note,))


def _read_golden(
    file: Path, corpus: Corpus, selection: Selection, faults: Faults, repeated_passages: bool
) -> GoldenSet:
    raw = read_questions(file, corpus.version, faults)
    faults.raise_any()
    if selection.status:
        kept = [one for one in raw.questions if one.labels.get("status") == selection.status]
        why = f"not {selection.status}"
        raw = raw._replace(questions=kept, left_out={**raw.left_out, why: len(raw.questions) - len(kept)})
    return golden_set(raw, corpus, selection, repeated_passages)
