"""Find and repair labels whose passages a change of the corpus moved, edited, deleted or made ambiguous.

Labels are repaired only if the repair is unambiguous. A label names a document and an anchor, which quotes the passage;
a label without an anchor stands for the whole document. A passage is identified by its anchor and, if the old corpus is
given, by the words around the anchor. A text that differs only in its encoding (composed or decomposed characters, line
ends, white space) counts as unchanged.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ragsweep.core.types import Corpus, Evidence, Question
from ragsweep.core.words import word_count
from ragsweep.golden.anchors import Span, canonical, nearest_passage, resolve
from ragsweep.golden.judged_spans import DocumentSpan
from ragsweep_golden.evidence.passages import NOTHING, Common, common_words, sentence_around, similarity
from ragsweep_golden.evidence.quotes import FEWEST_WORDS
from ragsweep_golden.labels.corpus_pair import CorpusPair, occurrences, re_encoded, text_of
from ragsweep_golden.sets.entries import as_label, value

MOVED, EDITED, DELETED, AMBIGUOUS = "moved", "edited", "deleted", "ambiguous"
KINDS = (MOVED, EDITED, DELETED, AMBIGUOUS)
NEAR = 0.6  # minimum similarity (see ``similarity``) of a passage and its edited form


class LabelChange(NamedTuple):
    """A label that is invalid in the new corpus. ``new`` is the repaired label, or None if a person must decide."""

    kind: str
    old: Evidence
    new: Evidence | None = None
    note: str = ""
    question: str = ""
    number: int = 0  # index of the label in the evidence of its question


class Verification(NamedTuple):
    """The number of labels, and the changes of the invalid labels, in question order.

    ``renumbered`` maps labels to labels with a new start. These labels are valid except for the start, which changes
    with the white space and the Unicode form of the text.
    """

    labels: int
    changes: Sequence[LabelChange]
    renumbered: Mapping[Evidence, Evidence]
    renamed: Mapping[str, str]  # renamed documents: old id -> new id


class _Origin(NamedTuple):
    """The place of a label's anchor in the old corpus: the document's text, the span, and the sentence around it."""

    text: str
    span: Span
    sentence: str


def verify_labels(questions: Sequence[Question], new: Corpus, old: Corpus | None = None) -> Verification:
    """Return the labels that are invalid in the corpus ``new``, each with its repair if the repair is unambiguous.

    ``old`` is the corpus for which the labels were written. Without it, a passage is identified only by its anchor, and
    a whole document only by its id.
    """
    labels = {label for question in questions for label in question.evidence}
    verifier, found = _Verifier(CorpusPair(new, old), frozenset(label.document for label in labels)), {}
    for label in sorted(labels, key=lambda label: label.document):  # by document, because ``resolve`` caches few texts
        found[label] = verifier.examine(label)
    changes = [change for question in questions for change in _changes_of(question, found)]
    renumbered = {label: change.new for label, change in found.items() if change and not change.kind and change.new}
    count = sum(len(question.evidence) for question in questions)
    return Verification(count, changes, renumbered, verifier.corpora.renamed)


def _changes_of(question: Question, found: Mapping[Evidence, LabelChange | None]) -> Iterator[LabelChange]:
    """Yield the changes of a question's labels; a label is not moved to another label's place, whatever its grade."""
    moving = {label for label in question.evidence if (change := found[label]) and change.kind and change.new}
    staying = [label for label in question.evidence if label not in moving]  # valid, re-encoded or without a repair
    taken = {replace((change and change.new) or label, grade=1.0) for label in staying for change in [found[label]]}
    for number, label in enumerate(question.evidence):
        if (change := found[label]) and change.kind:
            change = change._replace(question=question.id, number=number, old=label)
            if change.new and (place := replace(change.new, grade=1.0)) in taken:
                note = f"{change.note}, where the question has another label; keep only one of the two"
                change = change._replace(new=None, note=note)
            elif change.new:
                taken.add(place)
            yield change


@dataclass(frozen=True, eq=False)
class _Verifier:
    corpora: CorpusPair
    named: frozenset[str]  # the documents of all labels

    def examine(self, label: Evidence) -> LabelChange | None:
        """Return the change of a label; None if the label is valid.

        The kind of the change is "" if the label needs only a new start (see ``Verification``).
        """
        text, before = text_of(self.corpora.new, label.document), text_of(self.corpora.old, label.document)
        if text is not None and (label.anchor is None or text == before):
            return None
        if label.anchor is None:
            if name := self.corpora.renamed.get(label.document):
                return LabelChange(MOVED, label, replace(label, document=name), f'the document is now "{name}"')
            return LabelChange(DELETED, label, note=f'document "{label.document}" is gone')
        if text is not None and before is not None and label.start is None and canonical(text) == canonical(before):
            return None
        spans = resolve(text, label.anchor) if text is not None else []
        here = [DocumentSpan(label.document, *span) for span in spans]
        origins = resolve(before, label.anchor, label.start) if before is not None else []
        origin = None
        if before is not None and len(origins) == 1:
            origin = _Origin(before, origins[0], sentence_around(before, origins[0]))
        if len(spans) == 1 and label.start is None:
            return None
        if origin is None and any(begin == label.start for begin, _ in spans):
            return None
        if text is not None and (span := re_encoded(label, spans, text, before)):
            return LabelChange("", label, replace(label, start=span[0]))
        if origin:
            return self._by_context(label, label.anchor, here, origin)
        return self._by_anchor(label, label.anchor, here)

    def _by_anchor(self, label: Evidence, anchor: str, here: list[DocumentSpan]) -> LabelChange:
        """Return the change of a label located only by its anchor, with a repair if the anchor occurs exactly once.

        ``here`` lists the anchor's places in the label's document. If it is empty, the new and changed documents are
        searched, but the label is not moved there if its own document has a similar passage. An anchor of fewer than
        FEWEST_WORDS words may occur in another passage by chance, so its label is not repaired in two cases: the anchor
        occurs in the label's document and in a new or changed one, or only in another document that a label names.
        """
        places = here or self._elsewhere(label.document, anchor)
        if len(places) > 1 and (here or label.document not in self.corpora.new.position):
            return LabelChange(AMBIGUOUS, label, note=_listed(places))
        if len(places) != 1:
            return self._lost(label, anchor, anchor)
        note, is_short = _listed(places), word_count(anchor) < FEWEST_WORDS
        hint = f"the words are {note}; old=CORPUS shows whether the passage is the same"
        if is_short and here and self._elsewhere(label.document, anchor):
            return LabelChange(MOVED, label, note=hint)
        lost = self._lost(label, anchor, anchor)
        is_chance = is_short and places[0].document in self.named  # a document named by a label is not new
        if not here and (is_chance or (lost.kind == EDITED and label.document in self.corpora.new.position)):
            return lost._replace(note=f"{lost.note}; {hint}")
        return LabelChange(MOVED, label, self._at(label, anchor, places[0]), note)

    def _by_context(
        self, label: Evidence, anchor: str, here: list[DocumentSpan], origin: _Origin
    ) -> LabelChange | None:
        """Return a label's change, found by the words around its anchor in both corpora; None if the label is valid."""
        for is_here in (True, False):
            places = here if is_here else self._elsewhere(label.document, anchor)
            scored = [(self._score(one, origin, label), one) for one in places]
            scored = [(score, place) for score, place in scored if score != NOTHING]
            if not scored:
                continue
            earlier = [(origin.text, span) for span in resolve(origin.text, anchor) if span != origin.span]
            if not is_here:
                earlier += [(one.text, span) for one, span in occurrences(self.corpora.before, label.document, anchor)]
            # exclude places whose surrounding words match another passage of the old corpus better
            others = [max((self._common(one, place) for one in earlier), default=NOTHING) for _, place in scored]
            pairs = zip(scored, others, strict=True)
            mine = [(score, other < score, place) for (score, place), other in pairs if score >= other]
            if not mine:
                continue
            best = max(score for score, *_ in mine)
            found = [(clear, place) for score, clear, place in mine if score == best]
            sure = len(found) == 1 and found[0][0]
            kind = MOVED if sure and (label.start is not None or len(here) < 2) else AMBIGUOUS
            repaired = self._at(label, anchor, found[0][1]) if sure else None
            note = _listed([place for _, place in found])
            return None if repaired == label else LabelChange(kind, label, repaired, note)
        return self._lost(label, anchor, origin.sentence)

    def _score(self, place: DocumentSpan, origin: _Origin, label: Evidence) -> Common:
        """Return how many words around an anchor are equal at a place in the new corpus and at ``origin``.

        Return NOTHING if the words of the anchor and the equal words are too few to identify the passage. Fewer words
        suffice for two places in the label's document: the label's start, if a word beside the anchor is equal, and a
        place in a similar sentence.
        """
        common = self._common((origin.text, origin.span), place)
        words = word_count(origin.text[slice(*origin.span)]) + common.all
        if words >= min(FEWEST_WORDS, word_count(origin.sentence)):
            return common
        if place.document != label.document:
            return NOTHING
        if place.start == label.start and common.all > 0:
            return common
        passage = sentence_around(text_of(self.corpora.new, place.document) or "", place[1:])
        return common if similarity(origin.sentence, passage) >= NEAR else NOTHING

    def _common(self, one: tuple[str, Span], place: DocumentSpan) -> Common:
        return common_words(*one, text_of(self.corpora.new, place.document) or "", place[1:])

    def _elsewhere(self, document: str, anchor: str) -> list[DocumentSpan]:
        """Return the places of an anchor in the new and changed documents other than ``document``."""
        return [DocumentSpan(one.name, *span) for one, span in occurrences(self.corpora.candidates, document, anchor)]

    def _at(self, label: Evidence, anchor: str, place: DocumentSpan) -> Evidence:
        """Return a label moved to a place, with a start if the label has one or the document repeats the anchor."""
        text = text_of(self.corpora.new, place.document) or ""
        needs_start = label.start is not None or len(resolve(text, anchor)) > 1
        return replace(label, document=place.document, start=place.start if needs_start else None)

    def _lost(self, label: Evidence, anchor: str, passage: str) -> LabelChange:
        """Return the change of a label whose passage is not found: EDITED or DELETED.

        The change is EDITED if the label's document, or one of its successors, has a passage similar to ``passage``.
        """
        own = [label.document] if label.document in self.corpora.new.position else []
        for name in [*own, *self.corpora.successors(label.document)]:
            text = text_of(self.corpora.new, name) or ""
            near = nearest_passage(text, passage)
            if near and similarity(passage, text[near[0] : near[0] + len(passage)]) >= NEAR:
                place = "" if own else f' in document "{name}"'
                return LabelChange(EDITED, label, note=f'most similar passage{place} at {near[0]}: "{near[1]}"')
        gone = f'document "{label.document}" and the anchor are gone'
        return LabelChange(DELETED, label, note=f'"{anchor}" is no longer in the document' if own else gone)


