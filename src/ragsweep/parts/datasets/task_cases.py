"""Cases of a task: an input, the expected output, and other fields read by the task's metrics."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ragsweep.core.errors import ConfigError, Faults
from ragsweep.core.types import Dataset, PartTraits, Question
from ragsweep.golden.corpora import read_documents
from ragsweep.golden.golden_format import read_evidence, read_weight
from ragsweep.golden.golden_set import RawGoldenSet, Selection, golden_set
from ragsweep.golden.reading import Row, UniqueIds, read_rows
from ragsweep.parts.templates import placeholders, render

OWN = frozenset({"id", "evidence", "labels", "weight", "notes"})
"""Keys of a case that are not fields."""


@dataclass(eq=False)
class TaskCases:
    """Read cases, which are JSON objects or rows of Parquet, and the documents that help to solve them.

    A case has an ``id`` and an ``input``, and may have ``expected`` (the correct output), ``category``, ``difficulty``,
    ``evidence``, ``labels``, ``weight`` and ``notes``. Other keys are allowed. All keys except those in OWN are fields:
    metrics read them (``question.fields``), and two templates may use them. ``query`` is the template of the search
    query, and ``request`` that of the question to the model. The other settings are as in other datasets.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    cases: str
    corpus: str
    query: str
    request: str
    unknown: str
    limit: int | None
    seed: int

    def check(self) -> None:
        """Raise ConfigError for an invalid template."""
        for key in ("query", "request"):
            try:
                placeholders(getattr(self, key))
            except ConfigError as fault:
                raise ConfigError(f"dataset.{key}: {fault}") from None

    def load(self) -> Dataset:
        """Load all files. Raises like :meth:`~ragsweep.parts.datasets.Jsonl.load`."""
        selection, faults = Selection(self.unknown, self.limit, self.seed).check(), Faults()
        file, documents = Path(self.cases).expanduser(), Path(self.corpus).expanduser()
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
        fields = {name: value for name, value in row.values.items() if name not in OWN}
        labels = row.row("labels").only_scalars("label")
        labels |= {"difficulty": row.text("difficulty")} if "difficulty" in row else {}
        expected = row.text("expected")
        return Question(
            id=row.identifier("id"),
            text=self._render("request", row, fields),
            category=row.text("category"),
            references=(expected,) if expected else (),
            evidence=tuple(read_evidence(item) for item in row.rows("evidence")),
            labels={name: value for name, value in labels.items() if value},
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
