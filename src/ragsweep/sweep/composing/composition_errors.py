"""Compose a config, or explain in one sentence, with the nearest known name, why Hydra cannot compose it."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from ragsweep.core.errors import ConfigError, nearest
from ragsweep.sweep.composing.compose import Composer, config_folder
from ragsweep.sweep.composing.config_files import DEPTH, is_deep
from ragsweep.sweep.composing.hydra_settings import GRID_SWEEPER, NO_CALLBACKS, OPTUNA_SWEEPERS, SWEEPERS
from ragsweep.sweep.composing.job import JobConfig, Template
from ragsweep.sweep.composing.trees import parse

_UNCHECKED = (AssertionError, AttributeError, TypeError, ValueError)
"""Exceptions that Hydra raises for overrides whose type it does not check."""

_FACTS = {
    "is not Optional$": "must have a value; omit it for the default",
    "^Cannot convert '(dict|list)' to string": "must be text, not a mapping or a list; quote text that has brackets",
    "^Cannot merge DictConfig with ListConfig": "must be a mapping, not a list; set its keys one by one, KEY.KEY=VALUE",
}
"""Pattern of OmegaConf's message about the value of an override -> the text printed instead."""

_PARTLY = {
    False: "; a key that only some options have must be set in a case:"
    ' \'hydra.sweeper.cases=[["{0}"],["{1}","{2}=..."]]\'',
    True: "; under hydra.sweeper.params, a key that only some options have needs a condition: {2}: {{over: ...,"
    " when: {1}}}",
}
"""Whether the command searches -> the remedy for a key ``{2}`` that the option ``{0}`` lacks and ``{1}`` has."""


def check_readable(lines: Sequence[str]) -> None:
    """Raise ConfigError for an override that has no key, is nested too deeply, or cannot be parsed."""
    for line in filter(is_deep, lines):
        key = line.partition("=")[0][:80]
        raise ConfigError(f"{key}: brackets are nested more than {DEPTH} levels deep; use fewer levels")
    for line in lines:
        key, mark, value = line.partition("=")
        if not key.lstrip("+~"):
            raise ConfigError(f'cannot read "{line}": the key is missing; write KEY=VALUE')
        try:
            parse(line)
        except HydraException as fault:
            quoted = shlex.quote(f"{key}={QuotedString(value, Quote.double).with_quotes()}")
            way = f"to take the value as it is, quote it: {quoted}" if mark else "write KEY=VALUE"
            if re.search(r" [\w.+~/@]+=", value):
                way = f"pass several overrides as separate arguments, without quotes around all of them; or {way}"
            way = f"list values without spaces between them, {key}=A,B; or {way}" if value.endswith(",") else way
            way = f"""quote each item of the list, '["...", "..."]'; or {way}""" if value.startswith("[") else way
            if value.startswith("{"):
                which = "only values" if re.search(r"""["']\s*:""", value) else "each value"
                way = f"""quote {which} of the mapping, '{{KEY: "..."}}'; or {way}"""
            if mark and (odd := re.search(r"[^\w+~./@:$-]", key)):
                way = f"a key must not contain {odd[0]!r}; write KEY=VALUE, or KEY.0=VALUE for the first item of a list"
            raise ConfigError(f"cannot read {line}: {str(fault).splitlines()[0]}; {way}") from None


