"""The latency of one stage, which a hybrid retriever measures for each leg."""

from dataclasses import replace

import numpy as np
import pytest

from ragsweep.parts.metrics import Latency
from ragsweep.testing.metrics import example


@pytest.mark.parametrize(
    ("stage", "seconds"),
    [
        ("retrieve", 0.03),
        ("retrieve/bm25", 0.01),
        ("embed_queries", 0.1),
        ("fuse", 0.5),
        ("retrieval", 0.63),
        (None, 1.63),
    ],
)
def test_latency_of_a_stage_is_the_sum_over_the_legs_of_a_hybrid(stage: str | None, seconds: float) -> None:
    given = {"retrieve/bm25": 0.01, "retrieve/vector": 0.02, "embed_queries/vector": 0.1, "fuse": 0.5, "generate": 1.0}
    view = example([0, 1])
    view = replace(view, latency={name: np.full(2, one) for name, one in given.items()})
    scores = Latency(stage=stage).score(view)
    assert scores.values.tolist() == pytest.approx([1000 * seconds] * 2)
    assert Latency(stage="retriev").score(view).reasons.tolist() == ["not probed"] * 2
