"""Parse single overrides with Hydra's grammar."""

from collections.abc import Callable
from functools import lru_cache

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override
from hydra.errors import HydraException

Options = Callable[[str], list[str]]
"""A function from the name of a config group to its options."""


@lru_cache(maxsize=4096)
def parse(line: str) -> Override:
    """Parse one override with Hydra's parser; raises a HydraException for invalid text."""
    return OverridesParser.create().parse_override(line)


def expand_glob(line: str, options: Options) -> str:
    """Expand a pattern of options (``retriever=glob(hybrid*)``); return any other override unchanged.

    Raises HydraException for invalid syntax, and if no option matches.
    """
    override = parse(line)
    pattern, known = override.value(), options(override.key_or_group) if "glob" in line else []
    if not isinstance(pattern, Glob):
        return line
    if not (found := pattern.filter(known)):
        raise HydraException(f"the pattern matches no option; known: {', '.join(known) or 'none'}")
    return f"{override.get_key_element()}={','.join(found)}"
