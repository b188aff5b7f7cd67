"""The filled fields of an entry, and the fields that an export keeps."""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragsweep.core.types import Corpus
from ragsweep_golden.evidence.passages import locate_label, sentence_around
from ragsweep_golden.sets.entries import GROUPS, Entry, is_filled


@dataclass
class Exported:
    """The files of an export by their path in the folder (empty: the file itself), and the losses."""

    files: dict[str, str]
    lost: Counter[str] = field(default_factory=Counter)  # field -> entries
    notes: Counter[str] = field(default_factory=Counter)  # other change -> count


def filled_fields(entry: Entry) -> Iterator[str]:
    """Yield the names of an entry's filled fields.

    A field within a group, the labels or the evidence is named as in ``evidence.anchor``. ``answerable`` and
    ``needs_retrieval`` are omitted if they are true, which is the default.
    """
    for name, value in entry.items():
        if name in (*GROUPS, "labels") and isinstance(value, Mapping):
            yield from (f"{name}.{inner}" for inner, one in value.items() if is_filled(one))
        elif name == "evidence":
            yield from dict.fromkeys(f"evidence.{key}" for label in value or () for key in label)
        elif is_filled(value) and not (name in ("answerable", "needs_retrieval") and value is True):
            yield name


def count_lost(entries: Sequence[Entry], kept: Collection[str]) -> Counter[str]:
    """Count the entries with a filled field outside ``kept``, by field.

    A name in ``kept`` that ends with a dot, such as ``evidence.``, means all fields of that group.
    """
    return Counter(
        name
        for entry in entries
        for name in filled_fields(entry)
        if name not in kept and f"{name.partition('.')[0]}." not in kept
    )


def whole_grade(label: Mapping[str, Any], notes: Counter[str]) -> int:
    """Return a label's grade rounded up to an integer of at least 0; ``notes`` counts the changed grades."""
    grade = label.get("grade", 1)
    whole = max(0, math.ceil(float(grade)))
    notes["grades became whole numbers of 0 or more"] += whole != grade
    return whole


def context(label: Mapping[str, Any], corpus: Corpus | None) -> str:
    """Return the sentence around a label's quote, the quote if it is not found, or, without one, the document."""
    found = locate_label(label, corpus) if corpus else None
    if corpus is None or found is None:
        return str(label.get("anchor") or "")
    text = corpus.texts[found[0]]
    return text if label.get("anchor") is None else sentence_around(text, found[1:])


def labels_as_texts(entry: Entry) -> Mapping[str, Any]:
    """Return the labels of an entry as the texts that an evaluation reads."""
    own = {name: entry[name] for name in ("language", "content_type") if entry.get(name)}
    labels = own | (entry.get("labels") or {})
    return {name: one if isinstance(one, str) else json.dumps(one) for name, one in labels.items() if one is not None}
