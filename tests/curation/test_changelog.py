"""The changelog of a golden set: its digests link, and what no command did is noticed."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ragsweep.core.errors import Faults, InputError
from ragsweep.parts.datasets.own_format import Jsonl
from ragsweep_golden.sets.files import (
    SetState,
    changelog_path,
    compare,
    describe_changes,
    describe_version,
    read_changes,
    read_state,
    record_change,
    version_facts,
    write_rows,
)

ENTRIES: list[dict[str, Any]] = [
    {"id": f"q{n}", "question": f"Why {n}?", "evidence": [{"document": "d"}]} for n in range(4)
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "golden.jsonl"


def change(path: Path, entries: Iterable[dict[str, Any]]) -> None:
    with record_change(path, "add", "Ann"):
        write_rows(path, entries)


def interrupted(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield from entries
    raise KeyboardInterrupt


def kill_after_the_set(path: Path) -> None:
    with record_change(path, "add", "Ann"):
        write_rows(path, ENTRIES)
        raise KeyboardInterrupt


def line(path: Path) -> str:
    return describe_version(version_facts(path, str(read_state(path, Faults()).digest)))


def test_each_change_is_a_line_with_counts_and_what_changes_nothing_is_none(path: Path) -> None:
    change(path, ENTRIES[:2])
    change(path, ENTRIES[:2])
    change(path, [ENTRIES[1] | {"notes": "n"}, ENTRIES[2], ENTRIES[0] | {"id": "other"}])
    change(path, [ENTRIES[1]])
    changes = read_changes(path)
    assert [[one[kind] for kind in ("added", "removed", "renamed", "changed")] for one in changes] == [
        [2, 0, 0, 0], [1, 0, 1, 1], [0, 2, 0, 1],
    ]  # fmt: skip
    assert [one["version"] for one in changes] == [1, 2, 3]
    assert [one["before"] for one in changes[1:]] == [one["after"] for one in changes[:-1]]
    assert line(path) == f"version 3, digest {changes[-1]['after'][:12]}"
    newest, before = describe_changes(changes)
    assert newest.startswith("version 3: ")
    assert newest.endswith("golden add, Ann: 2 removed, 1 changed")
    assert before.startswith("version 2: ")


DEFAULTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"category": "", "answerable": True, "needs_retrieval": True, "evidence": [{"document": "d", "grade": 1}]}),
    ({}, {"history": [], "reference": "", "keywords": [], "labels": {}, "content": {}, "notes": ""}),
    ({"answerable": False, "evidence": []}, {"answerable": False, "category": "unanswerable", "evidence": None}),
    (
        {"needs_retrieval": False, "evidence": []},
        {"needs_retrieval": False, "category": "conversational", "evidence": []},
    ),
]


@pytest.mark.parametrize(("omitted", "stated"), DEFAULTS)
def test_a_stated_default_is_no_change_and_every_other_value_is(
    path: Path, omitted: dict[str, Any], stated: dict[str, Any]
) -> None:
    def read(*entries: dict[str, Any]) -> SetState:
        write_rows(path, entries)
        return read_state(path, Faults())

    before, after = read(ENTRIES[0] | omitted), read(ENTRIES[0] | stated)
    assert before.digest == after.digest
    assert not any(compare(before.entries, after.entries)["counts"].values())
    other = read(ENTRIES[0] | stated | {"category": "other", "evidence": [{"document": "d", "grade": 0}]})
    (changed,) = compare(before.entries, other.entries)["changed"]
    assert sorted(changed["fields"]) == ["category", "evidence"]


def test_a_blank_category_is_not_the_default_of_an_unanswerable_question(path: Path) -> None:
    one = {"id": "q", "question": "Why?", "answerable": False}
    write_rows(path, [one])
    before = read_state(path, Faults())
    write_rows(path, [one | {"category": ""}])
    after = read_state(path, Faults())
    is_changed = bool(compare(before.entries, after.entries)["counts"]["changed"])
    assert is_changed == (before.digest != after.digest)


def test_the_digest_is_that_of_the_set_in_a_sweep(path: Path) -> None:
    rejected = {"id": "r", "question": "No?", "validation": {"status": "rejected"}}
    change(path, [*ENTRIES, rejected])
    corpus = path.with_name("corpus.jsonl")
    write_rows(corpus, [{"id": "d", "text": "Because."}])
    assert read_changes(path)[0]["after"] == Jsonl(str(corpus), str(path), "error", None, 0, False).load().golden.digest


def test_an_edit_by_hand_is_noticed_then_and_in_the_next_change(path: Path) -> None:
    change(path, ENTRIES)
    write_rows(path, [ENTRIES[0] | {"question": "Why not?"}, *ENTRIES[1:]])
    assert line(path).startswith("version 1, changed externally: digest ")
    change(path, ENTRIES[:3])
    assert line(path).startswith("version 2, digest ")
    assert "(changed externally before)" in next(describe_changes(read_changes(path)))


def test_a_killed_command_leaves_no_wrong_line_and_its_repetition_a_right_one(path: Path) -> None:
    change(path, ENTRIES[:1])
    first = changelog_path(path).read_text()
    with pytest.raises(KeyboardInterrupt):
        change(path, interrupted(ENTRIES))  # in the middle of the set
    assert line(path).startswith("version 1, digest ")
    with pytest.raises(KeyboardInterrupt):
        kill_after_the_set(path)
    assert changelog_path(path).read_text() == first
    assert "changed externally" in line(path)
    change(path, ENTRIES)
    assert line(path).startswith("version 2, digest ")


@pytest.mark.parametrize("text", ["{", json.dumps({"version": 1}), json.dumps(["version"])])
def test_a_damaged_changelog_is_refused_before_the_set_changes(path: Path, text: str) -> None:
    write_rows(path, ENTRIES)
    changelog_path(path).write_text(text)
    with pytest.raises(InputError, match=r"golden\.jsonl\.changes\.jsonl"):
        change(path, ENTRIES[:1])
    assert len(read_state(path, Faults()).entries) == len(ENTRIES)
