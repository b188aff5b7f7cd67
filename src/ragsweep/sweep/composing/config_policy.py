"""Reject configs with forbidden classes, files or interpolations, and collect the secrets in configs."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from optuna_sweeper.signatures import resolved
from ragsweep.core.errors import ConfigError
from ragsweep.core.secrets import Secrets, is_count, is_secret, is_under_secret
from ragsweep.core.trust import check_target
from ragsweep.sweep.composing.compose import CONFIG, as_hydra_config, config_folder, hydra_initialized
from ragsweep.sweep.composing.config_files import check_files
from ragsweep.sweep.composing.hydra_settings import FOLDER, check_hydra, check_search_path
from ragsweep.sweep.composing.job import Template, explain_interpolation
from ragsweep.sweep.composing.trees import absolute, children, leaves, parse

GROUP = "metrics"

HEAVIEST = 20_000
"""Maximum number of values that interpolations may add to a config; a typical config has a few hundred values."""

NESTED = 8
"""Maximum number of values with nested interpolations; which keys they read is unknown until resolution."""

VARIABLE = re.compile(r"\$\{\s*oc\.env\s*:\s*['\"]?(\w+)")
"""Pattern that captures the name of an environment variable in an interpolation."""

_ESCAPED = re.compile(r"\\(.)")
"""Pattern of an escaped character in Hydra's override grammar."""

_PLACES = ("hydra.", "store.", "tracking.")
"""Prefixes of keys whose values (folders, server addresses) are shown; only passwords in their URLs are masked."""

_LINES = ("hydra.sweeper.cases", "hydra.sweeper.enqueue", "hydra.overrides.task")
"""Keys whose values are lists of overrides."""

_RESOLVED = ("callbacks", "hydra_logging", "job_logging", "launcher", "output_subdir", "sweeper")
"""The keys of the node ``hydra`` whose resolved values are checked."""

_TEXT = ("help", "hydra_help", "overrides", "run", "runtime", "sweep", "sweeper")
"""The keys of the node ``hydra`` that may interpolate a job's values although jobs share a template."""

_NAMES = (
    "name",
    "store.path",
    "tracking.experiment",
    "hydra.job.name",
    "hydra.run.dir",
    "hydra.sweep.dir",
    "hydra.sweep.subdir",
    "hydra.sweeper.study_name",
)
"""The config keys whose values become names, for example of folders."""

_INNERMOST = re.compile(r"\$\{(?:\s*[\w.]+\s*:)?\s*([^${},]*)[^${}]*\}")

_ELSEWHERE = re.compile(r"\$\{(?!\s*(?:hydra[.:]|now:|oc\.env:|python_version:))")


def add_secrets(secrets: Secrets, config: DictConfig) -> None:
    """Add the confidential values of a composed config, including its node ``hydra``, to a command's secrets."""
    written: Any = OmegaConf.to_container(config, resolve=False)
    for where, value in leaves(written):
        if where.startswith(_LINES) and isinstance(value, str):
            add_secrets_of_overrides(secrets, [value])
        elif is_under_secret(where):
            _add_named(secrets, config, where, value)
        elif isinstance(value, str) and "${" not in value:
            secrets.add_passwords(value)
        if isinstance(value, str) and "oc.env" in value:
            text = _ESCAPED.sub(r"\1", value)
            _add_variables(secrets, where.removeprefix("hydra.sweeper.params."), text)
            if text.count("oc.env") > len(VARIABLE.findall(text)):  # the name of a variable is computed
                _add_named(secrets, config, where, value)


def add_secrets_of_overrides(secrets: Secrets, lines: Iterable[str]) -> None:
    """Add the confidential values of overrides to a command's secrets."""
    for line in lines:
        key, _, value = _ESCAPED.sub(r"\1", line).lstrip("+~").partition("=")
        if is_under_secret(key) and "${" not in value and not is_count(key, value):
            secrets.add(value.strip("'\""), named=True)
        if "oc.env" in value:
            _add_variables(secrets, key, value)


def _add_named(secrets: Secrets, config: DictConfig, where: str, value: Any) -> None:
    with suppress(OmegaConfBaseException):  # unresolvable interpolations are reported elsewhere
        value = OmegaConf.select(config, where) if isinstance(value, str) and "${" in value else value
    if isinstance(value, str | int | float) and not where.endswith("._target_") and not is_count(where, value):
        secrets.add(str(value), named=True)


def _add_variables(secrets: Secrets, where: str, text: str) -> None:
    for name in VARIABLE.findall(text):
        value = os.environ.get(name, "")
        if is_under_secret(where) or is_under_secret(name):
            secrets.add(value, named=True)
        elif where.startswith(_PLACES):
            secrets.add_passwords(value)
        else:
            secrets.add_variable(value)