def _listed(places: Sequence[DocumentSpan]) -> str:
    named = [f'document "{place.document}" at {place.start}' for place in places[:3]]
    return f"in {', '.join(named)}" + (f" and {len(places) - 3} more" if len(places) > 3 else "")


def repair(
    entries: Sequence[dict[str, Any]],
    questions: Sequence[Question],
    found: Verification,
    corpus: Corpus,
    old: Corpus | None,
) -> None:
    """Repair entries in place: their labels, distractors, provenance and corpus digest.

    The repair of a label is recorded in ``audit.reviews``, unless only its start changes (see ``Verification``). The
    corpus digest of an entry, if it has one, becomes the digest of ``corpus``, unless a person must still decide on one
    of the entry's labels.
    """
    when = datetime.now(UTC).isoformat(timespec="seconds")
    changes: dict[str, list[LabelChange]] = {}
    for change in found.changes:
        changes.setdefault(change.question, []).append(change)
    for entry, question in zip(entries, questions, strict=True):
        for number, label in enumerate(question.evidence):
            if label in found.renumbered:
                entry["evidence"][number] |= {"start": found.renumbered[label].start}
        if entry.get("distractors"):
            entry["distractors"] = [found.renamed.get(name, name) for name in entry["distractors"]]
        stated = value(entry, "validation", "corpus_digest")
        digests = {"before": old.digest if old else stated, "after": corpus.digest}
        mine = changes.get(question.id, [])
        for change in mine:
            if change.new:
                entry["evidence"][change.number] = new_label = as_label(change.new)
                _follow(entry, change.old, change.new, corpus, found.renamed)
                line: dict[str, Any] = {"who": "ragsweep golden verify", "when": when, "what": f"label {change.kind}"}
                line |= {"old": as_label(change.old), "new": new_label, "corpus": digests}
                audit = entry.get("audit") or {}
                entry["audit"] = audit | {"reviews": [*(audit.get("reviews") or []), line]}
        _correct_span(entry, corpus)
        if stated and all(change.new for change in mine):
            entry["validation"] = entry["validation"] | {"corpus_digest": corpus.digest}


