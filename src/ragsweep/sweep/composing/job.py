"""A job (one config of a command), and the template from which many configs are composed."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from ragsweep.core.errors import ConfigError
from ragsweep.golden.partition import HOLDOUT
from ragsweep.sweep.composing.trees import keys_read, leaves, spell, value_at, with_values

if TYPE_CHECKING:
    from ragsweep.evaluation.experiment import Experiment


RUNG = "questions.until"
"""The config key of a rung's end; it is set only for Hydra's launchers, which start jobs from overrides alone."""

SUFFIX = f" partition={HOLDOUT}"
"""Suffix of the names of a search's finalists, which are evaluated on the holdout."""


@dataclass
class Job:
    """One config of a command: its overrides, its composed config and, once prepared, its experiment."""

    config: JobConfig | PlainConfig
    name: str
    overrides: tuple[str, ...]
    number: int = 0
    searching: bool = False  # whether the job's result decides the next configs
    experiment: Experiment | None = None  # set by preparation
    rung: int | None = None  # in a race: the number of questions to evaluate, in race order; None: all questions

    @property
    def lines(self) -> list[str]:
        """The overrides for launchers and the job's files; in a race, they include the size of the rung."""
        return [*self.overrides, *([] if self.rung is None else [f"{RUNG}={self.rung}"])]

    @property
    def parameters(self) -> dict[str, str]:
        """The config's settings as a user would type them, including the options of its groups.

        Once the job is prepared, ``language: auto`` is replaced as described in `corpus_language.resolve_language`.
        """
        return dict(self.experiment.parameters) if self.experiment else self.spelled(self.config.values)

    def spelled(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Return the config's settings as `parameters` does, but take their values from the plain config ``values``."""
        return {**self.chosen, **spell(self.config.written, values)}

    @property
    def chosen(self) -> dict[str, str]:
        """The chosen option of each group of the config: group -> option."""
        groups = self.config.written
        return {group: str(option) for group, option in self.config.choices.items() if group in groups and option}


MISSING = "???"
"""OmegaConf's marker for a value that must be set."""

_CIRCULAR = "an interpolation is circular; replace one reference in the cycle with a value"


class Template:
    """A composed config, including the node ``hydra``; jobs that share it set different plain values in it."""

    def __init__(self, config: DictConfig) -> None:
        self.config = config
        written = OmegaConf.to_container(config, resolve=False, enum_to_str=True)
        assert isinstance(written, dict)
        self.hydra: dict[str, Any] = written.pop("hydra")
        self.written: dict[str, Any] = {str(key): value for key, value in written.items()}
        task = copy.deepcopy(config)  # without the node ``hydra``, which the other keys must not interpolate
        with read_write(task), open_dict(task):
            del task["hydra"]
        self._in_job, self._task = _Settable(config, self.tree), _Settable(task, self.written)

    @property
    def tree(self) -> dict[str, Any]:
        """The whole config with unresolved interpolations, including the node ``hydra``."""
        return {**self.written, "hydra": self.hydra}

    def accepts(self, key: str) -> bool:
        """Return whether a dotted key exists outside lists and its value is neither a mapping nor a list."""
        *above, last = key.split(".")
        node: Any = self.written
        for part in above:
            node = node.get(part) if isinstance(node, Mapping) else None
        return isinstance(node, Mapping) and last in node and not isinstance(node[last], Mapping | list)

    def values(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the config with ``changes`` (dotted key -> value) as plain values, with resolved interpolations.

        Raises ConfigError for a missing value or an unresolvable interpolation.
        """
        if any(map(self._is_read, changes)) or not self._missing <= changes.keys():
            return to_plain(self._task.set(changes))
        return with_values(self._values, changes)

    def changed(self, changes: Mapping[str, Any]) -> DictConfig:
        """Undo the changes of the previous call, apply ``changes`` to the config in place, and return the config.

        Copying the config for each job would be too slow. The returned config is valid until the next call.
        """
        return self._in_job.set(changes)

    @cached_property
    def _values(self) -> dict[str, Any]:
        """The template as plain values, in which ``???`` marks values that each job sets."""
        return to_plain(self._task.set({}), allow_missing=True)

    @cached_property
    def _missing(self) -> frozenset[str]:
        return frozenset(where for where, value in leaves(self.written) if value == MISSING)

    @cached_property
    def _read(self) -> frozenset[str] | None:
        """The keys that the config's interpolations read; None if they are known only after resolution."""
        read: set[str] = set()
        for where, text in leaves(self.written):
            keys = keys_read(text, where) if isinstance(text, str) and "${" in text else set()
            if keys is None:
                return None
            read |= keys
        return frozenset(read)

    def _is_read(self, key: str) -> bool:
        if self._read is None:
            return True
        return any(key == read or key.startswith(f"{read}.") or read.startswith(f"{key}.") for read in self._read)


class _Settable:
    """A config in which values can be set at dotted keys and can be reset to the original values."""

    def __init__(self, config: DictConfig, written: Mapping[str, Any]) -> None:
        self.config, self._written = config, written
        self._changes: dict[str, Any] = {}
        # Flags are set once: setting them for each job would be slower than setting its values.
        for node in (config, config.get("hydra")):
            if node is not None:
                OmegaConf.set_readonly(node, False)
                OmegaConf.set_struct(node, False)

    def set(self, changes: Mapping[str, Any]) -> DictConfig:
        """Apply ``changes`` (dotted key -> value), undo the changes of the previous call, and return the config."""
        before = {key: value_at(self._written, key) for key in self._changes.keys() | changes.keys()}
        for key, written in before.items():
            value, current = changes.get(key, written), self._changes.get(key, written)
            if value != current or type(value) is not type(current):
                OmegaConf.update(self.config, key, value, merge=False)
        self._changes = dict(changes)
        return self.config


@dataclass(frozen=True)
class JobConfig:
    """The config of one job: a template, and the plain values that the job sets."""

    template: Template = field(repr=False)
    changes: Mapping[str, Any]

    @cached_property
    def values(self) -> dict[str, Any]:
        """The config as plain values, without the node ``hydra``. Raises ConfigError as `Template.values` does."""
        return self.template.values(self.changes)

    @cached_property
    def written(self) -> dict[str, Any]:
        """The config with unresolved interpolations, and ``???`` for missing values."""
        return with_values(self.template.written, self.changes)

    @property
    def choices(self) -> Mapping[str, str]:
        """The chosen option of each config group: group -> option."""
        choices: Mapping[str, str] = self.template.hydra["runtime"]["choices"]
        return choices


@dataclass(frozen=True)
class PlainConfig:
    """The config of a job, composed by Hydra itself or read from a record; its fields are as in `JobConfig`."""

    values: dict[str, Any]
    written: dict[str, Any]
    choices: Mapping[str, str]


def to_plain(config: DictConfig, allow_missing: bool = False) -> dict[str, Any]:
    """Convert a config to plain values, with resolved interpolations.

    Raises ConfigError for an unresolvable value and, unless ``allow_missing`` is true, for a missing value.
    """
    try:
        plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=not allow_missing)
    except MissingMandatoryValue as fault:
        missing = [str(fault.full_key)]
        with suppress(OmegaConfBaseException):  # another interpolation may be unresolvable
            missing = sorted(OmegaConf.missing_keys(config)) or missing
        raise ConfigError("\n".join(f"{key}: requires a value; set {key}=..." for key in missing)) from None
    except OmegaConfBaseException as fault:
        raise ConfigError(
            f"{fault.full_key or 'config'}: {explain_interpolation(str(fault).splitlines()[0])}"
        ) from None
    except RecursionError:
        raise ConfigError(f"config: {_CIRCULAR}") from None
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def explain_interpolation(fault: str) -> str:
    """Return a reason and a remedy for ``fault``, OmegaConf's message on an interpolation; return others unchanged."""
    if "Recursi" in fault or "recursion" in fault:
        return _CIRCULAR
    if variable := re.search(r"Environment variable '(\w+)' not found", fault):
        name = variable[1]
        return f"the environment variable {name} is not set; set it, or give a default: ${{oc.env:{name},DEFAULT}}"
    if key := re.search(r"Interpolation key '(.+?)' not found", fault):
        return f"interpolates {key[1]}, which is not a key; correct the name"
    return fault
