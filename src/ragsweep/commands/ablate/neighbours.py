"""The values next to a parameter's own: what an ablation tries of numbers, and of options."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

RUNGS: Mapping[str, Sequence[float]] = {
    "top_k": (1, 3, 5, 8, 12, 20, 30, 50),
    "depth": (20, 50, 100, 200, 500),
    "size": (50, 100, 200, 300, 400, 600, 800, 1000, 1200, 1600, 2000, 3000),
    "overlap": (0, 20, 50, 100, 200, 400),
    "k": (10, 20, 40, 60, 80, 120),
    "k1": (0.5, 0.8, 1.2, 1.5, 1.8, 2.5),
    "b": (0, 0.3, 0.6, 0.75, 0.9, 1),
    "alpha": tuple(n / 10 for n in range(11)),
    "mix": (0, 0.1, 0.2, 0.4, 0.6, 0.8, 1),
    "candidates": (10, 20, 30, 50, 75, 100, 200),
    "ef_search": (20, 40, 64, 128, 200, 400),
    "temperature": (0, 0.3, 0.7, 1),
}
"""The last word of a parameter's name -> the values that practice tries of it; the next ones are the neighbours."""

OPTIONS: Mapping[str, Sequence[str]] = {
    "retriever": ("hybrid_rrf", "hybrid_convex", "vector", "bm25"),
    "reranker": ("none", "late_interaction"),
    "chunker": ("recursive", "fixed_size", "sentence_window"),
    "prompt": ("default", "concise", "cite"),
}
"""Group -> the options that an ablation exchanges for each other: those that need no further model and no service."""

KEPT: Mapping[str, Sequence[str]] = {"chunker": ("none",), "retriever": ("none",)}
"""Group -> options that are a decision about the texts, or about having retrieval at all, and not exchanged."""

AREAS = ("top_k", "depth", "context_budget", "chunker.", "retriever.", "reranker.", "llm.", "router.", "query.")
"""Where the parameters of a system are; the others say what it is asked, and how it is measured."""

CHANCE = frozenset({"seed", "replicate"})


def neighbours(name: str, value: str) -> list[str]:
    """Return the values below and above a numeric parameter's own, as typed; none for other values."""
    last = name.rpartition(".")[2]
    if not name.startswith(AREAS) or last in CHANCE:
        return []
    try:
        number = float(value)
    except ValueError:
        return []
    if not math.isfinite(number):
        return []
    return [f"{one:g}" for one in (_rungs(number, RUNGS[last]) if last in RUNGS else _around(number, value.isdigit()))]


def _rungs(number: float, rungs: Sequence[float]) -> list[float]:
    return [one for one in rungs if one < number][-1:] + [one for one in rungs if one > number][:1]


def _around(number: float, whole: bool) -> list[float]:
    """Take half of a number and twice as much; of a share a tenth less and a tenth more."""
    if 0 < number < 1:
        return [one for one in (round(number - 0.1, 10), round(number + 0.1, 10)) if 0 <= one <= 1]
    if number <= 1:
        return [number + 1]
    return [number // 2 if whole else number / 2, number * 2]


def other_options(group: str, option: str) -> list[str]:
    """Return the options to exchange a group's for; a reranker that is there is only taken away."""
    if option in KEPT.get(group, ()) or group not in OPTIONS:
        return []
    if group == "reranker" and option != "none":
        return ["none"]
    return [one for one in OPTIONS[group] if one != option]
