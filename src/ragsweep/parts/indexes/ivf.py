"""Approximate search in lists of similar vectors: only the lists nearest to the query are searched."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.types import Arrays, Floats, PartTraits
from ragsweep.parts.indexes.faiss_index import FaissIndex, deserialise, library, serialise
from ragsweep.parts.indexes.flat import Flat
from ragsweep.parts.indexes.vectors import blocks, sample
from ragsweep.parts.limits import check_at_least

LEAST = 39
"""Minimum training vectors per list, on average; with fewer, faiss warns."""

SPARE = 32
"""Candidates fetched beyond twice the depth, because one-byte codes misplace some."""


@dataclass(eq=False)
class Ivf(FaissIndex):
    """Divide the vectors into ``nlist`` lists around means, using faiss, and search the ``nprobe`` nearest lists.

    The means are trained on a seeded sample of up to ``train_sample`` vectors. A small corpus has fewer lists: one
    per 39 training vectors, but at least one, so that 400 vectors make 10 lists. A list stores one byte per value of a
    vector; the candidates found by these codes are scored by the vectors themselves, as in the exact index. Fewer than
    ``depth`` vectors are found if the searched lists contain fewer.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", search_only=frozenset({"nprobe"}))

    nlist: int = 4096
    nprobe: int = 16
    train_sample: int = 262_144

    def __post_init__(self) -> None:
        """Raise ConfigError for values out of range."""
        check_at_least("index", 1, nlist=self.nlist, nprobe=self.nprobe, train_sample=self.train_sample)

    def build(self, vectors: Floats) -> Arrays:
        """Train the lists and fill them; the result is independent of the number of threads."""
        if not len(vectors):
            return {"lists": np.empty(0, dtype=np.uint8)}
        index = self._trained(vectors)  # frees the sample before the lists are filled
        for _, block in blocks(vectors):
            index.add(block)
        return {"lists": serialise(index)}

    def _trained(self, vectors: Floats) -> Any:
        """Make empty lists around the means of a sample."""
        faiss = library()
        chosen = sample(vectors, self.train_sample)
        number = max(1, min(self.nlist, len(chosen) // LEAST))
        means = faiss.IndexFlatIP(vectors.shape[1])
        index = faiss.IndexIVFScalarQuantizer(
            means, vectors.shape[1], number, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
        )
        index.cp.min_points_per_centroid = 1  # no warning if a small corpus has one list of fewer than LEAST vectors
        index.train(chosen)
        return index

    def _open(self, index: Arrays, vectors: Floats) -> tuple[Any, Floats]:
        """Return the lists and their means."""
        lists = deserialise(index["lists"], vectors)
        return lists, library().downcast_index(lists.quantizer).reconstruct_n(0, lists.nlist)

    def _candidates(self, opened: tuple[Any, Floats], queries: Floats, depth: int) -> NDArray[np.int64]:
        lists, means = opened
        # The lists are chosen exactly: if two are almost equally near, faiss may choose differently for a batch.
        chosen = Flat().search(Flat().build(means), means, queries, min(self.nprobe, len(means)))
        lists.nprobe = chosen.positions.shape[1]
        number = min(2 * depth + SPARE, lists.ntotal)
        positions: NDArray[np.int64] = lists.search_preassigned(queries, number, chosen.positions, chosen.scores)[1]
        return positions
