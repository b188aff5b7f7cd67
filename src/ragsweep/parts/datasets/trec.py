"""Read topics and qrels in TREC formats, with a corpus in JSON lines or Parquet."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ragsweep.core.errors import ConfigError, Faults, nearest
from ragsweep.core.types import Dataset, PartTraits, Question
from ragsweep.golden.corpora import read_corpus
from ragsweep.golden.golden_set import BLANK, Selection, golden_set
from ragsweep.golden.qrels import Grades, attach_evidence, read_qrels
from ragsweep.golden.reading import Row, UniqueIds
from ragsweep.golden.text_files import path_of, plain_or_gzipped, read_lines
from ragsweep.golden.topics import FIELDS, has_topics, read_topics


@dataclass(eq=False)
class Trec:
    """A dataset of topics and qrels in TREC formats; each label marks a whole document as evidence.

    The topics are TREC topics (``<top> <num> ...``), or lines that consist of an id, a tab and the text. The questions
    are the topics with labels in the qrels; other topics are counted and skipped. The text of a question consists of
    the given ``fields`` of its topic, joined by spaces. The ".gz" at the end of a path may be omitted.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    corpus: str
    topics: str
    qrels: str
    fields: Sequence[str]
    grades: Mapping[str | float, float | None] | None
    unknown: str
    limit: int | None
    seed: int

    def check(self) -> None:
        """Raise ConfigError if ``fields`` is empty or contains an unknown field."""
        for name in self.fields:
            if name not in FIELDS:
                raise ConfigError(f'dataset.fields: a topic has no "{name}"{nearest(str(name), FIELDS)}')
        if not self.fields:
            raise ConfigError(f"dataset.fields: must name at least one part of a topic; known: {', '.join(FIELDS)}")

    def load(self) -> Dataset:
        """Return the dataset. Raises ConfigError for invalid settings, and InputError for faults in the files."""
        selection = Selection(self.unknown, self.limit, self.seed).check()
        grades, faults, qrels = Grades(self.grades).check(), Faults(), path_of(self.qrels, "dataset.qrels")
        corpus = read_corpus(plain_or_gzipped(path_of(self.corpus, "dataset.corpus")), faults)
        topics = plain_or_gzipped(path_of(self.topics, "dataset.topics"))
        questions = _read_questions(topics, self.fields, faults)
        labels = grades.apply(read_qrels(plain_or_gzipped(qrels), faults, grades), faults)
        faults.raise_any()
        labelled = attach_evidence(questions, labels, qrels, "not in the qrels")
        return Dataset(qrels.name.removesuffix(".gz"), corpus, golden_set(labelled, corpus, selection))


def _read_questions(path: Path, fields: Sequence[str], faults: Faults) -> list[Question]:
    unique, questions = UniqueIds("question"), []
    for row in _rows(path, fields, faults):
        text = row.given_text("text")
        question = Question(row.identifier("id"), text, "" if text.strip() else BLANK, where=row.where)
        unique.check(question.id, row)
        questions.append(question)
    return questions


def _rows(path: Path, fields: Sequence[str], faults: Faults) -> Iterator[Row]:
    """Yield one row (id, text) per valid topic; add a fault for each invalid topic.

    The first line that is not blank determines the format of the file.
    """
    if has_topics(path, faults):
        for topic in read_topics(path, faults):
            tags = {"number": "num", **{name: FIELDS[name][0] for name in fields}}
            if lacking := [f"<{tag}>" for name, tag in tags.items() if not topic.text(name)]:
                way = "complete the topic" + ("" if "<num>" in lacking else ", or choose other dataset.fields")
                faults.add(topic.where, f"the topic has no {' and no '.join(lacking)}; {way}")
            else:
                text = " ".join(map(topic.text, fields))
                yield Row(topic.where, {"id": topic.text("number"), "text": text}, faults)
        return
    for where, line in read_lines(path, faults):
        identifier, tab, text = line.partition("\t")
        if tab:
            yield Row(where, {"id": identifier.strip(), "text": text.strip()}, faults)
        else:
            fact = "has no tab; write a question's id, a tab and its text, or begin the file with <top>"
            faults.add(where, fact)
