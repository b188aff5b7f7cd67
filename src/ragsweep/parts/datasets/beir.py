"""Read a folder in BEIR format: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv, each plain or gzipped."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ragsweep.core.errors import Faults, InputError, nearest
from ragsweep.core.types import Corpus, Dataset, PartTraits, Question
from ragsweep.core.words import search_terms
from ragsweep.golden.corpora import read_corpus
from ragsweep.golden.golden_format import group_name, read_weight
from ragsweep.golden.golden_set import BLANK, Selection, golden_set
from ragsweep.golden.qrels import Grades, attach_evidence, read_qrels
from ragsweep.golden.reading import UniqueIds, read_rows
from ragsweep.golden.text_files import check_folder, path_of, plain_or_gzipped

# _NOTE is added if the text of at least _FEW queries is in the document with the query's id; one or two may be
# coincidence. If fewer than _FEW queries share their id with a document, each of these documents must contain its
# query's text.
_FEW = 3
_NOTE = (
    "queries whose text is in the document with the same id, as in ArguAna and Quora: {:,};"
    " dataset.exclude_self=true removes that document from the query's ranking"
)


@dataclass(eq=False)
class Beir:
    """A dataset in a BEIR folder; each label marks a whole document as evidence, graded by the label's score.

    The questions are the queries with labels in the split, and the queries with ``"unanswerable": true`` in their
    metadata; other queries are counted and skipped. If ``exclude_self`` is true, a document with the same id as a query
    is removed from that query's ranking, unless it is relevant to the query.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    path: str
    split: str
    grades: Mapping[str | float, float | None] | None
    unknown: str
    limit: int | None
    seed: int
    exclude_self: bool = False

    def load(self) -> Dataset:
        """Return the dataset. Raises ConfigError for invalid settings, and InputError for faults in the files."""
        selection = Selection(self.unknown, self.limit, self.seed).check()
        grades, faults, folder = Grades(self.grades).check(), Faults(), path_of(self.path, "dataset.path")
        labels_file = self._labels_file(folder)
        corpus = read_corpus(plain_or_gzipped(folder / "corpus.jsonl"), faults)
        questions = _read_questions(plain_or_gzipped(folder / "queries.jsonl"), faults)
        labels = grades.apply(read_qrels(labels_file, faults, grades), faults)
        faults.raise_any()
        labelled = attach_evidence(questions, labels, labels_file, f"not in split {self.split}")
        golden = golden_set(labelled, corpus, selection)
        own = _own_documents(labelled.questions, corpus)
        if not self.exclude_self:
            repeated = sum(any(_contains(corpus, name, text) for name in names) for text, names in own.items())
            notes = (_NOTE.format(repeated),) if repeated >= min(_FEW, len(own) or _FEW) else ()
            return Dataset(folder.resolve().name, corpus, golden, (*faults.notes, *notes))
        note = f"dataset.exclude_self: queries whose rankings exclude the documents with the same id: {len(own):,}"
        return Dataset(folder.resolve().name, corpus, golden, (*faults.notes, note), excluded=own)

    def _labels_file(self, folder: Path) -> Path:
        """Return the path of the label file of the split; raise InputError if the folder or the file is missing.

        ``split`` is only compared with the names of files, never used as a path.
        """
        check_folder(folder, "dataset.path must contain corpus.jsonl, queries.jsonl and qrels")
        check_folder(folder / "qrels", "the folder must contain label files named SPLIT.tsv")
        files = [folder / "qrels" / file.name.removesuffix(".gz") for file in folder.glob("qrels/*.tsv*")]
        splits = {file.name.removesuffix(".tsv"): file for file in files}
        if self.split not in splits:
            way = nearest(self.split, splits) if splits else "; the folder must contain label files named SPLIT.tsv"
            raise InputError(f'{folder / "qrels"}: no split "{self.split}"{way}')
        return plain_or_gzipped(splits[self.split])


def _own_documents(questions: Sequence[Question], corpus: Corpus) -> dict[str, tuple[str, ...]]:
    """Map each query text to the ids of documents that have the same id as a query with this text.

    Documents that are relevant to a query with this text are omitted, and so are texts for which no id remains.
    """
    own: dict[str, list[str]] = defaultdict(list)
    relevant: dict[str, set[str]] = defaultdict(set)
    for question in questions:
        relevant[question.text].update(label.document for label in question.relevant)
        if question.id in corpus.position:
            own[question.text].append(question.id)
    kept = {text: tuple(name for name in names if name not in relevant[text]) for text, names in own.items()}
    return {text: names for text, names in kept.items() if names}


def _contains(corpus: Corpus, name: str, text: str) -> bool:
    """Return whether document ``name`` contains the words of ``text`` in sequence; False for a text without words."""
    number = corpus.position[name]
    document = f"{corpus.titles[number]} {corpus.texts[number]}"
    inside, wanted = (" ".join(search_terms(one.casefold())) for one in (document, text))
    return bool(wanted) and f" {wanted} " in f" {inside} "


def _read_questions(path: Path, faults: Faults) -> list[Question]:
    unique, questions = UniqueIds("question"), []
    for row in read_rows(path, faults):
        metadata, text = row.row("metadata"), row.given_text("text")
        row.refuse_structure("text")
        metadata.refuse_structure("category")
        unanswerable, labels = metadata.flag("unanswerable", False), metadata.scalars()
        labels.pop("unanswerable", None)
        labels.pop("weight", None)
        answer = labels.pop("answer", "")  # in HotpotQA; not a label, because results have a column "answer"
        if "query" in labels:  # in TREC-COVID; results also have a column "query"
            faults.note(path.name, 'metadata "query", not read as a label')
            del labels["query"]
        category = labels.pop("category", "" if text.strip() else BLANK)
        question = Question(
            id=row.identifier("_id"),
            text=text,
            category="unanswerable" if unanswerable and text.strip() else group_name(category),
            answerable=not unanswerable,
            references=(answer,) if answer.strip() else (),
            labels={name: group_name(label) for name, label in labels.items()},
            weight=read_weight(metadata),
            where=row.where,
        )
        unique.check(question.id, row)
        questions.append(question)
    return questions