def refuse_clashes(lines: Sequence[str], folders: Sequence[Path]) -> None:
    """Raise ConfigError if the files and overrides of one config set different classes for the same metric.

    A metric may be redefined after its removal (``~metrics.KEY``), or replaced by an override of its ``_target_``. The
    first of the ``folders`` on the search path contains the shipped configs, which do not clash.
    """
    metrics: list[tuple[str, str, str | None]] = []  # place, key, class; None: removed
    for override in map(parse, lines):
        group, _, key = override.key_or_group.partition(".")
        if group == GROUP and key:
            target = None if override.is_delete() else _target(override.value())
            metrics.append(("the command line", key, target))
    if not any((folder / GROUP).is_dir() for folder in folders[1:]) and not any(target for _, _, target in metrics):
        return
    known: dict[str, tuple[str, str]] = {}
    for place, key, target in [*_chosen_metrics(lines, folders), *metrics]:
        if target is None:
            known.pop(key, None)
        elif target:
            before = known.get(key, (place, target))
            if before[1] != target:
                first = f"write ~metrics.{key} +metrics.{key}=..., or " if place == "the command line" else ""
                raise ConfigError(
                    f"metrics.{key}: {before[0]} sets it to {before[1]}, but {place} sets it to {target}; {first}give"
                    " one of the two metrics another key, and another name if both have the same name"
                )
            known[key] = place, target


def _chosen_metrics(lines: Sequence[str], folders: Sequence[Path]) -> list[tuple[str, str, str]]:
    """List the file, the key and the class of each metric in the chosen files, in merge order."""
    metrics = []
    try:
        with hydra_initialized():
            loader = GlobalHydra.instance().config_loader()
            chosen = loader.compute_defaults_list(CONFIG, list(lines), RunMode.RUN).defaults
        for path in dict.fromkeys(str(entry.config_path) for entry in chosen if entry.package == GROUP):
            files = [folder / f"{path}.yaml" for folder in folders]
            content = next((yaml.safe_load(file.read_text("utf-8")) for file in files if file.is_file()), None)
            nodes = content if isinstance(content, Mapping) else {}
            metrics += [(f"{path}.yaml", key, _target(node)) for key, node in nodes.items()]
    except (HydraException, yaml.YAMLError, UnicodeDecodeError):
        return []  # reported when the config is composed
    return metrics


def _target(node: Any) -> str:
    return str(node.get("_target_") or "") if isinstance(node, Mapping) else ""


