"""A check of numeric parameters, shared by several parts."""

from ragsweep.core.errors import ConfigError


def check_at_least(part: str, least: float, **values: float | None) -> None:
    """Raise ConfigError if a value is NaN or below ``least``; None is valid. ``part`` is the part's config key."""
    for name, value in values.items():
        if value is not None and not value >= least:  # unlike value < least, true for NaN
            raise ConfigError(f"{part}.{name} must be at least {least}, got {value}")
