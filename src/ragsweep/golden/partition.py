"""Divide a golden set into the questions of a search (tune) and those reserved for the final check (holdout)."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.identity import content_hash
from ragsweep.core.types import Dataset, Division, Question
from ragsweep.golden.clusters import clusters
from ragsweep.golden.golden_set import chance, kind

ALL, TUNE, HOLDOUT = "all", "tune", "holdout"
NAMES = (ALL, TUNE, HOLDOUT)

SHARE = 0.3
"""The share of questions in the holdout."""

ENOUGH = 300
"""The minimum number of questions in a golden set for a search to reserve a holdout.

The holdout of a smaller set would detect only differences above 0.12.
"""

SALT = "ragsweep.partition/1"
"""A constant that is hashed with the names of clusters to order them. It is not a configurable seed, because a
second division would move questions that a search has used into the holdout."""

SMALLEST = 4
"""Minimum number of questions in a stratum; smaller strata are merged, because they cannot be divided accurately."""


class ChosenPartition(NamedTuple):
    """The partition to evaluate, and a note for the user if it was chosen because the config is part of a search."""

    name: str
    note: str = ""


def check(given: object, searching: bool) -> None:
    """Raise ConfigError if the key ``partition`` has an unknown value or is "holdout" in a search."""
    if given is not None and given not in NAMES:
        raise ConfigError(f"partition: must be all, tune, holdout or null, got {given!r}")
    if searching and given == HOLDOUT:
        raise ConfigError(
            "partition=holdout: a search must not use the holdout, which is reserved for checking its winner;"
            " search with partition=tune, then evaluate a short list with partition=holdout"
        )


def choose(given: str | None, questions: int, searching: bool) -> ChosenPartition:
    """Return the partition of a config: ``given`` unless it is None; else tune for a search; else all.

    ``searching`` is true in a search, in which earlier results determine the next configs. For a search over a golden
    set of fewer than ENOUGH ``questions``, the partition is all, with a note. If ``given`` is "tune", it is kept, and
    the note states that no finalists will be evaluated. Raises ConfigError as ``check`` does.
    """
    check(given, searching)
    few = f"a holdout needs {ENOUGH} questions, but the set has {questions:,}"
    if searching and given == TUNE and questions < ENOUGH:
        return ChosenPartition(TUNE, f"{few}; no finalists are evaluated after the search")
    if given is not None or not searching:
        return ChosenPartition(given or ALL)
    if questions < ENOUGH:
        return ChosenPartition(ALL, f"{few}; the search uses all questions")
    return ChosenPartition(
        TUNE, "the search uses the tune questions; partition=holdout evaluates a short list on the rest"
    )


def is_held_back(name: str, questions: int, left_out: Mapping[str, int]) -> bool:
    """Return whether the evaluated questions are the tune side of a set that is large enough for a holdout.

    ``questions`` is the number of evaluated questions; ``left_out`` maps reasons to numbers of questions left out.
    """
    left = left_out.get(f"in partition={HOLDOUT}", 0)
    return name == TUNE and left > 0 and questions + left >= ENOUGH


def select_partition(whole: Dataset, name: str, drawn: Dataset, every: Dataset) -> Dataset:
    """Return the dataset ``drawn`` with only the questions of one side of the partition, "tune" or "holdout".

    ``drawn`` is ``whole`` or a sample of it. ``whole`` is ``every``, with or without its unanswerable questions. The
    side of a question depends on all questions of ``every``, so that the questions of a small sample in a search are
    never in the holdout of a larger sample. Raises InputError if no questions remain.
    """
    divided, sample = every.golden.questions, drawn.golden
    held = set(holdout(divided))
    kept = tuple(question for question in sample.questions if (question.id in held) == (name == HOLDOUT))
    if not kept:
        raise InputError(
            f"partition={name}: contains none of the chosen questions ({len(sample.questions):,} in all); use"
            " partition=all"
        )
    others = {TUNE: HOLDOUT, HOLDOUT: TUNE}[name]
    left_out = {**sample.left_out, f"in partition={others}": len(sample.questions) - len(kept)}
    golden = replace(sample, questions=kept, left_out={why: count for why, count in left_out.items() if count})
    total = len(whole.golden.questions)
    size = sum((question.id in held) == (name == HOLDOUT) for question in whole.golden.questions)
    # Only the texts are hashed: a question with a different id or label is still the same question.
    digests = [
        content_hash([question.text, [[turn.role, turn.text] for turn in question.history]])[:16]
        for question in whole.golden.questions
        if question.id in held
    ]
    division = Division(name, digest(divided), whole.golden.digest, tuple(sorted(digests)))
    note = f"partition={name}: {size:,} of {total:,} questions (division {division.digest[:12]})"
    if name == HOLDOUT and total < ENOUGH:
        note += f"; if the set has fewer than {ENOUGH} questions, its holdout detects only large differences"
    return replace(drawn, golden=golden, notes=(*whole.notes, note), division=division)


def holdout(questions: Sequence[Question], share: float = SHARE) -> tuple[str, ...]:
    """Return the sorted ids of the holdout questions: about ``share`` of each stratum, in whole clusters.

    A stratum consists of the clusters with the same most frequent category and kind (see ``strata``). Its clusters are
    put in a fixed random order, and are held out in this order until the holdout contains ``share`` of the stratum's
    questions. The cluster that crosses this limit is held out if at least half of its questions are within the limit.
    The order of the questions does not matter, and additional questions usually move only clusters near the limit.
    """
    members: dict[str, list[Question]] = defaultdict(list)
    for question, cluster in zip(questions, clusters(questions), strict=True):
        members[cluster].append(question)
    held: list[str] = []
    for names in strata(members).values():
        size = sum(len(members[name]) for name in names)
        before = 0
        for name in sorted(names, key=lambda name: chance(SALT, name)):
            if before + len(members[name]) / 2 <= share * size:
                held.extend(question.id for question in members[name])
            before += len(members[name])
    return tuple(sorted(held))


def digest(questions: Sequence[Question]) -> str:
    """Return a hash that identifies the division: it covers the ids of all questions and of the holdout."""
    return content_hash([sorted(question.id for question in questions), holdout(questions)])


def strata(members: Mapping[str, Sequence[Question]]) -> dict[tuple[str, str], list[str]]:
    """Return (category, kind) -> names of the clusters whose questions most often have this category and kind.

    ``members`` maps the name of a cluster to its questions. Strata of fewer than SMALLEST questions are merged into
    one, ("", "small").
    """
    strata: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, inside in members.items():
        counts = Counter((question.category, kind(question)) for question in inside)
        strata[min(counts, key=lambda stratum: (-counts[stratum], stratum))].append(name)
    pooled: dict[tuple[str, str], list[str]] = defaultdict(list)
    for stratum, names in strata.items():
        small = sum(len(members[name]) for name in names) < SMALLEST
        pooled[("", "small") if small else stratum].extend(names)
    return pooled
