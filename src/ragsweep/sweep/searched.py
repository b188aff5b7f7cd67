"""Read what a search left of its study: which trial each job was, why it ended, and the sampler's pictures.

The sweeper writes it (``study.json`` and ``plots/``) into a folder of the search, beside the ledger. It may be missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = "searches"
FORMAT = "optuna-sweeper.study/1"
STUDY, SAMPLER, TRIALS = "ragsweep.study", "ragsweep.sampler", "ragsweep.trials"
TRIAL, STATE, SECONDS, STOPPED = (
    "ragsweep.trial", "ragsweep.trial_state", "ragsweep.trial_seconds", "ragsweep.stopped"
)  # fmt: skip
WORDS = {"COMPLETE": "complete", "FAIL": "failed", "PRUNED": "pruned", "REPEATED": "repeated", "RUNNING": "running",
         "WAITING": "waiting"}  # fmt: skip


@dataclass(frozen=True)
class Searched:
    """A study, as far as it is known."""

    study: str = ""
    sampler: str = ""
    states: Mapping[str, int] = field(default_factory=dict)
    n_trials: int = 0  # how many it was to have when it was last left
    stopped: str = ""  # why it ended before it had all of its trials
    stop: Any = None  # what might have ended it, as it was set
    constraints: tuple[str, ...] = ()
    trials: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)  # by the number of the job
    pictures: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether it came to its end: it was stopped, or no trial is under way."""
        return bool(self.stopped) or not {"RUNNING", "WAITING"} & self.states.keys()

    def broken(self) -> dict[int, str]:
        """Say of the jobs that break a constraint which it is."""
        told = {job: ", ".join(one.get("broken", ())) for job, one in self.trials.items()}
        return {job: text for job, text in told.items() if text}

    def tags(self) -> dict[str, str]:
        """Describe the study to whoever looks at the parent run."""
        counts = ", ".join(f"{count} {WORDS.get(state, state)}" for state, count in sorted(self.states.items()))
        found = {STUDY: self.study, SAMPLER: self.sampler, TRIALS: counts, STOPPED: self.stopped}
        return {name: value for name, value in found.items() if value}

    def trial_tags(self) -> dict[int, dict[str, str]]:
        """Describe each job's trial."""
        found = {}
        for job, one in self.trials.items():
            found[job] = {TRIAL: str(one["trial"]), STATE: str(one["state"])}
            if "seconds" in one:
                found[job][SECONDS] = f"{one['seconds']:.3f}"
        return found


def folder_of(ledger: Path, sweep: str) -> Path:
    """Return where a search leaves its study; ``ledger`` is the ledger's file."""
    return ledger.parent / FOLDER / sweep


def searched(folder: Path) -> Searched | None:
    """Read what a search left; None where there is nothing that can be read."""
    try:
        plain = json.loads((folder / "study.json").read_text(encoding="utf-8"))
        assert plain["format"] == FORMAT
        return Searched(
            plain["study"],
            str(plain["sampler"].get("name", "")),
            plain["states"],
            int(plain["n_trials"]),
            plain["stopped"],
            plain["stop"],
            tuple(plain["constraints"]),
            {int(one["job"]): one for one in plain["trials"] if "job" in one},
            {f"plots/{path.name}": path.read_bytes() for path in sorted((folder / "plots").glob("*.png"))},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError):
        return None
