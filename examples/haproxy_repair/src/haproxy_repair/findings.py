"""Findings: what is wrong with a configuration, and which of those stated are expected.

A stated finding matches an expected one if both have the same kind and the same element, and their lines are at most
two apart. Elements are compared without quotes, in lower case, with single spaces. Each finding matches at most one
other: pairs are taken in the order of the distance of their lines, then of their positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

KINDS = (
    "unknown_directive", "wrong_section", "missing_backend", "bad_timeout", "acl_routing", "tls", "load_balancing",
    "security_optimisation",
)  # fmt: skip
NEAR = 2
"""How many lines a finding may be away from the expected one."""

Finding = Mapping[str, Any]


def count_matches(stated: Sequence[Finding], expected: Sequence[Finding]) -> int:
    """Count the pairs of a one-to-one matching."""
    pairs = sorted(
        (abs(one["line"] - other["line"]), number, position)
        for number, one in enumerate(stated)
        for position, other in enumerate(expected)
        if _key(one) == _key(other) and abs(one["line"] - other["line"]) <= NEAR
    )
    left, right = set(), set()
    for _, number, position in pairs:
        if number not in left and position not in right:
            left.add(number)
            right.add(position)
    return len(left)


def _key(finding: Finding) -> tuple[str, str]:
    return finding["kind"], " ".join(finding["element"].replace('"', "").replace("'", "").casefold().split())
