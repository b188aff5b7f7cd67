"""Configure logging for one job after the other; what Hydra does, but only what differs from job to job is resolved."""

from __future__ import annotations

import copy
import logging.config
from typing import Any, cast

from hydra.core.utils import configure_log
from omegaconf import DictConfig, ListConfig, OmegaConf

from hydra_plugins.ragsweep_grid._following import selected
from hydra_plugins.ragsweep_grid._late import constant

try:  # Hydra's own since it checks which classes a config may name
    from hydra._internal.logging_config import configure_logging
except ImportError:
    configure_logging = logging.config.dictConfig


class Logs:
    """The logging of a sweep: of its jobs, and of what Hydra says between them."""

    def __init__(self, sweep: DictConfig) -> None:
        self._sweep = sweep
        self._between = _resolved(sweep.hydra.hydra_logging)

    def configure(self, config: DictConfig) -> None:
        """Configure logging for a job."""
        _configure(_resolved(config.hydra.job_logging), config.hydra.job_logging, config.hydra.verbose)

    def between(self) -> None:
        """Configure logging for what Hydra says between two jobs."""
        _configure(copy.deepcopy(self._between), self._sweep.hydra.hydra_logging, self._sweep.hydra.verbose)


def _configure(plain: Any, config: DictConfig | None, verbose: Any) -> None:
    if not isinstance(plain, dict) or verbose is not False or "root" not in plain:
        configure_log(config, verbose)  # type: ignore[arg-type]
    elif plain["root"] is not None:
        configure_logging(plain)


def _resolved(node: Any) -> Any:
    """Turn a config into plain values; a value without an interpolation is taken as it is."""
    if not isinstance(node, DictConfig | ListConfig):
        return node
    content = node.__dict__["_content"]
    if isinstance(content, dict):
        return {str(key): _value(node, key) for key in content}
    if type(content) is list:
        return [_value(node, number) for number in range(len(content))]
    return None if content is None else OmegaConf.to_container(node, resolve=True)


def _value(parent: DictConfig | ListConfig, key: Any) -> Any:
    if isinstance(parent, DictConfig) and (known := constant(parent, key)):
        return copy.deepcopy(known[0])  # the standard library writes into what it configures
    child = parent.__dict__["_content"][key]
    if child._is_interpolation():
        value = selected(cast(DictConfig, parent._get_root()), str(child._get_full_key(None)))
        return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
    return _resolved(child) if isinstance(child, DictConfig | ListConfig) else child._value()
