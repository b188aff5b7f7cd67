"""The content of a sweep's documents (page, description) and of its output on the terminal."""

import os
import shlex
from collections.abc import Iterator
from dataclasses import replace
from itertools import starmap
from pathlib import Path
from typing import Any

from ragsweep.core.plurals import counted
from ragsweep.core.results import PARTIAL
from ragsweep.report.conclusion_facts import from_reference
from ragsweep.report.document import Statement
from ragsweep.report.front import front_lines
from ragsweep.report.holdout import gap_line
from ragsweep.report.naming import short
from ragsweep.report.numbers import cell, number, signed
from ragsweep.report.race import race_lines
from ragsweep.report.sweep_document import failure_lines, sweep_document
from ragsweep.report.sweep_report import PageTexts, SweepReport
from ragsweep.report.terminal import Terminal
from ragsweep.report.verdict import change
from ragsweep.stats.comparison import SweepComparison
from ragsweep.stats.conclusion import compared_first
from ragsweep.stats.verdict import SHOWN_BETTER
from ragsweep.sweep.concluding.sweep_summary import Finalists, SweepSummary, plain_name


def show_sweep(
    summary: SweepSummary,
    terminal: Terminal,
    reference: str = "",
    view: str = "",
    address: str = "",
    by: str | None = None,
) -> None:
    """Print the table of a sweep, the notes on its race or search, and the conclusions.

    ``reference`` is the sweep's id in commands, such as ``ffea9bd0``. ``view`` is the command that starts MLflow's UI.
    ``address`` is the URL of the sweep's parent run in the tracker, or "". If ``by`` is a label, a second table shows
    the deciding metric for each value of the label.
    """
    page = [(f"ragsweep report {reference}", "everything on one page")] if reference and summary.results else []
    commands = [*page, (view, address or f"the runs of {reference}")]
    content = sweep_content(summary, reference=reference)
    content = replace(content, commands=[*content.commands, *starmap(Statement, commands)])
    terminal.show(sweep_document(content, terminal.width, by))


def sweep_content(
    summary: SweepSummary, title: str = "", reference: str = "", texts: PageTexts | None = None
) -> SweepReport:
    """Return the content of a sweep's documents; ``reference`` is the sweep's id in commands."""
    return SweepReport(
        title,
        summary.results,
        summary.failures,
        summary.conclusion,
        list(_notes(summary)),
        list(_next_steps(summary, reference)),
        reference,
        summary.study.sampler if summary.study else "",
        texts or PageTexts(),
        finalists=summary.finalists.results,
        baselines=summary.baselines,
    )


def _notes(summary: SweepSummary) -> Iterator[Statement]:
    """Yield notes on a sweep: its race, Pareto front, finalists and holdout gap, and why a search stopped."""
    yield from race_lines(summary.results)
    scored = len(summary.allowed) - len(summary.unscored)
    yield from front_lines(summary.front, summary.objectives, scored, [*summary.unscored, *summary.excluded])
    yield from failure_lines(summary.finalists.failures).items
    yield from starmap(Statement, finalist_lines(summary.finalists))
    yield from gap_line(summary.gap)
    if summary.study and summary.study.stopped:
        yield Statement(
            "stopped", f"{summary.study.stopped}; the same command with another hydra.sweeper.stop continues the search"
        )


def _next_steps(summary: SweepSummary, reference: str) -> Iterator[Statement]:
    """Yield commands that the user may run next, with descriptions.

    If the sweep is not in the default store, the first command sets RAGSWEEP_STORE for the others. A comparison of two
    configs is suggested only if neither is PARTIAL and, costs aside, any config's scores differ from the reference's.
    """
    folder, usual = summary.ledger and summary.ledger.path.parent, Path(os.environ.get("RAGSWEEP_STORE", ".ragsweep"))
    if reference and summary.results and folder and folder.resolve() != usual.resolve():
        yield Statement(f"export RAGSWEEP_STORE={shlex.quote(str(folder))}", "so that ragsweep finds the sweep")
    found = (summary.conclusion.deciding, summary.conclusion.compared)
    if reference and (verdict := next((one for one in found if isinstance(one, SweepComparison)), None)):
        others = [found for name, (_, found) in verdict.others.items() if name not in verdict.costs.values]
        pair = _open_pair(verdict)
        partial = any(one.run.state == PARTIAL for one in (*verdict.results, *summary.results) if one.name in pair)
        if not partial and any(found.apart.any() for found in (verdict.differences, *others)):
            names = [one.partition(" ")[0] for one in pair]
            names = [reference + one if one.startswith("#") else one for one in names]
            among = " among those that the search used" if summary.conclusion.finals else ""
            yield Statement(f"ragsweep compare {' '.join(names)}", f"which questions changed{among}")
    elif reference and summary.results and summary.verdict is None:  # the sweep was interrupted
        yield Statement(f"ragsweep list {reference}", "the completed configs, best first")


def _open_pair(verdict: SweepComparison) -> tuple[str, str]:
    """Return the names of the two configs to compare next.

    If the choice is shown to be better than the reference, these are the runner-up and the choice. Otherwise, they are
    the configs of ``compared_first``.
    """
    row, second = verdict.choice.row, verdict.choice.runner_up
    if row is None or second is None or verdict.verdicts[row].kind != SHOWN_BETTER:
        return compared_first(verdict)
    return verdict.matrix.configs[second.row], verdict.matrix.configs[row]


def finalist_lines(finalists: Finalists) -> Iterator[tuple[str, str]]:
    """Yield a heading, and a line for each finalist, as (label, text); yield nothing if no finalist has a result.

    A line contains the config's values on the tune questions and the holdout, the gap between them, and the config's
    difference from the reference on the holdout.
    """
    if not finalists.results:
        return
    what = counted(len(finalists.results), "config")
    yield "holdout", f"{finalists.metric} of {what} on {finalists.questions:,} questions that the search did not use"
    rows = []
    for result, tune, gap in finalists.compared():
        row, apart = finalists.row(result), ""
        if isinstance(finalists.verdict, SweepComparison) and row is not None:
            is_reference = row == finalists.verdict.reference
            apart = f"(from {short(plain_name(result.name))})" if is_reference else change(finalists.verdict, row)
        summary = result.summaries.metrics[finalists.metric]
        rows.append((number(tune, summary.unit), cell(summary), signed(gap, summary.unit), apart))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    for result, (*numbers, apart) in zip(finalists.results, rows, strict=True):
        tuned, value, gap_text = (f"{text:>{width}}" for text, width in zip(numbers, widths, strict=True))
        text = f"tune {tuned} · holdout {value} · gap {gap_text}" + (f" · difference {apart}" if apart else "")
        yield "", f"{text} · {short(plain_name(result.name))}"


def finalist_facts(finalists: Finalists) -> list[dict[str, Any]]:
    """Return, for JSON, the values of each finalist on the tune questions and the holdout, the gap, and the lead.

    The lead over the reference is None for the reference itself, and for a finalist that could not be compared.
    """
    facts = []
    for result, tune, gap in finalists.compared():
        row, summary = finalists.row(result), result.summaries.metrics[finalists.metric]
        found = finalists.verdict if isinstance(finalists.verdict, SweepComparison) else None
        compared = found is not None and row is not None and row != found.reference
        lead = from_reference(found, row) if found and row is not None and compared else None
        fact = {"config": plain_name(result.name), "tune": tune, "holdout": summary.value}
        facts.append({**fact, "low": summary.low, "high": summary.high, "gap": gap, "lead": lead})
    return facts
