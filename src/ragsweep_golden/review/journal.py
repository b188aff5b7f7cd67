"""Record human judgements in a journal next to the golden file, and merge them into the golden file.

Each line of the journal is a judgement, or undoes an earlier judgement. A judgement has the id of its entry, and a
judgement of a passage also has the judged evidence. The merge therefore needs only the journal and the golden file. A
process may be killed between writing the golden file and emptying the journal, so a judgement is not merged again if
its id is already in the golden file.
"""

import fcntl
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import Any

from ragsweep.core.errors import Faults, InputError
from ragsweep.golden.golden_format import REJECTED
from ragsweep.golden.reading import Row, read_row
from ragsweep.parts.languages import fold
from ragsweep_golden.sets.entries import NEEDS_REVIEW, VALIDATED, Entry, read_entries, value
from ragsweep_golden.sets.files import record_change, write_rows

ACCEPT, REJECT, EDIT = "accept", "reject", "edit"
GRADES = (0, 1, 2, 3)  # grades of a judged passage; 0 means not relevant
Judgement = Mapping[str, Any]


class Journal:
    """The journal of the judgements that are not yet in the golden file; only one process at a time can open it.

    Raises InputError if another process has opened the journal.
    """

    def __init__(self, golden: Path) -> None:
        self.golden = golden = golden.resolve() if golden.is_symlink() else golden
        self.path = golden.with_name(f"{golden.name}.reviews.jsonl")
        mode = golden.stat().st_mode & 0o666
        os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY, mode))
        self._file = self.path.open("a+b")
        self._lock = RLock()  # a line that is appended during a merge must not be truncated
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as fault:
            self._file.close()
            raise InputError(f"{golden} is being reviewed by another process; end that process first") from fault

    def append(self, line: Judgement) -> None:
        """Append one line and sync it to disk."""
        with self._lock:
            self._file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def lines(self) -> list[Judgement]:
        """Return all complete lines; an incomplete last line is ignored. Raises InputError for an invalid line."""
        self._file.seek(0)
        faults = Faults()
        read = []
        for number, line in enumerate(self._file.read().split(b"\n")[:-1], start=1):
            where = f"{self.path}:{number}"
            try:
                read.append(read_row(line.decode(), where, faults))
            except UnicodeDecodeError as fault:
                faults.add(
                    where, f"byte {fault.start + 1} (0x{line[fault.start]:02x}) is not valid UTF-8; delete the line"
                )
        for row in filter(None, read):
            _check_line(row)
        faults.raise_any()
        return [row.values for row in read if row]

    def fold(self) -> int:
        """Apply the journal's judgements to the golden file, empty the journal, and return the number of judgements.

        Judgements that :func:`settle` drops are neither applied nor counted. Raises InputError, and changes nothing, if
        the journal or the golden file has faults, or if the golden file lacks a judged entry.
        """
        with self._lock:
            judgements = settle(self.lines())
            if judgements:
                self._merge(judgements)
            self._file.truncate(0)
        return len(judgements)

    def _merge(self, judgements: Sequence[Judgement]) -> None:
        faults = Faults()
        entries = {entry["id"]: entry for entry, _ in read_entries(self.golden, faults)}
        for name in dict.fromkeys(one["entry"] for one in judgements):
            if name not in entries:
                fact = f'has judgements of "{name}", which is no longer in {self.golden}'
                faults.add(str(self.path), f"{fact}; restore that question, or delete these lines of the journal")
        faults.raise_any()
        for one in judgements:
            entries[one["entry"]] = apply(entries[one["entry"]], one)
        with record_change(self.golden, "review", ", ".join(sorted({one["who"] for one in judgements}))):
            write_rows(self.golden, entries.values())

    def finish(self) -> None:
        """Merge, delete and close the journal; if :meth:`fold` raises an error, close the journal but keep its file."""
        with self._lock:
            try:
                self.fold()
                self.path.unlink()
            finally:
                self.close()

    def close(self) -> None:
        """Close the journal, but keep its file: the judgements in it are not yet in the golden file."""
        self._file.close()


def _check_line(row: Row) -> None:
    if "undo" in row:
        row.filled_text("undo")
        return
    for name in ("id", "task", "entry", "who", "when"):
        row.filled_text(name)
    action = row.text("action")
    if "evidence" in row:
        evidence = row.row("evidence")
        evidence.filled_text("document"), evidence.given_text("anchor"), evidence.position("start")
        if not is_grade(row.values.get("grade")):
            row.fault(f'"grade" is not a whole number from {GRADES[0]} to {GRADES[-1]}')
    elif action not in (ACCEPT, REJECT, EDIT):
        row.fault(f'"action" must be {ACCEPT}, {REJECT} or {EDIT}, got "{action[:40]}"')
    elif action == EDIT:
        row.filled_text("question"), row.given_text("reference")


