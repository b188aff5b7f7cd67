"""Counts with a singular or plural noun, and percentages."""


def counted(count: int, noun: str) -> str:
    """Write a count and its noun: ``1 question``, ``1,200 questions``, ``0 questions``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def percentage(share: float) -> str:
    """Write a share as a whole percentage: ``4 %``."""
    return f"{100 * share:.0f} %"
