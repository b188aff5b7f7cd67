"""Questions go to strata by priority and size, none below the minimum, none above half its chunks."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Corpus
from ragsweep_golden.building.drafts import Stratum
from ragsweep_golden.building.settings import Quotas
from ragsweep_golden.building.strata import allocate, documents_by_language, folders, stratify


def test_priorities_have_their_shares() -> None:
    strata = [Stratum(name, priority, 1000) for priority, name in enumerate("abcd", start=1)]
    assert allocate(strata, 100, Quotas()) == {"a": 40, "b": 45, "c": 10, "d": 5}
    assert allocate([*strata[:2], Stratum("e", 1, 3000)], 85, Quotas()) == {"a": 10, "b": 45, "e": 30}


def test_a_pattern_comes_before_the_folder() -> None:
    corpus = Corpus(["en/a/x", "en/a/faq", "y"], [""] * 3, ["text"] * 3)
    assert stratify(folders(corpus), {"faq": ["*faq"]}) == {"en/a/x": "en/a", "en/a/faq": "faq", "y": "others"}


def test_a_document_in_another_script_is_not_of_the_only_language() -> None:
    texts = ["归档守护进程是一个每晚压缩旧文件的后台进程。", "The archive is a box.", "x = 1"]
    assert documents_by_language(Corpus(["a", "b", "c"], [""] * 3, texts), ["en"]) == {"en": [1, 2]}


def test_priority_beyond_four_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"strata\.priorities\.a: must be a whole number from 1 to 4 .*, got 5"):
        allocate([Stratum("a", 5, 10)], 5, Quotas())


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 40)), min_size=1, max_size=8), st.integers(1, 120))
def test_allocation_keeps_its_bounds(sizes: list[tuple[int, int]], questions: int) -> None:
    strata = [Stratum(f"s{n}", priority, chunks) for n, (priority, chunks) in enumerate(sizes)]
    found = allocate(strata, questions, Quotas())
    caps = {one.name: math.ceil(one.chunks / 2) for one in strata if one.chunks}
    assert set(found) == set(caps)
    assert all(min(5, caps[name]) <= count <= caps[name] for name, count in found.items())
    least = sum(min(5, cap) for cap in caps.values())
    assert sum(found.values()) == max(least, min(questions, sum(caps.values())))
