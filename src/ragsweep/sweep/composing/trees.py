"""Read and change trees of plain values; parse overrides, and format values as in overrides."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from ragsweep.core.secrets import mask

Options = Callable[[str], list[str]]
"""A function from the name of a config group to its options."""

_INNERMOST = re.compile(r"\$\{([^${}]*)\}")
_RESOLVED = "\0"
"""Placeholder for a nested interpolation."""

_READS_NO_KEY = ("oc.env", "now", "hydra", "python_version")
"""Resolvers whose arguments are not keys of the config."""

OPERATIONAL = {
    "answer_headline", "baseline", "budget", "by", "compute", "constraints", "coverage", "finalists", "headline",
    "hydra", "max_failures", "name", "plan", "prices", "progress", "recommend", "rerun", "store", "success", "targets",
    "timeout", "tracking",
}  # fmt: skip
"""Config keys that do not identify a config: they determine how and where a config is run, priced, shown and judged."""

_NO_PARAMETERS = {"metrics", *OPERATIONAL} - {"baseline", "by", "compute", "finalists", "hydra", "name"}
"""Keys that `spell` omits, because they cannot change a result or are shown as metrics."""

_BARE = re.compile(r"(?!\s)[\w/.:+%*@?|$ -]*(?<!\s)", re.ASCII)
"""Pattern of text that Hydra reads without quotes."""

_OTHER = re.compile(r"null|true|false|[+-]?(nan|inf|(?=[\d.])[\d_]*\.?[\d_]*(e[+-]?[\d_]+)?)", re.IGNORECASE | re.ASCII)
"""Pattern of text that Hydra reads as null, a Boolean or a number unless it is quoted."""

_BEFORE_QUOTE = re.compile(r"(\\*)'")
"""Pattern of a quote and the backslashes before it, which are escaped within quotes."""


@lru_cache(maxsize=4096)
def parse(line: str) -> Override:
    """Parse one override with Hydra's parser; raises a HydraException for invalid text."""
    return OverridesParser.create().parse_override(line)


def is_override(line: str) -> bool:
    """Return whether ``line`` is an override that Hydra can parse, without leading or trailing white space."""
    try:
        parse(line)
    except HydraException:
        return False
    return line == line.strip()


def leaves(tree: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys and values of a tree's leaves; ``where`` is the key of the tree itself."""
    if isinstance(tree, Mapping | list):
        for key, item in children(tree, where):
            yield from leaves(item, key)
    else:
        yield where, tree


def children(tree: Mapping[str, Any] | list[Any], where: str) -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys and values of a tree's items; ``where`` is the key of the tree itself."""
    if isinstance(tree, Mapping):
        for key, item in tree.items():
            yield f"{where}.{key}" if where else str(key), item
    else:
        for number, item in enumerate(tree):
            yield f"{where}[{number}]", item


def with_values(tree: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of ``tree`` with ``changes`` (dotted key -> value, existing parents); other nodes are shared."""
    copied: dict[str, Any] = dict(tree)
    for key, value in changes.items():
        *above, last = key.split(".")
        node = copied
        for part in above:
            node[part] = dict(node[part])
            node = node[part]
        node[last] = value
    return copied


def value_at(tree: Mapping[str, Any], key: str) -> Any:
    """Return the value at an existing dotted key."""
    node: Any = tree
    for part in key.split("."):
        node = node[part]
    return node


def keys_read(text: str, where: str) -> set[str] | None:
    """Return the absolute keys that the interpolations in ``text`` read; ``where`` is the key of the text.

    Return None if these keys are known only after the text has been resolved.
    """
    found: set[str] = set()
    while innermost := _INNERMOST.search(text):
        inside = innermost[1].strip()
        resolver, colon, _ = inside.partition(":")
        if colon and resolver.strip() not in _READS_NO_KEY:
            return None
        if not colon:
            if _RESOLVED in inside:
                return None
            found.add(absolute(inside, where))
        text = text[: innermost.start()] + _RESOLVED + text[innermost.end() :]
    return None if "${" in text else found


def absolute(key: str, where: str) -> str:
    """Return the absolute form of ``key``, interpolated at the key ``where``; each leading dot goes up one level."""
    key = re.sub(r"\[['\"]?(\w+)['\"]?\]", r".\1", key)
    named = key.lstrip(".")
    above = re.sub(r"\[(\d+)\]", r".\1", where).split(".")
    up = len(key) - len(named)
    return named if not up else ".".join([*above[: len(above) - up], named])


def spell(written: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, str]:
    """Flatten a config to parameters as typed on the command line, with secrets masked.

    ``written`` is the config with interpolations, and ``values`` is the config as plain values. A part that another
    part interpolates (``embedder: ${embedder}``) appears only under its own key.
    """
    found: dict[str, str] = {}

    def walk(node: Mapping[str, Any], below: Mapping[str, Any], prefix: str) -> None:
        for key, value in below.items():
            name = f"{prefix}{key}"
            if name in _NO_PARAMETERS or key == "_target_":
                continue
            if not isinstance(value, Mapping):
                found[name] = spell_value(value)
            elif isinstance(child := node[key], Mapping):
                walk(child, value, f"{name}.")  # else ``child`` interpolates a part with its own key

    walk(written, values, "")
    return {name: str(mask(value, name)) for name, value in found.items()}


def spell_value(value: Any) -> str:
    """Format a value as it is typed on the command line."""
    if isinstance(value, list | tuple):
        return "[" + ",".join(spell_value(item) or "''" for item in value) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if not isinstance(value, str) or (_BARE.fullmatch(value) and not _OTHER.fullmatch(value)):
        return str(value)
    return "'" + _BEFORE_QUOTE.sub(r"\1\1\\'", value + "'")[:-2] + "'"
