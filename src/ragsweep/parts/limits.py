"""Limits of parameters that parts have in common."""

from ragsweep.core.errors import ConfigError


def check_at_least(part: str, least: float, **values: float | None) -> None:
    """Raise ConfigError for a parameter of a part (its key in the config) below ``least``; None is no number."""
    for name, value in values.items():
        if value is not None and value < least:
            raise ConfigError(f"{part}.{name} must be at least {least}, got {value}")
