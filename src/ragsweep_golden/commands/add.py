"""``ragsweep golden add``: add a question, with evidence chosen from a search of the corpus."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ragsweep.commands.command_line import Parser, print_blocks
from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.identity import content_hash
from ragsweep.core.plurals import counted
from ragsweep.core.types import Chunks, Evidence, Question
from ragsweep.parts.languages import detect_language, usual_language
from ragsweep.report.document import Block, Statement, lines, paragraphs
from ragsweep_golden.commands.inputs import Inputs, next_step, user_name
from ragsweep_golden.evidence.quotes import Place, best_sentence, quote, rank_by_language
from ragsweep_golden.review.journal import evidence_key
from ragsweep_golden.sets.entries import NEEDS_REVIEW, SCHEMA_VERSION, as_label, lacks_evidence, read_set
from ragsweep_golden.sets.files import json_lines, record_change, write_rows, write_whole

_ABOUT = """Search the corpus for a question, show passages, and add the question to a golden file with the chosen
passage as its evidence. Without a question, choose evidence for each question of the file that has none. Exit status: 0
added, 1 not added, 2 bad input."""
_OVERRIDE = re.compile(r"[~+]*[\w.]+=")


def add(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden add``; return 0 if a question was added, else 1. Raises RagsweepError for bad input."""
    parser = Parser("ragsweep golden add", description=_ABOUT)
    parser.add_argument("file", metavar="FILE", type=Path, help="the golden file, created if missing")
    words = "the question, in quotes; corpus=FOLDER or FILE, chunker=..."
    parser.add_argument("words", nargs="*", metavar="QUESTION | KEY=VALUE", help=words)
    parser.add_argument("--answer", default="", metavar="TEXT", help="the right answer")
    parser.add_argument("--take", type=int, metavar="N", help="take the passage with this number, without a prompt")
    options = parser.parse_intermixed_args(arguments)
    file, who = options.file.expanduser(), user_name()
    inputs = Inputs("add", [word for word in options.words if _OVERRIDE.match(word)])
    corpus, asked = inputs.corpus, _asked(options, file)
    chunks = Chunks(corpus, inputs.split(corpus))
    added = 0
    searched = [f"{question} {answer}" for _, question, answer in asked]
    for (own, question, answer), found in zip(asked, propose_all(searched, chunks, PROPOSED), strict=True):
        print_blocks(*_passages(question, answer, found, chunks))
        number = options.take if options.take is not None and found else _ask(len(found))
        if number is None:
            break
        if number:
            entry = gold_entry(question, answer, _passage(found, number), chunks, who) | own
            with record_change(file, "add", who):
                add_entry(file, entry)
            added += 1
            label = entry["evidence"][0]
            text = f'to {file}, with the evidence "{label["anchor"]}" of "{label["document"]}"'
            print_blocks(paragraphs("ADDED", Statement("", text, label)))
    text = f"{added} of {counted(len(asked), 'question')} added to {file}."
    print_blocks(lines(Statement("RESULT", text, {"added": added, "questions": len(asked)})))
    return 0 if added else 1


def _asked(options: Any, file: Path) -> list[tuple[dict[str, str], str, str]]:
    """Return ({"id": id of the entry} or {}, question, right answer or "") for each question to complete or add.

    If there is a question on the command line, only this question is returned, with {}. Otherwise, the questions of the
    file that lack evidence are returned. Raises ConfigError for several questions, and for ``--answer`` or ``--take``
    without a question, and InputError as ``_check_weights`` does.
    """
    given = [word for word in options.words if not _OVERRIDE.match(word)]
    if len(given) > 1:
        raise ConfigError(f"golden add: takes only one question, in quotes, got {len(given)}: {', '.join(given)}")
    if not given and (options.answer or options.take is not None):
        raise ConfigError("golden add: --answer and --take need a question; add it in quotes")
    if given:
        _check_weights(file, given[0])
        return [({}, given[0], options.answer)]
    lacking = [one for entry, one in read_file(file) if lacks_evidence(entry)]
    return [({"id": one.id}, one.text, " ".join(one.references[:1])) for one in lacking]


def _check_weights(file: Path, question: str) -> None:
    """Raise InputError if the questions of a file have weights, but ``question`` is new and would have no weight."""
    read = [one for _, one in read_file(file)] if file.exists() else []
    if any(one.weight is not None for one in read) and question not in [one.text for one in read]:
        way = 'add it to the file with an "id" and a "weight", then run this command without a question'
        raise InputError(f"{file}: its questions have weights, but the new question would have none; {way}")


def _passage(found: Sequence[Place], number: int) -> Place:
    if not 1 <= number <= len(found):
        fact = f"--take {number}: the search found {counted(len(found), 'passage')}"
        way = f"use a number from 1 to {len(found)}, or rephrase the question to find others"
        raise ConfigError(f"golden add: {fact}; {way}")
    return found[number - 1]


def _passages(question: str, answer: str, found: Sequence[Place], chunks: Chunks) -> Iterator[Block]:
    corpus = chunks.corpus
    right = [Statement("", f"right answer: {answer}")] if answer else []
    yield paragraphs("QUESTION", Statement("", question), right)
    for number, one in enumerate(found, 1):
        text = " ".join(corpus.texts[one.document][one.start : one.end].split())
        yield paragraphs(f"{number:>2}", Statement("", f"{corpus.ids[one.document]}: {text}"))
    if not found:
        yield lines(Statement("RESULT", "no document contains any word of the question."))


