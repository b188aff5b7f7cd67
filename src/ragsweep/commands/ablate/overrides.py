"""Change a config that is given as overrides: exchange a part, set a parameter, and keep what still fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Overrides = tuple[str, ...]

_LEGS = "retriever.legs"
_SINGLE = ("bm25", "vector")
_HYBRID = ("hybrid_rrf", "hybrid_convex")


def key_of(line: str) -> str:
    """Name the key, or the group, that an override sets."""
    return line.partition("=")[0].lstrip("+~")


def with_value(base: Sequence[str], line: str) -> Overrides:
    """Set a parameter, in the place of whatever set it before."""
    return (*(kept for kept in base if key_of(kept) != key_of(line)), line)


def with_option(base: Sequence[str], group: str, before: str, option: str) -> Overrides:
    """Choose another option of a group than the one before.

    What was set of that one goes with it, but a leg that both retrievers have keeps its settings.
    """
    others = [line for line in base if not _belongs(key_of(line), group)]
    carried = _carried(base, before, option) if group == "retriever" else ()
    return (*others, f"{group}={option}", *carried)


def _belongs(key: str, group: str) -> bool:
    """Return whether an override sets a group, a key of its option, or a key nested in that."""
    package = key.partition("@")[2]
    return key == group or key.startswith((f"{group}.", f"{group}/", f"{group}@")) or package.startswith(f"{group}.")


def _carried(base: Sequence[str], before: str, option: str) -> Iterator[str]:
    """Carry over the settings of a retriever that becomes a leg, or of a leg that is now alone."""
    for line in base:
        key, _, value = line.partition("=")
        if option in _HYBRID and before in _HYBRID and _LEGS in key:
            yield line
        elif option in _SINGLE and before in _HYBRID and f"{_LEGS}.{option}." in key:
            within = key.rpartition(f"{_LEGS}.{option}.")[2]
            yield f"{key.partition('@')[0]}={value}" if "@" in key else f"{_sign(key)}retriever.{within}={value}"
        elif option in _HYBRID and before in _SINGLE and key_of(line).startswith("retriever."):
            yield f"{_sign(key)}{_LEGS}.{before}.{key_of(line).removeprefix('retriever.')}={value}"
        elif option in _HYBRID and before in _SINGLE and key_of(line) == "retriever/index":
            yield f"retriever/index@{_LEGS}.{before}.index={value}"


def _sign(key: str) -> str:
    return key[: len(key) - len(key.lstrip("+~"))]
