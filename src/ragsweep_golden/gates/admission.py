"""Admission tests: whether a question requires its evidence, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ragsweep.core.types import Passage
from ragsweep.parts.languages import content_words, detect_language, fold
from ragsweep.parts.text_ranking import rank_texts
from ragsweep_golden.building.enrichment import lexical_overlap
from ragsweep_golden.building.extractive import LANGUAGES
from ragsweep_golden.building.validation import keyword_coverage, numbers
from ragsweep_golden.gates.subject import Subject, is_verbatim, passage_of, touching
from ragsweep_golden.sets.entries import METHODS, Entry

COPIED = 0.8
"""Lowest share of a question's words in its passage at which the wording counts as copied."""
RETRIEVED = 5
"""Number of other passages that a model gets."""

Ask = Callable[[Sequence[tuple[str, tuple[Passage, ...]]]], list[str | None]]
"""Answers questions from passages; None if the call failed."""


class Admission(NamedTuple):
    """The outcome of a test: the questions that fail, and the number tested; ``note``: why it was not measured."""

    test: str
    title: str
    found: tuple[str, ...]
    measured: int
    note: str = ""

    @property
    def share(self) -> float:
        """The share of the tested questions that fail; NaN if none was tested."""
        return len(self.found) / self.measured if self.measured else math.nan


TITLES = {
    "without_context": "answered without any context",
    "without_evidence": "answered from other passages than its evidence",
}
_NO_CORPUS = "no corpus given: corpus=FOLDER or FILE"
_NO_MODEL = "no model given: llm=openai, ..."


def admit(subject: Subject, ask: Ask | None) -> list[Admission]:
    """Test whether a model answers the questions of a set without their evidence.

    Args:
        subject: The set; without a corpus, only answering without context is tested.
        ask: A model that answers; with None, nothing is measured.
    """
    if ask is None:
        return [Admission(test, TITLES[test], (), 0, _NO_MODEL) for test in TITLES]
    without_context = _answered("without_context", subject, ask, {})
    if subject.corpus is None or subject.spans is None:
        return [without_context, Admission("without_evidence", TITLES["without_evidence"], (), 0, _NO_CORPUS)]
    return [without_context, _answered("without_evidence", subject, ask, _beside_the_evidence(subject))]


def _language(entry: Entry) -> str:
    given = str(entry.get("language") or "")
    return given if given in LANGUAGES else detect_language(str(entry.get("question") or "")) or "en"


def find_copied(subject: Subject) -> list[tuple[Entry, float]]:
    """Return each answerable entry with a passage, and the share of its question's words in the passage."""
    found = []
    for number, entry in enumerate(subject.answerable):
        if passage := passage_of(subject, number):
            found.append((entry, lexical_overlap(str(entry.get("question") or ""), passage, _language(entry))))
    return found


def find_ambiguous(subject: Subject) -> list[tuple[Entry, str]]:
    """Return each entry with answer and evidence, and the first other chunk that answers it, or "".

    Such a chunk contains the answer and most of the question's words.
    """
    chunks = _chunks(subject)
    plain = [_plain(text) for text in chunks]
    words: dict[str, list[frozenset[str]]] = {}
    found = []
    for entry, own in zip(subject.answerable, _evidence_chunks(subject), strict=True):
        answer, language = str(entry.get("reference") or ""), _language(entry)
        asked = content_words(str(entry.get("question") or ""), language)
        if not answer or not own or not asked:
            continue
        if language not in words:
            words[language] = [content_words(text, language) for text in plain]
        needed = math.ceil(COPIED * len(asked))
        near = (n for n, each in enumerate(words[language]) if n not in own and len(asked & each) >= needed)
        lines = [_plain(line) for line in answer.splitlines() if line.strip()]
        other = next((n for n in near if all(line in plain[n] for line in lines)), None)
        found.append((entry, "" if other is None else _start(subject, other, chunks[other])))
    return found


def _start(subject: Subject, chunk: int, text: str) -> str:
    assert subject.corpus is not None
    assert subject.spans is not None
    return f'{subject.corpus.ids[int(subject.spans.document[chunk])]}: "{" ".join(text.split())[:60]}"'


def _answered(test: str, subject: Subject, ask: Ask, passages: Mapping[str, tuple[Passage, ...]]) -> Admission:
    entries = [one for one in subject.answerable if one.get("reference")]
    answers = ask([(str(one["question"]), passages.get(str(one.get("id")), ())) for one in entries])
    replied = [(one, answer) for one, answer in zip(entries, answers, strict=True) if answer is not None]
    found = tuple(str(one.get("id")) for one, answer in replied if is_right(answer, one))
    failed = len(entries) - len(replied)
    return Admission(test, TITLES[test], found, len(replied), f"{failed:,} calls failed" if failed else "")


def is_right(answer: str, entry: Mapping[str, Any]) -> bool:
    """Return whether an answer has the numbers of the reference and most of its words."""
    reference = str(entry.get("reference") or "")
    enough = keyword_coverage(reference, answer, _language(entry)) >= METHODS["keywords"]
    return numbers(reference) <= numbers(answer) and (enough or is_verbatim(reference, answer))


def _plain(text: str) -> str:
    return " ".join(fold(text).split())


def _chunks(subject: Subject) -> list[str]:
    assert subject.corpus is not None
    assert subject.spans is not None
    spans = subject.spans
    return [
        subject.corpus.texts[document][start:end]
        for document, start, end in zip(spans.document.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True)
    ]


def _evidence_chunks(subject: Subject) -> list[set[int]]:
    assert subject.spans is not None
    return [{chunk for span in spans for chunk in touching(subject.spans, *span)} for spans in subject.evidence_spans]


def _beside_the_evidence(subject: Subject) -> dict[str, tuple[Passage, ...]]:
    """Return the best passages by BM25 for each question that are not its evidence."""
    chunks, found = _chunks(subject), {}
    pairs = list(zip(subject.answerable, _evidence_chunks(subject), strict=True))
    depth = RETRIEVED + max((len(own) for _, own in pairs), default=0)
    for language in {_language(entry) for entry, _ in pairs}:
        asked = [(entry, own) for entry, own in pairs if _language(entry) == language]
        ranked = rank_texts([str(entry.get("question") or "") for entry, _ in asked], chunks, language, depth)
        for (entry, own), best in zip(asked, ranked, strict=True):
            others = [n for n in best if n not in own][:RETRIEVED]
            found[str(entry.get("id"))] = tuple(Passage(str(n), chunks[n]) for n in others)
    return found
