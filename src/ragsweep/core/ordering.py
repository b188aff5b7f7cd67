"""Sort values for display, and recognise numbers."""

from collections.abc import Iterable


def in_order(values: Iterable[str]) -> list[str]:
    """Return the values, in numerical order if all of them are numbers, otherwise in the order given."""
    listed = list(values)
    return sorted(listed, key=float) if all(map(is_number, listed)) else listed


def is_number(text: str) -> bool:
    """Return whether ``float`` accepts ``text``, which may also be "nan", "inf" or "1_000"."""
    try:
        float(text)
    except ValueError:
        return False
    return True
