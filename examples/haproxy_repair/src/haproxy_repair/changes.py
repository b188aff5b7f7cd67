"""The changed lines of a repair, and their agreement with the expected changes."""

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from haproxy_repair.lines import read_lines

SIMILAR = 0.6
"""Minimum similarity of two changed lines that count as the same change."""

MOST = 400
"""Number of changed lines from which only equal lines are matched, to limit the time for huge outputs."""


class Changes(NamedTuple):
    """The lines that are removed and added; blank lines, comments and indentation are ignored."""

    removed: tuple[str, ...]
    added: tuple[str, ...]
    changed: int  # lines that were replaced by another one: the smaller number of both, summed over all places


@lru_cache(4096)
def find_changes(before: str, after: str) -> Changes:
    """Compare two configurations."""
    old, new = ([line.text for line in read_lines(text)] for text in (before, after))
    removed: list[str] = []
    added: list[str] = []
    changed = 0
    for kind, start, end, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            removed += old[start:end]
            added += new[first:last]
            changed += min(end - start, last - first)
    return Changes(tuple(removed), tuple(added), changed)


def agreement(made: Changes, expected: Changes) -> float:
    """Compare the changes that were made with the expected ones, 0 to 1; 1 if neither has changes.

    Removed lines are paired with removed ones, added with added, one to one and the most similar first; a pair counts
    its similarity (2 x matching characters / all characters) from 0.6 upwards. The sum of similarities, twice, divided
    by the number of changes of both: half of it is missing where only half of the changes were made, or as many
    needless ones were added.
    """
    total = sum(len(lines) for changes in (made, expected) for lines in (changes.removed, changes.added))
    if not total:
        return 1.0
    paired = _similarity(made.removed, expected.removed) + _similarity(made.added, expected.added)
    return 2.0 * paired / total


def precision(made: Changes, expected: Changes) -> float:
    """Return the share of the changes made that are expected, 0 to 1; without changes: 1 if none is expected, else 0.

    A changed line is expected where it is paired with an expected one as in :func:`agreement`.
    """
    proposed = len(made.removed) + len(made.added)
    if not proposed:
        return float(not expected.removed and not expected.added)
    paired = (_pairing(made.removed, expected.removed), _pairing(made.added, expected.added))
    return sum(map(len, paired)) / proposed


def _similarity(lines: Sequence[str], others: Sequence[str]) -> float:
    return float(sum(_pairing(lines, others)))


def _pairing(lines: Sequence[str], others: Sequence[str]) -> list[float]:
    """List the similarities of a one-to-one pairing: equal lines first, then the most similar."""
    equal = Counter(lines) & Counter(others)
    left, right = (list((Counter(texts) - equal).elements()) for texts in (lines, others))
    similarities = [1.0] * equal.total()
    if len(left) + len(right) > MOST:
        return similarities
    pairs = sorted(
        (-SequenceMatcher(None, one, other, autojunk=False).ratio(), number, position)
        for number, one in enumerate(left)
        for position, other in enumerate(right)
        if 2 * min(len(one), len(other)) >= SIMILAR * (len(one) + len(other))
    )
    used_left, used_right = set(), set()
    for negative, number, position in pairs:
        if -negative >= SIMILAR and number not in used_left and position not in used_right:
            used_left.add(number)
            used_right.add(position)
            similarities.append(-negative)
    return similarities
