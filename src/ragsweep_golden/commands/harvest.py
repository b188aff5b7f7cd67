"""``ragsweep golden harvest``: add the new questions of a production log, with evidence that BM25 proposes."""

import argparse
import time
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ragsweep.commands.command_line import print_blocks
from ragsweep.commands.documents import show_notes
from ragsweep.commands.served import MODEL, SINCE, describe_skipped, read_since, read_traces
from ragsweep.core.errors import SHOWN, ConfigError, Faults, InputError
from ragsweep.core.identity import content_hash
from ragsweep.core.plurals import counted
from ragsweep.core.types import Chunks, Evidence
from ragsweep.core.words import is_symbol, pattern, words
from ragsweep.golden.structured_cells import decoded
from ragsweep.parts.tracking import Mlflow
from ragsweep.parts.tracking.served_traces import read_root_inputs
from ragsweep.report.document import Block, Statement, Statements, Table, paragraphs
from ragsweep_golden.building.selection import drop_copies
from ragsweep_golden.commands.add import append_entries, propose_all
from ragsweep_golden.commands.inputs import next_step, read_inputs, user_name, words_parser
from ragsweep_golden.evidence.quotes import Place, shortest_anchor
from ragsweep_golden.exchange.drafts import read_turns
from ragsweep_golden.exchange.records import read_records
from ragsweep_golden.gates.subject import Embed
from ragsweep_golden.sets.entries import NEEDS_REVIEW, SCHEMA_VERSION, Entry, as_label, is_filled, read_set
from ragsweep_golden.sets.files import record_change

NAMES = ("question", "query", "user_input", "input", "inputs", "prompt", "message", "messages", "text")
"""Fields that may contain the question of a log record; they are tried in this order."""


class Asked(NamedTuple):
    """A question of a log in its most frequent spelling, and how often it was asked (``times``).

    ``times`` includes other spellings and, with an embedder, near-duplicates.
    """

    text: str
    times: int


class Harvest(NamedTuple):
    """The new questions of a log, most frequent first, and counts of the questions in the log."""

    new: list[Asked]
    different: int  # number of distinct questions in the log
    known: int  # number of distinct questions that are already in the set
    similar: int  # number of near-duplicates of a question of the set, or of a more frequent question of the log


def read_log(path: Path) -> list[str]:
    """Return the question of each record in a log, and "" for a record without a question.

    The log may have any format that ``read_records`` reads. A record that cannot be read has no question and is
    reported on standard error. Raises InputError for faults of the file, and for a file in which no record has a
    question.
    """
    faults, of_records = Faults(), Faults()
    rows = read_records(path, faults, of_records)
    faults.raise_any()
    questions = [""] * len(of_records.found)
    for row in rows:
        try:
            questions.append(find_question(dict(row.values)))
        except ValueError as fault:
            questions.append("")
            of_records.add(row.where, str(fault))
    if not any(questions):
        read_records(path, faults)  # as a file in which every record must be readable
        faults.raise_any()
        of_records.raise_any()
        seen = ", ".join(dict.fromkeys(name for row in rows for name in row.values))
        way = f"the fields are {seen}; rename the field of the question to one of {', '.join(NAMES)}"
        raise InputError(f"{path}: no record has a question; {way if seen else 'specify a log that is not empty'}")
    if found := of_records.found:
        more = ["..."] * (len(found) > SHOWN)
        show_notes(["\n".join([f"{counted(len(found), 'record')} not read:", *found[:SHOWN], *more])])
    return questions


def find_question(value: Any) -> str:
    """Return the question in ``value``, a logged input of an application; "" if there is none.

    The input may be a string, a list of messages, or an object with a string or messages in a field in NAMES. Raises
    ValueError for a list that contains neither messages nor a single string, and for a string that looks like a list or
    an object but cannot be parsed (see ``decoded``). If the value is in a field, the message names the field.
    """
    found = decoded(value)
    if isinstance(found, list):
        return str(read_turns(found).get("question", "")).strip()
    if not isinstance(found, dict):
        return found.strip() if isinstance(found, str) else ""
    for name in NAMES:
        try:
            if is_filled(found.get(name)) and (text := find_question(found[name])):
                return text
        except ValueError as fault:
            raise ValueError(f'"{name}" {fault}') from None
    return ""


