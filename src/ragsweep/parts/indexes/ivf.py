"""Approximate search in the lists nearest to the query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import ConfigError
from ragsweep.core.ranking import nothing
from ragsweep.core.types import Arrays, Floats, Rankings
from ragsweep.parts.indexes.flat import Flat
from ragsweep.parts.indexes.sampling import sample
from ragsweep.parts.indexes.scoring import rank_found
from ragsweep.parts.indexes.serialised import LastOpened, damaged, library, pack, require, unpack, version

LEAST = 39
"""Vectors a list is trained on at least: with fewer, faiss warns."""

BLOCK = 65_536
"""Vectors added at a time."""

SPARE = 32
"""Candidates fetched beyond twice the depth: codes of one byte a number put some in a wrong place."""


class Ivf:
    """Divide the vectors into ``nlist`` lists around means, by faiss, and search the ``nprobe`` nearest lists.

    The means are trained on a seeded sample of ``train_sample`` vectors. Of a small corpus fewer lists are made, so
    that each is trained on 39 vectors: 400 vectors make 10 lists. A list holds one byte for each number of a vector;
    what is found by these is scored by the vectors themselves, as the exact index does. So fewer than ``depth`` may
    be found, where the lists that are searched hold no more.
    """

    VERSION = "1"
    SEARCH_ONLY: ClassVar[frozenset[str]] = frozenset({"nprobe"})

    def __init__(self, nlist: int = 4096, nprobe: int = 16, train_sample: int = 262_144) -> None:
        """Set the number of lists and the effort; raise ConfigError for values out of range."""
        for key, value in (("nlist", nlist), ("nprobe", nprobe), ("train_sample", train_sample)):
            if value < 1:
                raise ConfigError(f"index.{key} is {value}; it must be 1 or more")
        self.nlist = nlist
        self.nprobe = nprobe
        self.train_sample = train_sample
        self._opened = LastOpened()

    def fingerprint(self) -> Mapping[str, str]:
        """Name the version of the library that trains the lists."""
        return version()

    def build(self, vectors: Floats) -> Arrays:
        """Train the lists and fill them; they are the same whatever the number of threads."""
        if not len(vectors):
            return {"lists": np.empty(0, dtype=np.uint8)}
        index = self._trained(vectors)  # the sample is gone before the lists are filled
        for start in range(0, len(vectors), BLOCK):
            index.add(np.ascontiguousarray(vectors[start : start + BLOCK], dtype=np.float32))
        return {"lists": pack(index)}

    def _trained(self, vectors: Floats) -> Any:
        """Make empty lists around the means of a sample."""
        faiss = library()
        chosen = sample(vectors, self.train_sample)
        number = max(1, min(self.nlist, len(chosen) // LEAST))
        means = faiss.IndexFlatIP(vectors.shape[1])
        index = faiss.IndexIVFScalarQuantizer(
            means, vectors.shape[1], number, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
        )
        index.cp.min_points_per_centroid = 1  # one list may have few vectors, if there are no more
        index.train(chosen)
        return index

    def search(self, index: Arrays, vectors: Floats, queries: Floats, depth: int) -> Rankings:
        """Return at most ``depth`` near vectors of every query."""
        if not len(vectors) or not len(queries):
            return nothing(len(queries), depth)
        lists, means, near = self._opened.get((index["lists"],), lambda: _open(index["lists"], vectors))
        asked = np.ascontiguousarray(queries, dtype=np.float32)
        # faiss would choose other lists for many queries than for one, where two are almost equally near.
        chosen = Flat().search(near, means, asked, min(self.nprobe, len(means)))
        number = min(2 * depth + SPARE, len(vectors))
        found = _probe(lists, chosen, asked, number)
        if found.max() >= len(vectors):
            raise damaged(f"it names vector {found.max()} of {len(vectors)}")
        return rank_found(vectors, asked, found, depth)


def _probe(lists: Any, chosen: Rankings, queries: Floats, number: int) -> NDArray[np.int64]:
    """Search the lists chosen for each query; -1 where they hold no more."""
    lists.nprobe = chosen.positions.shape[1]
    found: NDArray[np.int64] = lists.search_preassigned(queries, number, chosen.positions, chosen.scores)[1]
    return found


def _open(data: NDArray[np.uint8], vectors: Floats) -> tuple[Any, Floats, Arrays]:
    """Read the lists, check that they fit the vectors, and return them with their means and an index of these."""
    faiss = library()
    lists = unpack(data)
    require(type(lists) is faiss.IndexIVFScalarQuantizer, "it is no set of lists")
    expected = (vectors.shape[1], len(vectors), faiss.METRIC_INNER_PRODUCT)
    require((lists.d, lists.ntotal, lists.metric_type) == expected, "it was built of other vectors")
    code = lists.sq
    require(code.qtype == faiss.ScalarQuantizer.QT_8bit and code.d == code.code_size == lists.d, "codes")
    require(code.trained.size() == 2 * code.d and lists.by_residual, "codes")
    held = lists.invlists
    require(held.code_size == lists.code_size == code.code_size and held.nlist == lists.nlist, "lists")
    require(sum(held.list_size(n) for n in range(held.nlist)) == lists.ntotal, "lists")
    means = faiss.downcast_index(lists.quantizer)
    require(type(means) in {faiss.IndexFlat, faiss.IndexFlatIP}, "means")
    require((means.d, means.ntotal, means.codes.size()) == (lists.d, lists.nlist, 4 * lists.d * lists.nlist), "means")
    lists.referenced_objects = [data]  # it must live as long
    found: Floats = faiss.rev_swig_ptr(means.get_xb(), means.ntotal * means.d).reshape(means.ntotal, means.d)
    return lists, found, Flat().build(found)
