"""Configure logging for one job after the other; what Hydra does, but only what differs from job to job is resolved."""

from __future__ import annotations

import copy
import logging.config
from typing import Any

from hydra.core.utils import configure_log
from omegaconf import DictConfig, ListConfig, Node, OmegaConf

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
    if type(content) is dict:
        return {str(key): _value(node, key, child) for key, child in content.items()}
    if type(content) is list:
        return [_value(node, key, child) for key, child in enumerate(content)]
    return None if content is None else OmegaConf.to_container(node, resolve=True)


def _value(parent: DictConfig | ListConfig, key: Any, child: Node) -> Any:
    if child._is_interpolation():
        value = parent[key]
        return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
    return _resolved(child) if isinstance(child, DictConfig | ListConfig) else child._value()
