"""Divide documents into strata, and allocate questions to them by priority."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Corpus, Spans
from ragsweep.parts.languages import detect_language
from ragsweep_golden.building.drafts import Stratum
from ragsweep_golden.building.settings import BuildSettings, Quotas
from ragsweep_golden.gates.subject import Embed, Floats
from ragsweep_golden.sets.entries import LANGUAGES

COMPARED = 512  # characters at the start of a text by which documents are clustered
OTHERS = "others"


def folders(corpus: Corpus) -> dict[str, str]:
    """Map every document id to its folder, or to ``others`` if it has none."""
    return {name: name.rpartition("/")[0] or OTHERS for name in corpus.ids}


def stratify(groups: Mapping[str, str], patterns: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Map every document id to its stratum: the first in ``patterns`` with a pattern that matches, else the group.

    ``*`` in a pattern matches anything, slashes included.
    """
    return {
        name: next((one for one, tried in patterns.items() if any(fnmatchcase(name, each) for each in tried)), group)
        for name, group in groups.items()
    }


def cluster(vectors: Floats, count: int, seed: int) -> list[str]:
    """Cluster unit vectors by k-means, and return the name of each vector's cluster; ``cluster 1`` is the largest."""
    import faiss

    count = min(count, len(vectors))
    kmeans = faiss.Kmeans(vectors.shape[1], count, spherical=True, seed=seed, min_points_per_centroid=1)
    kmeans.train(vectors)
    _, nearest = kmeans.index.search(vectors, 1)
    numbers = nearest[:, 0].tolist()
    order = [number for number, _ in Counter(numbers).most_common()]
    return [f"cluster {order.index(number) + 1}" for number in numbers]


def allocate(strata: Sequence[Stratum], questions: int, quotas: Quotas) -> dict[str, int]:
    """Allocate questions to strata: each priority gets its share, divided among its strata in proportion to chunks.

    Each stratum has at most ``quotas.cap`` questions per chunk (rounded up), and at least ``quotas.fewest`` if this cap
    allows; the excess of a capped stratum goes to the others, in proportion. The sum is ``questions`` unless the caps
    allow fewer or the minimums require more. Strata without chunks are omitted. Raises ConfigError for invalid
    priorities, and if the strata have only priorities whose share is 0.
    """
    for one in strata:
        if not isinstance(one.priority, int) or not 1 <= one.priority <= len(quotas.shares):
            most = f"{len(quotas.shares)} (the number of strata.shares)"
            raise ConfigError(
                f"strata.priorities.{one.name}: must be a whole number from 1 to {most}, got {one.priority!r}"
            )
    of_priority = Counter[int]()
    for one in strata:
        of_priority[one.priority] += one.chunks
    total = sum(quotas.shares[priority - 1] for priority in of_priority)
    if not total:
        unused = ", ".join(map(str, sorted(of_priority)))
        raise ConfigError(f"strata.shares: is 0 for every priority in use ({unused}); set one of these shares above 0")
    weights = {
        one.name: quotas.shares[one.priority - 1] / total * one.chunks / of_priority[one.priority]
        for one in strata
        if one.chunks
    }
    caps = {one.name: math.ceil(one.chunks * quotas.cap) for one in strata if one.chunks}
    given = {name: min(quotas.fewest, caps[name]) for name in weights}
    while sum(given.values()) < min(questions, sum(caps.values())):
        # Sainte-Laguë, one question at a time: for the stratum furthest behind its share.
        open_ones = [name for name in weights if given[name] < caps[name]]
        furthest = max(open_ones, key=lambda name: (weights[name] / (given[name] + 0.5), name))
        given[furthest] += 1
    return given


def documents_by_language(corpus: Corpus, languages: Sequence[str]) -> dict[str, list[int]]:
    """Map each language that has documents to their indices. Raises ConfigError if no document is in the languages."""
    detected = [detect_language(text) for text in corpus.texts]
    if len(languages) == 1:  # the language of a short page may not be detectable
        detected = [one or languages[0] for one in detected]
    found = {one: [n for n, each in enumerate(detected) if each == one] for one in languages}
    if not any(found.values()):
        counts = ", ".join(f"{name or 'unclear'} {count}" for name, count in Counter(detected).most_common(4))
        fact = f"no document is in {' or '.join(languages)}; detected: {counts}"
        way, note = "add such documents", " (unclear documents then count as that)" if "" in detected else ""
        if other := [one for one in LANGUAGES if {one, ""} & {*detected}]:
            way = f"set language to {' or '.join(other)}{note}, or {way}"
        raise ConfigError(f"language: {fact}; {way}")
    return {one: documents for one, documents in found.items() if documents}


def find_strata(
    corpus: Corpus, spans: Spans, documents: Mapping[str, list[int]], settings: BuildSettings, embed: Embed | None
) -> list[dict[str, Any]]:
    """Return a row for each stratum: its priority, its documents, and its quota of answerable questions."""
    numbers = sorted(n for each in documents.values() for n in each)
    groups = folders(corpus)
    if settings.clusters:
        assert embed is not None
        texts = [f"{corpus.titles[n]} {corpus.texts[n][:COMPARED]}" for n in numbers]
        labels = cluster(np.nan_to_num(embed(texts)), settings.clusters, settings.seed)
        groups = {corpus.ids[n]: label for n, label in zip(numbers, labels, strict=True)}
    names = stratify(groups, settings.patterns)
    chunks = np.bincount(spans.document, minlength=len(corpus.ids))
    members: dict[str, list[int]] = {}
    for n in numbers:
        members.setdefault(names[corpus.ids[n]], []).append(n)
    priorities = settings.priorities
    strata = [Stratum(one, priorities.get(one, 2), int(chunks[inside].sum())) for one, inside in members.items()]
    answerable = settings.questions - round(settings.questions * settings.unanswerable)
    quotas = allocate(strata, answerable, settings.quotas)
    return [
        {
            "stratum": one.name,
            "priority": one.priority,
            "chunks": one.chunks,
            "quota": quotas.get(one.name, 0),
            "documents": [corpus.ids[n] for n in members[one.name]],
        }
        for one in strata
    ]
