"""Admission tests: does a question need its evidence, and only that? They are counts for people, not gates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ragsweep.core.types import Passage
from ragsweep.curation.enrichment import lexical_overlap
from ragsweep.curation.entries import METHODS, Entry
from ragsweep.curation.extractive import LANGUAGES
from ragsweep.curation.gates import Subject, is_verbatim, passage_of, touching
from ragsweep.curation.ranking import rank_texts
from ragsweep.curation.validation import keyword_coverage, numbers
from ragsweep.parts.languages import content_words, detect_language, fold

COPIED = 0.8
"""Share of a question's words in its passage from which the wording counts as copied."""
RETRIEVED = 5
"""Passages beside the evidence that a model gets."""

Ask = Callable[[Sequence[tuple[str, tuple[Passage, ...]]]], list[str | None]]
"""Answers questions from passages; None where no answer could be had."""


class Admission(NamedTuple):
    """The outcome of a test: the questions that it finds, of how many; ``note`` says why it was not measured."""

    test: str
    title: str
    found: tuple[str, ...]
    measured: int
    note: str = ""

    @property
    def share(self) -> float:
        """The share of the measured questions that the test finds; NaN without any."""
        return len(self.found) / self.measured if self.measured else math.nan


TITLES = {
    "copied": "wording copied from the evidence, which favours BM25",
    "ambiguous": "another chunk has the answer too",
    "without_context": "answered without any context",
    "without_evidence": "answered from other passages than its evidence",
}
_NO_CORPUS = "no corpus given: corpus=FOLDER or FILE"
_NO_MODEL = "no model given: llm=openai, ..."


def admit(subject: Subject, ask: Ask | None) -> list[Admission]:
    """Test the answerable questions of a set.

    Args:
        subject: The set; without a corpus nothing but the answers without context is measured.
        ask: A model that answers; None: what needs one is not measured.
    """
    if subject.corpus is None or subject.spans is None:
        by_corpus = [Admission(test, TITLES[test], (), 0, _NO_CORPUS) for test in ("copied", "ambiguous")]
    else:
        by_corpus = [_copied(subject), _ambiguous(subject)]
    if ask is None:
        left = [Admission(test, TITLES[test], (), 0, _NO_MODEL) for test in ("without_context", "without_evidence")]
    elif subject.corpus is None or subject.spans is None:
        unmeasured = Admission("without_evidence", TITLES["without_evidence"], (), 0, _NO_CORPUS)
        left = [_answered("without_context", subject, ask, {}), unmeasured]
    else:
        left = [
            _answered("without_context", subject, ask, {}),
            _answered("without_evidence", subject, ask, _beside_the_evidence(subject)),
        ]
    return [*by_corpus, *left]


def _language(entry: Entry) -> str:
    given = str(entry.get("language") or "")
    return given if given in LANGUAGES else detect_language(str(entry.get("question") or "")) or "en"


def _copied(subject: Subject) -> Admission:
    found, measured = [], 0
    for number, entry in enumerate(subject.answerable):
        if passage := passage_of(subject, number):
            measured += 1
            if lexical_overlap(str(entry.get("question") or ""), passage, _language(entry)) >= COPIED:
                found.append(str(entry.get("id")))
    return Admission("copied", TITLES["copied"], tuple(found), measured)


def _ambiguous(subject: Subject) -> Admission:
    """Find the questions whose answer stands in a chunk that is no evidence and has most of the question's words."""
    chunks = [_plain(text) for text in _chunks(subject)]
    words: dict[str, list[frozenset[str]]] = {}
    found, measured = [], 0
    for entry, own in zip(subject.answerable, _evidence_chunks(subject), strict=True):
        answer, language = str(entry.get("reference") or ""), _language(entry)
        asked = content_words(str(entry.get("question") or ""), language)
        if not answer or not own or not asked:
            continue
        measured += 1
        if language not in words:
            words[language] = [content_words(text, language) for text in chunks]
        needed = math.ceil(COPIED * len(asked))
        near = (n for n, each in enumerate(words[language]) if n not in own and len(asked & each) >= needed)
        lines = [_plain(line) for line in answer.splitlines() if line.strip()]
        if any(all(line in chunks[n] for line in lines) for n in near):
            found.append(str(entry.get("id")))
    note = "" if measured else "no question has an answer and evidence"
    return Admission("ambiguous", TITLES["ambiguous"], tuple(found), measured, note)


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
    """Return the best passages for each question by BM25 that are no evidence of it."""
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
