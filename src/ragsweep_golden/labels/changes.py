"""Find labels that a corpus change moved, edited, deleted or made ambiguous, and their unambiguous repairs.

A passage is identified by its anchor and, if the old corpus is given, by the matching words around it. A different
encoding of the same text (composed or decomposed characters, line ends, white space) is not a change.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

from ragsweep.core.types import Corpus, Evidence, Question
from ragsweep.core.words import word_count
from ragsweep.golden.anchors import Span, composed, in_order, nearest_passage, resolve, visible_words
from ragsweep_golden.evidence.passages import (
    NOTHING,
    SENTENCE_END,
    Common,
    canonical,
    common_words,
    sentence_around,
    similarity,
)
from ragsweep_golden.evidence.quotes import FEWEST_WORDS

MOVED, EDITED, DELETED, AMBIGUOUS = "moved", "edited", "deleted", "ambiguous"
KINDS = (MOVED, EDITED, DELETED, AMBIGUOUS)

NEAR = 0.6
"""Lowest share of words in common, in order, at which a passage counts as an edited form of another."""

_SUCCESSORS = 3  # most new documents that are searched for the passages of a deleted document


class LabelChange(NamedTuple):
    """A label that is invalid in the new corpus. ``new`` is the repair; without one a person must decide."""

    question: str
    number: int  # index of the label in its question
    kind: str
    old: Evidence
    new: Evidence | None = None
    note: str = ""


class Verification(NamedTuple):
    """The changed labels in question order; ``renumbered``: old -> new label if re-encoding changed only its start."""

    labels: int
    changes: Sequence[LabelChange]
    renumbered: Mapping[Evidence, Evidence]
    renamed: Mapping[str, str]  # documents: old id -> new id


class _Place(NamedTuple):
    document: str
    span: Span


class _Origin(NamedTuple):
    """The location of a label's anchor in the old corpus."""

    text: str
    span: Span
    sentence: str


class _Searchable(NamedTuple):
    """A document, and its text in composed characters, which is searched for anchors."""

    name: str
    text: str
    composed: str


def verify_labels(questions: Sequence[Question], new: Corpus, old: Corpus | None = None) -> Verification:
    """Find the labels that a corpus change invalidates.

    Args:
        questions: The questions with their labels.
        new: The current corpus.
        old: The corpus for which the labels were written. Without it, a passage is identified by its anchor only, a
            whole document by its id.
    """
    labels = {label for question in questions for label in question.evidence}
    verifier, found = _Verifier(new, old, frozenset(label.document for label in labels)), {}
    for label in sorted(labels, key=lambda label: label.document):  # prepared documents, cached
        found[label] = verifier.examine(label)
    changes = [
        change._replace(question=question.id, number=number, old=label)
        for question in questions
        for number, label in enumerate(question.evidence)
        if (change := found[label]) and change.kind
    ]
    renumbered = {label: change.new for label, change in found.items() if change and not change.kind and change.new}
    count = sum(len(question.evidence) for question in questions)
    return Verification(count, changes, renumbered, verifier.renamed)


