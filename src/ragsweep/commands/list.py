"""``ragsweep list``: the sweeps and single runs of a ledger, or all configs of one sweep."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from ragsweep.commands.command_line import SWEEP, Parser, add_path, print_document
from ragsweep.core.locks import LAPSE, myself
from ragsweep.core.results import COMPLETE, DROPPED, Failure, Result, Summary, objectives
from ragsweep.records.claims import COMMAND, ClaimKey
from ragsweep.records.ledger import KILLED, RUNNING, Ledger, Sweep, results_by_job
from ragsweep.report.document import Block, Document, Section, Statement, Table, lines
from ragsweep.report.naming import short
from ragsweep.report.numbers import number
from ragsweep.report.race import dropped_lines
from ragsweep.report.sweep_document import failure_lines, heading
from ragsweep.report.sweep_table import sweep_table
from ragsweep.report.tables import counts_range, headline, moment
from ragsweep.report.terminal import Terminal
from ragsweep.sweep.composing.sweep_names import reference, sweep_title
from ragsweep.sweep.concluding.recorded_runs import find_sweep_record, open_ledger
from ragsweep.sweep.concluding.summarise import best_of, summarise_sweep

MOST = 20
HEADER = ["id", "when", "what", ">configs", ">questions", "best mean", "status"]

_ABOUT = """List sweeps and single runs, most recent last. The commands compare, gate, ablate and show accept these ids,
numbers (SWEEP#3) and names; report accepts those of sweeps. With SWEEP, list all its configs in one table, the best
first."""


def list(arguments: Sequence[str]) -> int:
    """Run ``ragsweep list``; return the exit status 0. Raises RagsweepError for bad input."""
    parser = Parser("ragsweep list", description=_ABOUT)
    parser.add_argument("sweep", nargs="?", metavar="SWEEP", help=f"{SWEEP}; lists its configs")
    parser.add_argument("--all", action="store_true", help=f"list all, not only the latest {MOST}")
    add_path(parser)
    options = parser.parse_args(arguments)
    ledger = open_ledger(options.path)
    if options.sweep:
        document = _sweep_document(ledger, find_sweep_record(ledger, options.path, options.sweep))
    else:
        document = _list_document(ledger, options.all)
    print_document(document)
    return 0


def _list_document(ledger: Ledger, every: bool) -> Document:
    names = ledger.names.all()
    rows = [row for _, row in sorted([*_sweeps(ledger, names), *_singles(ledger, names)])]
    shown = rows if every else rows[-MOST:]
    hidden = len(rows) - len(shown)
    earlier = [Statement("", f"... {hidden:,} earlier; add --all to list them", {"hidden": hidden})] if hidden else []
    return Document("Sweeps and runs", [Section([Table(HEADER, shown), lines(earlier)])])


def _sweep_document(ledger: Ledger, sweep: Sweep) -> Document:
    summary, blocks = summarise_sweep(ledger, ledger.records(sweep.id)), tuple[Block, ...]()
    if results := summary.results:
        blocks = (heading(sweep_title(sweep), *(one.run.dataset for one in results)),)
    if shown := [one for one in results if one.run.state != DROPPED]:
        width, rows = Terminal.current().width, [*shown, *summary.baselines]
        table = sweep_table(rows, headline(shown), summary.verdict, summary.conclusion.chosen, width, len(rows))
        blocks += (Table(table.header, table.rows, fitted=True),)
    if len(shown) == 1 < len(results):  # a table of one config has no columns of parameters
        blocks += (lines(Statement("kept", f"{short(shown[0].name)}: the only config that was not dropped")),)
    ends = lines(dropped_lines(results)), failure_lines(summary.failures)
    return Document(sweep_title(sweep), [Section([*blocks, *ends])])


def _sweeps(ledger: Ledger, names: Mapping[str, str]) -> Iterator[tuple[float, Sequence[str]]]:
    dead = {sweep.id for sweep in ledger.abandoned()}  # a killed process could not record the new status
    for sweep in ledger.sweeps():
        records = ledger.records(sweep.id)
        results = results_by_job(records).values()
        questions = counts_range(one.run.dataset.questions for one in results) if results else "-"
        configs = f"{len(results)}" if len(results) == len(sweep.names) else f"{len(results)} of {len(sweep.names)}"
        named = [reference(sweep), moment(sweep.created), _named(names, sweep.id, sweep_title(sweep))]
        best = f"{short(found[0])}: {_value(found[2])}" if (found := best_of(ledger, sweep.id, records)) else ""
        is_dead = sweep.id in dead and sweep.status == RUNNING  # it may just have ended
        status = _end_of_process(ledger, sweep) if is_dead else sweep.status.lower()
        yield sweep.created, [*named, configs, questions, best, status]


def _end_of_process(ledger: Ledger, sweep: Sweep) -> str:
    """Return "killed" or, if a process on another machine may be alive, for how long it has sent no heartbeat."""
    hosts = {claim.holder.host for claim in ledger.claims.find(ClaimKey(COMMAND, sweep.id))}
    return f"no heartbeat for {LAPSE:.0f} s" if hosts - {myself().host} else KILLED.lower()


def _singles(ledger: Ledger, names: Mapping[str, str]) -> Iterator[tuple[float, Sequence[str]]]:
    for record in ledger.singles():
        outcome, status = record.outcome, "failed"
        questions = value = ""
        if isinstance(outcome, Failure):
            started = outcome.started
        else:
            started = outcome.run.started
            questions, value = f"{outcome.run.dataset.questions:,}", _first_value(outcome)
            status = "finished" if outcome.run.state == COMPLETE else outcome.run.state.lower()
        what = _named(names, f"record {record.id}", outcome.name)
        named = record.run[:8] if record.run else f'"record {record.id}"'  # with quotes, as in commands
        yield started, [named, moment(started), what, "1", questions, value, status]


def _named(names: Mapping[str, str], target: str, title: str) -> str:
    """Return a title, preceded by the names of its run, or of its sweep and configs: ``demo, baseline (#3): top_k``."""
    places = [(name, one.partition("#")) for name, one in names.items()]
    own = [f"{name} (#{number})" if mark else name for name, (of, mark, number) in places if of == target]
    title = re.sub(r"^[^\W\d_][\w.-]*: ", "", title)  # the name typed as ``name=``, which may be another's now
    return f"{', '.join(own)}: {title}" if own else title


def _first_value(result: Result) -> str:
    measured = result.summaries.metrics
    summary = next((measured[name] for name in objectives(result.run.config) if name in measured), None)
    return _value(summary) if summary else ""


def _value(summary: Summary) -> str:
    return f"{summary.name} {number(summary.value, summary.unit)}" if math.isfinite(summary.value) else ""
