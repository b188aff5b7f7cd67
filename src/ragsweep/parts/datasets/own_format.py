"""Read golden sets and task cases in ragsweep's own formats (docs/datasets.md), with their corpora."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ragsweep.core.errors import ConfigError, Faults
from ragsweep.core.types import Corpus, Dataset, GoldenSet, PartTraits, Question
from ragsweep.golden.corpora import read_corpus, read_documents, read_folder
from ragsweep.golden.golden_format import group_name, group_names, read_evidence, read_questions, read_weight
from ragsweep.golden.golden_set import RawGoldenSet, Selection, golden_set
from ragsweep.golden.reading import Row, UniqueIds, read_rows
from ragsweep.golden.text_files import check_folder, collect_faults, path_of
from ragsweep.parts.templates import placeholders, render

BUNDLED_QUESTIONS = Path(__file__).with_name("python_reference.jsonl")


@dataclass(eq=False)
class Jsonl:
    """A dataset in a corpus file and a golden set file, each in JSON lines, as a JSON array, or in Parquet."""

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
        """Return the dataset. Raises ConfigError for invalid settings, and InputError for faults in the files."""
        selection = Selection(self.unknown, self.limit, self.seed, self.status).check()
        faults = collect_faults(self.encoding)
        file = path_of(self.golden, "dataset.golden")
        corpus = read_corpus(path_of(self.corpus, "dataset.corpus"), faults)
        golden = _read_golden(file, corpus, selection, faults, self.repeated_passages)
        return Dataset(file.name.removesuffix(".gz").removesuffix(".jsonl"), corpus, golden, faults.notes)


@dataclass(eq=False)
class Folder:
    """A golden set, and all text, Markdown, reStructuredText, HTML and PDF files in a folder and its subfolders.

    Each file is one document; its id is the file's path relative to the folder. Symbolic links are skipped. Files whose
    id matches a pattern in ``exclude``, and files and folders whose name begins with a dot, are ignored.
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
        """Return the dataset. Raises the same errors as :meth:`Jsonl.load`, and InputError if the folder is missing."""
        selection = Selection(self.unknown, self.limit, self.seed, self.status).check()
        faults = collect_faults(self.encoding)
        folder = path_of(self.path, "dataset.path")
        check_folder(folder, "dataset.path must be the folder of the documents")
        corpus, notes = read_folder(folder, self.exclude, faults)
        golden = _read_golden(path_of(self.golden, "dataset.golden"), corpus, selection, faults, self.repeated_passages)
        return Dataset(folder.resolve().name, corpus, golden, (*notes, *faults.notes))


@dataclass(eq=False)
class PythonReference:
    """The Python language reference (the topics of ``help()``) and the golden set that ragsweep includes.

    The corpus depends on the version of the running Python. Many passages occur in several topics.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    limit: int | None
    seed: int

    def load(self) -> Dataset:
        """Return the dataset. Raises the same errors as :meth:`Jsonl.load`.

        For example, an InputError lists the quotes in the golden set that are not in the topics of the running Python.
        """
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


OWN = frozenset({"id", "evidence", "labels", "weight", "notes"})
"""The keys of a case that are not fields."""


@dataclass(eq=False)
class TaskCases:
    """The cases of a task (JSON objects or rows of a Parquet file), and the documents that help to solve them.

    A case must have an ``id`` and an ``input``. It may have ``expected`` (the correct output), ``category``,
    ``difficulty``, ``evidence``, ``labels``, ``weight``, ``notes`` and other keys. All keys except those in OWN are
    fields; metrics read them from ``question.fields``. Two templates are filled in with the fields: ``query`` becomes
    the search query, and ``request`` becomes the question that is sent to the model. For ``unknown``, ``limit`` and
    ``seed``, see docs/datasets.md.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="2")

    cases: str
    corpus: str
    query: str
    request: str
    unknown: str
    limit: int | None
    seed: int

    def check(self) -> None:
        """Raise ConfigError if ``query`` or ``request`` is not a valid template."""
        for key in ("query", "request"):
            placeholders(getattr(self, key), f"dataset.{key}")

    def load(self) -> Dataset:
        """Return the dataset. Raises the same errors as :meth:`~ragsweep.parts.datasets.Jsonl.load`."""
        selection, faults = Selection(self.unknown, self.limit, self.seed).check(), Faults()
        file, documents = path_of(self.cases, "dataset.cases"), path_of(self.corpus, "dataset.corpus")
        corpus, notes = read_documents(documents, faults)
        unique, cases = UniqueIds("case"), []
        for row in read_rows(file, faults):
            cases.append(self._read(row))
            unique.check(cases[-1].id, row)
        faults.raise_any()
        golden = golden_set(RawGoldenSet(str(file), cases), corpus, selection)
        return Dataset(file.name.removesuffix(".gz").removesuffix(".jsonl"), corpus, golden, notes)

    def _read(self, row: Row) -> Question:
        row.filled_text("input")
        fields = {name: value for name, value in row.values.items() if name in row and name not in OWN}
        labels = row.row("labels").only_scalars()
        labels |= {"difficulty": row.text("difficulty")} if "difficulty" in row else {}
        expected = row.text("expected")
        return Question(
            id=row.identifier("id"),
            text=self._render("request", row, fields),
            category=group_name(row.text("category")),
            references=(expected,) if expected else (),
            evidence=tuple(read_evidence(item) for item in row.rows("evidence")),
            labels=group_names(labels),
            notes=row.text("notes"),
            weight=read_weight(row),
            query=self._render("query", row, fields),
            fields=fields,
            where=row.where,
        )

    def _render(self, key: str, row: Row, fields: dict[str, object]) -> str:
        try:
            return render(getattr(self, key), fields)
        except ConfigError as fault:
            row.fault(f"dataset.{key}: {fault}")
            return ""
