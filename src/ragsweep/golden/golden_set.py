"""Create a golden set from questions: check their labels against the corpus, draw a sample, and set weights."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ragsweep.core.data import describe_weights
from ragsweep.core.errors import ConfigError, Faults, InputError
from ragsweep.core.plurals import counted
from ragsweep.core.types import Corpus, Dataset, Evidence, GoldenSet, Question, weights_of
from ragsweep.core.words import is_unsegmented
from ragsweep.golden.anchors import nearest_passage, resolve

STATUSES = ("silver", "gold")
"""Values of a question's label ``status``: gold if a person confirmed or corrected the question, silver if not."""
_WAYS = ("error", "drop")
BLANK = "blank"
"""The default category of questions with blank text."""

NO_ANCHOR = "labels whose anchor does not resolve"
NO_LABEL_LEFT = "questions without usable labels"


class Selection(NamedTuple):
    """The settings with which a dataset reader selects questions and labels."""

    unknown: str = "error"  # "error" rejects unusable labels; "drop" omits them
    limit: int | None = None  # maximum number of questions; None: all
    seed: int = 0  # of the sample
    status: str | None = None  # one of STATUSES; None: any

    def check(self) -> Selection:
        """Return the selection itself; raise ConfigError for invalid values. Call this before reading any file."""
        if self.unknown not in _WAYS:
            raise ConfigError(f"dataset.unknown must be one of {', '.join(_WAYS)}, got {self.unknown!r}")
        if self.limit is not None and (type(self.limit) is not int or self.limit <= 0):
            raise ConfigError(f"dataset.limit={self.limit} must be a whole number of at least 1, or null for all")
        if self.status not in (None, *STATUSES):
            raise ConfigError(f"dataset.status must be null or one of {', '.join(STATUSES)}, got {self.status!r}")
        return self


class UnusableLabel(NamedTuple):
    """A label that cannot be used: its location in a file, the reason under which it is counted, and the fault."""

    where: str
    kind: str  # the reason
    fact: str


class RawGoldenSet(NamedTuple):
    """A golden set as a reader returns it, before its labels are checked; ``source`` is the file named in errors."""

    source: str
    questions: Sequence[Question]
    unusable: Sequence[UnusableLabel] = ()  # labels that name unknown questions
    left_out: Mapping[str, int] = {}  # reason -> number of omitted questions or labels
    notes: Sequence[str] = ()  # how the files were read, which may explain why an anchor is not found


def golden_set(raw: RawGoldenSet, corpus: Corpus, selection: Selection, repeated_passages: bool = False) -> GoldenSet:
    """Return a golden set, after checking the questions and labels against the corpus and drawing a sample.

    If ``selection.unknown`` is "drop", unusable labels, and questions that lose all of their labels or all relevant
    ones, are omitted and counted. ``repeated_passages`` is stored in the result.

    Raises:
        InputError: A question that is unanswerable or needs no retrieval has relevant evidence; a question has the same
        label twice; only some questions have a weight; no questions remain; or ``selection.unknown`` is "error" and a
        label is unusable. A label is unusable if it names an unknown question or document, or if its anchor does not
        occur in the document, does not begin at the label's ``start``, or occurs several times without a ``start`` to
        select one of them.
    """
    for check in (_check_labels, _check_weights):
        faults = Faults()
        check(raw.questions, faults)
        faults.raise_any()
    unusable = _unusable_labels(raw.questions, corpus)
    problems = list(raw.unusable)
    for question in raw.questions:
        problems += [UnusableLabel(label.where, *unusable[label]) for label in question.evidence if label in unusable]
    if problems and selection.unknown == "error":
        faults = Faults()
        way = "correct the data, or drop such labels with dataset.unknown=drop"
        notes = raw.notes if any(problem.kind == NO_ANCHOR for problem in problems) else ()
        for fact in (f"{counted(len(problems), 'label')} cannot be used; {way}", *notes):
            faults.add("", fact)
        for problem in problems:
            faults.add(problem.where, problem.fact)
        faults.raise_any()
    usable = [tuple(label for label in question.evidence if label not in unusable) for question in raw.questions]
    kept = []
    for question, labels in zip(raw.questions, usable, strict=True):
        left = replace(question, evidence=labels)
        if (labels or not question.evidence) and (left.relevant or not question.relevant):
            kept.append(left)
    left_out = Counter(raw.left_out) + Counter(problem.kind for problem in problems)
    left_out[NO_LABEL_LEFT] += len(raw.questions) - len(kept)
    chosen = sample(kept, selection.limit, selection.seed)
    left_out[f"beyond dataset.limit={selection.limit}"] += len(kept) - len(chosen)
    counts = {reason: count for reason, count in left_out.items() if count}
    if not chosen:
        detail = "; ".join(f"{reason}: {count}" for reason, count in counts.items()) or "the file has none"
        raise InputError(f"{raw.source}: no questions to evaluate ({detail}); correct the file or the dataset settings")
    return GoldenSet(chosen, counts, repeated_passages)


