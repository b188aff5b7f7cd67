"""The progress of running stages: bars on a terminal, occasional lines in a log, and a line after a long stage."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ragsweep.core.identity import Node
from ragsweep.core.plurals import percentage
from ragsweep.report.numbers import about, duration
from ragsweep.services.usage import UsageMeter, UsageTotals
from ragsweep.stages.executor import Listener

if TYPE_CHECKING:
    from rich.progress import Progress

    from ragsweep.report.terminal import Terminal

WORTH_A_LINE = 1.0
"""Minimum duration in seconds for a finished stage to be printed."""
SHOWN_FROM, INTERVAL = 5.0, 15.0
"""Seconds until a running stage is shown, and between its lines if there are no bars.

A bar is shown earlier if the stage reports progress earlier.
"""
TICK = 0.5

UNITS = {"rerank": "question-chunk pairs"}
"""Stage -> what its rows are; the rows of all other stages are questions."""


class Lines(Listener):
    """A listener that prints warnings, and nodes that another process is computing, but no progress."""

    def __init__(self, screen: Terminal) -> None:
        self.screen = screen

    def warned(self, text: str) -> None:
        """Print a warning."""
        self.screen.line("warning", text)

    def waiting(self, node: Node) -> None:
        """Print that another process is computing a node whose result is needed."""
        self.screen.line("waiting", f"another process is computing {node.title}")


@dataclass
class _Running:
    """A stage that is being computed."""

    node: Node
    begun: float  # when it began, plus the time spent since then in stages that it requires
    before: UsageTotals
    total: int | None
    done: int = 0
    shown: float = 0.0  # time of the stage's last line
    task: Any = None  # the stage's bar

    def __post_init__(self) -> None:
        self.started = self.begun

    def seconds(self) -> float:
        return time.perf_counter() - self.begun

    def rate(self) -> str:
        seconds = self.seconds()
        return _rate(self.done / seconds) if self.done and seconds > 0 else ""

    def left(self) -> str:
        """Describe the remaining time at the rate so far or, without progress or a known total, the elapsed time."""
        if not self.done or not self.total:
            return f"{duration(round(self.seconds()))} so far"
        return f"{about(self.seconds() / self.done * (self.total - self.done))} left"

    def amount(self, number: str) -> str:
        unit = UNITS.get(self.node.stage, "questions") if self.node.kind == "rows" else "chunks"
        return f"{number} {unit}"


class StageProgress(Lines):
    """A listener that shows the progress of the innermost running stage, and prints a line at the end of a long one."""

    def __init__(
        self, screen: Terminal, bars: Progress, meter: UsageMeter, live: Callable[[Any, Any], str] | None = None
    ) -> None:
        super().__init__(screen)
        self._bars, self._meter, self._live = bars, meter, live
        self._running: dict[str, _Running] = {}
        self._lock = threading.Lock()  # guards the running stages, which the computing and the displaying threads share

    def started(self, node: Node, rows: int) -> None:
        """Record the start of a stage."""
        total = rows if node.kind == "rows" and rows else None
        with self._lock:
            self._running[node.address] = _Running(node, time.perf_counter(), self._meter.totals, total)

    def failed(self, node: Node) -> None:
        """Remove the bar of a stage that raised an error."""
        self._end(node)

    def progressed(self, node: Node, done: int, total: int) -> None:
        """Record the progress of a stage and show it on the stage's bar."""
        with self._lock:
            if stage := self._running.get(node.address):
                stage.done, stage.total = done, total
                self._draw(stage)

    def arrived(self, node: Node, request: Any, result: Any) -> None:
        """Print the line that ``live`` returns for an answer, unless ``live`` is None or the line is empty."""
        if self._live and node.stage in ("generate", "respond") and (line := self._live(request, result)):
            self.screen.line("question", line)

    def finished(self, node: Node, seconds: float) -> None:
        """Remove a stage's bar and print the duration of a long stage (see `WORTH_A_LINE`)."""
        stage = self._end(node)
        if seconds < WORTH_A_LINE or stage is None:
            return
        rate = _rate(stage.total / seconds) if stage.total else ""
        amount = stage.amount(f"{stage.total:,}") if stage.total else ""
        self._print(stage, amount, f"{seconds:.1f} s", rate, self._meter.describe(stage.before))

    def show(self) -> None:
        """Show the progress of the innermost stage, on its bar or as lines, once it has run `SHOWN_FROM` seconds."""
        with self._lock:
            stage = next(reversed(self._running.values()), None)
            if stage is None or stage.seconds() < SHOWN_FROM:
                return
            if self.screen.bars:
                self._draw(stage)
                return
            now = time.perf_counter()
            if stage.shown and now - stage.shown < INTERVAL:
                return
            stage.shown = now
        amount = ""
        if stage.total:
            amount = stage.amount(f"{stage.done:,} of {stage.total:,}") + f", {percentage(stage.done / stage.total)}"
        self._print(stage, amount, stage.left(), stage.rate(), self._meter.describe(stage.before))

    def _end(self, node: Node) -> _Running | None:
        with self._lock:
            stage = self._running.pop(node.address, None)
            if stage and stage.task is not None:
                self._bars.remove_task(stage.task)
            if stage and (outer := next(reversed(self._running.values()), None)):
                outer.begun += time.perf_counter() - stage.started
        return stage

    def _draw(self, stage: _Running) -> None:
        if stage.task is None:
            stage.task = self._bars.add_task(stage.node.stage, total=stage.total, left="", note="")
        note = " · ".join(filter(None, (stage.rate(), self._meter.describe(stage.before))))
        self._bars.update(stage.task, completed=stage.done, total=stage.total, left=stage.left(), note=note)

    def _print(self, stage: _Running, *facts: str) -> None:
        word, _, what = stage.node.stage.partition("_")
        label = f" {stage.node.label}" if stage.node.label else ""
        self.screen.line(word, f"{f'{what}: ' if what else ''}{' · '.join(filter(None, facts))}{label}")


def _rate(speed: float) -> str:
    """Format a rate per second; the rate of a local model may be far below 1."""
    return f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.2g}/s"
