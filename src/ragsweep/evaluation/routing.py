"""Lay out the stage that decides which questions need the corpus."""

from __future__ import annotations

import numpy as np

from ragsweep.core.identity import Built, Node, Rows, Work, key_check
from ragsweep.core.types import Request
from ragsweep.evaluation.answering import Packed, ask_all, asked_by, lasting_routes


def route_node(router: Built) -> Node:
    """Decide every question, by what was said: rows are keys of :class:`ragsweep.evaluation.answering.Asking`."""

    def compute(work: Work, rows: Rows) -> Packed:
        asked = list(map(asked_by, rows))
        contents = {key: Request(one.text, (), one.history) for key, one in zip(rows, asked, strict=True)}
        return ask_all(work, rows, contents, router.value.route)

    return Node(
        "route",
        router.spec,
        (),
        compute,
        "rows",
        result=np.ndarray,
        lasting=lasting_routes,
        check=key_check(router.value),
    )
