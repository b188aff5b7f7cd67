"""Check the range of numeric parameters."""

from ragsweep.core.errors import ConfigError


def check_at_least(part: str, least: float, **values: float | None) -> None:
    """Raise ConfigError if one of ``values`` (name -> value) is below ``least`` or NaN; None is valid.

    ``part`` is the config key of the part, used in the message.
    """
    for name, value in values.items():
        if value is not None and not value >= least:  # true for NaN, unlike value < least
            raise ConfigError(f"{part}.{name} must be at least {least}, got {value}")