def find_faults(questions: Sequence[Question], corpus: Corpus, faults: Faults) -> None:
    """Add the faults of questions and labels for which ``golden_set`` raises InputError.

    Also add a fault for each relevant label of a blank document. ``golden_set`` accepts such labels, because public
    benchmarks have them.
    """
    _check_labels(questions, faults)
    _check_weights(questions, faults)
    unusable = _unusable_labels(questions, corpus)
    documents = zip(corpus.ids, corpus.titles, corpus.texts, strict=True)
    blank = {name for name, title, text in documents if not title.strip() and not text.strip()}
    for question in questions:
        for label in question.evidence:
            if label in unusable and label.document:  # "": the reader has already added a fault
                faults.add(label.where, unusable[label][1])
            elif label.grade > 0 and label.document in blank:
                fact = f'document "{label.document}" has no text'
                faults.add(label.where, f"{fact}; use another document as evidence, or add the text")


def _check_labels(questions: Sequence[Question], faults: Faults) -> None:
    for question in questions:
        for is_given, fact, change in (
            (question.answerable, "is unanswerable", "answerable"),
            (question.needs_retrieval, "needs no retrieval", "need retrieval"),
        ):
            if question.relevant and not is_given:
                fact = f'question "{question.id}" {fact}, but has relevant evidence'
                faults.add(question.where, f"{fact}; remove the evidence, or make the question {change}")
        first: dict[tuple[str, str | None, int | None], Evidence] = {}
        for label in question.evidence:
            earlier = first.setdefault((label.document, label.anchor, label.start), label)
            if earlier is not label:
                faults.add(
                    label.where, f"{_named(label)} occurs twice for one question; first in {earlier.where}; remove one"
                )


def _check_weights(questions: Sequence[Question], faults: Faults) -> None:
    """Add a fault for each question without a weight if others have a valid weight, because no default is sensible."""
    without = [question for question in questions if question.weight is None]
    weighted = sum(question.weight is not None and question.weight > 0 for question in questions)
    for one in without if weighted else ():
        fact = f'question "{one.id}" has no "weight", unlike {weighted:,} of {len(questions):,} questions'
        faults.add(one.where, f"{fact}; give a weight to all questions or to none")


def _unusable_labels(questions: Iterable[Question], corpus: Corpus) -> dict[Evidence, tuple[str, str]]:
    """Return a mapping of unusable labels to (reason under which the label is counted, fault).

    The labels are checked document by document, because ``resolve`` caches only recently used documents.
    """
    labels = sorted({label for question in questions for label in question.evidence}, key=lambda label: label.document)
    unusable = {}
    for label in labels:
        if label.document not in corpus.position:
            fact = f'document "{label.document}" is not in the corpus'
            unusable[label] = ("labels of an unknown document", fact)
        elif label.anchor is not None and (
            fact := _anchor_fault(corpus.texts[corpus.position[label.document]], label, label.anchor)
        ):
            unusable[label] = (NO_ANCHOR, fact)
    return unusable


def _anchor_fault(text: str, label: Evidence, anchor: str) -> str:
    begins = [begin for begin, _ in resolve(text, anchor)]
    if not begins:
        fact = f'{_named(label)} does not occur in document "{label.document}"'
        near = nearest_passage(text, anchor)
        found = "" if near is None else f'; the nearest passage, at {near[0]}, is "{near[1]}"'
        return f"{fact}{found}; quote the passage again"
    places = ", ".join(map(str, begins[:5])) + ("" if len(begins) <= 5 else ", ...")
    if label.start is None and len(begins) > 1:
        fact = f'{_named(label)} occurs {len(begins)} times in document "{label.document}", at {places}'
        return f'{fact}; quote more words or give "start"'
    if label.start is not None and not resolve(text, anchor, label.start):
        fact = f'{_named(label)} does not begin at {label.start} in document "{label.document}", but at {places}'
        return f"{fact}; correct the start"
    return ""


def _named(label: Evidence) -> str:
    return f'document "{label.document}"' if label.anchor is None else f'anchor "{label.anchor}"'


def chance(seed: object, text: str) -> str:
    """Return a sort key that puts texts in random order; the key depends only on the seed and the text."""
    return hashlib.sha256(f"{seed}\0{text}".encode()).hexdigest()


