"""A plan is the union of nodes."""

import dataclasses
from collections.abc import Callable

from ragsweep.core.identity import Node, Rows, Spec
from ragsweep.stages.graph import SOURCE, Plan, Wanted, plan, walk


def node(stage: str, name: str = "", *inputs: Node) -> Node:
    return Node(stage, Spec(name or stage, "1"), inputs, lambda work, rows: None)


def test_walk_yields_each_address_once_inputs_first() -> None:
    corpus = node(SOURCE)
    chunks, again = node("chunk", "c", corpus), node("chunk", "c", corpus)
    left, right = node("index", "l", chunks), node("index", "r", again)
    stages = [(found.stage, found.spec.target) for found in walk([left, right])]
    assert stages == [(SOURCE, SOURCE), ("chunk", "c"), ("index", "l"), ("index", "r")]


class There:
    """What is known: nodes by a rule, and how long a row or a whole value takes."""

    def __init__(self, rule: Callable[[Node], bool], seconds: float | None = None) -> None:
        self.rule = rule
        self.seconds = seconds

    def get(self, found: Node, rows: Rows) -> object:
        return f"{found.stage} of {len(rows)}"

    def known(self, found: Node, rows: Rows | None = None) -> bool:
        return self.rule(found)

    def missing(self, found: Node, rows: Rows) -> Rows:
        return rows

    def estimate(self, found: Node, rows: Rows) -> float | None:
        return self.seconds


def counts(made: Plan, stage: str) -> tuple[int, int, int]:
    count = made.stages[stage]
    return count.asked, count.distinct, count.stored


def test_plan_counts_asked_distinct_and_stored() -> None:
    chunks = node("chunk", "c", node(SOURCE))
    configs = [[Wanted(node("context", str(top_k), chunks), ("q",))] for top_k in (3, 5, 5)]
    made = plan(configs, There(lambda found: found.stage == "chunk", 2.0))
    assert made.configs == 3
    assert counts(made, "chunk") == (3, 1, 1)
    assert counts(made, "context") == (3, 2, 0)
    total = made.total
    assert (total.asked, total.distinct, total.stored, total.seconds) == (6, 3, 1, 4.0)
    assert made.unmeasured == []


def test_what_only_stored_results_would_read_need_not_be_run() -> None:
    chunks = node("chunk", "c", node(SOURCE))
    stored, new = node("retrieve", "old", chunks), node("retrieve", "new", chunks)
    assert counts(plan([[Wanted(stored, ("q",))]], There(lambda found: found is stored)), "chunk") == (1, 1, 1)
    both = plan([[Wanted(stored, ("q",)), Wanted(new, ("q",))]], There(lambda found: found is stored))
    assert counts(both, "chunk") == (1, 1, 0)


def test_slice_of_what_is_stored_is_stored() -> None:
    ranking = node("retrieve", "r", node(SOURCE))
    cut = dataclasses.replace(node("context", "5", ranking), stored=False)
    assert counts(plan([[Wanted(cut, ("q",))]], There(lambda found: found is ranking)), "context") == (1, 1, 1)
    assert counts(plan([[Wanted(cut, ("q",))]], There(lambda found: False)), "context") == (1, 1, 0)


def test_stage_without_a_measurement_has_no_seconds() -> None:
    made = plan([[Wanted(node("embed"), ())]], There(lambda found: False))
    assert made.unmeasured == ["embed"]
    assert made.stages["embed"].seconds is None


def test_given_corpus_is_no_stage_run() -> None:
    assert plan([[Wanted(node(SOURCE), ())]], There(lambda found: False)).stages == {}
