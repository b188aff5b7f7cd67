"""``ragsweep report``: a sweep as an HTML page or as Markdown for a pull request, or the history of all sweeps."""

import sys
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from ragsweep.commands.command_line import SWEEP, Parser, add_path, ignore_closed_pipe, output_file, print_blocks
from ragsweep.core.errors import InputError
from ragsweep.core.escaping import markdown_text
from ragsweep.core.results import Result
from ragsweep.core.secrets import Secrets
from ragsweep.report.document import Block, Document, Section, Statement, Table, chart, lines
from ragsweep.report.numbers import cell, spelled
from ragsweep.report.page import charts
from ragsweep.report.sweep_report import PastSweep
from ragsweep.report.tables import moment
from ragsweep.report.writers.html import as_html
from ragsweep.stats.comparable import factors
from ragsweep.sweep.composing.sweep_names import reference, sweep_title
from ragsweep.sweep.concluding.parent_run import describe, sweep_page
from ragsweep.sweep.concluding.recorded_runs import find_sweep_record, open_ledger
from ragsweep.sweep.concluding.summarise import recorded_sweeps, summarise_sweep
from ragsweep.sweep.running.session import Session

_ABOUT = """Write a sweep as one page: the result in words, quality against cost, all configs, their differences, the
effect of each swept parameter, slices, and the individual questions. With --history, write all sweeps as one page, with
their golden sets, the best config of each sweep, and the changes. The file is self-contained."""

Recorded = tuple[PastSweep, Result]
"""A sweep, and the result of its best config by the sweep's deciding metric."""

FORMAT = "ragsweep.history/1"
SHOWN = 8
"""Displayed length of a digest, in characters."""

NOTE = (
    "The best config of each sweep by its mean; bars are 95 % intervals. The best of several configs looks better"
    " than it is, and two sweeps may have been run on different documents."
)
CHANGED = "Differences between the best configs of successive sweeps on the same questions."


def report(arguments: Sequence[str]) -> int:
    """Run ``ragsweep report``; return the exit status 0. Raises RagsweepError for bad input."""
    parser = Parser("ragsweep report", description=_ABOUT)
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("sweep", nargs="?", metavar="SWEEP", help=f"{SWEEP} (default: the newest)")
    shown.add_argument("--history", action="store_true", help="all sweeps, grouped by golden set")
    place = "output file (default: report-SWEEP.html or history.html; Markdown is printed)"
    parser.add_argument("-o", "--output", type=output_file, metavar="FILE", help=place)
    parser.add_argument("--format", choices=("html", "markdown"), default="html", help="page or text (default: html)")
    add_path(parser)
    options = parser.parse_args(arguments)
    if options.history:
        if options.format == "markdown":
            parser.error("--history: writes only HTML; omit --format markdown, which writes one sweep")
        return _history(options.path, options.output or Path("history.html"))
    ledger = open_ledger(options.path)
    sweeps = ledger.sweeps()
    if not sweeps:
        raise InputError(f"{options.path}: no sweep has been run; try ragsweep run -m sweeps=demo")
    sweep = sweeps[-1] if options.sweep is None else find_sweep_record(ledger, options.path, options.sweep)
    summary = summarise_sweep(ledger, ledger.records(sweep.id))
    if not (summary.results or summary.failures):
        raise InputError(f'no config of the sweep "{reference(sweep)}" has finished; repeat its command to resume it')
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
    page = sweep_page(summary, sweep, texts)
    return _write_page(options.output or Path(f"report-{reference(sweep)}.html"), page)


def _history(path: str, name: Path) -> int:
    sweeps = list(recorded_sweeps(open_ledger(path)))
    if not sweeps:
        way = "repeat the command of a sweep, or try ragsweep run -m sweeps=demo"
        raise InputError(f"{path}: no sweep has a fully measured config; {way}")
    return _write_page(name, as_html(history_document(sweeps), Secrets()))


