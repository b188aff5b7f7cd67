"""The tracker of configs whose results are not recorded in MLflow."""

from collections.abc import Collection, Mapping

from ragsweep.core.results import NO_ARTIFACTS, Artifacts, DatasetFacts, Failure, Result
from ragsweep.parts.tracking.runs import ALONE, Child, RunPlacement


class NoTracking:
    """A tracker that records nothing, with all methods of :class:`Mlflow` that runs and sweeps call."""

    identity, tables = "", "chosen"

    def find(self, tags: Mapping[str, str], started: float | None = None, known: str | None = None) -> str | None:
        """Return None, because no run is recorded."""
        return None

    def has_ended(self, run_id: str) -> bool:
        """Return True, because no run is being recorded."""
        return True

    def check(self) -> None:
        """Do nothing."""

    def risk(self) -> str:
        """Return "", because nothing is sent."""
        return ""

    def open_sweep(
        self, name: str, tags: Mapping[str, str], adopt: str | None = None, span: tuple[float, float] = (0.0, 0.0)
    ) -> str:
        """Return ``adopt``, or "" if it is None."""
        return adopt or ""

    def log_result(self, result: Result, at: RunPlacement = ALONE, artifacts: Artifacts = NO_ARTIFACTS) -> str:
        """Return ``at.adopt``, or "" if it is None."""
        return at.adopt or ""

    def log_failure(self, failure: Failure, at: RunPlacement = ALONE) -> str:
        """Return ``at.adopt``, or "" if it is None."""
        return at.adopt or ""

    def children(self, parent: str, jobs: Collection[str] | None = None) -> dict[str, Child]:
        """Return an empty mapping."""
        return {}

    def end_abandoned(self, parent: str, kept: Collection[str] = ()) -> list[str]:
        """Return an empty list."""
        return []

    def close_sweep(
        self,
        run_id: str,
        status: str,
        artifacts: Mapping[str, bytes],
        metrics: Mapping[str, float],
        tags: Mapping[str, str] | None = None,
        dataset: DatasetFacts | None = None,
    ) -> None:
        """Do nothing."""

    def tag(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Do nothing."""

    def log_artifacts(self, run_id: str, artifacts: Mapping[str, bytes]) -> None:
        """Do nothing."""

    def log_table(self, run_id: str, table: bytes) -> None:
        """Do nothing."""

    def address(self, run_id: str) -> str:
        """Return "", because runs have no address."""
        return ""

    def sync_options(self) -> list[str]:
        """Return an empty list."""
        return []

    def view_command(self) -> str:
        """Return "", because there is nothing to view."""
        return ""
