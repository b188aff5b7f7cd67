"""The stage that decides which questions need the corpus."""

from __future__ import annotations

import numpy as np

from ragsweep.core.identity import BuiltPart, Node, Rows, StageContext, key_check
from ragsweep.core.types import Request
from ragsweep.evaluation.answering import Packed, ask_all, cacheable_routes, read_question_key


def route_node(router: BuiltPart) -> Node:
    """Route every question; rows are keys of the question's wording."""

    def compute(work: StageContext, rows: Rows) -> Packed:
        asked = list(map(read_question_key, rows))
        contents = {key: Request(one.text, (), one.history) for key, one in zip(rows, asked, strict=True)}
        return ask_all(work, rows, contents, router.value.route)

    return Node(
        "route",
        router.spec,
        (),
        compute,
        "rows",
        result=np.ndarray,
        cacheable=cacheable_routes,
        check=key_check(router.value),
    )