def explain(
    fault: Exception,
    overrides: Sequence[str],
    composer: Composer,
    jobs: Sequence[Sequence[str]] = (),
    searching: bool = False,
) -> str:
    """Explain Hydra's ``fault`` in one sentence, with the nearest known name; return the text of an unknown fault.

    ``jobs`` contains the overrides of all jobs of the sweep; ``searching``: whether the sweep is a search.
    """
    text = str(fault)
    place = _file(text)
    groups = sorted(path.name for path in config_folder().iterdir() if path.is_dir() and path.name != "hydra")
    relative = re.match(r"In '([^']+)/[^']+': Could not \w+ '\1/(\w+)", text)
    if relative and relative[2] in groups:
        group = relative[2]
        return f'{place}{relative[1]}/{group}, in the defaults, is not a group; write "override /{group}: OPTION"'
    if typed := re.match(r"In '[^']+': \w+ raised while composing config:\s+(.+)\s+full_key: (\S*)\n", text):
        if typed[1].startswith("Key "):
            return _explain_key(typed[2], text, overrides, composer, jobs, searching)
        return f"{place}{typed[2] or 'the file must be a mapping of keys to values'}: {typed[1]}"
    if option := re.search(r"Could not (?:find|load) '([^']+)'", text):  # "load" for a list: metrics=[a,b]
        group, _, name = option.group(1).rpartition("/")
        files = [file for folder in composer.folders(overrides) for file in (folder / group).glob("*.yaml") if group]
        if known := re.findall(r"^\t(\S+)$", text, re.MULTILINE) or sorted(file.stem for file in files):
            folders = [str(folder / group) for folder in composer.folders(overrides) if (folder / group).is_dir()]
            searched = "" if not folders or group.startswith("hydra") else f"; searched: {', '.join(folders)}"
            start = "" if f"{group}={name}" in overrides else place  # the file names the group, but not this option
            return f"{start}{group}={name}: no such option{nearest(name, known)}{searched}"
        return f'{place}"{option.group(1)}": no such group{nearest(group or name, groups)}'
    if there := re.search(r"Could not append to config\. An item is already at '([^']+)'", text):
        line = next((o for o in overrides if o.lstrip("+~").startswith(there.group(1))), there.group(1))
        return f"{line}: {there.group(1)} exists already; omit the +"
    if twice := re.search(r"Multiple values for (\S+)\.|(\S+) appears more than once in the final defaults", text):
        group = twice[1] or twice[2]
        if line := next((line for line in overrides if line.startswith(f"+{group}=")), ""):
            return f"{line}: {group} has an option already; omit the +"
        return f'{group}: has two options; in the defaults of your config write "override /{group}: OPTION"'
    if text.startswith("Error merging override ") and fault.__cause__:
        fact = str(fault.__cause__).splitlines()[0]
        fact = next((text for pattern, text in _FACTS.items() if re.search(pattern, fact)), fact)
        return f"{text.removeprefix('Error merging override ')}: {fact}"
    if unknown := re.search(r"Could not (?:override|delete from config\.) '([^']+)'", text):
        return _explain_key(unknown[1], text, overrides, composer, jobs, searching)
    for line, override in zip(overrides, map(parse, overrides), strict=True):
        value, group = override.value(), override.key_or_group
        is_group = group == "sweeps" or composer.is_group(group, overrides)
        if is_group and not all(isinstance(one, str) for one in (value if isinstance(value, list) else [value])):
            return wants_option(line, group, composer)
    return " ".join(text.split())


def _file(text: str) -> str:
    """Return the config file in Hydra's message as a prefix, ``FILE.yaml: ``; "" if the message names no file."""
    within = re.match(r"In '((?!hydra/)[^']+/[^']+)': ", text)
    return f"{within[1]}.yaml: " if within else ""


def _explain_key(
    name: str, text: str, overrides: Sequence[str], composer: Composer, jobs: Sequence[Sequence[str]], searching: bool
) -> str:
    """Return the message for a key that Hydra cannot override or delete; ``text`` is Hydra's message."""
    if re.match(r"hydra[./]callbacks\b", name):
        return NO_CALLBACKS
    line = next((o for o in overrides if o.lstrip("+~").startswith(name)), name)
    template = _chosen([one for one in overrides if one != line], composer, _file(text).removesuffix(": "))
    line = line.removesuffix("=null") if line.startswith("~") else line  # added by Hydra's expansion
    keys = list(_dotted(template.tree if name.startswith("hydra.") else template.written, ""))
    if "=" in line and text.startswith("Could not override") and not name.startswith("hydra/"):
        if "/" in name and (config_folder() / name).is_dir():
            return f"{line}: {_other_place(name, line, template)}"
        if composer.is_group(name, overrides) and name not in keys:
            return f"{line}: {name} has no option yet; write +{line}"
    if name in keys and text.startswith("Could not delete"):
        return f"{line}: {name} has no value; omit {line}"
    if name in keys:  # the fault is inside the value
        below = [key.removeprefix(f"{name}.") for key in keys if key.startswith(f"{name}.")]
        known = [key for key in below if "." not in key]
        holds_parts = "_target_" not in known and any(key.endswith("._target_") for key in below)
        added = f"; add others with +{name}.KEY=..." if holds_parts or not known else ""
        return f"{line}: {name} has no such keys; known: {', '.join(known) or 'none'}{added}"
    outermost = name
    while (parent := outermost.rpartition(".")[0]) and parent not in keys:
        outermost = parent
    siblings = [key for key in keys if key.rpartition(".")[0] == parent]
    if name.startswith("hydra/"):
        siblings = [key for key in composer.template([]).hydra["runtime"]["choices"] if key.startswith("hydra/")]
    holders = options_with(outermost, composer.folders(overrides))
    added = "; to add a part under a new key, write + before the key" if "_target_" in line else ""
    if name == "experiment":
        added = f"; to add conf/{line.replace('=', '/')}.yaml, write +{line}"
    lacked = re.match(r"hydra[./]sweeper[./](\w+)", name)
    if lacked and f"hydra.sweeper.{lacked[1]}" not in keys and not text.startswith("Could not delete"):
        sweepers = {"grid": GRID_SWEEPER, "optuna": OPTUNA_SWEEPERS[0]}
        if found := [option for option, sweeper in sweepers.items() if lacked[1] in SWEEPERS[sweeper]]:
            return f"{line}: the chosen sweeper has no {lacked[1]}; choose hydra/sweeper={found[0]}"
    if parent and not siblings and text.startswith("Could not override"):
        if parent == "hydra.sweeper.race":
            return f"{line}: no race is chosen; add hydra/sweeper/race=betting"
        inside = "VALUE"
        for key in reversed(name.removeprefix(f"{parent}.").split(".")):
            inside = f"{{{key}: {inside}}}"
        return f"{line}: {parent} has no keys; set {parent}=VALUE, or {parent}={inside} if it takes a mapping"
    start = f"{line}: " if line != name else _file(text)
    if holders:
        lacking = f"{parent}={template.hydra['runtime']['choices'].get(parent)}"
        fact = f"{lacking} has no {outermost.removeprefix(f'{parent}.')}{nearest('', siblings)}"
        swept = next((option for option in holders for job in jobs if option in job), "")
        way = _PARTLY[searching].format(lacking, swept, outermost) if swept else ""
        return f"{start}{fact}; options that have this key: {', '.join(holders)}{way}"
    return f'{start}no key "{name}"{nearest(outermost, siblings)}{added}'


