"""Terminal output of a command: the plan, progress, one line per job, and documents."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any, TextIO

from ragsweep.core.escaping import visible
from ragsweep.core.interruption import repeating
from ragsweep.core.plurals import counted
from ragsweep.core.results import Failure, Result, objectives
from ragsweep.core.secrets import mask_text
from ragsweep.report import progress
from ragsweep.report.document import GAP, Block, Document, Statements, Table, texts
from ragsweep.report.naming import rounded
from ragsweep.report.numbers import about, cell
from ragsweep.services.usage import UsageMeter, UsageTotals
from ragsweep.stages.executor import Executor
from ragsweep.stages.graph import Plan

if TYPE_CHECKING:
    from rich.console import Console

_MARGIN = 10
"""Width of a label column, in characters."""
_NARROWEST = 10
"""Minimum width of a wrapped, left-aligned table column, in characters."""
LOG_WIDTH = 120
"""Line width if the output is not a terminal, in characters."""


class Terminal:
    """A printer that shows progress bars on a terminal, and prints plain lines to any other stream.

    If a reader such as head closes the pipe, printing stops, but the computation continues.
    """

    def __init__(self, stream: TextIO, bars: bool) -> None:
        from rich.console import Console
        from rich.segment import Segment

        class QuietConsole(Console):
            def on_broken_pipe(self) -> None:
                self.quiet = True
                discard_output(stream)

            def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
                for segment in super().render(renderable, options):
                    yield segment if segment.control else Segment(visible(segment.text), segment.style)

        self.bars = bars
        file = getattr(stream, "styled", stream)
        columns, lines = shutil.get_terminal_size()
        # Without a fixed size, rich uses the terminal's size, but also an invalid COLUMNS.
        follows = bars and (bool(_columns()) or not os.environ.get("COLUMNS"))
        width = None if follows else columns if bars else 1000  # in a log, tables are unreadable at 80 columns
        height = None if follows else lines
        self.console: Console = QuietConsole(file=file, highlight=False, soft_wrap=False, width=width, height=height)

    @classmethod
    def current(cls, plain: bool = False) -> Terminal:
        """Return a terminal on standard output; ``plain``: without bars, for output that several processes share."""
        return cls(sys.stdout, bars=sys.stdout.isatty() and not plain)

    def line(self, word: str, text: str) -> None:
        """Print ``text`` on one line, after the label ``word``."""
        from rich.text import Text

        self.console.print(Text.assemble((f"{word:<{_MARGIN - 1}} ", "bold"), mask_text(text)), soft_wrap=True)

    def plan(self, plan: Plan) -> None:
        """Print the planned work on one line: configs, stages, duration and cost."""
        total = plan.total
        bound = "up to " if plan.upper else ""
        configs = f"{bound}{plan.configs} config{'s' if plan.configs != 1 else ''}"
        counts = f"{bound}{total.asked} stages, {total.distinct} distinct, {total.stored} stored"
        charged = f" · {plan.charge.describe(plan.currency)}" if plan.charge.calls else ""
        others = f" · calls of {', '.join(sorted(plan.not_estimated))} not estimated" if plan.not_estimated else ""
        self.line("plan", f"{configs} · {counts} · {_expected(plan)}{charged}{others}")

    def plan_table(self, plan: Plan) -> None:
        """Print the planned work, in total and by stage."""
        self.plan(plan)
        for stage, count in plan.stages.items():
            time_left = "" if count.stored == count.distinct else f"   {about(count.seconds)}"
            counts = f"{count.asked:>6} in all {count.distinct:>6} distinct {count.stored:>6} stored"
            rows = f"   at most {count.rows:,} {progress.UNITS.get(stage, 'questions')}" if count.rows else ""
            charged = f"   {count.charge.describe(plan.currency)}" if count.charge.calls else ""
            self.line("", f"{stage:<14}{counts}{time_left}{rows}{charged}")

    @contextmanager
    def listening(
        self, executor: Executor, meter: UsageMeter, live: Callable[[Any, Any], str] | None = None
    ) -> Iterator[None]:
        """Show the executor's progress and the usage of its calls inside the block.

        ``live(request, result)`` returns the line to print when an answer arrives, or "" to print nothing.
        """
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (
            TextColumn(f"[bold]{{task.description:<{_MARGIN - 1}}}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=self.console, transient=True, disable=not self.bars) as bars:
            before, shown = executor.listener, progress.StageProgress(self, bars, meter, live)
            executor.listener = shown
            try:
                with repeating(shown.show, progress.TICK, "ragsweep-progress"):
                    yield
            finally:
                executor.listener = before

    def finished(self, result: Result, number: int, jobs: int, headline: Sequence[str]) -> None:
        """Print the line of a successful job: its number, name, value and duration; ``number`` counts from 0.

        The printed value is the first measured objective, or else the first measured headline metric.
        """
        names = (*objectives(result.run.config), *headline)
        first = next((result.summaries.metrics[name] for name in names if name in result.summaries.metrics), None)
        value = f" · {first.name} {cell(first)}" if first else ""
        seconds = result.run.ended - result.run.started
        self.line("job", f"{number + 1}/{jobs} · {rounded(result.name)}{value} · {seconds:.1f} s")

    def failed(self, failure: Failure, number: int, jobs: int) -> None:
        """Print the line of a failed job; ``number`` counts from 0."""
        self.line("failed", f"{number + 1}/{jobs} · {rounded(failure.name)} · {failure.error}")

    @property
    def width(self) -> int:
        """The width of tables and sentences, in characters; in a log, the value of COLUMNS or else ``LOG_WIDTH``."""
        return self.console.width if self.bars else _columns() or LOG_WIDTH

    def spent(self, meter: UsageMeter) -> None:
        """Print the usage of this process's calls, and the reasons for failed calls; nothing if there are no calls."""
        if used := meter.describe(UsageTotals()):
            self.line("spent", used)
        for reason, (count, words) in meter.failures.items():
            self.line("failed", f"{counted(count, 'call')} {reason}; the last: {words}")

    def heading(self, facts: Sequence[str]) -> None:
        """Print ``facts``: the config or sweep, the questions, and notes; the first two share a line if they fit."""
        line = "  ·  ".join(facts[:2])
        self.console.print()
        self.block("ragsweep", [line, *facts[2:]] if _MARGIN + len(line) <= self.width else facts)

    def block(self, word: str, sentences: Iterable[str]) -> None:
        """Print each distinct sentence as a wrapped and indented paragraph, with ``word`` before the first."""
        from rich.text import Text

        indent = " " * _MARGIN
        for n, sentence in enumerate(dict.fromkeys(sentences)):
            lines = textwrap.wrap(
                mask_text(sentence), max(self.width - len(indent), 40), break_long_words=False, break_on_hyphens=False
            )
            for line, text in enumerate(lines):
                start = f"{word:<{_MARGIN - 1}} " if n == line == 0 else indent
                self.console.print(Text.assemble((start, "bold"), text), soft_wrap=True)

    def table(
        self, header: Sequence[str], rows: Sequence[Sequence[str]], gap: int = 3, width: int | None = None
    ) -> None:
        """Print rows below a header; columns named >NAME are right-aligned and never wrapped.

        ``width`` is the maximum width in characters, also in logs; None means the width of the terminal or, in logs, no
        limit. A table that cannot be that narrow is as wide as its texts require, and the terminal wraps the lines.
        """
        from rich.cells import cell_len
        from rich.table import Table as Grid
        from rich.text import Text

        right, names = [name.startswith(">") for name in header], [name.removeprefix(">") for name in header]
        widths = [max(map(cell_len, column)) for column in zip(names, *rows, strict=True)]
        least = [most if fixed else min(_NARROWEST, most) for most, fixed in zip(widths, right, strict=True)]
        room = (width or self.console.width) - sum(least)
        gap = GAP if room < gap * (len(header) - 1) and room >= GAP * (len(header) - 1) else gap
        gaps = gap * (len(header) - 1)
        too_wide = gaps > room  # Rich crops the cells of a table that is too wide.
        table = Grid(box=None, pad_edge=False, padding=(0, gap, 0, 0), width=sum(widths) + gaps if too_wide else None)
        for name, fixed, narrowest in zip(names, right, least, strict=True):
            table.add_column(
                Text(name),
                justify="right" if fixed else "left",
                no_wrap=fixed,
                overflow="fold",
                min_width=narrowest,
            )
        for row in rows:
            table.add_row(*map(Text, row))
        self.console.print(table, width=width, crop=False)

    def aligned(self, rows: Sequence[Sequence[str]]) -> None:
        """Print rows without a header or a label, each column as wide as its widest text."""
        for line in _padded(rows):
            self.line("", line)

    def show(self, document: Document) -> None:
        """Print a document, with an empty line between sections, without the blocks that `show_block` omits."""
        for n, section in enumerate(document.sections):
            if n:
                self.line("", "")
            for block in section.blocks:
                self.show_block(block)

    def show_block(self, block: Block) -> None:
        """Print one block; nothing for charts, widgets, and tables whose ``detail`` is true."""
        if isinstance(block, Statements):
            self._show_statements(block)
        elif isinstance(block, Table) and not block.detail:
            if not block.headed:
                self.aligned(block.rows)
            elif block.fitted:
                self.table(block.header, block.rows, gap=GAP, width=self.width)
            else:
                self.table(block.header, block.rows)
            if block.note:
                self.block("", [block.note])

    def _show_statements(self, block: Statements) -> None:
        if block.style == "lines":
            for one in block.items:
                self.line(one.label, one.text)
        elif block.style == "notes":
            for one in block.items:
                self.block(one.label, [one.text])
        elif block.style == "heading":
            self.heading(texts(block.items))
        elif block.style == "commands":
            self.next_steps((one.label, one.text) for one in block.items)
        elif block.style == "definitions":
            self.block(block.title, [f"{one.label}: {one.text}" for one in block.items])
        else:
            for label, items in groupby(block.items, lambda one: one.label):
                self.block(label, texts(items))

    def next_steps(self, steps: Iterable[tuple[str, str]]) -> None:
        """Print commands with their descriptions; empty commands are skipped."""
        for n, line in enumerate(_padded([step for step in steps if step[0]])):
            self.line("NEXT" if n == 0 else "", line)


def discard_output(stream: TextIO) -> None:
    """Redirect a stream without a reader to the null device, so that neither later output nor Python's exit fails."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _padded(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as lines with aligned columns; wide characters, as in Chinese and emoji, occupy two columns."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    cells = ([text + " " * (width - cell_len(text)) for text, width in zip(row, widths, strict=True)] for row in rows)
    return ["   ".join(row).rstrip() for row in cells]


def _columns() -> int:
    """Return the environment variable COLUMNS as a number; 0 if it is not set or is not a whole number."""
    text = os.environ.get("COLUMNS", "")
    return int(text) if text.isdecimal() else 0


def _expected(plan: Plan) -> str:
    if plan.total.stored == plan.total.distinct:
        return "no stage to compute"
    known = about(plan.total.seconds).replace("about", "up to" if plan.upper else "about")
    if not plan.unmeasured:
        return known
    if not plan.total.seconds:
        return "time unknown: no comparable work has run on this machine yet"
    return f"{known}, plus stages without comparable work on this machine yet: {', '.join(plan.unmeasured)}"
