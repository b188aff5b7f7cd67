"""``ragsweep golden add``: add a question, with evidence taken from what a search of the corpus proposes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragsweep.commands.command_line import Parser
from ragsweep.commands.golden.inputs import need_corpus, read_config, split, user_name
from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError
from ragsweep.core.secrets import Secrets
from ragsweep.core.types import Chunks
from ragsweep.curation.by_hand import SentenceSpan, append_entry, gold_entry, propose
from ragsweep.curation.changelog import record_change
from ragsweep.report.terminal import Terminal

_ABOUT = """Search the corpus for a question, show passages, and add the question to a golden file with the one that is
taken as its evidence. Exit status: 0 added, 1 not, 2 bad input."""


def add(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden add``; return the exit status."""
    parser = Parser("ragsweep golden add", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("file", metavar="FILE", help="the golden file; it is made where it is missing")
    parser.add_argument("question", metavar="QUESTION", help="the question, in quotes")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="corpus=FOLDER or FILE, chunker=...")
    parser.add_argument("--answer", default="", metavar="TEXT", help="the right answer")
    parser.add_argument("--take", type=int, metavar="N", help="take the passage of this number, without asking")
    options = parser.parse_intermixed_args(arguments)
    values = read_config(options.overrides, Secrets())
    corpus = need_corpus(values, "add")
    chunks = Chunks(corpus, split(corpus, values, Builder()))
    found = propose(options.question, chunks)
    terminal = Terminal.current()
    show(terminal, found, chunks)
    number = options.take if options.take is not None else _ask(len(found))
    if not number or not found:
        terminal.line("RESULT", "  nothing is added.")
        return 1
    if not 1 <= number <= len(found):
        raise ConfigError(f"golden add: --take {number}: the passages are 1 to {len(found)}; other words find others")
    file, who = Path(options.file).expanduser(), user_name()
    entry = gold_entry(options.question, options.answer, found[number - 1], chunks, who)
    with record_change(file, "add", who):
        append_entry(file, entry)
    label = entry["evidence"][0]
    terminal.block(
        "RESULT", [f'added to {options.file}, with the evidence "{label["anchor"]}" of "{label["document"]}".']
    )
    return 0


def show(terminal: Terminal, found: Sequence[SentenceSpan], chunks: Chunks) -> None:
    """Print the passages with their numbers."""
    corpus = chunks.corpus
    for number, (document, start, end) in enumerate(found, 1):
        terminal.block(
            f"{number:>2}", [f"{corpus.ids[document]}: {' '.join(corpus.texts[document][start:end].split())}"]
        )
    if not found:
        terminal.line("RESULT", "  no document has a word of the question.")


def _ask(count: int) -> int | None:
    """Ask for the number of a passage; None where none is wanted."""
    while count:
        try:
            given = input(f"Which one answers the question? 1 to {count}, or Enter for none: ").strip()
        except EOFError:
            return None
        if not given or (given.isdecimal() and 1 <= int(given) <= count):
            return int(given) if given else None
    return None
