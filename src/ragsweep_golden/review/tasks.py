"""Define a review: the questions or passages to judge, and the judgements so far."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from ragsweep.core.errors import InputError
from ragsweep.core.types import Corpus
from ragsweep.golden.anchors import resolve
from ragsweep_golden.evidence.passages import locate_label
from ragsweep_golden.review.journal import ACCEPT, EDIT, GRADES, REJECT, Journal, Judgement, evidence_key, is_grade
from ragsweep_golden.sets.entries import Entry, is_rejected, relevant_evidence, value

AROUND = 400  # number of characters that the page shows on either side of an anchor, if an entry has no passage


def question_tasks(entries: Iterable[Entry], corpus: Corpus | None = None) -> list[dict[str, Any]]:
    """Return one task for each silver entry that is not rejected; a task contains the texts that the review page shows.

    The passage of a task contains all relevant evidence of the entry that can be shown (see ``_passage``).
    """
    return [
        {
            "task": json.dumps(["question", entry["id"]]),
            "entry": entry["id"],
            **_asked(entry),
            "kind": value(entry, "classification", "question_type") or entry.get("unanswerable_type") or "",
            "answerable": entry.get("answerable", True),
            "document": ", ".join(dict.fromkeys(one["document"] for one in relevant_evidence(entry)))
            or value(entry, "provenance", "document"),
            "passage": _passage(entry, corpus),
            "marked": [one["anchor"] for one in entry.get("evidence") or () if one.get("anchor")],
        }
        for entry in entries
        if value(entry, "audit", "status") == "silver" and not is_rejected(entry)
    ]


def _asked(entry: Entry) -> dict[str, Any]:
    texts = {"question": entry["question"], "reference": entry.get("reference") or ""}
    return {**texts, "history": entry.get("history") or []}


def _passage(entry: Entry, corpus: Corpus | None) -> str:
    """Return the passage of an entry if it contains all relevant evidence, else the text around the evidence.

    Without a corpus, return the passage, followed by the quotes that it does not contain. If the evidence has only one
    quote, the passage is assumed to contain the quote.
    """
    passage = value(entry, "content", "passage") or ""
    quoted = [one for one in relevant_evidence(entry) if one.get("anchor")]
    lacking = [one for one in quoted if not resolve(passage, one["anchor"])] if passage and len(quoted) > 1 else []
    if corpus and (lacking or not passage):
        return _around_evidence(entry, corpus) or passage
    return "\n\n".join([passage, *(f"{one['document']}:\n{one['anchor']}" for one in lacking)])


def _around_evidence(entry: Entry, corpus: Corpus) -> str:
    """Return the text around each anchor of an entry's relevant evidence that is found; "" if none is found.

    If there are several documents, the text of each begins with the id of the document.
    """
    spans: dict[int, list[tuple[int, int]]] = {}
    for one in relevant_evidence(entry):
        if one.get("anchor") and (found := locate_label(one, corpus)):
            document, start, end = found
            spans.setdefault(document, []).append((max(0, start - AROUND), end + AROUND))
    blocks = []
    for document, parts in spans.items():
        merged: list[tuple[int, int]] = []
        for start, end in sorted(parts):
            first, last = merged.pop() if merged and start <= merged[-1][1] else (start, end)
            merged.append((first, max(last, end)))
        text = "\n[...]\n".join(corpus.texts[document][start:end] for start, end in merged)
        blocks.append(f"{corpus.ids[document]}:\n{text}" if len(spans) > 1 else text)
    return "\n\n".join(blocks)


def passage_tasks(pool: Sequence[Mapping[str, Any]], entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Return one task for each unjudged passage of a pool, in pool order, with the texts that the review page shows.

    A passage counts as judged if a label of its entry has the same document, anchor and start. Raises InputError if the
    question of a passage is not among ``entries``.
    """
    by_id, tasks = {entry["id"]: entry for entry in entries}, []
    for row in pool:
        if row["id"] not in by_id:
            fact = f'pool: has passages of the question "{row["id"]}", which is not in the golden file'
            raise InputError(f"{fact}; run ragsweep golden pool again with this golden file")
        entry = by_id[row["id"]]
        evidence = {name: row[name] for name in ("document", "anchor", "start") if name in row}
        if evidence_key(evidence) in map(evidence_key, entry.get("evidence") or ()):
            continue
        ranks = ", ".join(f"{name} at {rank}" for name, rank in row["ranks"].items())
        task = {
            "task": json.dumps(["passage", row["id"], *evidence.values()], ensure_ascii=False),
            "entry": row["id"],
            **_asked(entry),
            "kind": f"found by {ranks}",
            "answerable": True,
            "document": row["document"],
            "passage": row["passage"],
            "marked": [row["sentence"]],
            "evidence": evidence,
        }
        tasks.append(task)
    return tasks


@dataclass
class Review:
    """A review by one person (``who``): its tasks, and its judgements so far.

    ``recovered`` is the number of judgements from an interrupted earlier review that were merged at the start.
    """

    journal: Journal
    tasks: Sequence[Mapping[str, Any]]
    who: str
    recovered: int
    _given: list[Judgement] = field(default_factory=list)  # the judgements that are not undone, in order
    _lock: Lock = field(default_factory=Lock)

    def judged(self) -> dict[str, Judgement]:
        """Return a mapping of each judged task to its last judgement."""
        return {one["task"]: one for one in self._given}

    def judge(self, given: Mapping[str, Any]) -> Judgement:
        """Store a judgement and return it; if a judgement with this id is already stored, return the stored judgement.

        Raises InputError for an unknown task, a missing id, or an action, grade or text that the task does not allow.
        """
        with self._lock:
            known = next((one for one in self._given if one["id"] == given.get("id")), None)
            if known:
                return known
            judgement = self._checked(given)
            self.journal.append(judgement)
            self._given.append(judgement)
            return judgement

    def undo(self) -> Judgement | None:
        """Undo and return the last judgement; return None if there is no judgement."""
        with self._lock:
            if not self._given:
                return None
            self.journal.append({"undo": self._given[-1]["id"]})
            return self._given.pop()

    def _checked(self, given: Mapping[str, Any]) -> Judgement:
        task = next((one for one in self.tasks if one["task"] == given.get("task")), None)
        if task is None or not isinstance(given.get("id"), str) or not given["id"]:
            raise InputError("there is no such task; reload the page")
        judgement = {"id": given["id"], "task": task["task"], "entry": task["entry"]}
        if "evidence" in task:
            if not is_grade(given.get("grade")):
                raise InputError(f"the grade of a passage must be a whole number from {GRADES[0]} to {GRADES[-1]}")
            judgement |= {"evidence": task["evidence"], "grade": given["grade"]}
        elif given.get("action") == EDIT:
            texts = {name: given.get(name) for name in ("question", "reference")}
            if not all(isinstance(text, str) for text in texts.values()) or not str(texts["question"]).strip():
                raise InputError("a question must not be blank")
            judgement |= {"action": EDIT, **{name: str(text).strip() for name, text in texts.items()}}
        elif given.get("action") in (ACCEPT, REJECT):
            judgement |= {"action": given["action"]}
        else:
            raise InputError(f"the action must be {ACCEPT}, {REJECT} or {EDIT}")
        return judgement | {"who": self.who, "when": datetime.now(UTC).isoformat(timespec="seconds")}
