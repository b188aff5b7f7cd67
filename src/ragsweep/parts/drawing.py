"""Shared settings of parts that sample text: the seeds of repetitions, and the limits of settings."""

from __future__ import annotations

from typing import Protocol

from ragsweep.core.errors import ConfigError

SEEDS = 100_000
"""Distance between the seeds of two repetitions, greater than any number of samples."""


class Drawing(Protocol):
    """A local model's settings."""

    max_new_tokens: int
    temperature: float
    replicates: int


def check_drawing(llm: Drawing) -> None:
    """Raise ConfigError for values out of range, and for repetitions that would all be the same answer."""
    for name, least in (("max_new_tokens", 1), ("temperature", 0), ("replicates", 1)):
        if (given := getattr(llm, name)) < least:
            raise ConfigError(f"llm.{name} is {given}; it must be {least} or more")
    if llm.replicates > 1 and not llm.temperature:
        raise ConfigError(
            f"llm.replicates is {llm.replicates} and temperature is 0: every repetition would be the same answer; set"
            " llm.temperature above 0, or llm.replicates=1"
        )
