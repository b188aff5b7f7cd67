"""Read a file in SQuAD 1.1 or 2.0 format: articles with paragraphs, and questions with the spans that answer them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from ragsweep.core.errors import Faults
from ragsweep.core.types import Corpus, Dataset, Evidence, PartTraits, Question
from ragsweep.golden.golden_format import read_weight
from ragsweep.golden.golden_set import BLANK, RawGoldenSet, Selection, golden_set
from ragsweep.golden.reading import Row, UniqueIds, read_object
from ragsweep.golden.text_files import path_of, plain_or_gzipped


@dataclass(eq=False)
class Squad:
    """A dataset in SQuAD format; the spans of the answers are the evidence.

    Each paragraph is a document. Its id consists of the article's title and a number, such as ``Normans/1``; the name
    of the file replaces a missing title. Equal paragraphs form one document. All listed answers to a question count as
    correct; answers whose spans overlap form one piece of evidence. If an answer is not found at its ``answer_start``
    but occurs exactly once in the paragraph, that occurrence is used. Questions marked ``is_impossible`` are
    unanswerable.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    path: str
    unknown: str
    limit: int | None
    seed: int

    def load(self) -> Dataset:
        """Return the dataset. Raises ConfigError for invalid settings, and InputError for faults in the files."""
        selection, faults = Selection(self.unknown, self.limit, self.seed).check(), Faults()
        path = plain_or_gzipped(path_of(self.path, "dataset.path"))
        root = read_object(path, faults)
        name = path.name.removesuffix(".gz").removesuffix(".json")
        corpus, questions = _read(root.parts("data") if root else [], name)
        if root and not corpus.ids:
            root.fault('contains no paragraphs; the format is {"data": [{"title": ..., "paragraphs": [...]}]}')
        faults.raise_any()
        golden = golden_set(RawGoldenSet(str(path), questions), corpus, selection)
        moved = sum(bool(question.notes) for question in questions)
        note = f"questions with a wrong answer_start, which was corrected: {moved:,}"
        return Dataset(name, corpus, golden, (note,) if moved else ())


def _read(articles: Iterable[Row], file: str) -> tuple[Corpus, list[Question]]:
    documents: dict[str, str] = {}  # text -> id: equal paragraphs are one document
    titles, questions = [], []
    numbers, unique = Counter[str](), UniqueIds("question")
    for article in articles:
        title = "" if article.values.get("title") in (None, "") else article.identifier("title")
        name = title or file  # GermanQuAD has no titles
        for paragraph in article.parts("paragraphs"):
            context = paragraph.filled_text("context")
            if context not in documents:
                numbers[name] += 1
                documents[context] = f"{name}/{numbers[name]}"
                titles.append(title)
            for row in paragraph.parts("qas"):
                questions.append(_question(row, documents[context], context))
                unique.check(questions[-1].id, row)
    return Corpus(list(documents.values()), titles, list(documents)), questions


def _question(row: Row, document: str, context: str) -> Question:
    answers = dict.fromkeys(_answers(row))
    placed: dict[tuple[str, int], None] = {}
    for text, start in answers:  # an answer that is not at its answer_start may be elsewhere
        misplaced = not context.startswith(text, start) and context.count(text) == 1
        placed[text, context.index(text) if misplaced else start] = None
    answerable = not row.flag("is_impossible", False)
    row.refuse_structure("question")
    return Question(
        id=row.identifier("id"),
        text=row.given_text("question"),
        category=BLANK if not row.text("question").strip() else "" if answerable else "unanswerable",
        answerable=answerable,
        references=tuple(dict.fromkeys(text for text, _ in answers)),
        evidence=tuple(Evidence(document, *passage, where=row.where) for passage in _passages(placed, context)),
        notes="" if placed == answers else "an answer_start is wrong",
        weight=read_weight(row),
        where=row.where,
    )


def _answers(row: Row) -> Iterator[tuple[str, int]]:
    """Yield (text, start) of every answer, without the white space around the text; add a fault for a missing start."""
    for answer in row.parts("answers"):
        text, start = answer.filled_text("text"), answer.position("answer_start")
        if "answer_start" not in answer:
            answer.fault('has no "answer_start"')
        yield text.strip(), (start or 0) + len(text) - len(text.lstrip())


def _passages(answers: Iterable[tuple[str, int]], context: str) -> Iterator[tuple[str, int]]:
    """Yield (anchor, start) of each piece of evidence: the spans of the answers, with overlapping spans merged.

    An answer that is not found at position ``start`` of ``context`` is yielded unchanged, before all spans.
    """
    end = 0
    spans: list[list[int]] = []
    for text, start in sorted(answers, key=lambda answer: answer[1]):
        if not context.startswith(text, start):
            yield text, start
        elif spans and start < end:
            spans[-1][1] = end = max(end, start + len(text))
        else:
            end = start + len(text)
            spans.append([start, end])
    for start, end in spans:
        yield context[start:end], start
