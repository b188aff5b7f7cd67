"""Test whether a model answers the questions of a golden set without their evidence (admission tests)."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ragsweep.core.plurals import counted
from ragsweep.core.types import Passage
from ragsweep_golden.evidence.passages import is_verbatim, keyword_coverage, numbers
from ragsweep_golden.evidence.quotes import rank_by_language
from ragsweep_golden.gates.set_measures import language_of
from ragsweep_golden.gates.subject import NO_CORPUS, Subject
from ragsweep_golden.sets.entries import METHODS, references

RETRIEVED = 5  # maximum number of passages that the model gets instead of the evidence
Ask = Callable[[Sequence[tuple[str, tuple[Passage, ...]]]], list[str | None]]
"""A function that answers (question, passages) pairs with a model; an answer is None if its call failed."""


class Admission(NamedTuple):
    """The outcome of an admission test.

    ``found`` lists the ids of the questions that fail the test, because the model answers them; ``measured`` is the
    number of tested questions. ``note`` is the reason why some or all questions were not tested, or "" if all were
    tested.
    """

    test: str
    title: str
    found: tuple[str, ...]
    measured: int
    note: str

    @property
    def share(self) -> float:
        """The share of the tested questions that fail; NaN if none was tested."""
        return len(self.found) / self.measured if self.measured else math.nan


TITLES = {
    "without_context": "answered without any context",
    "without_evidence": "answered from passages other than its evidence",
}
_NO_MODEL = "no model; add llm=openai llm.model=NAME"


def admit(subject: Subject, ask: Ask | None) -> list[Admission]:
    """Test whether a model answers the questions of a set without their evidence; return the outcome of each test.

    Only answerable questions with a reference are tested. Without ``ask`` no test runs, and without a corpus the test
    "without_evidence" does not run; the note of the outcome then states the reason.
    """
    if ask is None:
        return [Admission(test, TITLES[test], (), 0, _NO_MODEL) for test in TITLES]
    without_context = _answered("without_context", subject, ask, {})
    if subject.corpus is None or subject.spans is None:
        return [without_context, Admission("without_evidence", TITLES["without_evidence"], (), 0, NO_CORPUS)]
    return [without_context, _answered("without_evidence", subject, ask, _beside_the_evidence(subject))]


def _answered(test: str, subject: Subject, ask: Ask, passages: Mapping[str, tuple[Passage, ...]]) -> Admission:
    entries = [one for one in subject.answerable if references(one)]
    answers = ask([(one["question"], passages.get(one["id"], ())) for one in entries])
    replied = [(one, answer) for one, answer in zip(entries, answers, strict=True) if answer is not None]
    found = tuple(one["id"] for one, answer in replied if is_right(answer, one))
    failed = len(entries) - len(replied)
    return Admission(test, TITLES[test], found, len(replied), f"{counted(failed, 'call')} failed" if failed else "")


def is_right(answer: str, entry: Mapping[str, Any]) -> bool:
    """Return whether an answer to the question of an entry is right; always False if there is no reference.

    A right answer contains every number of at least one reference. It also contains this reference verbatim, or enough
    of its keywords (see METHODS).
    """
    return any(
        numbers(one) <= numbers(answer)
        and (keyword_coverage(one, answer, language_of(entry)) >= METHODS["keywords"] or is_verbatim(one, answer))
        for one in references(entry)
    )


def _beside_the_evidence(subject: Subject) -> dict[str, tuple[Passage, ...]]:
    """Return a mapping of the id of each answerable question to chunks that do not overlap its evidence.

    The chunks are the best ones by BM25, at most RETRIEVED per question.
    """
    entries, evidence = subject.answerable, subject.evidence_chunks
    depth = RETRIEVED + max((len(set(own)) for own in evidence), default=0)
    questions, languages = [one["question"] for one in entries], list(map(language_of, entries))
    found: dict[str, tuple[Passage, ...]] = {}
    ranked = rank_by_language(questions, languages, subject.chunks, depth)
    for entry, own, best in zip(entries, evidence, ranked, strict=True):
        others = [n for n in best if n not in own][:RETRIEVED]
        found[entry["id"]] = tuple(Passage(str(n), subject.chunks[n]) for n in others)
    return found
