"""Hybrid retrievers: fuse the rankings of other retrievers (legs) by ranks or by scores."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.traits import traits_of
from ragsweep.core.types import NO_CHUNK, PartTraits, Rankings
from ragsweep.parts.fusion import NORMALISATIONS, convex, reciprocal_rank
from ragsweep.parts.limits import check_at_least


class _Hybrid:
    """Base class of hybrid retrievers: the legs, and the weight of each leg, in the order of the legs."""

    def __init__(self, legs: Mapping[str, Any], weights: Mapping[str, float]) -> None:
        if not legs:
            raise ConfigError("retriever.legs is empty; add at least one retriever to it")
        if set(weights) != set(legs):
            got = f"got weights for {', '.join(weights)}" if weights else "got none"
            raise ConfigError(f"retriever.weights must have one weight for each leg ({', '.join(legs)}), {got}")
        if any(not weight >= 0 for weight in weights.values()) or not any(weights.values()):
            raise ConfigError(f"retriever.weights must be at least 0, and not all 0, got {dict(weights)}")
        self.legs = legs
        self.weights = {name: float(weights[name]) for name in legs}

    def fingerprint(self) -> dict[str, str]:
        """Return an entry that changes the address of the rankings if a weight is 0, else an empty dict.

        The rankings that ragsweep 0.2.0 stored for a weight of 0 are wrong and must not be reused.
        """
        return {} if all(self.weights.values()) else {"zero_weight": "no chunks"}


class HybridRrf(_Hybrid):
    """A hybrid of any retrievers by reciprocal rank fusion; see :func:`ragsweep.parts.fusion.reciprocal_rank`."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", bounds=(0.0, None), weighing=frozenset({"k", "weights"}))

    def __init__(self, legs: Mapping[str, Any], k: float = 60, weights: Mapping[str, float] | None = None) -> None:
        check_at_least("retriever", 0, k=k)
        super().__init__(legs, weights or dict.fromkeys(legs, 1.0))
        self.k = k

    def fuse(self, rankings: Mapping[str, Rankings], depth: int) -> Rankings:
        """Return a fused ranking of length ``depth`` per question; ``rankings`` maps a leg's name to its rankings."""
        weights = [self.weights[name] for name in rankings]
        return reciprocal_rank(list(rankings.values()), self.k, weights, depth)


ROUNDING = 0.01
"""Tolerance for a score outside its bounds: after rounding, unit vectors are not exactly of length 1."""


class HybridConvex(_Hybrid):
    """A hybrid of any retrievers by a weighted sum of normalised scores; see :func:`ragsweep.parts.fusion.convex`.

    If ``weights`` sets the weight of every leg, ``alpha`` and ``alpha_leg`` are ignored. Otherwise, the leg
    ``alpha_leg`` has the weight ``alpha``, and the other legs share ``1 - alpha`` equally. With ``normalisation``
    "theoretical", the traits of each leg must declare ``bounds``: the lowest possible score, and the highest possible
    score or None.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", weighing=frozenset({"alpha", "alpha_leg", "weights"}))

    def __init__(
        self,
        legs: Mapping[str, Any],
        alpha: float = 0.5,
        alpha_leg: str = "vector",
        weights: Mapping[str, float] | None = None,
        normalisation: str = "min_max",
    ) -> None:
        if not weights:
            if not 0 <= alpha <= 1:
                raise ConfigError(
                    f"retriever.alpha, the weight of the leg {alpha_leg}, must be between 0 and 1, got {alpha}"
                )
            if legs and alpha_leg not in legs:
                raise ConfigError(f"retriever.alpha_leg is {alpha_leg!r}{nearest(alpha_leg, legs)}")
            others = (1 - alpha) / max(len(legs) - 1, 1)
            weights = {name: alpha if name == alpha_leg else others for name in legs}
        super().__init__(legs, weights)
        self.normalisation = normalisation
        if normalisation not in NORMALISATIONS:
            raise ConfigError(f"retriever.normalisation is {normalisation!r}{nearest(normalisation, NORMALISATIONS)}")
        self._bounds: dict[str, tuple[float, float | None]] = {}
        for name, leg in legs.items() if normalisation == "theoretical" else ():
            if (bounds := traits_of(leg).bounds) is None:
                raise ConfigError(
                    f"retriever.normalisation is 'theoretical', but the leg {name} declares no bounds for its scores; "
                    "set retriever.normalisation to min_max or z_score"
                )
            self._bounds[name] = bounds

    def fuse(self, rankings: Mapping[str, Rankings], depth: int) -> Rankings:
        """Return a fused ranking of length ``depth`` per question; ``rankings`` maps a leg's name to its rankings.

        With normalisation "theoretical", raises ConfigError if a score is outside the bounds that its leg declares.
        """
        for name, (least, most) in self._bounds.items():
            scores = rankings[name].scores[rankings[name].positions != NO_CHUNK]
            beyond = scores[(scores < least - ROUNDING) | (scores > (np.inf if most is None else most + ROUNDING))]
            if len(beyond):
                bounds = f"at least {least:g}" + ("" if most is None else f" and at most {most:g}")
                raise ConfigError(
                    f"retriever.normalisation is 'theoretical', but the leg {name} returned the score {beyond[0]:g},"
                    f" although it declares that its scores are {bounds};"
                    " set retriever.normalisation to min_max or z_score"
                )
        lowest = [self._bounds[name][0] for name in rankings] if self._bounds else None
        weights = [self.weights[name] for name in rankings]
        return convex(list(rankings.values()), weights, depth, self.normalisation, lowest)
