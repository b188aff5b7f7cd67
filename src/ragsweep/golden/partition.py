"""Divide a golden set: the questions that a search may see (tune), and those that are kept for the end (holdout)."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ragsweep.core.errors import ConfigError, InputError, nearest
from ragsweep.core.identity import content_hash
from ragsweep.core.types import Dataset, Division, Question
from ragsweep.golden.clusters import clusters
from ragsweep.golden.golden_set import kind

ALL, TUNE, HOLDOUT = "all", "tune", "holdout"
NAMES = (ALL, TUNE, HOLDOUT)

SHARE = 0.3
"""Of the questions, kept for the end."""

ENOUGH = 300
"""Fewest questions for a holdout: with fewer it could only show differences of .12 and more."""

SALT = "ragsweep.partition/1"
"""Decides, with a cluster's name, on which side it is. No seed: one golden set has one holdout, everywhere and always,
because a second division would put questions into the holdout that a search has seen under the first."""

SMALLEST = 4
"""Questions of a stratum; those of smaller ones are divided together, or all of them would be on one side."""


@dataclass(frozen=True)
class Choice:
    """The evaluated partition, and a note on it; empty where it was chosen explicitly."""

    name: str
    note: str = ""


def check(given: object, searching: bool) -> None:
    """Refuse a partition before any question is read.

    Raises:
        ConfigError: There is no such partition, or a search reaches for the holdout.
    """
    if given is not None and given not in NAMES:
        raise ConfigError(f"partition: must be all, tune, holdout or null, given {given!r}{nearest(str(given), NAMES)}")
    if searching and given == HOLDOUT:
        raise ConfigError(
            "partition=holdout: a search may not see the holdout, or nothing would be left to check its winner on;"
            " search with partition=tune (the default), then evaluate a short list with partition=holdout"
        )


def choose(given: str | None, questions: int, searching: bool) -> Choice:
    """Choose a config's partition: as configured, or else all; tune for a search.

    Args:
        given: The key ``partition`` of the config; None where it leaves the choice to this rule.
        questions: How many there are. A set of fewer than 300 has no use for a holdout, and a search sees all of it.
        searching: Whether the results decide which configs are tried next.

    Raises:
        ConfigError: As ``check`` does.
    """
    check(given, searching)
    if given is not None or not searching:
        return Choice(given or ALL)
    if questions < ENOUGH:
        return Choice(ALL, f"{questions} questions are too few for a holdout ({ENOUGH} would do): the search sees all")
    return Choice(TUNE, "the search sees the tune questions; partition=holdout evaluates a short list on the others")


def select_partition(whole: Dataset, name: str, drawn: Dataset | None = None) -> Dataset:
    """Keep the questions of one side.

    Args:
        whole: The dataset with all of its questions: they alone decide the side of a question.
        name: "tune" or "holdout".
        drawn: The same dataset with the sample that ``dataset.limit`` draws; those of it are kept that are on the side.
            So a question that a small sample showed to a search is not in the holdout of a larger one.

    Raises:
        InputError: No question is left.
    """
    held = set(holdout(whole.golden.questions))
    asked = (drawn or whole).golden
    kept = tuple(question for question in asked.questions if (question.id in held) == (name == HOLDOUT))
    if not kept:
        raise InputError(f"partition={name}: none of {len(asked.questions)} questions is in it; use partition=all")
    others = {TUNE: HOLDOUT, HOLDOUT: TUNE}[name]
    left_out = {**asked.left_out, f"in partition={others}": len(asked.questions) - len(kept)}
    golden = replace(asked, questions=kept, left_out={why: count for why, count in left_out.items() if count})
    total = len(whole.golden.questions)
    size = len(held) if name == HOLDOUT else total - len(held)
    marks = tuple(sorted(_mark(question) for question in whole.golden.questions if question.id in held))
    division = Division(name, digest(whole.golden.questions), whole.golden.digest, marks)
    note = f"partition={name}: {size:,} of {total:,} questions (division {division.digest[:12]})"
    if name == HOLDOUT and total < ENOUGH:
        note += f"; of so few questions ({ENOUGH} would do) it says little"
    return replace(drawn or whole, golden=golden, notes=(*whole.notes, note), division=division)


def holdout(questions: Sequence[Question]) -> tuple[str, ...]:
    """List the ids of the questions of the holdout: about three of ten of each stratum, whole clusters only.

    A stratum is a category and a kind (with evidence, unanswerable, conversational); a cluster counts to that of most
    of its questions. In a stratum the clusters have a fixed random order, and the first are taken: the one on the
    border where most of it is inside. So more questions, or their order, move none but those at the border.
    """
    members: dict[str, list[Question]] = defaultdict(list)
    for question, cluster in zip(questions, clusters(questions), strict=True):
        members[cluster].append(question)
    held: list[str] = []
    for names in strata(members).values():
        size = sum(len(members[name]) for name in names)
        before = 0
        for name in sorted(names, key=_chance):
            if before + len(members[name]) / 2 <= SHARE * size:
                held.extend(question.id for question in members[name])
            before += len(members[name])
    return tuple(sorted(held))


def digest(questions: Sequence[Question]) -> str:
    """Hash a division: which questions there are, and which of them are kept for the end."""
    return content_hash([sorted(question.id for question in questions), holdout(questions)])


def strata(members: Mapping[str, Sequence[Question]]) -> dict[tuple[str, str], list[str]]:
    """Group the clusters by category and kind; strata of few questions are one."""
    strata: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, inside in members.items():
        counted = Counter((question.category, kind(question)) for question in inside)
        strata[min(counted, key=lambda one: (-counted[one], one))].append(name)
    pooled: dict[tuple[str, str], list[str]] = defaultdict(list)
    for stratum, names in strata.items():
        small = sum(len(members[name]) for name in names) < SMALLEST
        pooled[("", "small") if small else stratum].extend(names)
    return pooled


def _mark(question: Question) -> str:
    """Hash a question's text: another id, or another label, makes no new question."""
    return content_hash([question.text, [[turn.role, turn.text] for turn in question.history]])[:16]


def _chance(cluster: str) -> str:
    return hashlib.sha256(f"{SALT}\0{cluster}".encode()).hexdigest()
