"""Findings, the faults of a configuration, and the matching of stated findings to expected ones.

A stated finding matches an expected one if both have the same kind and the same element, and their lines are at most
two apart. Elements are compared without quotes, in lower case, with single spaces. Each finding matches at most one
other: pairs are taken in the order of the distance of their lines, then of their positions.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

KINDS = (
    "unknown_directive", "wrong_section", "missing_backend", "bad_timeout", "acl_routing", "tls", "load_balancing",
    "security_optimisation",
)  # fmt: skip
NEAR = 2
"""Maximum distance of a finding from the expected one, in lines."""

Finding = Mapping[str, Any]


def count_matches(stated: Sequence[Finding], expected: Sequence[Finding]) -> int:
    """Count the pairs of a one-to-one matching."""
    return len(_match(stated, expected, lambda finding: (finding["kind"], _element(finding))))


def pair_kinds(stated: Sequence[Finding], expected: Sequence[Finding]) -> list[tuple[str, str]]:
    """List expected and stated kind of each finding, matched by element and line only; "" if there is none."""
    matched = _match(stated, expected, _element)
    pairs = [(expected[position]["kind"], stated[number]["kind"]) for number, position in matched.items()]
    pairs += [("", one["kind"]) for number, one in enumerate(stated) if number not in matched]
    return pairs + [(one["kind"], "") for position, one in enumerate(expected) if position not in set(matched.values())]


def _match(
    stated: Sequence[Finding], expected: Sequence[Finding], key: Callable[[Finding], Hashable]
) -> dict[int, int]:
    """Match positions of stated findings to those of expected ones with the same key, the nearest lines first."""
    pairs = sorted(
        (abs(one["line"] - other["line"]), number, position)
        for number, one in enumerate(stated)
        for position, other in enumerate(expected)
        if key(one) == key(other) and abs(one["line"] - other["line"]) <= NEAR
    )
    matched: dict[int, int] = {}
    for _, number, position in pairs:
        if number not in matched and position not in matched.values():
            matched[number] = position
    return matched


def _element(finding: Finding) -> str:
    return " ".join(finding["element"].replace('"', "").replace("'", "").casefold().split())
