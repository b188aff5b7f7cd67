"""Check the range of numeric parameters, and the settings of parts that sample text from a model."""

from ragsweep.core.errors import ConfigError

SEEDS = 100_000
"""Difference between the first seeds of two successive replicates; the samples of a judge use the seeds in between."""


def check_at_least(part: str, least: float, **values: float | None) -> None:
    """Raise ConfigError if one of ``values`` (name -> value) is below ``least`` or NaN; None is valid.

    ``part`` is the config key of the part, used in the message.
    """
    for name, value in values.items():
        if value is not None and not value >= least:  # true for NaN, unlike value < least
            raise ConfigError(f"{part}.{name} must be at least {least}, got {value}")


def check_between(part: str, least: float, most: float, **values: float | None) -> None:
    """Raise ConfigError unless each of ``values`` is None or from ``least`` to ``most``; see ``check_at_least``."""
    for name, value in values.items():
        if value is not None and not least <= value <= most:
            raise ConfigError(f"{part}.{name} must be between {least} and {most}, got {value}")


def check_drawing(max_new_tokens: int, temperature: float, replicates: int) -> None:
    """Raise ConfigError if a value is out of range, or if several replicates would be identical (at temperature 0)."""
    check_at_least("llm", 1, max_new_tokens=max_new_tokens, replicates=replicates)
    check_at_least("llm", 0, temperature=temperature)
    if replicates > 1 and not temperature:
        raise ConfigError(
            f"llm.replicates is {replicates} but llm.temperature is 0: all repetitions would be identical; set"
            " llm.temperature above 0, or llm.replicates=1"
        )
