"""Fuse retrievers by their ranks."""

from collections.abc import Mapping
from typing import Any, ClassVar

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import PartTraits, Rankings
from ragsweep.parts.fusion import describe_zero, reciprocal_rank, weights_of


class HybridRrf:
    """Fuse any retrievers by reciprocal rank: see :func:`ragsweep.parts.fusion.reciprocal_rank`."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", bounds=(0.0, None), weighing=frozenset({"k", "weights"}))

    def __init__(self, legs: Mapping[str, Any], k: float = 60, weights: Mapping[str, float] | None = None) -> None:
        """Raise ConfigError if ``k`` is negative or NaN, or if the weights are invalid."""
        if not k >= 0:
            raise ConfigError(f"retriever.k must be at least 0, got {k}")
        self.legs = legs
        self.k = k
        self.weights = weights_of(legs, weights or dict.fromkeys(legs, 1.0))

    def fingerprint(self) -> dict[str, str]:
        """Return a fact that gives a weight of 0 another address than in 0.2.0."""
        return describe_zero(self.weights)

    def fuse(self, rankings: Mapping[str, Rankings], depth: int) -> Rankings:
        """Fuse the legs' rankings into one of length ``depth``."""
        weights = [self.weights[name] for name in rankings]
        return reciprocal_rank(list(rankings.values()), self.k, weights, depth)