def _write_page(name: Path, page: bytes) -> int:
    _write(name, page)
    text = f"{name} · {spelled(len(page))}; open it in a browser"
    print_blocks(lines(Statement("report", text, {"file": str(name), "bytes": len(page)})))
    return 0


def _write(name: Path, content: bytes) -> None:
    try:
        name.write_bytes(content)
    except OSError as fault:
        raise InputError(f"{name}: cannot be written: {fault.strerror}; choose another file with -o") from fault


# --- the page of all sweeps -------------------------------------------------------------------------------------------


def history_document(sweeps: Sequence[Recorded]) -> Document:
    """Build the document of the page that compares sweeps over time; ``sweeps`` must be sorted, oldest first."""
    sections = [Section([_golden_sets(sweeps)], "Golden sets", "golden")]
    for n, group in enumerate(_latest_first(sweeps, lambda one: (*_golden_set(one), one[0].summary.name))):
        past, dataset = group[-1][0], group[-1][1].run.dataset
        part = "" if dataset.partition == "all" else f", {dataset.partition}"
        title = f"{dataset.name} {dataset.undivided[:SHOWN]}{part}: {past.summary.name}"
        sections.append(Section([*_group(group)], title, f"history-{n}"))
    return Document("Sweeps over time", sections, {"format": FORMAT})


def _golden_set(one: Recorded) -> tuple[str, str]:
    return one[1].run.dataset.undivided, one[1].run.dataset.partition


def _latest_first(sweeps: Sequence[Recorded], questions: Callable[[Recorded], Hashable]) -> list[list[Recorded]]:
    """Group sweeps for which ``questions`` returns the same value; the group with the latest sweep is first."""
    asked: dict[Hashable, list[Recorded]] = {}
    for one in sweeps:
        asked.setdefault(questions(one), []).append(one)
    return sorted(asked.values(), key=lambda group: -group[-1][0].created)


def _golden_sets(sweeps: Sequence[Recorded]) -> Block:
    rows = []
    for group in _latest_first(sweeps, _golden_set):
        (first, _), (last, best) = group[0], group[-1]
        dataset, corpora = best.run.dataset, {one.run.dataset.corpus_digest for _, one in group}
        counts = [f"{count:,}" for count in (dataset.questions, dataset.with_evidence, len(corpora))]
        names = [dataset.name, dataset.undivided[:SHOWN], dataset.partition]
        rows.append([*names, *counts, moment(first.created), moment(last.created), f"{len(group):,}"])
    counted = [">questions", ">with evidence", ">versions of the corpus"]
    header = ["golden set", "digest", "partition", *counted, "first", "last", ">sweeps"]
    return Table(header, rows, "Editing a question, a label or a weight changes the digest.")


def _group(group: Sequence[Recorded]) -> Iterator[Block]:
    """Yield a chart, if there are several sweeps, and a table of sweeps on the same questions, latest first."""
    metric = group[0][0].summary.name
    if len(group) > 1:
        yield chart(charts.history([one for one, _ in group], metric), NOTE)
    changes = ["", *(_changes(old, new) for (_, old), (_, new) in pairwise(group))]
    rows = []
    for (one, _), changed in zip(group, changes, strict=True):
        week = time.strftime("%G-W%V", time.localtime(one.created))  # the ISO week
        named = [one.reference, moment(one.created), week, one.title]
        rows.append([*named, f"{one.configs:,}", one.best, cell(one.summary), changed])
    header = ["sweep", "when", "week", "swept", ">configs", "best", f">{metric}", "changed"]
    yield Table(header, rows[::-1], CHANGED)


def _changes(old: Result, new: Result) -> str:
    """Describe what differs between the best configs of two sweeps: documents and factors, or "nothing"."""
    corpus = [] if old.run.dataset.corpus_digest == new.run.dataset.corpus_digest else ["other documents"]
    return "; ".join([*corpus, *map(str, factors(old, new))]) or "nothing"
