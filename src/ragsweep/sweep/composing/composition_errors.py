"""Compose a config, or explain in one sentence why Hydra cannot, with the nearest known name."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from ragsweep.core.errors import ConfigError, nearest
from ragsweep.sweep.composing.compose import Composer, config_folder
from ragsweep.sweep.composing.template import JobConfig


def explain(fault: Exception, overrides: Sequence[str], composer: Composer) -> str:
    """Shorten Hydra's message to one sentence, and add the nearest known name."""
    text = str(fault)
    if option := re.search(r"Could not (?:find|load) '([^']+)'", text):  # load: in a list, metrics=[a,b]
        group, _, name = option.group(1).rpartition("/")
        files = [file for folder in composer.folders(overrides) for file in (folder / group).glob("*.yaml") if group]
        if known := re.findall(r"^\t(\S+)$", text, re.MULTILINE) or sorted(file.stem for file in files):
            folders = [str(folder / group) for folder in composer.folders(overrides) if (folder / group).is_dir()]
            searched = "" if not folders or group.startswith("hydra") else f"; searched: {', '.join(folders)}"
            return f"{group}={name}: no such option{nearest(name, known)}{searched}"
        groups = sorted(path.name for path in config_folder().iterdir() if path.is_dir() and path.name != "hydra")
        return f'"{option.group(1)}": no such group{nearest(group or name, groups)}'
    if there := re.search(r"Could not append to config\. An item is already at '([^']+)'", text):
        line = next((o for o in overrides if o.lstrip("+~").startswith(there.group(1))), there.group(1))
        return f"{line}: {there.group(1)} exists already; omit the +"
    if unknown := re.search(r"Could not override '([^']+)'", text):
        name = unknown.group(1)
        line = next((o for o in overrides if o.lstrip("+~").startswith(name)), name)
        keys = _keys(overrides, composer, name.startswith("hydra."))
        if name in keys:  # the fault is inside the value
            inside = ", ".join(key.removeprefix(f"{name}.") for key in keys if key.startswith(f"{name}."))
            return f"{line}: {name} has no such keys; known: {inside}; add others with +{name}.KEY=..."
        outermost = name
        while (parent := outermost.rpartition(".")[0]) and parent not in keys:
            outermost = parent
        siblings = [key for key in keys if key.rpartition(".")[0] == parent]
        holders = _options_with(outermost, composer.folders(overrides))
        elsewhere = f"; options that have it: {', '.join(holders)}" if holders else ""
        added = f"; conf/{line.replace('=', '/')}.yaml is added by +{line}" if name == "experiment" else ""
        return f'{line}: no key "{name}"{nearest(outermost, siblings)}{elsewhere}{added}'
    return " ".join(text.split())


def _options_with(key: str, folders: Iterable[Path]) -> list[str]:
    """List the options of a group, as typed, whose file has this key at top level."""
    group, _, name = key.rpartition(".")
    files = [file for folder in folders for file in sorted((folder / group).glob("*.yaml"))] if group else []
    having = re.compile(rf"^{re.escape(name)}:", re.MULTILINE)
    return [f"{group}={file.stem}" for file in files if having.search(file.read_text(encoding="utf-8"))]


def _keys(overrides: Sequence[str], composer: Composer, of_hydra: bool) -> list[str]:
    """List all keys of the config with the chosen options of groups that exist."""
    chosen = [line for line in overrides if "." not in line.partition("=")[0]]
    try:
        template = composer.template(chosen)
    except (HydraException, OmegaConfBaseException):
        template = composer.template([])
    return list(_dotted(template.tree if of_hydra else template.written, ""))


def _dotted(tree: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for key, value in tree.items():
        yield f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}{key}.")


def compose(composer: Composer, overrides: Sequence[str]) -> JobConfig:
    """Compose a config. Raises ConfigError, whose message is one sentence with the nearest known name."""
    try:
        return composer.compose(overrides)
    except (HydraException, OmegaConfBaseException) as fault:
        raise ConfigError(explain(fault, overrides, composer)) from None
    except yaml.YAMLError as fault:
        raise ConfigError(" ".join(str(fault).split())) from None


@contextmanager
def one_sentence() -> Iterator[None]:
    """Convert Hydra's and OmegaConf's errors in the block to a ConfigError with the first line of their message."""
    try:
        yield
    except (HydraException, OmegaConfBaseException) as fault:
        raise ConfigError(str(fault).splitlines()[0]) from None