@dataclass(frozen=True, eq=False)
class _Verifier:
    new: Corpus
    old: Corpus | None
    named: frozenset[str]  # the documents of all labels

    @cached_property
    def renamed(self) -> dict[str, str]:
        """Missing documents -> the only new document with the same text."""
        if self.old is None:
            return {}
        after = defaultdict(list)
        for name, text in zip(self.new.ids, self.new.texts, strict=True):
            if name not in self.old.position:
                after[canonical(text)].append(name)
        gone = [name for name in self.old.ids if name not in self.new.position]
        found = {name: after.get(canonical(_text(self.old, name) or ""), []) for name in gone}
        return {name: names[0] for name, names in found.items() if len(names) == 1}

    @cached_property
    def arrived(self) -> dict[str, list[str]]:
        """Sentences of the documents that are not in the old corpus -> these documents."""
        found = defaultdict(list)
        for name, text in zip(self.new.ids, self.new.texts, strict=True):
            if self.old and name not in self.old.position:
                for sentence in _sentences(text):
                    found[sentence].append(name)
        return found

    @cached_property
    def candidates(self) -> list[_Searchable]:
        """The new and changed documents, to which a passage can have moved."""
        return _searchable(self.new, self.old)

    @cached_property
    def before(self) -> list[_Searchable]:
        """The documents of the old corpus."""
        assert self.old is not None
        return _searchable(self.old, None)

    def examine(self, label: Evidence) -> LabelChange | None:
        """Return a label's change; without a kind if only the encoding differs, None if the label is valid."""
        change = partial(LabelChange, "", 0, old=label)
        text, before = _text(self.new, label.document), _text(self.old, label.document)
        if text is not None and (label.anchor is None or text == before):
            return None
        if label.anchor is None:
            if name := self.renamed.get(label.document):
                return change(MOVED, new=replace(label, document=name), note=f'the document is now "{name}"')
            return change(DELETED, note=f'document "{label.document}" is gone')
        if text is not None and before is not None and label.start is None and canonical(text) == canonical(before):
            return None
        spans = resolve(text, label.anchor) if text is not None else []
        here = [_Place(label.document, span) for span in spans]
        origins = resolve(before, label.anchor, label.start) if before is not None else []
        origin = None
        if before is not None and len(origins) == 1:
            origin = _Origin(before, origins[0], sentence_around(before, origins[0]))
        if len(spans) == 1 and label.start is None:
            return None
        if origin is None and any(begin == label.start for begin, _ in spans):
            return None
        if text is not None and (span := _re_encoded(label, spans, text, before)):
            return change("", new=replace(label, start=span[0]))
        if origin:
            return self._by_context(label, label.anchor, here, origin)
        return self._by_anchor(label, label.anchor, here)

    def _by_anchor(self, label: Evidence, anchor: str, here: list[_Place]) -> LabelChange:
        """Check a label by its anchor only: a place is certain if it is the only one."""
        places = here or self._elsewhere(label.document, anchor)
        if len(places) > 1 and (here or label.document not in self.new.position):
            return LabelChange("", 0, AMBIGUOUS, label, note=_listed(places))
        if len(places) != 1:
            return self._lost(label, anchor, anchor)
        note, is_short = _listed(places), word_count(anchor) < FEWEST_WORDS
        hint = f"the words are {note}; old=CORPUS shows whether the passage is the same"
        if is_short and here and self._elsewhere(label.document, anchor):
            return LabelChange("", 0, MOVED, label, note=hint)
        if is_short and not here and places[0].document in self.named:  # so it was there in the old corpus
            lost = self._lost(label, anchor, anchor)
            return lost._replace(note=f"{lost.note}; {hint}")
        return LabelChange("", 0, MOVED, label, self._at(label, anchor, places[0]), note)

    def _by_context(self, label: Evidence, anchor: str, here: list[_Place], origin: _Origin) -> LabelChange | None:
        """Check a label by the words around its anchor in both corpora."""
        for is_here in (True, False):
            places = here if is_here else self._elsewhere(label.document, anchor)
            scored = [(self._score(one, origin, label), one) for one in places]
            scored = [(score, place) for score, place in scored if score != NOTHING]
            if not scored:
                continue
            earlier = [(origin.text, span) for span in resolve(origin.text, anchor) if span != origin.span]
            if not is_here:
                earlier += [(one.text, span) for one, span in _occurrences(self.before, label.document, anchor)]
            # a place that matches another passage of the old corpus better is that passage
            others = [max((self._common(one, place) for one in earlier), default=NOTHING) for _, place in scored]
            mine = [
                (score, other < score, place)
                for (score, place), other in zip(scored, others, strict=True)
                if score >= other
            ]
            if not mine:
                continue
            best = max(score for score, *_ in mine)
            found = [(clear, place) for score, clear, place in mine if score == best]
            sure = len(found) == 1 and found[0][0]
            kind = MOVED if sure and (label.start is not None or len(here) < 2) else AMBIGUOUS
            repaired = self._at(label, anchor, found[0][1]) if sure else None
            note = _listed([place for _, place in found])
            return None if repaired == label else LabelChange("", 0, kind, label, repaired, note)
        return self._lost(label, anchor, origin.sentence)

    def _score(self, place: _Place, origin: _Origin, label: Evidence) -> Common:
        """Count the matching words around the anchor at a place and at the label's place; NOTHING if too few."""
        common = self._common((origin.text, origin.span), place)
        words = word_count(origin.text[slice(*origin.span)]) + common.all
        if words >= min(FEWEST_WORDS, word_count(origin.sentence)):
            return common
        if place.document != label.document:
            return NOTHING
        if place.span[0] == label.start and common.all > 0:
            return common
        passage = sentence_around(_text(self.new, place.document) or "", place.span)
        return common if similarity(origin.sentence, passage) >= NEAR else NOTHING

    def _common(self, one: tuple[str, Span], place: _Place) -> Common:
        return common_words(*one, _text(self.new, place.document) or "", place.span)

    def _elsewhere(self, document: str, anchor: str) -> list[_Place]:
        """Find an anchor in other new or changed documents."""
        return [_Place(one.name, span) for one, span in _occurrences(self.candidates, document, anchor)]

    def _at(self, label: Evidence, anchor: str, place: _Place) -> Evidence:
        """Return a label for another place, with a start if the old label has one or the anchor is repeated."""
        needs_start = label.start is not None or len(resolve(_text(self.new, place.document) or "", anchor)) > 1
        return replace(label, document=place.document, start=place.span[0] if needs_start else None)

    def _lost(self, label: Evidence, anchor: str, passage: str) -> LabelChange:
        """Check a label whose anchor is missing by the passage nearest to its sentence."""
        own = [label.document] if label.document in self.new.position else []
        for name in [*own, *self._successors(label.document)]:
            text = _text(self.new, name) or ""
            near = nearest_passage(text, passage)
            if near and similarity(passage, text[near[0] : near[0] + len(passage)]) >= NEAR:
                place = "" if own else f' in document "{name}"'
                return LabelChange("", 0, EDITED, label, note=f'now{place}, at {near[0]}: "{near[1]}"')
        fact = f'"{anchor}" is no longer in it' if own else f'document "{label.document}" and the anchor are gone'
        return LabelChange("", 0, DELETED, label, note=fact)

    def _successors(self, document: str) -> list[str]:
        """Return the new documents that share most sentences with a document of the old corpus."""
        sentences = _sentences(_text(self.old, document) or "")
        shared = Counter(name for sentence in sentences for name in self.arrived.get(sentence, ()))
        return [name for name, _ in shared.most_common(_SUCCESSORS)]


