"""``ragsweep compare``: two configs, question by question."""

from __future__ import annotations

from collections.abc import Sequence

from ragsweep.commands.command_line import METRIC, RUN, Named, Parser, add_path, find_record, until_closed
from ragsweep.commands.compare.measuring import measure
from ragsweep.commands.compare.showing import as_json, as_markdown, show
from ragsweep.report.terminal import Terminal

__all__ = ["compare"]

_ABOUT = """Compare two configs by the questions that both were scored on: the difference of each metric with its 95 %
interval, what tests say of it, which questions were helped and which were hurt, and where the answer is another for a
part of the questions. The first RUN is the baseline. Runs on different golden sets or corpora are refused."""


def compare(arguments: Sequence[str]) -> int:
    """Run ``ragsweep compare``; return the exit status: 0 done, 2 bad input."""
    parser = Parser(prog="ragsweep compare", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("runs", nargs=2, metavar="RUN", help=RUN)
    parser.add_argument("--metric", action="append", help=METRIC)
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json", action="store_true", help="for programs, as MLflow's log_metrics and log_table have them"
    )
    form.add_argument("--markdown", action="store_true", help="for a comment on a change")
    add_path(parser)
    given = parser.parse_args(list(arguments))
    baseline, candidate = (Named(*find_record(given.path, run)) for run in given.runs)
    found = measure(baseline, candidate, given.metric)

    def tell() -> int:
        if given.json or given.markdown:
            print(as_json(found) if given.json else as_markdown(found), end="")
        else:
            show(found, Terminal.current())
        return 0

    return until_closed(tell)
