"""``ragsweep golden review``: judge questions or passages on a local page."""

import getpass
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragsweep.commands.command_line import print_blocks
from ragsweep.core.errors import Faults, InputError
from ragsweep.core.interruption import Interrupted, stop_raising
from ragsweep.core.plurals import counted
from ragsweep.core.types import Corpus
from ragsweep.golden.reading import read_rows
from ragsweep.report.document import Statement, lines
from ragsweep_golden.commands.inputs import read_inputs, words_parser
from ragsweep_golden.review.journal import Journal
from ragsweep_golden.review.server import ReviewServer
from ragsweep_golden.review.tasks import Review, passage_tasks, question_tasks
from ragsweep_golden.sets.entries import read_set
from ragsweep_golden.sets.files import check_form

_ABOUT = """Review generated (silver) questions, or judge the passages of a pool (ragsweep golden pool), by keyboard on
a page that only this machine can open. Each judgement is saved before the next task appears; at the end, all judgements
are written to the golden file, with the reviewer and the time."""
_WORDS = """the golden file; corpus=FOLDER or FILE (for questions without a passage), pool=FILE.jsonl,
reviewer=NAME (default: your system user name), port=0 (a free port)"""


def review(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden review``; return the exit status 0. Raises RagsweepError for bad input."""
    _, inputs = read_inputs(words_parser("review", _ABOUT, _WORDS, nargs="+"), arguments)
    golden, values = inputs.path, inputs.values
    who = str(values["reviewer"] or getpass.getuser())
    opened = open_review(golden, values["pool"], who, inputs.given_corpus)
    server = ReviewServer(opened, values["port"])
    kept = f"{counted(opened.recovered, 'judgement')} of an interrupted review, now in {golden}"
    waiting = f"{counted(len(opened.tasks), 'passage' if values['pool'] else 'question')} for {who}"
    start = Statement("review", f"{server.address} · {waiting} · Ctrl-C ends the review", {"tasks": len(opened.tasks)})
    print_blocks(lines([Statement("kept", kept)] if opened.recovered else [], start))
    try:
        server.serve_forever(poll_interval=0.1)
    except (KeyboardInterrupt, Interrupted):
        stop_raising()
    server.server_close()
    count = len(opened.judged())
    opened.journal.finish()
    print_blocks(lines(Statement("done", f"{counted(count, 'judgement')} in {golden}", {"judgements": count})))
    return 0


def open_review(golden: Path, pool: str | None, who: str, corpus: Corpus | None = None) -> Review:
    """Return a review of a golden file's silver questions or, with ``pool``, of a pool's passages.

    First, judgements that an interrupted review left in its journal are merged into the file. ``corpus`` is the source
    of passages that entries lack. Raises InputError if a file has faults, if the golden file is in Parquet, or if
    another process is reviewing it.
    """
    check_form(golden)
    read_set(golden)
    journal = Journal(golden)
    try:
        recovered = journal.fold()
        entries = [entry for entry, _ in read_set(golden)]
        tasks = passage_tasks(_read_pool(pool), entries) if pool else question_tasks(entries, corpus)
    except InputError:
        journal.close()
        raise
    return Review(journal, tasks, who, recovered)


def _read_pool(pool: str) -> list[Mapping[str, Any]]:
    faults = Faults()
    rows = list(read_rows(Path(pool).expanduser(), faults))
    faults.raise_any()
    for row in rows:
        row.filled_text("id"), row.filled_text("document"), row.given_text("passage"), row.given_text("sentence")
        if "ranks" not in row or not row.row("ranks").values:
            row.fault('has no "ranks"; pool= must be a file that ragsweep golden pool wrote')
    faults.raise_any()
    return [row.values for row in rows]
