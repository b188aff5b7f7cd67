"""Sort values for display, and recognise numbers."""

from collections.abc import Iterable


def in_order(values: Iterable[str]) -> list[str]:
    """Sort the values by size if all are numbers; otherwise keep their order."""
    listed = list(values)
    return sorted(listed, key=float) if all(map(is_number, listed)) else listed


def is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