def _ask(count: int) -> int | None:
    """Read the number of a passage from standard input; 0 for none, or if ``count`` is 0; None at the end of input."""
    try:
        while count:
            given = input(f"Which passage answers the question? 1 to {count}, or Enter for none: ").strip()
            if not given or (given.isdecimal() and 1 <= int(given) <= count):
                return int(given or 0)
    except EOFError:
        return None
    return 0


PROPOSED = 8  # maximum number of proposed passages


def propose_all(questions: Sequence[str], chunks: Chunks, count: int) -> list[list[Place]]:
    """Return for each question the best sentence of each of the ``count`` best chunks by BM25, without duplicates.

    The list of a question that no chunk matches is empty.
    """
    usual = usual_language(chunks.corpus.texts)
    codes = [detect_language(question) or usual for question in questions]
    ranked = rank_by_language(questions, codes, list(chunks), count)

    def sentence(question: str, chunk: int, code: str) -> Place | None:
        document = int(chunks.spans.document[chunk])
        place = int(chunks.spans.start[chunk]), int(chunks.spans.end[chunk])
        best = best_sentence(question, chunks.corpus.texts[document], place, code)
        return Place(document, *best) if best else None

    return [
        list(dict.fromkeys(filter(None, (sentence(question, chunk, code) for chunk in best))))
        for question, code, best in zip(questions, codes, ranked, strict=True)
    ]


def gold_entry(question: str, answer: str, passage: Place, chunks: Chunks, who: str) -> dict[str, Any]:
    """Return a gold entry for a question, with the evidence ``passage`` chosen by ``who``; ``answer`` may be ""."""
    corpus = chunks.corpus
    evidence = [as_label(Evidence(corpus.ids[passage.document], *quote(passage, question, answer, corpus)))]
    explanation = corpus.texts[passage.document][passage.start : passage.end].strip()
    when = datetime.now(UTC).isoformat(timespec="seconds")
    review = {"who": who, "when": when, "what": "took the evidence"}
    return {
        "schema_version": SCHEMA_VERSION,
        "id": content_hash([question, evidence])[:16],
        "question": question,
        **({"reference": answer} if answer else {}),
        "evidence": evidence,
        "content": {"explanation": explanation},
        "validation": {"status": "validated", "method": "person", "score": 1, "corpus_digest": corpus.digest},
        "audit": {"status": "gold", "created_by": who, "reviews": [review]},
    }


def add_entry(path: Path, entry: dict[str, Any]) -> None:
    """Add an entry to a golden file, or merge it into the existing entry with the same id or else the same question.

    The existing entry keeps its labels of irrelevant passages, except a label at the place of the new label. Of several
    entries with the same question, the first that lacks evidence is chosen. Raises InputError as ``read_file`` does,
    and if the existing entry has evidence or needs none.
    """
    read = read_file(path) if path.exists() else []
    same = [n for n, (_, one) in enumerate(read) if one.id == entry["id"]]  # the text may have been edited since
    same = same or [n for n, (_, one) in enumerate(read) if one.text == entry["question"]]
    if not same:
        return append_entries(path, [entry])
    number = next((n for n in same if lacks_evidence(read[n][0])), same[0])
    other, question = read[number]
    if not lacks_evidence(other):
        way = "edit that entry, or rephrase the new question"
        raise InputError(f'{question.where}: already has this question, as "{question.id}"; {way}')
    earlier = (other.get("audit") or {}).get("reviews") or []
    audit = entry["audit"] | {"reviews": [*earlier, *entry["audit"]["reviews"]]}
    rows = [one for one, _ in read]
    chosen = [*map(evidence_key, entry["evidence"])]
    judged = [one for one in other.get("evidence") or () if evidence_key(one) not in chosen]
    notes = {"notes": str(note).removeprefix(f"{NEEDS_REVIEW}: ")} if (note := other.get("notes")) else {}
    changed = {"id": question.id, "audit": audit, "evidence": [*judged, *entry["evidence"]]} | notes
    rows[number] = other | entry | changed
    return write_rows(path, rows)


def append_entries(path: Path, entries: Sequence[dict[str, Any]]) -> None:
    """Append entries to a golden file atomically; a missing file is created.

    Raises InputError as ``read_file`` does.
    """
    text = ""
    if path.exists():
        read_file(path)
        text = path.read_text(encoding="utf-8")
    separator = "\n" if text and not text.endswith("\n") else ""
    write_whole(path, f"{text}{separator}{json_lines(entries)}")


def read_file(path: Path) -> list[tuple[dict[str, Any], Question]]:
    """Return the (entry, question) pairs of a golden file.

    Raises InputError for faults of the file, and for a file other than plain JSON lines in UTF-8.
    """
    read = read_set(path)
    try:
        is_plain = not path.read_text(encoding="utf-8-sig").lstrip().startswith("[")
    except (OSError, UnicodeDecodeError):  # Parquet, gzip, UTF-16
        is_plain = False
    if not is_plain:
        made = next_step("verify", path, "corpus=FOLDER", "out=NEW.jsonl")
        raise InputError(
            f"{path}: questions are added only to plain JSON lines in UTF-8; to convert the file, run {made}"
        )
    return read
