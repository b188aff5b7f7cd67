"""Record nothing."""

from __future__ import annotations

from collections.abc import Mapping

from ragsweep.results import Failure, Result


class NoTracking:
    """Record nothing, with the methods of :class:`Mlflow`."""

    place = ""

    def children(self, parent):
        return {}

    def end_abandoned(self, parent, jobs):
        pass

    def reopen_sweep(self, run_id):
        pass

    def find_sweep(self, identifier):
        return None

    def check(self) -> None:
        """Find nothing wrong."""

    def open_sweep(self, name: str, tags: Mapping[str, str], parameters: Mapping[str, str], adopt: str | None) -> str:
        """Return the id that was given, or an empty one."""
        return adopt or ""

    def log_result(self, result: Result, spot) -> str:
        """Return the id that was given, or an empty one."""
        return spot.adopt or ""

    def log_failure(self, failure: Failure, spot) -> str:
        """Return the id that was given, or an empty one."""
        return spot.adopt or ""

    def close_sweep(
        self, run_id: str, status: str, artifacts: Mapping[str, bytes], metrics: Mapping[str, float]
    ) -> None:
        """Do nothing."""

    def log_artifacts(self, run_id: str, artifacts: Mapping[str, bytes]) -> None:
        """Do nothing."""

    def look(self) -> str:
        """Return an empty command: there is nothing to look at."""
        return ""
