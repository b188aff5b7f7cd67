"""Divide documents into strata and allocate questions to the strata by priority."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.types import Corpus, Floats, Spans
from ragsweep.parts.languages import detect_language, script_language
from ragsweep_golden.building.drafts import Stratum
from ragsweep_golden.building.settings import BuildSettings, Quotas
from ragsweep_golden.gates.subject import Embed
from ragsweep_golden.sets.entries import LANGUAGES

COMPARED = 512  # number of characters at the start of a document by which it is clustered
OTHERS = "others"


def folders(corpus: Corpus) -> dict[str, str]:
    """Return a mapping of each document id to its folder, or to ``others`` if the document is in no folder."""
    return {name: name.rpartition("/")[0] or OTHERS for name in corpus.ids}


def stratify(groups: Mapping[str, str], patterns: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return a mapping of each document id in ``groups`` to its stratum.

    The stratum is the first in ``patterns`` with a pattern that matches the id, else the group of the document. In a
    pattern, ``*`` matches any text, including slashes.
    """
    return {
        name: next((one for one, tried in patterns.items() if any(fnmatchcase(name, each) for each in tried)), group)
        for name, group in groups.items()
    }


def cluster(vectors: Floats, count: int, seed: int) -> list[str]:
    """Return the name of each unit vector's cluster, found by k-means; ``cluster 1`` is the largest.

    There are at most ``count`` clusters, and no more clusters than vectors.
    """
    import faiss

    count = min(count, len(vectors))
    kmeans = faiss.Kmeans(vectors.shape[1], count, spherical=True, seed=seed, min_points_per_centroid=1)
    kmeans.train(vectors)
    _, nearest = kmeans.index.search(vectors, 1)
    numbers = nearest[:, 0].tolist()
    order = [number for number, _ in Counter(numbers).most_common()]
    return [f"cluster {order.index(number) + 1}" for number in numbers]


def allocate(strata: Sequence[Stratum], questions: int, quotas: Quotas) -> dict[str, int]:
    """Return the number of questions for each stratum; strata without chunks are omitted.

    Each priority in use gets its share of the questions, and the strata of a priority divide this share in proportion
    to their numbers of chunks. A stratum gets at least ``quotas.fewest`` questions, but never more than ``quotas.cap``
    per chunk, rounded up; the excess goes to the other strata. The numbers sum to ``questions`` unless the caps allow
    fewer or the minimums require more. Raises ConfigError if a priority is invalid, or if every priority in use has the
    share 0.
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
        raise ConfigError(f"strata.shares: the share of every priority in use ({unused}) is 0; set one above 0")
    weights = {
        one.name: quotas.shares[one.priority - 1] / total * one.chunks / of_priority[one.priority]
        for one in strata
        if one.chunks
    }
    caps = {one.name: math.ceil(one.chunks * quotas.cap) for one in strata if one.chunks}
    given = {name: min(quotas.fewest, caps[name]) for name in weights}
    while sum(given.values()) < min(questions, sum(caps.values())):
        # Sainte-Laguë method: one question at a time, for the stratum furthest below its share
        open_ones = [name for name in weights if given[name] < caps[name]]
        furthest = max(open_ones, key=lambda name: (weights[name] / (given[name] + 0.5), name))
        given[furthest] += 1
    return given


def documents_by_language(corpus: Corpus, languages: Sequence[str]) -> dict[str, list[int]]:
    """Return a mapping of each language to the indices of its documents; languages without documents are omitted.

    If only one language is given, documents of undetected language count as written in this language. Raises
    ConfigError if no document is in any of the languages.
    """
    detected = [script_language(text) or detect_language(text) for text in corpus.texts]
    if len(languages) == 1:  # the language of a short page may not be detectable
        detected = [one or languages[0] for one in detected]
    found = {one: [n for n, each in enumerate(detected) if each == one] for one in languages}
    if not any(found.values()):
        counts = ", ".join(f"{name or 'unclear'} {count}" for name, count in Counter(detected).most_common(4))
        fact = f"no document is in {' or '.join(languages)}; detected: {counts}"
        way = f"add documents in {' or '.join(languages)}"
        note = " (documents of undetected language then count as written in that language)" if "" in detected else ""
        if other := [one for one in LANGUAGES if {one, ""} & {*detected}]:
            way = f"set {' or '.join(f'language={one}' for one in other)}{note}, or {way}"
        raise ConfigError(f"language: {fact}; {way}")
    return {one: documents for one, documents in found.items() if documents}


def find_strata(
    corpus: Corpus, spans: Spans, documents: Mapping[str, list[int]], settings: BuildSettings, embed: Embed | None
) -> list[dict[str, Any]]:
    """Return a row for each stratum: its name, priority, number of chunks, quota and documents.

    The quota is the number of answerable questions. Documents are grouped by cluster, which requires ``embed``, or by
    folder (see ``settings.clusters``); the patterns of the settings take precedence. Raises ConfigError as
    ``allocate`` does, and for the priority of an unknown stratum.
    """
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
    for name in priorities:
        if name not in members:
            raise ConfigError(f"strata.priorities.{name}: no stratum has this name{nearest(name, members)}")
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
