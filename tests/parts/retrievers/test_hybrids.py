"""Hybrids: their contract, their weights, and what alpha means."""

from dataclasses import replace

import numpy as np
import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Rankings
from ragsweep.parts.fusion import convex, reciprocal_rank
from ragsweep.parts.retrievers import Bm25, HybridConvex, HybridRrf, NoRetriever, Vector
from ragsweep.testing.contract import assert_equal
from ragsweep.testing.hybrids import HybridRetrieverContract, rankings

LEGS = {"bm25": Bm25(), "vector": NoRetriever()}
VECTOR = Vector(None, None, None)
FOUND = {"bm25": rankings(1), "vector": rankings(2)}


class TestHybridRrf(HybridRetrieverContract):
    def part(self) -> HybridRrf:
        return HybridRrf({"one": Bm25(), "two": NoRetriever(), "three": Bm25()}, k=10)


class TestHybridConvex(HybridRetrieverContract):
    def part(self) -> HybridConvex:
        return HybridConvex({"one": Bm25(), "vector": NoRetriever(), "three": Bm25()}, alpha=0.3)


class TestHybridConvexByZScore(HybridRetrieverContract):
    def part(self) -> HybridConvex:
        return HybridConvex({"one": Bm25(), "vector": NoRetriever()}, normalisation="z_score")


class TestHybridConvexByTheoreticalBounds(HybridRetrieverContract):
    def part(self) -> HybridConvex:
        return HybridConvex({"one": Wide(), "vector": Wide(), "three": Wide()}, normalisation="theoretical")


class Wide(NoRetriever):
    TRAITS = replace(NoRetriever.TRAITS, bounds=(-2.0, None))


def test_theoretical_bounds_are_those_that_the_legs_state() -> None:
    part = HybridConvex({"bm25": Bm25(), "vector": VECTOR}, 0.25, normalisation="theoretical")
    found = {"vector": scored(FOUND["vector"], 0, 0.5), "bm25": scored(FOUND["bm25"], 2)}
    expected = convex([found["bm25"], found["vector"]], [0.75, 0.25], 9, "theoretical", [0.0, -1.0])
    for given in (found, dict(reversed(found.items()))):
        assert_equal(part.fuse(given, 9), expected)


@pytest.mark.parametrize(("leg", "score"), [("vector", 1.3), ("vector", -1.3), ("bm25", -0.1)])
def test_scores_beyond_their_bounds_are_refused_and_not_fused(leg: str, score: float) -> None:
    part = HybridConvex({"bm25": Bm25(), "vector": VECTOR}, normalisation="theoretical")
    found = {"bm25": scored(FOUND["bm25"], 2), "vector": scored(FOUND["vector"], 0, 0.5)}
    part.fuse(found, 9)
    with pytest.raises(ConfigError, match=rf"the leg {leg} returned the score {score}, although .*set .* to min_max"):
        part.fuse({**found, leg: scored(FOUND[leg], score, 0)}, 9)


def scored(ranking: Rankings, offset: float, factor: float = 1.0) -> Rankings:
    """Move the scores, which are drawn between -1.5 and 1.5."""
    scores = np.where(ranking.positions >= 0, ranking.scores, 0) * factor + offset
    return ranking._replace(scores=np.where(ranking.positions >= 0, scores, -np.inf).astype(np.float32))


def test_rrf_weighs_all_legs_alike_by_default() -> None:
    assert_equal(HybridRrf(LEGS, k=20).fuse(FOUND, 9), reciprocal_rank(list(FOUND.values()), 20, None, 9))
    weighted = HybridRrf(LEGS, weights={"vector": 3.0, "bm25": 1.0})
    for found in (FOUND, dict(reversed(FOUND.items()))):
        assert_equal(weighted.fuse(found, 9), reciprocal_rank(list(FOUND.values()), 60, [1.0, 3.0], 9))


def test_alpha_is_the_weight_of_the_vector_leg() -> None:
    assert HybridConvex(LEGS, alpha=0.25).weights == {"bm25": 0.75, "vector": 0.25}
    for found in (FOUND, dict(reversed(FOUND.items()))):
        assert_equal(HybridConvex(LEGS, alpha=0.25).fuse(found, 9), convex(list(FOUND.values()), [0.75, 0.25], 9))


def test_other_legs_share_the_rest_of_alpha_equally() -> None:
    legs = {"a": Bm25(), "b": Bm25(), "mine": Bm25()}
    assert HybridConvex(legs, 0.5, "mine").weights == {"a": 0.25, "b": 0.25, "mine": 0.5}
    assert HybridConvex(legs, weights={"a": 1, "b": 2, "mine": 0}).weights == {"a": 1, "b": 2, "mine": 0}


def test_only_hybrids_with_a_weight_of_0_have_another_address_than_in_0_2_0() -> None:
    for one in (HybridConvex(LEGS, 0.0), HybridConvex(LEGS, 1.0), HybridRrf(LEGS, weights={"bm25": 0, "vector": 1})):
        assert one.fingerprint()
    for one in (HybridConvex(LEGS, 0.1), HybridRrf(LEGS), HybridRrf(LEGS, weights={"bm25": 2, "vector": 1})):
        assert not one.fingerprint()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HybridConvex(LEGS, alpha=1.1), r"retriever\.alpha, .* got 1\.1"),
        (lambda: HybridConvex(LEGS, alpha_leg="vektor"), r'did you mean "vector"\? known: bm25, vector'),
        (lambda: HybridConvex({}, weights={"a": 1.0}), r"retriever\.legs is empty"),
        (lambda: HybridConvex({}), r"retriever\.legs is empty"),
        (lambda: HybridConvex(LEGS, normalisation="zscore"), r'"z_score"\? known: min_max, theoretical, z_score'),
        (
            lambda: HybridConvex({"a": HybridConvex(LEGS), "vector": VECTOR}, normalisation="theoretical"),
            "the leg a declares no bounds for its scores; set retriever.normalisation to min_max or z_score",
        ),
        (lambda: HybridRrf(LEGS, k=-1), r"retriever\.k must be .*, got -1"),
        (lambda: HybridRrf(LEGS, k=float("nan")), r"retriever\.k must be .*, got nan"),
        (
            lambda: HybridRrf(LEGS, weights={"bm25": 1.0}),
            r"must have one weight for each leg \(bm25, vector\), got weights for bm25",
        ),
        (lambda: HybridRrf(LEGS, weights={"bm25": 1.0, "word": 1.0}), "must have one weight for each leg"),
        (lambda: HybridRrf(LEGS, weights={"bm25": -1.0, "vector": 1.0}), r"retriever\.weights must be at least 0"),
        (lambda: HybridRrf(LEGS, weights={"bm25": 0.0, "vector": 0.0}), "and not all 0"),
    ],
)
def test_wrong_parameters_are_refused(make: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    "make", [lambda: Bm25(min_score=float("nan")), lambda: Vector(None, None, None, float("nan")).check()]
)
def test_least_score_must_be_a_number(make: object) -> None:
    with pytest.raises(ConfigError, match=r"retriever\.min_score is NaN"):
        make()