def choose(questions: Iterable[str], entries: Sequence[Entry], embed: Embed | None) -> Harvest:
    """Return the questions of a log that are not in a golden set, with counts; questions without words are ignored.

    Questions with the same words and symbols are merged. A question of an earlier harvest is recognised by its id, even
    if its text has been edited since. With ``embed``, a function from texts to unit vectors, near-duplicates are merged
    too, and near-duplicates of questions of the set are dropped.
    """
    spellings: dict[str, Counter[str]] = {}
    for question in questions:
        if asked_words := normal_words(question):
            spellings.setdefault(asked_words, Counter())[" ".join(question.split())] += 1
    asked = [Asked(found.most_common(1)[0][0], found.total()) for found in spellings.values()]
    known = {normal_words(entry["question"]) for entry in entries}
    ids = {entry.get("id") for entry in entries}
    new = [
        one for one, words in zip(asked, spellings, strict=True) if words not in known and _log_id(one.text) not in ids
    ]
    new.sort(key=lambda one: -one.times)
    kept = _without_copies(new, entries, embed) if embed else new
    return Harvest(kept, len(asked), len(asked) - len(new), len(new) - len(kept))


def normal_words(text: str) -> str:
    """Return the words in lower case and the symbols (such as the + of C++) of ``text``, separated by single spaces.

    Other punctuation is left out. Return "" if ``text`` has no words.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    tokens = pattern("token").findall(folded)
    return " ".join(one for one in tokens if words(one) or is_symbol(one)) if words(folded) else ""


def _log_id(text: str) -> str:
    return content_hash(["log", normal_words(text)])[:16]


def _without_copies(new: Sequence[Asked], entries: Sequence[Entry], embed: Embed) -> list[Asked]:
    """Return the new questions without near-duplicates of questions of the set, or of more frequent new questions.

    The count of a dropped question is added to the count of the most similar kept question, if that question is new.
    The result is sorted by count, highest first.
    """
    candidates: list[Entry] = [*entries, *({"question": one.text} for one in new)]
    vectors = embed([entry["question"] for entry in candidates])
    kept, dropped = drop_copies(candidates, vectors, None, independent=1.0)
    asked = dict(enumerate(new, start=len(entries)))
    counts = {n: asked[n].times for n in kept if n in asked}
    for n in dropped.keys() & asked.keys():
        nearest = kept[int(np.nanargmax(vectors[kept] @ vectors[n]))]
        if nearest in asked:
            counts[nearest] += asked[n].times
    found = [Asked(asked[n].text, count) for n, count in counts.items()]
    return sorted(found, key=lambda one: -one.times)


def as_entries(asked: Sequence[Asked], chunks: Chunks, has_weights: bool) -> list[dict[str, Any]]:
    """Return a silver entry for each question; its evidence is the best sentence of the best chunk by BM25, if any.

    If ``has_weights``, the weight of an entry is the number of times that its question was asked.
    """
    proposed = propose_all([one.text for one in asked], chunks, 1)
    entries = []
    for one, passages in zip(asked, proposed, strict=True):
        found = _evidence(passages[0], chunks) if passages else {}
        how = "evidence proposed by BM25" if found else "no document contains any of its words"
        entry = {
            "schema_version": SCHEMA_VERSION,
            "id": _log_id(one.text),
            "question": one.text,
            **found,
            **({"weight": one.times} if has_weights else {}),
            "notes": f"{NEEDS_REVIEW}: asked {counted(one.times, 'time')}; {how}",
            "audit": {"status": "silver", "created_by": "ragsweep golden harvest"},
        }
        entries.append(entry)
    return entries


def _evidence(passage: Place, chunks: Chunks) -> dict[str, Any]:
    """Return an entry's evidence (the sentence at ``passage``) and its passage (the first chunk with the sentence)."""
    name, text = chunks.corpus.ids[passage.document], chunks.corpus.texts[passage.document]
    spans = chunks.spans
    inside = (spans.start <= passage.start) & (spans.end >= passage.end) & (spans.document == passage.document)
    chunk = int(np.argmax(inside))
    start, end = int(spans.start[chunk]), int(spans.end[chunk])
    return {
        "evidence": [as_label(Evidence(name, *shortest_anchor(text, passage.start, passage.end)))],
        "content": {"passage": text[start:end], "explanation": text[passage.start : passage.end].strip()},
        "provenance": {"document": name, "start": start, "end": end},
    }


_ABOUT = """Deduplicate the questions of a log, and add the new ones to a golden file as silver questions with the
evidence that BM25 proposes. Exit status: 0 added, 1 nothing new, 2 bad input."""

