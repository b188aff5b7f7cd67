"""Make a golden set: check the labels of questions against the corpus, and draw a sample."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ragsweep.core.errors import ConfigError, Faults, InputError, nearest
from ragsweep.core.types import Corpus, Dataset, Evidence, GoldenSet, Question, effective_number, weights_of
from ragsweep.core.words import is_unsegmented
from ragsweep.golden.anchors import nearest_passage, resolve

STATUSES = ("silver", "gold")
"""Of questions: made by rule or model; confirmed or corrected by a person."""
_WAYS = ("error", "drop")
BLANK = "blank"
"""The category of blank questions that state none."""

NO_LABEL_LEFT = "questions with no label left"


class Selection(NamedTuple):
    """The questions and labels that a reader's config selects."""

    unknown: str = "error"
    limit: int | None = None
    seed: int = 0
    status: str | None = None

    def check(self) -> Selection:
        """Raise ConfigError for invalid values; to be called before anything is read."""
        if self.unknown not in _WAYS:
            raise ConfigError(f'dataset.unknown="{self.unknown}" is not known{nearest(str(self.unknown), _WAYS)}')
        if self.limit is not None and (type(self.limit) is not int or self.limit <= 0):
            raise ConfigError(f"dataset.limit={self.limit} is no number of questions; give 1 or more, or null for all")
        if self.status not in (None, *STATUSES):
            raise ConfigError(f'dataset.status="{self.status}" is not known{nearest(str(self.status), STATUSES)}')
        return self


class UnusableLabel(NamedTuple):
    """A label that cannot be used, and why; ``kind`` is the reason under which it is counted."""

    where: str
    kind: str
    fact: str


class RawGoldenSet(NamedTuple):
    """A golden set as a reader returns it, before its labels are checked; ``source`` is the file of the questions."""

    source: str
    questions: Sequence[Question]
    unusable: Sequence[UnusableLabel] = ()  # labels that name unknown questions
    left_out: Mapping[str, int] = {}


def golden_set(raw: RawGoldenSet, corpus: Corpus, selection: Selection, repeated_passages: bool = False) -> GoldenSet:
    """Check the questions against their corpus and draw the configured sample.

    Args:
        raw: The questions, and the counts of those left out by the reader.
        corpus: The documents that the labels name.
        selection: With ``unknown`` "drop", labels that cannot be used are left out and counted; a question that loses
            all of its labels is left out with them. ``limit`` and ``seed`` as in ``sample``.
        repeated_passages: As in ``GoldenSet``.

    Raises:
        InputError: a label contradicts its question, names what does not exist, or has an anchor that does not resolve;
            only some questions have a weight; or no question is left.
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
        faults.add("", f"{len(problems)} labels cannot be used; mend them, or leave them out with dataset.unknown=drop")
        for problem in problems:
            faults.add(problem.where, problem.fact)
        faults.raise_any()
    usable = [tuple(label for label in question.evidence if label not in unusable) for question in raw.questions]
    kept = [
        replace(question, evidence=labels)
        for question, labels in zip(raw.questions, usable, strict=True)
        if labels or not question.evidence
    ]
    left_out = Counter(raw.left_out) + Counter(problem.kind for problem in problems)
    left_out[NO_LABEL_LEFT] += len(raw.questions) - len(kept)
    chosen = sample(kept, selection.limit, selection.seed)
    left_out[f"beyond dataset.limit={selection.limit}"] += len(kept) - len(chosen)
    counts = {reason: count for reason, count in left_out.items() if count}
    if not chosen:
        detail = "; ".join(f"{reason}: {count}" for reason, count in counts.items()) or "the file holds none"
        raise InputError(f"{raw.source}: no question to evaluate ({detail})")
    return GoldenSet(chosen, counts, repeated_passages)


def find_faults(questions: Sequence[Question], corpus: Corpus, faults: Faults) -> None:
    """Add everything for which ``golden_set`` refuses questions and their labels."""
    _check_labels(questions, faults)
    _check_weights(questions, faults)
    unusable = _unusable_labels(questions, corpus)
    for question in questions:
        for label in question.evidence:
            if label in unusable:
                faults.add(label.where, unusable[label][1])


def _check_labels(questions: Sequence[Question], faults: Faults) -> None:
    for question in questions:
        if not question.answerable and any(label.grade > 0 for label in question.evidence):
            faults.add(question.where, f'question "{question.id}" is unanswerable, yet has evidence')
        first: dict[tuple[str, str | None, int | None], Evidence] = {}
        for label in question.evidence:
            earlier = first.setdefault((label.document, label.anchor, label.start), label)
            if earlier is not label:
                faults.add(label.where, f"{_named(label)} is given twice for one question; first in {earlier.where}")


def _check_weights(questions: Sequence[Question], faults: Faults) -> None:
    """Refuse weights of some questions only: whether the others count 1, 0 or the mean is anyone's guess."""
    without = [question for question in questions if question.weight is None]
    if len(without) == len(questions):
        return
    weighted = len(questions) - len(without)
    for one in without:
        faults.add(
            one.where,
            f'question "{one.id}" has no "weight", and {weighted:,} of {len(questions):,} questions'
            " have one; give every question a weight, or none",
        )


def _unusable_labels(questions: Iterable[Question], corpus: Corpus) -> dict[Evidence, tuple[str, str]]:
    """Map labels to (kind, fact), document by document: a document is prepared once for all of its anchors."""
    labels = sorted({label for question in questions for label in question.evidence}, key=lambda label: label.document)
    unusable = {}
    for label in labels:
        if label.document not in corpus.position:
            fact = f'document "{label.document}" is not in the corpus'
            unusable[label] = ("labels naming an unknown document", fact)
        elif label.anchor is not None and (
            fact := _anchor_fault(corpus.texts[corpus.position[label.document]], label, label.anchor)
        ):
            unusable[label] = ("labels whose anchor does not resolve", fact)
    return unusable


