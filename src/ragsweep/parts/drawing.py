"""The spacing of seeds and a check of settings, shared by the parts that sample text from a model."""

from ragsweep.core.errors import ConfigError
from ragsweep.parts.limits import check_at_least

SEEDS = 100_000
"""Difference between the first seeds of two successive replicates; the samples of a judge use the seeds in between."""


def check_drawing(max_new_tokens: int, temperature: float, replicates: int) -> None:
    """Raise ConfigError if a value is out of range, or if several replicates would be identical (at temperature 0)."""
    check_at_least("llm", 1, max_new_tokens=max_new_tokens, replicates=replicates)
    check_at_least("llm", 0, temperature=temperature)
    if replicates > 1 and not temperature:
        raise ConfigError(
            f"llm.replicates is {replicates} but llm.temperature is 0: all repetitions would be identical; set"
            " llm.temperature above 0, or llm.replicates=1"
        )
