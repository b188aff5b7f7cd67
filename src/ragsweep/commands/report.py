"""``ragsweep report``: a sweep as an HTML page or as Markdown for a pull request, or the history of all sweeps."""

import sys
from collections.abc import Sequence
from pathlib import Path

from ragsweep.commands.command_line import SWEEP, Parser, add_path, ignore_closed_pipe, print_blocks
from ragsweep.core.errors import InputError
from ragsweep.core.escaping import markdown_text
from ragsweep.core.secrets import Secrets
from ragsweep.report.document import Statement, lines
from ragsweep.report.numbers import spelled
from ragsweep.report.page.history import history_document
from ragsweep.report.sweep_report import RecordedSweep
from ragsweep.report.writers.html import as_html
from ragsweep.sweep.composing.sweep_names import reference, sweep_title
from ragsweep.sweep.concluding.parent_run import describe, sweep_page
from ragsweep.sweep.concluding.recorded_runs import find_sweep_record, open_ledger
from ragsweep.sweep.concluding.summarise import recorded_sweeps, summarise_sweep
from ragsweep.sweep.running.session import Session

_ABOUT = """Write a sweep as one page: the result in words, quality against cost, all configs, their differences, the
effect of each swept parameter, slices, and the individual questions. With --history: all sweeps as one page, with their
golden sets, the best config of each sweep, and the changes. The file is self-contained."""


def report(arguments: Sequence[str]) -> int:
    """Run ``ragsweep report``; return the exit status."""
    parser = Parser("ragsweep report", description=_ABOUT, allow_abbrev=False)
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("sweep", nargs="?", metavar="SWEEP", help=f"{SWEEP} (default: the newest)")
    shown.add_argument("--history", action="store_true", help="all sweeps, grouped by golden set")
    place = "the file (default: report-SWEEP.html or history.html; Markdown is printed)"
    parser.add_argument("-o", "--output", metavar="FILE", help=place)
    parser.add_argument("--format", choices=("html", "markdown"), default="html", help="page or text (default: html)")
    add_path(parser)
    options = parser.parse_args(arguments)
    if options.history:
        if options.format == "markdown":
            parser.error("--history: writes only HTML; omit --format markdown, which writes one sweep")
        return _history(options.path, options.output or "history.html")
    ledger = open_ledger(options.path)
    sweeps = ledger.sweeps()
    if not sweeps:
        raise InputError(f"{options.path}: no sweep has been run; try ragsweep run -m sweeps=demo")
    sweep = sweeps[-1] if options.sweep is None else find_sweep_record(ledger, options.path, options.sweep)
    summary = summarise_sweep(ledger, ledger.records(sweep.id))
    if not (summary.results or summary.failures):
        raise InputError(f'no config of the sweep "{reference(sweep)}" has ended; repeat its command to resume it')
    if options.format == "markdown":
        if not summary.results:
            raise InputError(f'no config of the sweep "{reference(sweep)}" was measured; --format html shows why')
        text = f"## {markdown_text(sweep_title(sweep))}\n\n{describe(summary)}"
        if options.output:
            _write(options.output, text.encode("utf-8", "replace"))
        else:
            with ignore_closed_pipe():
                sys.stdout.write(text)
        return 0
    texts = Session().page_texts(summary.results, Secrets())
    page = sweep_page(summary, sweep_title(sweep), reference(sweep), texts)
    return _write_page(options.output or f"report-{reference(sweep)}.html", page)


def _history(path: str, name: str) -> int:
    """Write the page of all sweeps of a ledger."""
    sweeps = [RecordedSweep(*one) for one in recorded_sweeps(open_ledger(path))]
    if not sweeps:
        way = "repeat the command of a sweep, or try ragsweep run -m sweeps=demo"
        raise InputError(f"{path}: no sweep has a fully measured config; {way}")
    return _write_page(name, as_html(history_document(sweeps), Secrets()))


def _write_page(name: str, page: bytes) -> int:
    _write(name, page)
    text = f"{name} · {spelled(len(page))}; open it in a browser"
    print_blocks(lines(Statement("report", text, {"file": name, "bytes": len(page)})))
    return 0


def _write(name: str, content: bytes) -> None:
    try:
        Path(name).write_bytes(content)
    except OSError as fault:
        raise InputError(f"{name}: cannot be written: {fault.strerror}; choose another file with -o") from fault
