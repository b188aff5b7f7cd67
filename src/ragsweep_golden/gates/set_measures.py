"""Measure any golden set: wording, coherence, repetitions, ambiguous evidence, size and balance."""

import math
import unicodedata
from collections import Counter
from collections.abc import Sequence

import numpy as np

from ragsweep.core.errors import Faults
from ragsweep.core.types import Question
from ragsweep.core.words import is_symbol, spaced, word_count
from ragsweep.golden.clusters import clusters, normalised
from ragsweep.golden.golden_format import read_question
from ragsweep.golden.reading import Row
from ragsweep.parts.languages import content_words, detect_language, fold
from ragsweep.stats.inference.cluster_errors import FEW, enough
from ragsweep.stats.inference.planning import METHOD, PARAMETER, Design, detectable, find_variation
from ragsweep_golden.evidence.passages import lexical_overlap
from ragsweep_golden.gates.subject import (
    NO_CORPUS,
    Gates,
    Measured,
    NotMeasured,
    Subject,
    count_faults,
    with_fault,
    without_fault,
)
from ragsweep_golden.sets.entries import LANGUAGES, Entry, incoherences, references, relevant_evidence

COPIED = 0.8  # a question counts as copied if its passage contains at least this share of the question's content words
_METRIC = "context_ndcg"
_FEWEST_ANSWER_WORDS = 2  # a shorter answer, such as "yes" or a name, may occur in a question by chance


def _breaking(one: Entry, *codes: str) -> str:
    return "; ".join(why for code, why in incoherences(one) if code in codes)


def _short_questions(subject: Subject) -> Measured:
    asked = [one for one in subject.kept if one.get("needs_retrieval", True)]
    return without_fault([(one, _breaking(one, "C1")) for one in asked], "question")


def _short_answers(subject: Subject) -> Measured:
    return without_fault([(one, _breaking(one, "C2")) for one in subject.answerable], "answerable question")


def _coherence(subject: Subject) -> Measured:
    """Return the share of kept entries that violate none of the constraints C3 to C8.

    Two violations are left to other gates: missing evidence (G1-1), and a missing or unknown ``unanswerable_type``
    (G2-1).
    """
    judged = []
    for one in subject.kept:
        contradicts = one.get("unanswerable_type") if one.get("answerable", True) else relevant_evidence(one)
        codes = ("C3", "C4") if contradicts else ()
        judged.append((one, _breaking(one, *codes, "C5", "C6", "C7", "C8")))
    return without_fault(judged, "question")


def language_of(entry: Entry) -> str:
    """Return an entry's language code: its ``language`` if known, else the language of its question, else "en"."""
    given = str(entry.get("language") or "")
    return given if given in LANGUAGES else detect_language(entry["question"]) or "en"


def _copied(subject: Subject) -> Measured:
    if subject.corpus is None:
        raise NotMeasured(NO_CORPUS)
    judged = []
    for one, passage in zip(subject.answerable, subject.evidence_texts, strict=True):
        if passage:
            shared = lexical_overlap(one["question"], passage, language_of(one))
            judged.append((one, f"{shared:.0%} of its words are in the passage" if shared >= COPIED else ""))
    return with_fault(judged, "passage to compare with")


def _repeated(subject: Subject) -> Measured:
    first: dict[tuple[str, str], Entry] = {}
    judged = []
    for one, question in zip(subject.kept, _questions(subject.kept), strict=True):
        symbols = "".join(filter(is_symbol, unicodedata.normalize("NFKC", question.text)))
        earlier = first.setdefault((normalised(question), symbols), one)
        judged.append((one, "" if earlier is one else f"has the words of {earlier['id']}"))
    return count_faults(judged, "questions with the words of an earlier one")


def _questions(entries: Sequence[Entry]) -> list[Question]:
    return [read_question(Row("", one, Faults())) for one in entries]


