"""``ragsweep sync``: send MLflow the records of the ledger that are missing there."""

import shlex
from collections.abc import Iterator, Sequence

from ragsweep.commands.command_line import Parser, add_path, print_blocks
from ragsweep.core.plurals import counted
from ragsweep.parts.tracking import Mlflow
from ragsweep.parts.tracking.database import mask_uri
from ragsweep.records.ledger import Ledger
from ragsweep.report.document import Statement, lines
from ragsweep.report.terminal import Terminal
from ragsweep.sweep.concluding.parent_run import RecordedContents
from ragsweep.sweep.concluding.recorded_runs import open_ledger
from ragsweep.sweep.running import mlflow_sync
from ragsweep.sweep.running.session import Session

_ABOUT = """Send MLflow the ledger's records that are missing there, after an outage or the loss of MLflow's database.
Existing runs are not changed. Rankings (TREC run files) and traces are not in the ledger, so they are not sent."""


def sync(arguments: Sequence[str]) -> int:
    """Run ``ragsweep sync``; return the exit status 0. Raises RagsweepError for bad input or an unusable tracker."""
    parser = Parser("ragsweep sync", description=_ABOUT)
    add_path(parser)
    parser.add_argument("--uri", help="MLflow tracking URI (default: MLFLOW_TRACKING_URI, else sqlite:///mlflow.db)")
    parser.add_argument("--experiment", default="ragsweep", help="MLflow experiment (default: ragsweep)")
    parser.add_argument("--all", action="store_true", help="also send records tracked elsewhere or with tracking=none")
    options = parser.parse_args(arguments)
    ledger = open_ledger(options.path)
    tracker = Mlflow(options.uri, options.experiment)
    if risk := tracker.risk():
        print_blocks(lines(Statement("warning", risk)))
    tracker.check()
    contents = RecordedContents(ledger, Session().page_texts)
    sent = mlflow_sync.sync(ledger, tracker, Terminal.current(), contents, options.all)
    done = f"{counted(sent, 'result')} sent" if sent else "nothing was missing"
    view = Statement("look", tracker.view_command())
    print_blocks(lines(Statement("sync", done, {"sent": sent}), _elsewhere(ledger, tracker), view))
    return 0


def _elsewhere(ledger: Ledger, tracker: Mlflow) -> Iterator[Statement]:
    """Yield a statement for each other tracker with unsent results: their number, and the options for ``sync``."""
    for (uri, experiment), count in mlflow_sync.list_elsewhere(ledger, tracker):
        place = [*(["--uri", mask_uri(uri)] if uri else []), "--experiment", experiment]
        where = f"{mask_uri(uri)}, experiment {experiment}" if uri else f"experiment {experiment}"
        text = f"{counted(count, 'result')} not yet sent to {where}; sync with {shlex.join(place)}"
        yield Statement("elsewhere", text, {"results": count})