def is_grade(value: object) -> bool:
    """Return whether a value is an integer in GRADES; True and 1.0 are not grades."""
    return type(value) is int and value in GRADES


def settle(lines: Iterable[Judgement]) -> list[Judgement]:
    """Return the last judgement of each task; judgements that a later line undoes are dropped first."""
    given = list(lines)
    undone = {one["undo"] for one in given if "undo" in one}
    kept = [one for one in given if "undo" not in one and one["id"] not in undone]
    return list({one["task"]: one for one in kept}.values())


def apply(entry: Entry, judgement: Judgement) -> dict[str, Any]:
    """Return a copy of an entry with a judgement applied; an unchanged copy if the entry already has this judgement."""
    reviews = value(entry, "audit", "reviews") or []
    if judgement["id"] in [one.get("id") for one in reviews if isinstance(one, dict)]:
        return dict(entry)
    changes: dict[str, Any] = {}
    if "evidence" in judgement:
        label = {**judgement["evidence"], "grade": judgement["grade"]}
        others = [one for one in entry.get("evidence") or () if evidence_key(one) != evidence_key(label)]
        changed: dict[str, Any] = {**entry, "evidence": [*others, label]}
        what = f'grade {label["grade"]} for "{label["anchor"]}" in {label["document"]}'
    else:
        changed, changes = _reviewed(entry, judgement), _changes(entry, judgement)
        what = {REJECT: "rejected"}.get(judgement["action"], "corrected" if changes else "accepted")
    review = {"id": judgement["id"], "who": judgement["who"], "when": judgement["when"], "what": what}
    review |= {"changed": changes} if changes else {}
    return changed | {"audit": {**(changed.get("audit") or {}), "reviews": [*reviews, review]}}


def evidence_key(label: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the key that identifies a label: its document, anchor and start. The grade is not part of the key."""
    return label.get("document"), label.get("anchor"), label.get("start")


def _changes(entry: Entry, judgement: Judgement) -> dict[str, list[str]]:
    """Map each field that an edit changes to [old value, new value]; {} for other actions."""
    if judgement["action"] != EDIT:
        return {}
    pairs = {name: [str(entry.get(name) or ""), judgement[name]] for name in ("question", "reference")}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _reviewed(entry: Entry, judgement: Judgement) -> dict[str, Any]:
    """Return a copy of an entry with a judgement applied: it becomes rejected, or gold with the corrections made.

    Keywords that occur in the original answer but not in the corrected one are dropped.
    """
    validation = dict(entry.get("validation") or {})
    if judgement["action"] == REJECT:
        return {**entry, "validation": validation | {"status": REJECTED}}
    changed, changes = dict(entry), _changes(entry, judgement)
    for name, (before, after) in changes.items():
        changed[name] = after
        if choice := changed.get("multiple_choice"):
            changed["multiple_choice"] = {part: _replaced(given, before, after) for part, given in choice.items()}
            if name in choice:  # the question, after which more words may follow
                changed["multiple_choice"][name] = choice[name].replace(before, after)
    if changes or validation.get("status") != VALIDATED:
        validation |= {"status": VALIDATED, "method": "person", "score": 1.0}
    if "reference" in changes:
        wrong, right = map(fold, changes["reference"])
        words = [
            one
            for one in entry.get("keywords") or ()
            if fold(one) not in wrong or re.search(rf"(?<!\d){re.escape(fold(one))}(?!\d)", right)
        ]
        changed |= {"keywords": words} if entry.get("keywords") else {}
        passage = str(value(entry, "content", "passage") or "")
        contained = bool(changed["reference"]) and changed["reference"] in passage
        validation["answer_in_evidence"] = contained if passage else None
    if note := changed.get("notes"):
        changed["notes"] = str(note).removeprefix(f"{NEEDS_REVIEW}: ")
    return changed | {"validation": validation, "audit": {**(entry.get("audit") or {}), "status": "gold"}}


def _replaced(given: Any, before: str, after: str) -> Any:
    if isinstance(given, list):
        return [_replaced(one, before, after) for one in given]
    return after if given == before else given
