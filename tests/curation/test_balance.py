"""A set is chosen without copies, within its quotas, and with the wanted share of unanswerable questions."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep_golden.building.selection import choose, drop_copies
from ragsweep_golden.building.settings import BuildSettings, Quotas
from ragsweep_golden.sets.entries import UNANSWERABLE_TYPES, value


def entry(n: int, kind: str = "factual", reasoning: str = "summary", stratum: str = "a", hard: float = 0.1) -> Any:
    return {
        "id": f"q{n}", "question": f"What is number {n}?", "answerable": True,
        "provenance": {"chunk_id": f"d#{n}"}, "processing": {"pattern": "fact"},
        "classification": {
            "question_type": kind, "reasoning_class": reasoning, "stratum": stratum, "difficulty": hard,
        },
    }  # fmt: skip


def other(n: int, kind: str) -> Any:
    return {"id": f"u{n}", "question": f"Why is {n}?", "answerable": False, "unanswerable_type": kind}


def chosen_of(entries: list[Any], questions: int, unanswerable: float = 0.0, **changes: Any) -> list[Any]:
    mix, minimums = {"factual": 0.5, "procedural": 0.5}, changes.get("minimums", {})
    settings = BuildSettings(("en",), questions, unanswerable, 0, 0, {}, {}, Quotas(), mix, minimums, 0.9)
    return choose(entries, settings, changes.get("quotas", {"a": 100, "b": 100}))


def test_copies_of_a_question_and_of_a_passage_are_dropped_at_the_threshold() -> None:
    entries = [entry(n) for n in range(4)]
    at = lambda cosine: [cosine, (1 - cosine**2) ** 0.5]  # noqa: E731
    questions = np.array([at(1), at(0.951), at(0.3), at(-0.5)], dtype=np.float32)
    passages = np.array([at(0.89), at(1), at(0.3), [np.nan, np.nan]], dtype=np.float32)
    kept, dropped = drop_copies(entries, questions, passages, 0.9)
    assert kept == [0, 3]
    assert [(entries[n]["id"], why.partition(" (")[0]) for n, why in dropped.items()] == [
        ("q1", "duplicates an earlier question"),
        ("q2", "repeats its passage"),
    ]
    assert drop_copies([entry(1), entry(1)], None, None, 0.9)[0] == [0]


@pytest.mark.parametrize("share", [0.25, 0.3, 0.4])
def test_the_share_of_unanswerable_questions_is_kept_where_answerable_ones_are_few(share: float) -> None:
    entries = [*(entry(n) for n in range(30)), *(other(n, UNANSWERABLE_TYPES[n % 6]) for n in range(60))]
    chosen = chosen_of(entries, 100, share)
    found = sum(not one["answerable"] for one in chosen)
    assert sum(one["answerable"] for one in chosen) == 30
    assert found / len(chosen) == pytest.approx(share, abs=0.02)


def test_minimums_come_first_and_then_all_types_in_turn() -> None:
    entries = [other(n, kind) for n, kind in enumerate(UNANSWERABLE_TYPES * 20)]
    chosen = chosen_of([*entries, *(entry(n) for n in range(100))], 100, 0.3, minimums={"nonsensical": 10})
    counts = Counter(one["unanswerable_type"] for one in chosen if not one["answerable"])
    assert counts["nonsensical"] == 10
    assert {counts[kind] for kind in UNANSWERABLE_TYPES if kind != "nonsensical"} == {4}


def test_a_set_too_small_for_all_minimums_has_every_type() -> None:
    entries = [other(n, kind) for n, kind in enumerate(UNANSWERABLE_TYPES * 20)]
    minimums = dict(zip(UNANSWERABLE_TYPES, (8, 6, 5, 4, 5, 4), strict=True))
    chosen = chosen_of([*entries, *(entry(n) for n in range(100))], 40, 0.3, minimums=minimums)
    counts = Counter(one["unanswerable_type"] for one in chosen if not one["answerable"])
    assert sorted(counts.values()) == [1, 2, 2, 2, 2, 3]


@pytest.mark.parametrize("french", [0.5, 0.25])
def test_unanswerable_questions_of_every_type_have_the_languages_of_the_answerable_ones(french: float) -> None:
    asked = [entry(n) | {"language": "fr" if n < 100 * french else "en"} for n in range(100)]
    others = [other(n, kind) | {"language": "en"} for n, kind in enumerate(UNANSWERABLE_TYPES * 20)]
    others += [one | {"id": f"fr{one['id']}", "language": "fr"} for one in others]
    chosen = chosen_of([*asked, *others], 148, 48 / 148)
    counts = Counter((one["unanswerable_type"], one["language"]) for one in chosen if not one["answerable"])
    assert {counts[kind, "fr"] for kind in UNANSWERABLE_TYPES} == {8 * french}


def test_types_follow_the_mix_strata_their_quotas_and_hard_questions_come_where_there_are_some() -> None:
    entries = [
        entry(n, "factual" if n % 4 else "procedural", stratum="a" if n % 3 else "b", hard=0.9 if n % 10 == 0 else 0.1)
        for n in range(200)
    ]
    chosen = chosen_of(entries, 40, quotas={"a": 30, "b": 10})
    types = Counter(value(one, "classification", "question_type") for one in chosen)
    strata = Counter(value(one, "classification", "stratum") for one in chosen)
    assert abs(types["factual"] - types["procedural"]) <= 2
    assert strata == {"a": 30, "b": 10}
    assert sum(value(one, "classification", "difficulty") >= 0.7 for one in chosen) >= 4


@given(st.lists(st.sampled_from(["single_fact", "summary"]), max_size=60), st.integers(1, 60))
def test_single_facts_stay_below_the_gate_in_any_order_of_entries(classes: list[str], count: int) -> None:
    entries = [entry(n, reasoning=one) for n, one in enumerate(classes)]
    chosen = chosen_of(entries, count)
    facts = sum(value(one, "classification", "reasoning_class") == "single_fact" for one in chosen)
    assert len(chosen) == min(count, len(classes))
    assert facts <= 0.55 * len(chosen) or len(chosen) - facts == classes.count("summary")
    assert {one["id"] for one in chosen_of(entries[::-1], count)} == {one["id"] for one in chosen}