def _other_place(name: str, line: str, template: Template) -> str:
    """Return the message, with a remedy, for a config that lacks the nested group ``name``, such as retriever/index."""
    parent, _, child = name.rpartition("/")
    choices = template.hydra["runtime"]["choices"]
    files = sorted((config_folder() / parent).glob("*.yaml"))
    having = [file.stem for file in files if f"\n  - {child}: " in file.read_text(encoding="utf-8")]
    places = [place for place in choices if place.startswith(f"{name}@")]
    ways = [f"write {place}{line.removeprefix(name)}" for place in places[:1]] or [f"choose {parent}={having[0]}"]
    return f"{parent}={choices.get(parent)} has no {child} of its own; {ways[0]}"


def wants_option(line: str, group: str, composer: Composer) -> str:
    """Return the message for an override that sets a group to something other than one of its options."""
    known = composer.options([])(group)
    without = f"; {group}=none disables it" if "none" in known else ""
    return f"{line}: {group} must be set to one of its options{without}; known: {', '.join(known)}"


def options_with(key: str, folders: Iterable[Path]) -> list[str]:
    """List, as ``GROUP=NAME``, the options of GROUP whose file has the top-level key KEY; ``key`` is ``GROUP.KEY``."""
    group, _, name = key.rpartition(".")
    files = [file for folder in folders for file in sorted((folder / group).glob("*.yaml"))] if group else []
    having = re.compile(rf"^{re.escape(name)}:", re.MULTILINE)
    return [f"{group}={file.stem}" for file in files if having.search(file.read_text(encoding="utf-8"))]


def _chosen(overrides: Sequence[str], composer: Composer, file: str = "") -> Template:
    """Return the template that is composed from the overrides that choose options, without the other overrides.

    If it cannot be composed, return the template of the default options, with the sweeper that ``file`` chooses.
    """
    chosen = [line for line in overrides if "." not in line.partition("=")[0] and "={" not in line]
    try:
        return composer.template(chosen)
    except (HydraException, OmegaConfBaseException, *_UNCHECKED):
        text = Path(file).read_text(encoding="utf-8") if Path(file).is_file() else ""
        sweepers = re.findall(r"^ *- override /?hydra/sweeper: *[\"']?(\w+)", text, re.MULTILINE)
        return composer.template([f"hydra/sweeper={sweeper}" for sweeper in sweepers])


def _dotted(tree: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for key, value in tree.items():
        yield f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}{key}.")


def compose(
    composer: Composer, overrides: Sequence[str], jobs: Sequence[Sequence[str]] = (), searching: bool = False
) -> JobConfig:
    """Compose a config; raises ConfigError with the text of `explain`, which documents ``jobs`` and ``searching``."""
    try:
        return composer.compose(overrides)
    except (HydraException, OmegaConfBaseException) as fault:
        raise ConfigError(explain(fault, overrides, composer, jobs, searching)) from None
    except yaml.YAMLError as fault:
        raise ConfigError(" ".join(str(fault).split())) from None
    except _UNCHECKED as fault:
        text = f"{' '.join(overrides)}: Hydra cannot apply one of these overrides: {fault}; correct that override"
        raise ConfigError(explain(HydraException(text), overrides, composer)) from fault


@contextmanager
def one_sentence() -> Iterator[None]:
    """Re-raise an error of Hydra or OmegaConf in the block as a ConfigError with the first line of the message."""
    try:
        yield
    except (HydraException, OmegaConfBaseException) as fault:
        raise ConfigError(str(fault).splitlines()[0]) from None
