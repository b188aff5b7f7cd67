"""Locate the texts of imported records in the corpus, as the evidence of their entries, and count what is found."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragsweep.core.plurals import counted
from ragsweep.core.types import Corpus, Evidence
from ragsweep.core.words import word_count
from ragsweep.golden.reading import normal_id
from ragsweep_golden.evidence.passages import locate_label
from ragsweep_golden.evidence.quotes import FEWEST_WORDS, GivenText, Place, locate, quote
from ragsweep_golden.exchange.drafts import RecordDraft
from ragsweep_golden.sets.entries import as_label, is_filled

_HOP = re.compile(r"\A<\d+-hop>\s+")  # ragas puts this prefix before the passages of multi-hop questions


@dataclass
class Imported:
    """The imported entries, and counts of the fields and texts of the records."""

    format: str
    entries: list[dict[str, Any]] = field(default_factory=list)
    in_notes: Counter[str] = field(default_factory=Counter)  # field -> number of records whose notes contain it
    left: Counter[str] = field(default_factory=Counter)  # field -> number of records that lose it
    exact: int = 0  # number of texts found verbatim
    near: int = 0  # number of texts located in the nearest passage
    unfound: list[tuple[str, str]] = field(default_factory=list)  # (question id, text) of each text that is not found
    gold: int = 0  # number of entries that were gold in the source
    repeated: int = 0  # number of duplicate records (dropped)
    notes: tuple[str, ...] = ()  # notes on the encoding of the file


def add_evidence(drafts: Sequence[RecordDraft], corpus: Corpus | None, imported: Imported) -> None:
    """Add the texts of each draft to its entry as evidence, if they are found in the corpus.

    Without a corpus, the texts whose document is given become evidence.
    """
    given = [_given(draft, corpus) for draft in drafts]
    found = locate([one for texts in given for one in texts], corpus) if corpus else {}
    for draft, texts in zip(drafts, given, strict=True):
        labels = [_label(one, found, draft.entry, corpus, imported) for one in texts]
        if evidence := [label for n, label in enumerate(labels) if label and label not in labels[:n]]:
            draft.entry["evidence"] = evidence


def _given(draft: RecordDraft, corpus: Corpus | None) -> list[GivenText]:
    """Return the texts to locate for a draft: its passages or, if it has none, its answer.

    A passage is searched for in its document, or in all documents if the corpus has no document with that id. An answer
    must match verbatim. It is returned only for an answerable entry without evidence, and only if it has at least
    FEWEST_WORDS words.
    """
    if draft.passages:
        named = [(_HOP.sub("", text.strip()), document and normal_id(document)) for text, document in draft.passages]
        return [
            GivenText(text, document if not text or corpus is None or document in corpus.position else None)
            for text, document in named
        ]
    answer = str(draft.entry.get("reference") or "").strip()
    is_wanted = draft.entry.get("answerable", True) and not is_filled(draft.entry.get("evidence"))
    return [GivenText(answer, exact=True)] if is_wanted and word_count(answer) >= FEWEST_WORDS else []


def _label(
    one: GivenText,
    found: Mapping[GivenText, Place],
    entry: dict[str, Any],
    corpus: Corpus | None,
    imported: Imported,
) -> dict[str, Any] | None:
    if one.document and (corpus is None or (not one.text and one.document in corpus.position)):
        return as_label(Evidence(one.document, one.text or None))
    if corpus is None or one not in found:
        if not one.exact:
            imported.unfound.append((str(entry.get("id")), one.text or f'document "{one.document}"'))
        return None
    place = found[one]
    anchor, start = quote(place, str(entry.get("question")), str(entry.get("reference") or ""), corpus)
    note = ""
    if place.shared < 1:
        note = f'evidence is the nearest passage, with {place.shared:.0%} of the words of "{one.text[:60]}"'
    elif place.others:
        note = f"evidence is also in {counted(place.others, 'other document')}"
    if note:
        entry["notes"] = "; ".join(filter(None, [entry.get("notes"), note]))
    document = corpus.ids[place.document]
    entry.setdefault("content", {"passage": corpus.texts[place.document][place.start : place.end]})
    entry.setdefault("provenance", {"document": document, "start": place.start, "end": place.end})
    imported.near += place.shared < 1
    imported.exact += place.shared == 1
    return as_label(Evidence(document, anchor, start))


def correct_labels(entries: Sequence[dict[str, Any]], corpus: Corpus, imported: Imported) -> None:
    """Replace each anchor that is not in its document by a quote from the nearest passage, or count it as not found.

    If two labels of an entry have the same quote afterwards, only the label with the higher grade is kept.
    """
    labels = [(entry, label) for entry in entries for label in entry.get("evidence", ())]
    wrong = [(entry, label) for entry, label in labels if locate_label(label, corpus) is None]
    imported.exact += sum("anchor" in label for _, label in labels) - sum("anchor" in label for _, label in wrong)
    given = [GivenText(label.get("anchor", ""), label["document"]) for _, label in wrong]
    found = locate(given, corpus)
    for (entry, label), one in zip(wrong, given, strict=True):
        if quoted := _label(one, found, entry, corpus, imported):
            label.pop("start", None)
            label.update(quoted)
            alike = [each for each in entry["evidence"] if each | {"grade": 1} == label | {"grade": 1}]
            if len(alike) > 1:
                highest = max(alike, key=lambda each: each.get("grade", 1))
                entry["evidence"] = [each for each in entry["evidence"] if each is highest or each not in alike]
