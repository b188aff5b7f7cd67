"""Counts with a singular or plural noun, and percentages."""


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 question``, ``1,200 questions``, ``0 questions``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def percentage(share: float) -> str:
    """Return a share (0 to 1) as a percentage, rounded to a whole number: ``4 %`` for 0.04."""
    return f"{100 * share:.0f} %"
