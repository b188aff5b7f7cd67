"""Fuse retrievers by the scores they give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragsweep.errors import ConfigError, nearest
from ragsweep.fusion import convex, weights_of
from ragsweep.types import Rankings


class HybridConvex:
    """Fuse any retrievers by a weighted sum of their min-max normalised scores: see :func:`ragsweep.fusion.convex`.

    The leg ``alpha_leg`` weighs ``alpha``, the others share ``1 - alpha`` equally; or ``weights`` names every leg's.
    """

    VERSION = "1"

    def __init__(
        self,
        legs: Mapping[str, Any],
        alpha: float = 0.5,
        alpha_leg: str = "vector",
        weights: Mapping[str, float] | None = None,
    ) -> None:
        """Name the legs; raise ConfigError for an alpha outside 0..1, an unknown leg, or weights that do not fit."""
        self.legs = legs
        self.alpha = alpha
        self.alpha_leg = alpha_leg
        self.weights = weights_of(legs, weights or self._by_alpha())

    def fuse(self, rankings: Mapping[str, Rankings], depth: int) -> Rankings:
        """Return one ranking of the legs', ``depth`` long."""
        return convex(list(rankings.values()), [self.weights[name] for name in rankings], depth)

    def _by_alpha(self) -> Mapping[str, float]:
        if not 0 <= self.alpha <= 1:
            raise ConfigError(f"retriever.alpha is {self.alpha}; it is the weight of one leg and lies between 0 and 1")
        if self.alpha_leg not in self.legs:
            raise ConfigError(f"retriever.alpha_leg is {self.alpha_leg!r}{nearest(self.alpha_leg, self.legs)}")
        others = (1 - self.alpha) / max(len(self.legs) - 1, 1)
        return {name: self.alpha if name == self.alpha_leg else others for name in self.legs}
