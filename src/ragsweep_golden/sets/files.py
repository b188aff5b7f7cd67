"""Write golden files and reports atomically, and record each change of a golden file in its changelog.

A command writes the golden file first, and its changelog ``FILE.changes.jsonl`` second. If the process is killed
between these writes, the digest of the golden file differs from the last digest in the changelog, as after a manual
edit.
"""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ragsweep.core.errors import Faults, InputError
from ragsweep.core.locks import replace_file
from ragsweep.core.types import GoldenSet
from ragsweep.golden.golden_format import default_category
from ragsweep.golden.reading import read_rows
from ragsweep.report.tables import to_json
from ragsweep_golden.sets.entries import GROUPS, Entry, is_filled, is_rejected, read_entries


def json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as text, one JSON object per line."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows to a file, one JSON object per line. Raises InputError as ``write_whole`` does."""
    write_whole(path, json_lines(rows))


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Write a report to a file as indented JSON, with null for NaN. Raises InputError as ``write_whole`` does."""
    write_whole(path, to_json(report) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Write a string to a file atomically, gzipped if its name ends in ".gz"; create missing folders.

    Raises InputError if the file cannot be written.
    """
    check_form(path)
    data = text.encode()
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a folder where a file must be written; name a file")
        replace_file(path, gzip.compress(data) if path.suffix == ".gz" else data)
    except (FileExistsError, NotADirectoryError):
        taken = next(one for one in path.parents if one.exists())
        raise InputError(f"{taken}: is a file where a folder is required; choose another folder") from None
    except OSError as fault:
        raise InputError(f"{path}: cannot be written: {fault.strerror}; choose another file") from None


def check_form(path: Path) -> None:
    """Raise InputError for a Parquet file, because Parquet can be read but not written."""
    if path.suffix.lower() == ".parquet":
        way = "ragsweep golden verify GOLDEN corpus=FOLDER out=NEW.jsonl converts a golden file"
        raise InputError(f"{path}: Parquet files can be read, but not written; name a file of JSON lines ({way})")


SHOWN = 2  # maximum number of changes that are listed
KINDS = ("added", "removed", "renamed", "changed")
_DIGITS = 12

Change = Mapping[str, Any]


class SetState(NamedTuple):
    """The entries of a golden file, and the digest that a sweep over all questions of the file would record.

    For a file with faults, there are no entries, and the digest is None.
    """

    entries: Sequence[Entry]
    digest: str | None


def read_state(golden: Path, faults: Faults) -> SetState:
    """Return the state of a golden file and add its faults to ``faults``.

    If ``faults`` is not empty afterwards, the state has no entries and no digest. Rejected entries are included in the
    entries, but not in the digest.
    """
    read = read_entries(golden, faults)
    if faults.found:
        return SetState([], None)
    asked = tuple(question for entry, question in read if not is_rejected(entry))
    return SetState([entry for entry, _ in read], GoldenSet(asked).digest)


def changelog_path(golden: Path) -> Path:
    """Return the path of the changelog: next to the golden file or, for a symbolic link, next to its target."""
    real = golden.resolve() if golden.is_symlink() else golden
    return real.with_name(f"{real.name}.changes.jsonl")


def read_changes(golden: Path) -> list[Change]:
    """Return the changes in the changelog of a golden file, oldest first; [] if there is no changelog.

    Raises InputError for faults of the changelog.
    """
    path, faults = changelog_path(golden), Faults()
    rows = list(read_rows(path, faults)) if path.exists() else []
    for row in rows:
        for name in ("when", "command", "who", "after"):
            row.filled_text(name)
        if "version" not in row or not row.position("version"):
            row.fault('"version" must be a whole number of at least 1')
    faults.raise_any()
    return [row.values for row in rows]


@contextmanager
def record_change(golden: Path, command: str, who: str, source: Path | None = None) -> Iterator[None]:
    """Record the changes that the ``with`` block makes to a golden file in the changelog of the file.

    Nothing is recorded if the block raises an exception, or if the file has faults after the block. If the block
    changes no question, a change is added only if the changelog is empty, or if its last digest differs from that of
    the file. ``source`` is the golden file from which ``golden`` is derived: the changes are relative to ``source``,
    and its changelog is copied and continued. Raises InputError for faults of the existing changelog, before the block
    runs.
    """
    origin = source or golden
    before, changes = read_state(origin, Faults()), read_changes(origin)
    yield
    after = read_state(golden, Faults())
    if after.digest is None:
        return
    counts = compare(before.entries, after.entries)["counts"]
    if any(counts.values()) or not changes or changes[-1]["after"] != after.digest:
        change = {
            "version": changes[-1]["version"] + 1 if changes else 1,
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": f"golden {command}",
            "who": who,
            "before": before.digest,
            "after": after.digest,
            **counts,
        }
        changes.append(change)
    write_rows(changelog_path(golden), changes)