def _anchor_fault(text: str, label: Evidence, anchor: str) -> str:
    begins = [begin for begin, _ in resolve(text, anchor)]
    if not begins:
        fact = f'{_named(label)} does not occur in document "{label.document}"; quote it anew'
        near = nearest_passage(text, anchor)
        return fact if near is None else f'{fact}; the nearest passage, at {near[0]}: "{near[1]}"'
    places = ", ".join(map(str, begins[:5])) + ("" if len(begins) <= 5 else ", ...")
    if label.start is None and len(begins) > 1:
        fact = f'{_named(label)} occurs {len(begins)} times in document "{label.document}", at {places}'
        return f'{fact}; quote more words or give "start"'
    if label.start is not None and not resolve(text, anchor, label.start):
        return f'{_named(label)} does not begin at {label.start} in document "{label.document}", but at {places}'
    return ""


def _named(label: Evidence) -> str:
    return f'document "{label.document}"' if label.anchor is None else f'anchor "{label.anchor}"'


def sample(questions: Sequence[Question], limit: int | None, seed: int) -> tuple[Question, ...]:
    """Draw questions in proportion: by category, and within it by kind.

    Kinds are: having evidence, unanswerable, conversational, none of these. The same seed always draws the same
    questions, in whatever order they are given; a larger sample includes the smaller. The questions keep their order.
    In a stratum of n questions, randomly ordered, the i-th (from 0) has priority (i + 1/2) / n: the divisor method of
    Webster and Sainte-Laguë.

    Args:
        questions: All questions.
        limit: How many to draw; None, or more than there are, for all.
        seed: Chooses the random order.
    """
    if limit is None or limit >= len(questions):
        return tuple(questions)
    strata: dict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
    for position, question in enumerate(questions):
        chance = hashlib.sha256(f"{seed}\0{question.id}".encode()).hexdigest()
        strata[question.category, kind(question)].append((chance, position))
    queue = [
        ((place + 0.5) / len(stratum), chance, position)
        for stratum in strata.values()
        for place, (chance, position) in enumerate(sorted(stratum))
    ]
    return tuple(questions[position] for position in sorted(position for *_, position in sorted(queue)[:limit]))


def kind(question: Question) -> str:
    """Return whether a question has evidence, is unanswerable, is conversation, or none of these (empty)."""
    if not question.answerable:
        return "unanswerable"
    if not question.needs_retrieval:
        return "conversational"
    return "evidence" if any(label.grade > 0 for label in question.evidence) else ""


def weigh_unanswerable(dataset: Dataset, share: object) -> Dataset:
    """Give the unanswerable questions of a dataset this share of the total weight; 0 leaves them out.

    Weights within both kinds keep their ratios. ``None`` leaves all as the golden set has them.

    Raises:
        ConfigError: The share is not a number from 0 to below 1, or the questions are all of one kind.
    """
    if share is None:
        return dataset
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
        raise ConfigError(f"success.unanswerable: must be a number from 0 to below 1, or null, given {share!r}")
    golden, name = dataset.golden, f"success.unanswerable={share:g}"
    kinds = {kind: [one for one in golden.questions if one.answerable == kind] for kind in (True, False)}
    count = len(kinds[False])
    if not kinds[True] or (share and not count):
        missing = "un" if kinds[True] else ""
        raise ConfigError(f"{name}: none of {len(golden.questions):,} questions is {missing}answerable; use null")
    if not share:
        left_out = {**golden.left_out, **({f"unanswerable, by {name}": count} if count else {})}
        return replace(dataset, golden=replace(golden, questions=tuple(kinds[True]), left_out=left_out))
    totals = {kind: sum(map(_weight, kinds[kind])) for kind in kinds}
    scale = {True: 1.0, False: share / (1 - share) * totals[True] / totals[False]}
    questions = tuple(replace(one, weight=_weight(one) * scale[one.answerable]) for one in golden.questions)
    note = f"{name}: the {count:,} unanswerable questions have {100 * share:.3g} % of the weight"
    return replace(dataset, golden=replace(golden, questions=questions), notes=(*dataset.notes, note))


def _weight(question: Question) -> float:
    return 1.0 if question.weight is None else question.weight


def describe_weights(weights: Sequence[float]) -> str:
    """Describe how much less weighted questions show than as many equal ones: ``180 questions count as 96``."""
    return f"weighted: {len(weights):,} questions count as {effective_number(weights):,.0f}"


def peculiarities(questions: Sequence[Question]) -> tuple[str, ...]:
    """Describe weights, and count questions: keywords for an answer, blank, gold, silver, of no visible words."""
    keywords = sum(bool(question.keywords and not question.references) for question in questions)
    blank = sum(not question.text.strip() for question in questions)
    notes = [f"{keywords:,} questions have no reference answer: their keywords stand in for it"] if keywords else []
    weights = weights_of(questions)
    notes += [f"means are {describe_weights(weights)}"] if weights else []
    counts = Counter(question.labels.get("status", "") for question in questions)
    if counts["gold"] or counts["silver"]:
        unstated = f", {counts['']:,} neither" if counts[""] else ""
        notes += [f"questions: {counts['gold']:,} gold (confirmed by a person), {counts['silver']:,} silver{unstated}"]
    if unsegmented := sum(is_unsegmented(question.text) for question in questions):
        notes += [
            f"questions in a script without spaces between words (Thai, Lao, Burmese or Khmer): {unsegmented:,};"
            " BM25 searches pairs of their characters, and metrics of words count characters"
        ]
    return (*notes, *([f"blank questions, asked as they are: {blank:,}"] if blank else []))
