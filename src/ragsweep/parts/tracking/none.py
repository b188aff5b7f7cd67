"""Record nothing."""

from collections.abc import Collection, Mapping

from ragsweep.core.results import NO_ARTIFACTS, Artifacts, DatasetFacts, Failure, Result
from ragsweep.parts.tracking.runs import ALONE, Child, RunPlacement


class NoTracking:
    """A tracker that records nothing; it has the methods of :class:`Mlflow` that runs and sweeps call."""

    identity, tables = "", "chosen"

    def find(self, tags: Mapping[str, str], started: float | None = None) -> str | None:
        """Return None."""
        return None

    def has_ended(self, run_id: str) -> bool:
        """Return True."""
        return True

    def check(self) -> None:
        """Do nothing."""

    def risk(self) -> str:
        """Return an empty text."""
        return ""

    def open_sweep(self, name: str, tags: Mapping[str, str], parameters: Mapping[str, str], adopt: str | None) -> str:
        """Return ``adopt``; empty if it is None."""
        return adopt or ""

    def reopen_sweep(self, run_id: str) -> None:
        """Do nothing."""

    def log_result(self, result: Result, at: RunPlacement = ALONE, artifacts: Artifacts = NO_ARTIFACTS) -> str:
        """Return the id of the adopted run; empty if there is none."""
        return at.adopt or ""

    def log_failure(self, failure: Failure, at: RunPlacement = ALONE) -> str:
        """Return the id of the adopted run; empty if there is none."""
        return at.adopt or ""

    def children(self, parent: str, jobs: Collection[str] | None = None) -> dict[str, Child]:
        """Return no runs."""
        return {}

    def end_abandoned(self, parent: str, kept: Collection[str] = ()) -> list[str]:
        """Return no runs."""
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
        """Return an empty address."""
        return ""

    def view_command(self) -> str:
        """Return an empty command."""
        return ""