class ConfigPolicy:
    """The checks of a command's configs; they also add the configs' confidential values to the command's secrets.

    All methods raise ConfigError for anything forbidden.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    def check_overrides(self, overrides: Sequence[str]) -> None:
        """Reject excessive interpolations, names that contain secrets, and untrusted entries of the search path."""
        add_secrets_of_overrides(self._secrets, overrides)
        self._refuse_names(line.lstrip("+~").partition("=")[::2] for line in overrides)
        if any("${" in line for line in overrides):  # Hydra resolves the job's name during composition
            _refuse_heavy({key: value for key, _, value in (line.lstrip("+").partition("=") for line in overrides)})
        for override in [parse(line) for line in overrides if "hydra.searchpath" in line]:
            if override.key_or_group == "hydra.searchpath":
                value = override.value()
                for path in value if isinstance(value, list) else [value]:
                    check_search_path(str(path))

    def check_files(self, overrides: Sequence[str], folders: Sequence[Path]) -> None:
        """Reject unsafe config files (see `config_files.check_file`), and different metrics with the same key."""
        own = [folder for folder in folders if folder != config_folder()]
        check_files([*own, Path("sweeps")], overrides)
        refuse_clashes(overrides, folders)

    def check(self, template: Template, folders: Sequence[Path]) -> bool:
        """Check a composed config and its node ``hydra``, before any class is imported.

        Return whether Hydra's settings or names of classes interpolate values of the config. If so, each set of values
        needs its own template and check.
        """
        try:
            _refuse_heavy(template.tree)
        except RecursionError:
            raise ConfigError("config: a chain of interpolations is too long; replace some with values") from None
        add_secrets(self._secrets, template.config)
        _refuse_leaks(template.written)
        self._refuse_names(_names(template))
        settings = {key: node for key, node in template.hydra.items() if key not in _TEXT}
        depends = any(isinstance(value, str) and bool(_ELSEWHERE.search(value)) for _, value in leaves(settings))
        depends |= _refuse_targets(template)
        check_hydra({**template.hydra, **_resolved(template.config)})
        return depends

    def _refuse_names(self, texts: Iterable[tuple[str, str]]) -> None:
        """Raise ConfigError for a name that contains a secret: names are written to MLflow, the ledger and folders."""
        for where, text in texts:
            resolved = VARIABLE.sub(lambda found: os.environ.get(found[1], found[0]), text)
            if where in _NAMES and self._secrets.has_secret(resolved):
                raise ConfigError(f"{where}: contains a secret, but this value is stored; choose another value")


def _names(template: Template) -> Iterator[tuple[str, str]]:
    """Yield the key and the text of each name in a config: as written and, if possible, also resolved.

    Outside a job, some interpolations, such as the job's number, cannot be resolved.
    """
    for where, value in leaves(template.tree):
        if where in _NAMES:
            yield where, str(value)
            with suppress(OmegaConfBaseException):  # unresolvable interpolations are reported elsewhere
                yield where, str(OmegaConf.select(template.config, where))


def _resolved(config: DictConfig) -> dict[str, Any]:
    """Resolve the `_RESOLVED` settings and a sweep's folders as in a job, with placeholders for the job's values.

    Raises ConfigError for an interpolation that cannot be resolved.
    """
    within = OmegaConf.merge(config, {"hydra": {"runtime": {"output_dir": FOLDER}, "job": {"num": 0, "id": "0"}}})
    assert isinstance(within, DictConfig)
    try:
        with as_hydra_config(within):
            settings = {key: resolved(within.hydra[key]) for key in _RESOLVED}
            return {**settings, "sweep": {key: within.hydra.sweep[key] for key in ("dir", "subdir")}}
    except OmegaConfBaseException as fault:
        raise ConfigError(f"{fault.full_key or 'hydra'}: {explain_interpolation(str(fault).splitlines()[0])}") from None


def _refuse_leaks(written: Mapping[str, Any]) -> None:
    """Raise ConfigError if a value that is displayed and stored interpolates a secret environment variable."""
    for where, text in leaves(written):
        if where.startswith("tracking."):  # stored as typed; shown with secrets masked
            continue
        if isinstance(text, str) and "oc.env" in text and not is_under_secret(where):
            for name in filter(is_secret, VARIABLE.findall(text)):
                raise ConfigError(
                    f"{where}: this value is stored, but the environment variable {name} is named like a secret;"
                    f" refer to an API key by key_env={name} (pgvector: url_env), or rename {name} if it is not secret"
                )


def _refuse_targets(template: Template) -> bool:
    """Raise ConfigError for a forbidden class outside the node ``hydra``; return whether any class is interpolated."""
    depends = False
    for where, value in leaves(template.written):
        if "._target_" in f".{where}":
            computed = isinstance(value, str) and "${" in value
            depends |= computed
            check_target(OmegaConf.select(template.config, where) if computed else value, where)
    return depends


def _refuse_heavy(tree: Mapping[str, Any]) -> None:
    """Raise ConfigError for interpolations that would add too many values, and for too many nested interpolations."""
    written = list(leaves(tree))
    weights: dict[str, int] = {}
    nested = 0

    def weigh(where: str, value: Any) -> int:
        nonlocal nested
        if where in weights:
            return weights[where]
        weights[where] = 1  # read only by a cyclic interpolation
        if isinstance(value, str) and "${" in value:
            names = _INNERMOST.findall(value)
            nested += value.count("${") > len(names)
            weight = 1 + len(value) // 64
            weight += sum(weigh(*found) for name in names if (found := _find(tree, absolute(name.strip(), where))))
        elif isinstance(value, Mapping | list):
            weight = 1 + sum(weigh(key, item) for key, item in children(value, where))
        else:
            weight = 1 + (len(value) // 64 if isinstance(value, str) else 0)
        weights[where] = weight
        return weight

    for where, value in [*written, ("", tree)]:
        if weigh(where, value) > HEAVIEST + 2 * len(written):
            raise ConfigError(
                f"{where or 'config'}: would have more than {HEAVIEST + 2 * len(written):,} values after resolution;"
                " use fewer interpolations"
            )
    if nested > NESTED:
        raise ConfigError(
            f"config: {nested} values have interpolations inside interpolations, but at most {NESTED} are allowed;"
            " replace some of these interpolations with plain values"
        )


def _find(tree: Any, key: str) -> tuple[str, Any] | None:
    """Return the full key and the value at ``key`` in ``tree``; None for an unknown key.

    If a string is reached before the last part of ``key``, return the full key and the value of this string, which may
    interpolate the node that contains ``key``.
    """
    where, node = "", tree
    for part in filter(None, key.split(".")):
        if isinstance(node, Mapping) and part in node:
            where, node = (f"{where}.{part}" if where else part), node[part]
        elif isinstance(node, list) and part.isdigit() and int(part) < len(node):
            where, node = f"{where}[{part}]", node[int(part)]
        else:
            return (where, node) if isinstance(node, str) else None
    return where, node