def _searchable(corpus: Corpus, other: Corpus | None) -> list[_Searchable]:
    """Return the documents that another corpus does not have, or has with another text."""
    pairs = zip(corpus.ids, corpus.texts, strict=True)
    return [_Searchable(name, text, composed(text)) for name, text in pairs if _text(other, name) != text]


def _sentences(text: str) -> set[str]:
    return {canonical(sentence) for sentence in SENTENCE_END.split(text) if sentence.strip()}


def _text(corpus: Corpus | None, document: str) -> str | None:
    position = None if corpus is None else corpus.position.get(document)
    return None if corpus is None or position is None else corpus.texts[position]


def _occurrences(documents: Sequence[_Searchable], excluded: str, anchor: str) -> Iterator[tuple[_Searchable, Span]]:
    """Yield the occurrences of an anchor in all documents but one."""
    words = visible_words(anchor)
    longest = max(words, key=len, default="")  # searched for first, which is much cheaper
    for one in documents:
        if one.name != excluded and longest in one.composed and in_order(one.composed, words):
            yield from ((one, span) for span in resolve(one.text, anchor))


def _listed(places: Sequence[_Place]) -> str:
    named = [f'document "{place.document}" at {place.span[0]}' for place in places[:3]]
    return f"in {', '.join(named)}" + (f" and {len(places) - 3} more places" if len(places) > 3 else "")


def _re_encoded(label: Evidence, spans: Iterable[Span], text: str, before: str | None) -> Span | None:
    """Return the span that corresponds to a label's start in another encoding of the text."""
    if label.start is None:
        return None
    if before is not None:
        same = canonical(text) == canonical(before)
        start = len(canonical(before[: label.start]))
        return next((span for span in spans if same and len(canonical(text[: span[0]])) == start), None)
    for span in spans:
        head = text[: span[0]]
        for lines in (head, head.replace("\r\n", "\n"), head.replace("\n", "\r\n"), canonical(head)):
            if label.start in {len(unicodedata.normalize(form, lines)) for form in ("NFC", "NFD")}:
                return span
    return None
