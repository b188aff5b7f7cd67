"""A plan is the union of nodes."""

from __future__ import annotations

from ragsweep.graph import SOURCE, plan, walk
from ragsweep.identity import Node, Spec


def node(stage: str, name: str = "", *inputs: Node) -> Node:
    return Node(stage, Spec(name or stage, "1"), inputs, lambda work, rows: None)


def test_walk_yields_each_address_once_inputs_first() -> None:
    corpus = node(SOURCE)
    chunks, again = node("chunk", "c", corpus), node("chunk", "c", corpus)
    left, right = node("index", "l", chunks), node("index", "r", again)
    stages = [(found.stage, found.spec.target) for found in walk([left, right])]
    assert stages == [(SOURCE, SOURCE), ("chunk", "c"), ("index", "l"), ("index", "r")]


def test_plan_counts_asked_distinct_and_stored() -> None:
    chunks = node("chunk", "c", node(SOURCE))
    configs = [[node("context", str(top_k), chunks)] for top_k in (3, 5, 5)]
    made = plan(configs, stored=lambda found: found.stage == "chunk")
    assert made.configs == 3
    assert (made.stages["chunk"].asked, made.stages["chunk"].distinct, made.stages["chunk"].stored) == (3, 1, 1)
    assert (made.stages["context"].asked, made.stages["context"].distinct, made.stages["context"].stored) == (3, 2, 0)
    assert (made.total.asked, made.total.distinct, made.total.stored) == (6, 3, 1)


def test_given_corpus_is_no_stage_run() -> None:
    assert plan([[node(SOURCE)]], stored=lambda found: False).stages == {}