def _follow(entry: dict[str, Any], old: Evidence, new: Evidence, corpus: Corpus, renamed: Mapping[str, str]) -> None:
    """Update an entry's provenance after a repair of a label, if the provenance names the old label's document.

    The provenance gets the document of the new label; ``start`` and ``end`` become the span of the entry's passage
    there, or null if the passage does not occur there exactly once. In ``chunk_id``, the new name of a document that
    was only renamed replaces the old one; if the label moved to a different document, ``chunk_id`` becomes null.
    """
    if value(entry, "provenance", "document") != old.document:
        return
    places = resolve(corpus.texts[corpus.position[new.document]], str(value(entry, "content", "passage") or ""))
    start, end = places[0] if len(places) == 1 else (None, None)
    place = {"document": new.document, "start": start, "end": end}
    chunk = entry["provenance"].get("chunk_id")
    if chunk and new.document != old.document:
        is_renamed = renamed.get(old.document) == new.document
        place["chunk_id"] = f"{new.document}#{chunk.rpartition('#')[2]}" if is_renamed else None
    entry["provenance"] = entry["provenance"] | place


def _correct_span(entry: dict[str, Any], corpus: Corpus) -> None:
    """Set the span in an entry's provenance to that of its passage; null if the passage occurs several times.

    Nothing changes if there is no span, if the passage starts with the span's text or is part of it, or if the passage
    is not found.
    """
    document, start, end = (value(entry, "provenance", name) for name in ("document", "start", "end"))
    text, passage = text_of(corpus, document) or "", str(value(entry, "content", "passage") or "")
    stated = canonical(text[start:end] if isinstance(start, int) and isinstance(end, int) else passage)
    is_apart = not (stated and canonical(passage).startswith(stated)) and canonical(passage) not in stated
    if is_apart and (places := resolve(text, passage)):
        start, end = places[0] if len(places) == 1 else (None, None)
        entry["provenance"] = entry["provenance"] | {"start": start, "end": end}
