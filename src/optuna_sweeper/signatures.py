"""Compose the configs of trials before launch, to recognise equal configs and reject invalid configs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from hydra.core.config_loader import ConfigLoader
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from optuna_sweeper.parameters import Parameter, parse_override


def resolved(value: Any) -> Any:
    """Return a node of a config as plain values with resolved interpolations; return any other value unchanged."""
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


class TrialConfig(Protocol):
    """The config of one trial."""

    @property
    def values(self) -> Mapping[str, Any]:
        """The config as plain values, without the node ``hydra``."""

    @property
    def written(self) -> Mapping[str, Any]:
        """The config as plain values, with unresolved interpolations and without the node ``hydra``."""

    @property
    def choices(self) -> Mapping[str, str]:
        """The chosen option of each group."""


class Signature(NamedTuple):
    """The hash of a trial's config, the fault in its composition (or ""), and the composed config (or None)."""

    digest: str
    fault: str = ""
    config: TrialConfig | None = None


class SearchComposer(NamedTuple):
    """A composer of one program's configs, which also hashes them, so that equal configs are evaluated only once."""

    compose: Callable[[Sequence[str]], TrialConfig]
    loader: ConfigLoader
    title: str  # beginning of the names of the program's studies
    config: Callable[[], DictConfig]  # config of the command, for a user-defined search space
    faults: tuple[type[Exception], ...] = (HydraException, OmegaConfBaseException)  # raised by ``compose``

    @classmethod
    def by_hydra(cls, loader: ConfigLoader, master: DictConfig) -> SearchComposer:
        """Return a composer that composes configs as Hydra's launchers do; ``master`` is the config of the command."""
        return cls(
            lambda overrides: _HydraConfig(loader.load_sweep_config(master, list(overrides))),
            loader,
            str(master.hydra.job.name),
            lambda: master,
        )

    def sign(self, overrides: Sequence[str]) -> Signature:
        """Return a config's signature; if the config cannot be composed, the hash is that of the sorted overrides."""
        config, fault = None, ""
        try:
            config = self.compose(overrides)
            text = json.dumps(config.written, default=str)
        except self.faults as error:
            text, fault = repr(sorted(overrides)), f"cannot be composed: {str(error).splitlines()[0]}"
        return Signature(hashlib.sha256(text.encode()).hexdigest(), fault, config)

    def values(self, overrides: Sequence[str], parameters: Sequence[Parameter]) -> dict[str, Any]:
        """Map each parameter with a non-null value in a config to its value; a group's value is its chosen option.

        Raises one of ``faults`` if the config cannot be composed.
        """
        config = self.compose(overrides)
        values: dict[str, Any] = {}
        for name in (parameter.name for parameter in parameters):
            key = parse_override(f"{name}=0", "").key_or_group
            value: Any = config.choices.get(name, config.choices.get(key))
            if value is None:
                value = config.values
                for part in key.split("."):
                    value = value.get(part) if isinstance(value, Mapping) else None
            if value is not None:
                values[name] = value
        return values


class _HydraConfig:
    def __init__(self, config: DictConfig) -> None:
        self._config = config
        written: Any = OmegaConf.to_container(config, resolve=False, enum_to_str=True)
        self.choices: dict[str, str] = written.pop("hydra")["runtime"]["choices"]
        self.written: dict[str, Any] = written

    @property
    def values(self) -> Mapping[str, Any]:
        values: dict[str, Any] = {}
        for key in self.written:
            try:
                values[key] = resolved(OmegaConf.select(self._config, str(key), throw_on_missing=False))
            except OmegaConfBaseException:
                continue  # an unresolvable key has no value
        return values