def sample(questions: Sequence[Question], limit: int | None, seed: int) -> tuple[Question, ...]:
    """Return a sample of at most ``limit`` questions, stratified proportionally by category and ``kind``.

    A ``limit`` of None returns all questions. The sample keeps the order of the questions. The questions that are drawn
    with a seed do not depend on this order, and a larger sample includes every smaller sample with the same seed.

    Each stratum of n questions is put in a random order, in which the i-th question (from 0) gets the value
    (i + 1/2) / n; the questions with the lowest values are drawn (the divisor method of Webster and Sainte-Laguë).
    """
    if limit is None or limit >= len(questions):
        return tuple(questions)
    strata: dict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
    for position, question in enumerate(questions):
        strata[question.category, kind(question)].append((chance(seed, question.id), position))
    queue = [
        ((place + 0.5) / len(stratum), drawn, position)
        for stratum in strata.values()
        for place, (drawn, position) in enumerate(sorted(stratum))
    ]
    return tuple(questions[position] for position in sorted(position for *_, position in sorted(queue)[:limit]))


def kind(question: Question) -> str:
    """Return "unanswerable", "conversational", "evidence" (for relevant evidence) or "", whichever applies first."""
    if not question.answerable:
        return "unanswerable"
    if not question.needs_retrieval:
        return "conversational"
    return "evidence" if question.relevant else ""


def weigh_unanswerable(dataset: Dataset, share: object) -> Dataset:
    """Return a dataset whose unanswerable questions have ``share`` of the total weight.

    A share of 0 removes the unanswerable questions; None changes nothing. The ratios of weights within the answerable
    questions and within the unanswerable questions do not change. The note on weights replaces the note of an earlier
    call with the same share. Raises ConfigError for a share that is not a number of at least 0 and below 1, for a
    dataset without answerable questions, and for a share above 0 in a dataset without unanswerable questions.
    """
    if share is None:
        return dataset
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
        raise ConfigError(f"success.unanswerable: must be null, or a number of at least 0 and below 1, got {share!r}")
    golden, name = dataset.golden, f"success.unanswerable={share:g}"
    kinds = {kind: [one for one in golden.questions if one.answerable == kind] for kind in (True, False)}
    count = len(kinds[False])
    if not kinds[True] or (share and not count):
        missing = "unanswerable" if kinds[True] else "answerable"
        fact = f"none of the {counted(len(golden.questions), 'question')} is {missing}"
        raise ConfigError(f"{name}: {fact}; use success.unanswerable=null")
    if not share:
        left_out = {**golden.left_out, **({f"unanswerable questions ({name})": count} if count else {})}
        return replace(dataset, golden=replace(golden, questions=tuple(kinds[True]), left_out=left_out))
    totals = {kind: sum(map(_weight, kinds[kind])) for kind in kinds}
    scale = {True: 1.0, False: share / (1 - share) * totals[True] / totals[False]}
    questions = tuple(replace(one, weight=_weight(one) * scale[one.answerable]) for one in golden.questions)
    note = f"{name}: {counted(count, 'unanswerable question')} with {100 * share:.3g} % of the weight"
    others = [other for other in dataset.notes if not other.startswith(f"{name}: ")]
    return replace(dataset, golden=replace(golden, questions=questions), notes=(*others, note))


def _weight(question: Question) -> float:
    return 1.0 if question.weight is None else question.weight


def peculiarities(questions: Sequence[Question]) -> tuple[str, ...]:
    """Return notes for the user on unusual properties of the questions, one note per property, or ().

    The notes cover weights, statuses, blank questions, scripts without spaces between words, and keywords that are used
    in place of reference answers.
    """
    keywords = sum(bool(question.keywords and not question.references) for question in questions)
    blank = sum(not question.text.strip() for question in questions)
    notes = [f"no reference answer: {counted(keywords, 'question')}; keywords are used instead"] if keywords else []
    weights = weights_of(questions)
    notes += [f"means are {describe_weights(weights)}"] if weights else []
    counts = Counter(question.labels.get("status", "") for question in questions)
    if counts["gold"] or counts["silver"]:
        unstated = f", {counts['']:,} neither" if counts[""] else ""
        notes += [f"questions: {counts['gold']:,} gold (confirmed by a person), {counts['silver']:,} silver{unstated}"]
    if unsegmented := sum(is_unsegmented(question.text) for question in questions):
        notes += [
            f"questions in a script without spaces between words (Thai, Lao, Burmese or Khmer): {unsegmented:,};"
            " BM25 searches pairs of their characters, and word-based metrics count characters"
        ]
    return (*notes, *([f"blank questions, evaluated unchanged: {blank:,}"] if blank else []))
