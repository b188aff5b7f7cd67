"""Rank chunks by the distance of their vectors to the query's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ragsweep.types import Embedder, VectorIndex


@dataclass(frozen=True)
class Vector:
    """Name an embedder and an index; embedding and searching are stages of their own."""

    VERSION: ClassVar[str] = "1"

    embedder: Embedder
    index: VectorIndex
