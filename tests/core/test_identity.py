"""Equal things have equal addresses, in any process; anything that matters changes them."""

from typing import Any

import pytest

from ragsweep.core.identity import Node, Spec, content_hash

SPEC: dict[str, Any] = {
    "target": "a.B", "version": "1", "parameters": {"k": 1, "x": [1.5, None], "inner": Spec("c.D", "1")},
    "files": {"w": "0"},
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"target": "a.C"},
        {"version": "2"},
        {"parameters": {**SPEC["parameters"], "k": 2}},
        {"parameters": {**SPEC["parameters"], "inner": Spec("c.D", "2")}},
        {"files": {"w": "1"}},
    ],
)
def test_anything_that_matters_changes_the_digest(change: dict[str, Any]) -> None:
    assert Spec(**{**SPEC, **change}).digest != Spec(**SPEC).digest


def test_digest_is_the_same_in_every_process_and_in_any_order_of_keys() -> None:
    reverse = dict(reversed(SPEC["parameters"].items()))
    assert Spec(**{**SPEC, "parameters": reverse}).digest == Spec(**SPEC).digest == DIGEST


DIGEST = "5c32767330779b905c98bd38dbfc15d0d413a6680ae8b25aa5aceb0ba716c959"


def test_values_of_different_types_have_different_hashes() -> None:
    assert len({content_hash(value) for value in (1, "1", True, None, [1])}) == 5


def test_address_depends_on_stage_spec_and_inputs_only() -> None:
    spec = Spec(**SPEC)
    first = Node("chunk", spec, (), lambda work, rows: 1)
    same = Node("chunk", spec, (), lambda work, rows: 2, label="another name")
    assert first.address == same.address
    assert Node("index", spec, (), lambda work, rows: 1).address != first.address
    assert Node("chunk", spec, (first,), lambda work, rows: 1).address != first.address
