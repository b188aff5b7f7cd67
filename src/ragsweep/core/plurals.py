"""Counts with a singular or plural noun, counts of what is shown, counts of reasons, and percentages."""

from collections.abc import Mapping


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 question``, ``1,200 questions``, ``0 questions``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def part_scored(scored: int, total: int, where: str = "") -> str:
    """Return ``9 of 12 questions; the others lack a score``, followed by ``where``."""
    lack = "others lack" if total - scored > 1 else "other lacks"
    return f"{scored:,} of {total:,} questions; the {lack} a score{where}"


def part_shown(shown: int, total: int, what: str = "configs", which: str = "") -> str:
    """Return a space and a sentence about a shortened list, `` 10 of 18 configs are shown.``; "" for a complete list.

    ``which`` precedes the numbers, as in ``The best 10 of 18 configs are shown.``
    """
    return f" {which}{' ' if which else ''}{shown:,} of {total:,} {what} are shown." if shown < total else ""


def count_reasons(reasons: Mapping[str, int]) -> str:
    """Return the counts with their reasons, separated by commas: ``3 no evidence, 1,200 timed out``."""
    return ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())


def percentage(share: float) -> str:
    """Return a share (0 to 1) as a percentage, rounded to a whole number: ``4 %`` for 0.04."""
    return f"{100 * share:.0f} %"
