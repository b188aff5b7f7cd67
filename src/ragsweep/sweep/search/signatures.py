"""Compose the configs of trials before they are launched: to recognise equal ones, and to refuse broken ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from hydra.core.config_loader import ConfigLoader
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ragsweep.core.errors import RagsweepError
from ragsweep.sweep.search.parameters import Parameter, parse_override


class TrialConfig(Protocol):
    """The config of one trial."""

    @property
    def values(self) -> Mapping[str, Any]:
        """Plain values, without the node ``hydra``."""

    @property
    def written(self) -> Mapping[str, Any]:
        """The config with its interpolations."""

    @property
    def choices(self) -> Mapping[str, str]:
        """The option that is chosen of each group."""


class SearchComposer(NamedTuple):
    """The way in which a program's configs are composed."""

    compose: Callable[[Sequence[str]], TrialConfig]
    loader: ConfigLoader
    program: str
    config: Callable[[], DictConfig]  # of the command, for a user's own search space

    @classmethod
    def by_hydra(cls, loader: ConfigLoader, master: DictConfig) -> SearchComposer:
        """Compose as Hydra's launchers do."""

        def compose(overrides: Sequence[str]) -> TrialConfig:
            return _HydraConfig.of(loader.load_sweep_config(master, list(overrides)))

        return cls(compose, loader, str(master.hydra.job.name), lambda: master)

    def sign(self, overrides: Sequence[str]) -> tuple[str, str]:
        """Hash the config that overrides compose to, however they are typed.

        Also returns why the config cannot be composed, or an empty text; then the overrides are hashed.
        """
        try:
            written = self.compose(overrides).written
        except (HydraException, OmegaConfBaseException, RagsweepError) as fault:
            return _hash(repr(sorted(overrides))), f"cannot be composed: {str(fault).splitlines()[0]}"
        return _hash(json.dumps(written, default=str)), ""

    def values(self, overrides: Sequence[str], parameters: Sequence[Parameter]) -> dict[str, Any]:
        """Return the values of parameters in a config: of a group its option, of a key its value."""
        config = self.compose(overrides)
        found: dict[str, Any] = {}
        for one in parameters:
            key = parse_override(f"{one.name}=0", "").key_or_group
            if one.name in config.choices or key in config.choices:
                found[one.name] = config.choices.get(one.name, config.choices.get(key))
                continue
            node: Any = config.values
            for part in key.split("."):
                node = node.get(part) if isinstance(node, Mapping) else None
            if node is not None:
                found[one.name] = node
        return found


class _HydraConfig(NamedTuple):
    values: Mapping[str, Any]
    written: Mapping[str, Any]
    choices: Mapping[str, str]

    @classmethod
    def of(cls, config: DictConfig) -> _HydraConfig:
        written: Any = OmegaConf.to_container(config, resolve=False, enum_to_str=True)
        choices = written.pop("hydra")["runtime"]["choices"]
        values: dict[str, Any] = {}
        for key in written:
            try:
                one = OmegaConf.select(config, str(key), throw_on_missing=False)
                values[str(key)] = OmegaConf.to_container(one, resolve=True) if OmegaConf.is_config(one) else one
            except OmegaConfBaseException:
                continue  # a key that cannot be resolved has no value
        return cls(values, written, choices)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
