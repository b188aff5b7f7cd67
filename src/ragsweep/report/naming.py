"""Name many configs in few words: neighbouring values of one parameter as a range."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence

_LONG_NUMBER = re.compile(r"\d\.\d{12,}")

LONGEST = 60
"""Characters of a config's name within a sentence."""
FEWEST = 3
"""Neighbours from which on a range is shorter than their names."""


def rounded(name: str) -> str:
    """Write 0.30000000000000004 as 0.3: six digits of a number that a search or arithmetic has made."""
    return _LONG_NUMBER.sub(lambda number: f"{float(number[0]):g}", name)


def short(name: str) -> str:
    """Break a very long name off in its middle, its numbers rounded."""
    name = rounded(name)
    return name if len(name) <= LONGEST else f"{name[: LONGEST // 2 - 2]}...{name[-LONGEST // 2 + 2 :]}"


def ranges(names: Sequence[str], chosen: Sequence[int]) -> list[str]:
    """Name the chosen ones among all configs, in their order.

    Where at least three of them differ in the number of one override only, and no other config's number lies between,
    they are one range: ``retriever.alpha=0.3 to 0.6``.
    """
    texts: list[str] = []
    left = set(chosen)
    runs = sorted(_runs(names, left), key=lambda run: (-len(run[1]), run[0]))
    text_of: dict[int, str] = {}
    for text, rows in runs:
        if left.issuperset(rows):
            left.difference_update(rows)
            text_of.update(dict.fromkeys(rows, text))
    for row in chosen:
        text = text_of.get(row, short(names[row]))
        if text not in texts:
            texts.append(text)
    return texts


def _runs(names: Sequence[str], chosen: Collection[int]) -> list[tuple[str, list[int]]]:
    """List the ranges of neighbours that are all chosen: their text, and their configs."""
    families: dict[tuple[str, ...], list[tuple[float, int]]] = defaultdict(list)
    for row, name in enumerate(names):
        for place, override in enumerate(words := name.split(" ")):
            key, _, value = override.partition("=")
            if (number := _number(value)) is not None:
                families[(*words[:place], f"{key}=", *words[place + 1 :], str(place))].append((number, row))
    runs = []
    for (*parts, where), members in families.items():
        for run in _neighbours(sorted(members), chosen):
            texts = list(parts)
            texts[int(where)] += f"{run[0][0]:g} to {run[-1][0]:g}"
            runs.append((" ".join(texts), [row for _, row in run]))
    return runs


def _neighbours(members: Sequence[tuple[float, int]], chosen: Collection[int]) -> list[list[tuple[float, int]]]:
    """Cut a family, ordered by its number, into runs of chosen ones; short runs are left out."""
    runs: list[list[tuple[float, int]]] = [[]]
    for member in members:
        if member[1] in chosen:
            runs[-1].append(member)
        else:
            runs.append([])
    return [run for run in runs if len(run) >= FEWEST]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
