"""``ragsweep golden export``: write a golden set in the format of another tool."""

from collections.abc import Sequence
from pathlib import Path

from ragsweep.commands.command_line import print_blocks
from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.plurals import counted
from ragsweep.core.types import Chunks
from ragsweep.report.document import Statement, paragraphs
from ragsweep_golden.commands.inputs import Given, Inputs, check_outputs, read_inputs, words_parser
from ragsweep_golden.exchange.benchmarks import export_beir, export_squad, export_trec, export_triplets
from ragsweep_golden.exchange.exporting import RECORDS, Exported, export_records, export_table
from ragsweep_golden.sets.entries import is_rejected
from ragsweep_golden.sets.files import write_whole

_ABOUT = """Write a golden set in the format of another tool, and count, by field, the values that this format loses."""

_WORDS = """the golden file, or dataset=squad dataset.path=FILE; format=beir or trec with out=FOLDER, or squad, ragas,
mlflow, argilla, labelstudio, csv or triplets with out=FILE; corpus=FOLDER or FILE"""

_WITH_CORPUS = ("beir", "trec", "squad", "triplets")
_FORMATS = (*_WITH_CORPUS, *RECORDS, "csv")


def export(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden export``; return the exit status 0. Raises RagsweepError for bad input."""
    _, inputs = read_inputs(words_parser("export", _ABOUT, _WORDS), arguments)
    values = inputs.values
    name = str(values["format"])
    if name not in _FORMATS:
        fact = "specify the format with format=NAME" if name == "auto" else f'no format "{name}"'
        raise ConfigError(f"golden export: {fact}{nearest(name, _FORMATS)}")
    out = inputs.destination("out=FILE, or out=FOLDER for beir and trec")
    given = inputs.read_set()
    kept = [n for n, entry in enumerate(given.entries) if not is_rejected(entry)]  # as in an evaluation
    entries, questions = [given.entries[n] for n in kept], [given.questions[n] for n in kept]
    exported = _export(name, given._replace(entries=entries, questions=questions), inputs, out)
    files = {out / path if path else out: text for path, text in exported.files.items()}
    check_outputs(files, inputs.file, values["corpus"], *values.get("dataset", {}).values())
    for path, text in files.items():
        write_whole(path, text)
    fields = ", ".join(f"{field} ({counted(count, 'value')})" for field, count in exported.lost.most_common())
    lost = [Statement("", f"{name} has no field for: {fields}", exported.lost)] if fields else []
    lost += [Statement("", f"{counted(count, 'time')}: {note}") for note, count in exported.notes.items()]
    text = f"{counted(len(entries), 'question')} read, written to {out}{'' if lost else '; nothing is lost'}."
    print_blocks(paragraphs("LOST", lost), paragraphs("RESULT", Statement("", text, {"questions": len(entries)})))
    return 0


def _export(name: str, given: Given, inputs: Inputs, out: Path) -> Exported:
    corpus = inputs.given_corpus or given.own_corpus
    if name == "csv":
        return export_table(given.entries)
    if name in RECORDS:
        return export_records(name, given.entries, corpus, lines=out.suffix == ".jsonl")
    if corpus is None:
        raise ConfigError(f"golden export: format={name} needs the documents; add corpus=FOLDER or corpus=FILE")
    if name == "triplets":
        return export_triplets(given.entries, given.questions, Chunks(corpus, inputs.split(corpus)))
    return {"beir": export_beir, "trec": export_trec, "squad": export_squad}[name](given.entries, corpus)
