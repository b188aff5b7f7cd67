"""Definitions of metrics: the first paragraphs of their classes' docstrings."""

from collections.abc import Collection, Sequence

from ragsweep.core.errors import ConfigError
from ragsweep.core.results import Result
from ragsweep.core.trust import find_class


def define(results: Sequence[Result], names: Collection[str]) -> dict[str, str]:
    """Map each of the named metrics to the first paragraph of its class's docstring.

    A metric is omitted if no config has it, or if its class cannot be imported or has no docstring.
    """
    nodes = {key: node for one in reversed(results) for key, node in one.run.config.get("metrics", {}).items()}
    found: dict[str, str] = {}
    for key, node in nodes.items():
        try:
            made = find_class(node["_target_"], f"metrics.{key}")
        except ConfigError:
            continue
        sentence = (made.__doc__ or "").partition("\n\n")[0]
        found[vars(made).get("name", key)] = " ".join(sentence.replace("``", "").split())
    return {name: found[name] for name in names if found.get(name)}
