"""Compose the configs of trials before they are launched: to tell equal ones, and to refuse what cannot be composed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from hydra_plugins.ragsweep_grid._composing import composer, raw
from hydra_plugins.ragsweep_grid._writing import text
from hydra_plugins.ragsweep_optuna._parameters import Parameter, read


class Signing:
    """The configs of one command's jobs.

    Args:
        loader: Hydra's loader of the command.
        master: The config of the command.
    """

    def __init__(self, loader: ConfigLoader, master: DictConfig) -> None:
        self._composer = composer(loader)
        self._master = master

    def sign(self, overrides: Sequence[str]) -> tuple[str, str]:
        """Hash the config that overrides come to: two that differ in how they are typed only are the same.

        Also returns why the config cannot be composed, or an empty text; then the overrides are hashed.
        """
        try:
            config = self._compose(overrides, task_only=True)
        except (HydraException, OmegaConfBaseException) as fault:
            return _hash(repr(sorted(overrides))), f"cannot be composed: {str(fault).splitlines()[0]}"
        return _hash(text(config)), ""

    def check(self, overrides: Sequence[str]) -> None:
        """Raise what Hydra raises for overrides that cannot be composed."""
        self._composer.check(self._master, overrides)

    def values(self, overrides: Sequence[str], parameters: Sequence[Parameter]) -> dict[str, Any]:
        """Say which values parameters have in a config: of a group its option, of a key its value."""
        config = self._compose(overrides, task_only=False)
        choices: Mapping[str, Any] = config.hydra.runtime.choices
        found: dict[str, Any] = {}
        for one in parameters:
            key = read(f"{one.name}=0", "").key_or_group
            if one.name in choices or key in choices:
                found[one.name] = choices.get(one.name, choices.get(key))
                continue
            try:
                value = OmegaConf.select(config, key, throw_on_missing=False)
            except OmegaConfBaseException:
                continue
            if value is not None:
                found[one.name] = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
        return found

    def _compose(self, overrides: Sequence[str], task_only: bool) -> DictConfig:
        lines = [*raw(self._master.hydra.overrides.hydra), *overrides]
        return self._composer.compose(self._master.hydra.job.config_name, lines, task_only=task_only)


def _hash(spelled: str) -> str:
    return hashlib.sha256(spelled.encode()).hexdigest()
