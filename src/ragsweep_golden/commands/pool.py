"""``ragsweep golden pool``: list the unjudged chunks that a sweep's configs retrieved, most influential first.

Chunks and labels are spans of documents (see ``ragsweep.golden.judged_spans``), so configs with different chunkers
share one pool.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple

from ragsweep.commands.command_line import add_path, print_blocks
from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.plurals import counted
from ragsweep.core.results import Result
from ragsweep.core.types import Corpus, GoldenSet
from ragsweep.evaluation.evidence_places import copied_places
from ragsweep.golden.judged_spans import (
    DocumentSpan,
    JudgedSpan,
    first_rank,
    is_judged,
    judged_share,
    locate_labels,
    ndcg,
)
from ragsweep.parts.languages import content_words, detect_language
from ragsweep.parts.sentences import sentences
from ragsweep.records.claims import CONFIG
from ragsweep.report.document import Block, Statement, Statements, Table, lines
from ragsweep.report.numbers import number
from ragsweep.sweep.concluding.recorded_runs import find_sweep_record, open_ledger
from ragsweep.sweep.running.retrieved import Retrieved, open_recorded, places_of, read_retrieved
from ragsweep.sweep.running.session import Session
from ragsweep_golden.commands.inputs import Inputs, check_outputs, next_step, read_inputs, words_parser
from ragsweep_golden.evidence.quotes import is_heading, shortest_anchor
from ragsweep_golden.sets.entries import LANGUAGES, is_rejected, read_set
from ragsweep_golden.sets.files import write_rows

Found = Mapping[str, Sequence[DocumentSpan]]  # config -> the chunks that it retrieved for a question, best first


class Hole(NamedTuple):
    """A passage that was retrieved for a question, but has not been judged.

    ``question`` is the id of the question. ``place`` is the sentence that a judgement adds to the evidence, and
    ``chunk`` is a retrieved chunk that contains this sentence. ``ranks`` maps each config that retrieved the sentence
    to the rank, from 1, of the first chunk that contains it. ``impact`` is the amount by which a judgement could change
    the difference between two configs (see :func:`find_holes`).
    """

    question: str
    place: DocumentSpan
    chunk: DocumentSpan
    ranks: Mapping[str, int]
    impact: float


def find_holes(question: str, text: str, found: Found, labels: Sequence[JudgedSpan], corpus: Corpus) -> list[Hole]:
    """Return the unjudged passages of the question with the id ``question`` and the wording ``text``.

    The passage of an unjudged chunk is the sentence in it that shares the most words with the question. A sentence in
    chunks of several chunkers is therefore judged only once. To compute the impact of a passage, the question's
    nDCG is computed for each config with the passage judged relevant (grade 1), and without. The impact is the largest
    change minus the smallest, because the difference between two configs cannot change by more. nDCG is cut off at the
    length of the longest list of chunks. Blank chunks are omitted.
    """
    depth = max(map(len, found.values()), default=0)
    chunks = dict.fromkeys(chunk for some in found.values() for chunk in some if not is_judged(chunk, labels))
    passages: dict[DocumentSpan, DocumentSpan] = {}
    for chunk in chunks:
        if corpus.texts[corpus.position[chunk.document]][chunk.start : chunk.end].strip():
            passages.setdefault(nearest_sentence(chunk, text, corpus), chunk)
    before = {name: ndcg(some, labels, depth) for name, some in found.items()}
    holes = []
    for place, chunk in passages.items():
        label = JudgedSpan(place, 1.0)
        changes = [ndcg(some, [*labels, label], depth) - before[name] for name, some in found.items()]
        ranks = {name: rank for name, some in found.items() if (rank := first_rank(some, label))}
        holes.append(Hole(question, place, chunk, ranks, max(changes) - min(changes)))
    return holes


def nearest_sentence(chunk: DocumentSpan, text: str, corpus: Corpus) -> DocumentSpan:
    """Return the sentence in a chunk that shares the most content words with ``text``; on a tie, the first sentence.

    Headings do not count. Return the chunk itself if it contains no sentence.
    """
    body = corpus.texts[corpus.position[chunk.document]][chunk.start : chunk.end]
    wanted = content_words(text)
    spans = [
        (start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip()))
        for start, end in sentences(body, LANGUAGES.get(detect_language(body), "english"))
        if (piece := body[start:end]).strip() and not is_heading(piece)
    ]
    start, end = max(spans or [(0, len(body))], key=lambda span: len(wanted & content_words(body[span[0] : span[1]])))
    return DocumentSpan(chunk.document, chunk.start + start, chunk.start + end)


def as_row(hole: Hole, text: str, corpus: Corpus) -> dict[str, Any]:
    """Return an unjudged passage as a row of a pool file; ``text`` is the text of the passage's question."""
    position = corpus.position[hole.place.document]
    anchor, start = shortest_anchor(corpus.texts[position], hole.place.start, hole.place.end)
    return {
        "id": hole.question,
        "question": text,
        "document": hole.place.document,
        "title": corpus.titles[position],
        "anchor": anchor,
        **({} if start is None else {"start": start}),
        "passage": corpus.texts[position][hole.chunk.start : hole.chunk.end],
        "sentence": corpus.texts[position][hole.place.start : hole.place.end],
        "impact": round(hole.impact, 6),
        "ranks": dict(hole.ranks),
    }