def _ambiguous(subject: Subject) -> Measured:
    """Return the share of answerable entries whose question is also answered by a chunk outside the evidence.

    Only entries with an answer, with evidence that is found, and with content words in the question are judged. The
    chunk must not overlap the evidence. It must contain every line of the answer, and at least the share COPIED of the
    question's content words. A fault names the first such chunk by its document and first words.
    """
    plain = [_plain(text) for text in subject.chunks]
    words: dict[str, list[frozenset[str]]] = {}
    judged = []
    for entry, own in zip(subject.answerable, subject.evidence_chunks, strict=True):
        answer, language = str(entry.get("reference") or ""), language_of(entry)
        asked = content_words(entry["question"], language)
        if not answer or not own or not asked:
            continue
        if language not in words:
            words[language] = [content_words(text, language) for text in plain]
        needed = math.ceil(COPIED * len(asked))
        near = (n for n, each in enumerate(words[language]) if n not in own and len(asked & each) >= needed)
        lines = [_plain(line) for line in answer.splitlines() if line.strip()]
        other = next((n for n in near if all(line in plain[n] for line in lines)), None)
        judged.append((entry, "" if other is None else f"is also answered by {_start(subject, other)}"))
    return with_fault(judged, "question with content words has an answer and evidence that is found")


def _plain(text: str) -> str:
    return " ".join(fold(text).split())


def _start(subject: Subject, chunk: int) -> str:
    text = " ".join(subject.chunks[chunk].split())
    return f'{subject.documents.ids[int(subject.chunking.document[chunk])]}: "{text[:60]}"'


def _given_away(subject: Subject) -> Measured:
    judged = []
    for one in subject.answerable:
        question, *answers = (normalised(Question("", text)) for text in (one["question"], *references(one)))
        given = [
            word_count(answer) >= _FEWEST_ANSWER_WORDS and f" {spaced(answer)} " in f" {spaced(question)} "
            for answer in answers
        ]
        found = next((text for text, is_given in zip(references(one), given, strict=True) if is_given), None)
        judged.append((one, "" if found is None else f'contains its answer, "{found}"'))
    return count_faults(judged, "questions that contain their answer")


def _independent(subject: Subject) -> Measured:
    """Return the number of clusters of questions; the note gives the smallest differences that the set can detect.

    The differences are computed from the questions with relevant evidence, because only such questions have a score.
    """
    count = len(set(clusters(_questions(subject.kept))))
    scored = _questions([one for one in subject.answerable if relevant_evidence(one)])
    counts = np.array(list(Counter(clusters(scored)).values()), dtype=np.float64)
    if not enough(counts):
        return Measured(count, f"detects no difference in {_METRIC}: the questions with evidence count as {FEW}")
    design = Design(len(scored), len(counts))
    _, variation = find_variation(_METRIC)
    shown = {kind: detectable(variation.spreads[kind], variation.correlation, design) for kind in (PARAMETER, METHOD)}
    smallest = ", ".join(f"{size:.2f} from {kind}" for kind, size in shown.items())
    return Measured(count, f"detects a difference in {_METRIC} of {smallest}")


def _largest(names_of: Sequence[set[str]], what: str) -> Measured:
    if not names_of:
        raise NotMeasured(f"no question has a {what}")
    ((name, count),) = Counter(name for names in names_of for name in sorted(names)).most_common(1)
    return Measured(count / len(names_of), f"{name}: {count:,} of {len(names_of):,}")


def _largest_document(subject: Subject) -> Measured:
    labels = (relevant_evidence(one) for one in subject.answerable)
    return _largest([{str(one.get("document")) for one in each} for each in labels if each], "document as evidence")


def _largest_category(subject: Subject) -> Measured:
    return _largest([{str(one["category"])} for one in subject.kept if one.get("category")], "category")


SET_GATES: Gates = {
    "G1-5": ("questions of 10 characters or more", ">=", _short_questions),
    "G1-6": ("answers of 6 characters or more", ">=", _short_answers),
    "G3-3": ("questions whose fields agree", ">=", _coherence),
    "G6-1": ("questions worded like their evidence", "<=", _copied),
    "G6-2": ("repeated questions", "<=", _repeated),
    "G6-3": ("questions that another chunk answers too", "<=", _ambiguous),
    "G6-4": ("questions that contain their answer", "<=", _given_away),
    "G6-5": ("independent questions", ">=", _independent),
    "G6-6": ("questions about the most frequent document", "<=", _largest_document),
    "G6-7": ("questions of the largest category", "<=", _largest_category),
}
