"""Configure logging for one job after the other."""

from __future__ import annotations

from hydra.core.utils import configure_log
from omegaconf import DictConfig


class Logs:
    """The logging of a sweep's jobs."""

    def configure(self, config: DictConfig) -> None:
        """Configure logging for a job, as Hydra does."""
        configure_log(config.hydra.job_logging, config.hydra.verbose)

    def between(self, config: DictConfig) -> None:
        """Configure logging for what Hydra says between two jobs."""
        configure_log(config.hydra.hydra_logging, config.hydra.verbose)