SHOWN = 10  # maximum number of passages listed in the terminal
MOST_CONFIGS = 3  # maximum number of configs named for a passage
LONGEST = 60  # maximum number of characters of a question in the list

_ABOUT = """Pool the first chunks of every config of a sweep, and list the unjudged chunks by impact. The
impact is the largest change in the difference between two configs' nDCG on the question if the chunk is judged
relevant. The file out= is the input of ragsweep golden review."""
_WORDS = "SWEEP, golden=FILE, out=FILE.jsonl; corpus=FOLDER (the sweep's own), depth=10 (chunks of each config)"


class Pool(NamedTuple):
    """The unjudged passages, highest impact first, and the numbers of judged and of all retrieved chunks.

    A chunk counts once for each config that retrieved it.
    """

    holes: list[Hole]
    judged: int
    chunks: int


def pool(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden pool``; return the exit status 0. Raises RagsweepError for bad input."""
    parser = words_parser("pool", _ABOUT, _WORDS, "SWEEP | KEY=VALUE", nargs="+")
    add_path(parser)
    options, inputs = read_inputs(parser, arguments)
    values = inputs.values
    if inputs.file is None or not values["golden"] or not values["out"]:
        raise ConfigError("golden pool: specify one sweep, golden=FILE and out=FILE.jsonl")
    check_outputs([values["out"]], values["golden"], values["corpus"])
    if not isinstance(values["depth"], int) or values["depth"] < 1:
        raise ConfigError(f"depth: must be a whole number of at least 1, got {values['depth']!r}")
    ledger = open_ledger(options.path)
    sweep = find_sweep_record(ledger, options.path, inputs.file)
    configs = [one for one in ledger.records(sweep.id) if one.kind == CONFIG]
    results = {f"#{one.job + 1}": one.outcome for one in configs if isinstance(one.outcome, Result)}
    if not results:
        raise InputError(f'no config of the sweep "{inputs.file}" was measured; repeat its command with rerun=true')
    read = read_set(Path(values["golden"]).expanduser())
    session = open_recorded(first := next(iter(results.values())), options.path)
    corpus, repeated = _corpus(inputs, first, session)
    retrieved = {name: read_retrieved(session, one, values["depth"]) for name, one in results.items()}
    found = {name: places_of(one.chunks, corpus) for name, one in retrieved.items()}
    questions = [question for entry, question in read if not is_rejected(entry)]
    asked = [question for question in questions if question.answerable and question.needs_retrieval]
    pooled = collect(GoldenSet(tuple(asked), repeated_passages=repeated), found, corpus)
    texts = {question.id: question.text for question in asked}
    write_rows(Path(values["out"]).expanduser(), [as_row(one, texts[one.question], corpus) for one in pooled.holes])
    print_blocks(*_blocks(pooled, retrieved, values, texts))
    return 0


def collect(set_: GoldenSet, found: Mapping[str, Mapping[str, Sequence[DocumentSpan]]], corpus: Corpus) -> Pool:
    """Return the pool of unjudged passages of a golden set's questions.

    ``found`` maps a config to its first chunks for each question id, best first. Passages with the same impact are
    ordered by the number of configs that retrieved them, highest first, then by their best rank.
    """
    holes, judged, chunks = list[Hole](), 0, 0
    copies = copied_places(corpus, set_)
    for question in set_.questions:
        if asked := {name: some[question.id] for name, some in found.items() if question.id in some}:
            labels = locate_labels(question.evidence, question.distractors, corpus, copies)
            holes += find_holes(question.id, question.text, asked, labels, corpus)
            counted = judged_share(asked.values(), labels)
            judged, chunks = judged + counted[0], chunks + counted[1]
    holes.sort(key=lambda one: (-round(one.impact, 9), -len(one.ranks), min(one.ranks.values(), default=0)))
    return Pool(holes, judged, chunks)


def _corpus(inputs: Inputs, result: Result, session: Session) -> tuple[Corpus, bool]:
    """Return the corpus of a sweep, and whether an anchor also marks its occurrences in other documents."""
    corpus = inputs.given_corpus
    if corpus and corpus.digest != result.run.dataset.corpus_digest:
        place = inputs.values["corpus"]
        raise InputError(
            f"corpus={place}: the sweep has another corpus, or another version of it; omit corpus= to use the sweep's"
        )
    if dataset := session.recorded_dataset(result):
        return dataset.corpus, dataset.golden.repeated_passages
    if corpus is None:
        raise InputError(
            "the dataset of the sweep is missing, or its corpus has changed; set the original: corpus=FOLDER or FILE"
        )
    return corpus, bool(result.run.config["dataset"].get("repeated_passages"))


def _blocks(
    pooled: Pool, retrieved: Mapping[str, Retrieved], values: Mapping[str, Any], texts: Mapping[str, str]
) -> Iterator[Block]:
    share = number(100 * pooled.judged / pooled.chunks) if pooled.chunks else "-"
    what = f"{counted(pooled.chunks, 'chunk')} that {counted(len(retrieved), 'config')} retrieved"
    counts = {"judged": pooled.judged, "chunks": pooled.chunks}
    yield lines(Statement("judged", f"judged@{values['depth']}: {share} % of {what}", counts))
    if cut := [name for name, one in retrieved.items() if not one.whole]:
        way = "restore the sweep's corpus, and repeat its command with rerun=true to recompute the rankings"
        text = f"only the contexts of {', '.join(cut)} are available; {way}"
        yield lines(Statement("note", text, {"configs": cut}))
    if pooled.holes:
        yield Table([">impact", "question", "passage", "found by"], list(_rows(pooled.holes[:SHOWN], texts)))
    passages, questions = len(pooled.holes), len({one.question for one in pooled.holes})
    text = f"{counted(passages, 'unjudged passage')} of {counted(questions, 'question')} · {values['out']}"
    yield lines(Statement("pool", text, {"passages": passages, "questions": questions}))
    if pooled.holes:
        review = next_step("review", values["golden"], f"pool={values['out']}")
        yield Statements([Statement(review, "judge the passages")], "commands")


def _rows(holes: Sequence[Hole], texts: Mapping[str, str]) -> Iterator[list[str]]:
    for one in holes:
        ranks = ", ".join(f"{name} at {rank}" for name, rank in list(one.ranks.items())[:MOST_CONFIGS])
        more = f", {len(one.ranks) - MOST_CONFIGS} more" if len(one.ranks) > MOST_CONFIGS else ""
        question = shorten(texts[one.question], LONGEST, placeholder=" ...")
        yield [number(one.impact), question, f"{one.place.document}:{one.place.start}", ranks + more]