def version_facts(golden: Path, digest: str) -> dict[str, Any]:
    """Return a dict for JSON: the path, version and digest of a golden file, and the last digest in its changelog.

    ``digest`` is the current digest of the file. Without a changelog, the version and the recorded digest are None.
    Raises InputError as ``read_changes`` does.
    """
    last = (read_changes(golden) or [{}])[-1]
    return {"file": str(golden), "version": last.get("version"), "digest": digest, "recorded": last.get("after")}


def describe_version(facts: Mapping[str, Any]) -> str:
    """Return a line of text on the version of a golden file; ``facts`` are from ``version_facts``."""
    digest, recorded = facts["digest"][:_DIGITS], facts["recorded"]
    if recorded is None:
        return f"digest {digest}, no changes recorded"
    if recorded == facts["digest"]:
        return f"version {facts['version']}, digest {digest}"
    fact = f"digest {digest} is not the last recorded one, {recorded[:_DIGITS]}"
    return f"version {facts['version']}, changed externally: {fact}"


def describe_changes(changes: Sequence[Change]) -> Iterator[str]:
    """Yield a line of text for each of the last SHOWN changes, newest first."""
    for before, one in reversed(list(zip([{}, *changes], changes, strict=False))[-SHOWN:]):
        counts = ", ".join(f"{one[kind]:,} {kind}" for kind in KINDS if one.get(kind)) or "no question changed"
        outside = " (changed externally before)" if before and one.get("before") != before["after"] else ""
        yield f"version {one['version']}: {one['when']}, {one['command']}, {one['who']}: {counts}{outside}"


def compare(before: Sequence[Entry], after: Sequence[Entry]) -> dict[str, Any]:
    """Return the differences between two versions of a golden set, by question id, as a dict for JSON.

    ``added``, ``removed``, ``renamed`` and ``changed`` are lists of questions, and ``counts`` gives their lengths. A
    question counts as renamed if ``after`` lacks its id but has its text under a new id.
    """
    old, new = {one["id"]: one for one in before}, {one["id"]: one for one in after}
    same_text = defaultdict(list)
    for identifier, entry in new.items():
        if identifier not in old:
            same_text[entry["question"]].append(identifier)
    renamed = {
        identifier: same_text[entry["question"]].pop(0)
        for identifier, entry in old.items()
        if identifier not in new and same_text[entry["question"]]
    }
    arrived = set(renamed.values())
    found: dict[str, Any] = {
        "added": [_named(one) for one in after if one["id"] not in old and one["id"] not in arrived],
        "removed": [_named(one) for one in before if one["id"] not in new and one["id"] not in renamed],
        "renamed": [
            {"id": one, "new": other, "question": old[one]["question"], "fields": fields(old[one], new[other])}
            for one, other in renamed.items()
        ],
        "changed": [
            _named(entry) | {"fields": changed}
            for identifier, entry in new.items()
            if identifier in old and (changed := fields(old[identifier], entry))
        ],
    }
    return {"counts": {kind: len(entries) for kind, entries in found.items()}, **found}


def fields(one: Entry, other: Entry) -> list[str]:
    """Return the names of the fields in which two entries differ, except the id; a default equals a missing field."""
    first, second = _flat(one), _flat(other)
    return [name for name in {**first, **second} if first.get(name) != second.get(name)]


def _flat(entry: Entry) -> dict[str, Any]:
    """Return the filled fields of an entry except the id, with the defaults that an evaluation would use."""
    flags = {name: entry.get(name, True) for name in ("answerable", "needs_retrieval")}
    values = {**flags, "category": default_category(entry["question"], **flags)}
    values |= {name: given for name, given in entry.items() if name != "id" and name not in GROUPS}
    for group in GROUPS:
        values |= {f"{group}.{name}": given for name, given in (entry.get(group) or {}).items()}
    values["evidence"] = [{"grade": 1, **label} for label in entry.get("evidence") or ()]
    return {name: given for name, given in values.items() if is_filled(given)}


def _named(entry: Entry) -> dict[str, Any]:
    return {"id": entry["id"], "question": entry["question"]}
