"""Equal things have equal addresses, in any process; anything that matters changes them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ragsweep.core.identity import Node, Spec, content_hash


def spec(**changes: object) -> Spec:
    fields = {"target": "a.B", "version": "1", "parameters": {"k": 1, "inner": Spec("c.D", "1")}, "files": {"w": "0"}}
    return Spec(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"target": "a.C"},
        {"version": "2"},
        {"parameters": {"k": 2, "inner": Spec("c.D", "1")}},
        {"parameters": {"k": 1, "inner": Spec("c.D", "2")}},
        {"files": {"w": "1"}},
    ],
)
def test_anything_that_matters_changes_the_digest(change: dict[str, object]) -> None:
    assert spec(**change).digest != spec().digest


def test_order_of_keys_does_not_matter() -> None:
    assert spec(parameters={"inner": Spec("c.D", "1"), "k": 1}).digest == spec().digest


def test_whole_number_and_fraction_are_told_apart_from_words() -> None:
    assert len({content_hash(value) for value in (1, "1", True, None, [1])}) == 5


def test_address_depends_on_stage_spec_and_inputs_only() -> None:
    first = Node("chunk", spec(), (), lambda work, rows: 1)
    same = Node("chunk", spec(), (), lambda work, rows: 2, label="another name")
    assert first.address == same.address
    assert Node("index", spec(), (), lambda work, rows: 1).address != first.address
    assert Node("chunk", spec(), (first,), lambda work, rows: 1).address != first.address


def test_digest_is_the_same_in_another_process() -> None:
    code = "from ragsweep.core.identity import Spec; print(Spec('a.B', '1', {'k': 1, 'x': [1.5, None]}).digest)"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert other == Spec("a.B", "1", {"x": [1.5, None], "k": 1}).digest
