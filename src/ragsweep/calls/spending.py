"""Count what this process's calls use, and say when it is as much as it may be."""

from __future__ import annotations

from ragsweep.calls.loop import Turn


class Spending:
    """What was used since the process began."""

    def __init__(self) -> None:
        self.calls = 0

    def admit(self, turn: Turn) -> None:
        """Count a call for an item."""
        turn.begun = True
        self.calls += 1


spending = Spending()
