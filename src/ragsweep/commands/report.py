"""``ragsweep report``: a sweep as an HTML page or as Markdown for a pull request, or the history of all sweeps."""

import sys
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from ragsweep.commands.command_line import SWEEP, Parser, add_path, ignore_closed_pipe, print_blocks
from ragsweep.core.errors import InputError
from ragsweep.core.escaping import markdown_text
from ragsweep.core.secrets import Secrets
from ragsweep.report.document import Block, Charts, Document, Section, Statement, Table, lines
from ragsweep.report.numbers import cell, spelled
from ragsweep.report.page import charts
from ragsweep.report.sweep_report import RecordedSweep
from ragsweep.report.tables import moment
from ragsweep.report.writers.html import as_html
from ragsweep.stats.comparable import factors
from ragsweep.sweep.composing.sweep_names import reference, sweep_title
from ragsweep.sweep.concluding.parent_run import describe, sweep_page
from ragsweep.sweep.concluding.recorded_runs import find_sweep_record, open_ledger
from ragsweep.sweep.concluding.summarise import recorded_sweeps, summarise_sweep
from ragsweep.sweep.running.session import Session

_ABOUT = """Write a sweep as one page: the result in words, quality against cost, all configs, their differences, the
effect of each swept parameter, slices, and the individual questions. With --history: all sweeps as one page, with their
golden sets, the best config of each sweep, and the changes. The file is self-contained."""

FORMAT = "ragsweep.history/1"
SHOWN = 8
"""Number of characters of a digest that are shown."""

NOTE = (
    "The best config of each sweep by its mean; bars are 95 % intervals. The best of several configs looks better"
    " than it is, and two sweeps may have been run on different documents."
)
CHANGED = "What differs between the best config of a sweep and that of the sweep before it, on the same questions."


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


# --- the page of all sweeps -------------------------------------------------------------------------------------------


def history_document(sweeps: Sequence[RecordedSweep]) -> Document:
    """Build the document of the page that compares sweeps over time; ``sweeps`` must be sorted, oldest first."""
    asked: dict[tuple[str, str, str], list[RecordedSweep]] = {}
    for one in sweeps:
        asked.setdefault(one.questions, []).append(one)
    latest_first = sorted(asked.values(), key=lambda group: -group[-1].past.created)
    sections = [Section([_golden_sets(sweeps)], "Golden sets", "golden")]
    sections += [Section([*_group(group)], _title(group[-1]), f"history-{n}") for n, group in enumerate(latest_first)]
    return Document("Sweeps over time", sections, {"format": FORMAT})


def _title(one: RecordedSweep) -> str:
    dataset = one.best.run.dataset
    part = "" if dataset.partition == "all" else f", {dataset.partition}"
    return f"{dataset.name} {dataset.undivided[:SHOWN]}{part}: {one.past.summary.name}"


def _golden_sets(sweeps: Sequence[RecordedSweep]) -> Block:
    """Make the table of golden sets, the most recently used first."""
    asked: dict[tuple[str, str], list[RecordedSweep]] = {}
    for one in sweeps:
        asked.setdefault(one.questions[:2], []).append(one)
    rows = []
    for group in sorted(asked.values(), key=lambda group: -group[-1].past.created):
        dataset = group[-1].best.run.dataset
        corpora = {one.best.run.dataset.corpus_digest for one in group}
        counts = [f"{count:,}" for count in (dataset.questions, dataset.with_evidence, len(corpora))]
        names = [dataset.name, dataset.undivided[:SHOWN], dataset.partition]
        rows.append([*names, *counts, moment(group[0].past.created), moment(group[-1].past.created), f"{len(group):,}"])
    counted = [">questions", ">with evidence", ">versions of the corpus"]
    header = ["golden set", "digest", "partition", *counted, "first", "last", ">sweeps"]
    return Table(header, rows, "Editing a question, a label or a weight changes the digest.")


def _group(group: Sequence[RecordedSweep]) -> Iterator[Block]:
    """Yield a chart of several sweeps on the same questions, and a table of the sweeps, latest first."""
    metric = group[0].past.summary.name
    if len(group) > 1:
        yield Charts([{"label": "", "figure": charts.history([one.past for one in group], metric)}], NOTE)
    changes = ["", *(_changes(before, after) for before, after in pairwise(group))]
    rows = [
        [
            one.past.reference,
            moment(one.past.created),
            _week(one),
            one.past.title,
            f"{one.past.configs:,}",
            one.past.best,
            cell(one.past.summary),
            changed,
        ]
        for one, changed in zip(group, changes, strict=True)
    ]
    header = ["sweep", "when", "week", "swept", ">configs", "best", f">{metric}", "changed"]
    yield Table(header, rows[::-1], CHANGED)


def _changes(before: RecordedSweep, after: RecordedSweep) -> str:
    """List the differences between the best configs of two sweeps, and whether they use the same documents."""
    old, new = before.best, after.best
    corpus = [] if old.run.dataset.corpus_digest == new.run.dataset.corpus_digest else ["other documents"]
    return "; ".join([*corpus, *map(str, factors(old, new))]) or "nothing"


def _week(one: RecordedSweep) -> str:
    """Return the ISO week: ``2026-W48``."""
    return time.strftime("%G-W%V", time.localtime(one.past.created))