_WORDS = """the golden file, created if missing; corpus=FOLDER or FILE; log=FILE (a table or JSON lines),
or traces=MLFLOW_URI experiment=NAME; embedder=minilm also skips similar questions"""

_SHOWN = 10


def harvest(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden harvest``; return 0 if questions were added, else 1. Raises RagsweepError for bad input."""
    parser = words_parser("harvest", _ABOUT, _WORDS)
    traced = f"{MODEL}; the questions are taken from its traces in the MLflow store traces=MLFLOW_URI"
    parser.add_argument("--model", help=traced)
    parser.add_argument("--since", metavar="WHEN", help=f"with --model, {SINCE}; default: 7d")
    parser.add_argument("--weights", action="store_true", help="weight each new question by how often it was asked")
    options, inputs = read_inputs(parser, arguments)
    file, values, corpus = inputs.path, inputs.values, inputs.corpus
    entries = read_existing(file, options.weights)
    questions = _read_questions(values, options)
    found = choose(questions, entries, inputs.embed)
    if found.new:
        added = as_entries(found.new, Chunks(corpus, inputs.split(corpus)), options.weights)
        with record_change(file, "harvest", user_name()):
            append_entries(file, added)
    print_blocks(*_blocks(found, questions, file, values["corpus"]))
    return 0 if found.new else 1


def read_existing(file: Path, has_weights: bool) -> list[dict[str, Any]]:
    """Return the entries of a golden file; [] if the file is missing.

    ``has_weights``: whether the entries to add have weights. Raises InputError if the file has faults, or if only some
    of the existing and new entries have weights.
    """
    entries = [entry for entry, _ in read_set(file)] if file.exists() else []
    without = sum(entry.get("weight") is None for entry in entries)
    if without and (has_weights or without < len(entries)):
        way = "add one to each" if without < len(entries) else "add one to each, or omit --weights"
        raise InputError(f'{file}: {counted(without, "question")} without a "weight"; {way}')
    if entries and not has_weights and not without:
        raise InputError(f"{file}: its questions have weights; add --weights to weight the new questions, too")
    return entries


def _read_questions(values: Mapping[str, Any], options: argparse.Namespace) -> list[str]:
    log, traces, experiment = values["log"], values["traces"], values["experiment"]
    if options.model:
        if log is not None:
            raise ConfigError("golden harvest: --model and log=FILE: use only one of them")
        registry = Mlflow(traces, "ragsweep").registry()
        since = read_since(options.since or "7d", time.time())
        found, skipped = read_traces(registry, registry.find(options.model), since, experiment)
        if skipped:
            show_notes([describe_skipped(skipped)])
        return [one.question for one in found]
    if options.since:
        raise ConfigError(
            "--since: needs --model; add it, or omit --since to take all questions of a log or an experiment"
        )
    if (log is None) == (traces is None) or (traces is None) != (experiment is None):
        raise ConfigError(
            "golden harvest: needs exactly one of --model NAME@ALIAS, log=FILE, or traces=MLFLOW_URI experiment=NAME"
        )
    if log is not None:
        return read_log(Path(str(log)).expanduser())
    return [_traced_question(inputs) for inputs in read_root_inputs(str(traces), str(experiment))]


def _traced_question(inputs: Any) -> str:
    """Return a trace's question; "" for unreadable inputs (not an error, because a trace cannot be corrected)."""
    try:
        return find_question(inputs)
    except ValueError:
        return ""


def _blocks(found: Harvest, questions: Sequence[str], file: Path, corpus: str) -> Iterator[Block]:
    yield Table([">asked", "question"], [[f"{one.times:,}", one.text[:100]] for one in found.new[:_SHOWN]])
    blank = sum(not question.strip() for question in questions)
    text = (
        f"{counted(len(questions), 'record')}, {blank:,} without a question; "
        f"{counted(found.different, 'different question')}: {found.known:,} already in the file, "
        f"{found.similar:,} similar to others, {len(found.new):,} added to {file} as silver."
    )
    counts = {"records": len(questions), "blank": blank, "different": found.different, "new": len(found.new)}
    yield paragraphs("RESULT", Statement("", text, {**counts, "known": found.known, "similar": found.similar}))
    if found.new:
        review = next_step("review", file, f"corpus={corpus}")
        yield Statements([Statement(review, "confirm or correct the proposed evidence")], "commands")
