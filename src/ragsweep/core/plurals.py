"""Counts with a singular or plural noun."""


def counted(count: int, noun: str) -> str:
    """Write a count and its noun: ``1 question``, ``1,200 questions``, ``0 questions``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
