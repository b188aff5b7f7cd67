"""Parse single overrides with Hydra's grammar."""

from collections.abc import Callable
from functools import lru_cache

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override

Options = Callable[[str], list[str]]
"""A function from the name of a config group to its options."""


@lru_cache(maxsize=4096)
def parse(line: str) -> Override:
    """Parse one override with Hydra's parser; raises a HydraException for invalid text."""
    return OverridesParser.create().parse_override(line)
