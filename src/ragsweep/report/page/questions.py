"""The questions of a sweep one by one, for a few configs side by side, in compact columns for the page's script."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ragsweep.core.plurals import counted
from ragsweep.core.question_results import JUDGE, QuestionResults
from ragsweep.core.results import Result
from ragsweep.report.numbers import NOT_MEASURED, number
from ragsweep.report.sweep_report import PageTexts
from ragsweep.stats.funnel import Funnel
from ragsweep.stats.inference.matrix import fill_declined

Chunk = tuple[str, str]
"""The digest of a corpus, and the name of a chunk in this corpus."""

MOST_QUESTIONS = 2_000
LONGEST = 4_000
"""Maximum number of characters per text (about a page); longer texts are truncated."""
MOST_TEXT = 3_000_000
"""Maximum total size of all chunks' texts, in bytes."""


def browse(
    results: Sequence[Result],
    metrics: Sequence[str],
    roles: Mapping[str, str],
    funnels: Mapping[str, Funnel],
    given: PageTexts,
) -> dict[str, Any]:
    """Return the data of the question browser, mostly as columns.

    On the page, a config helps or hurts a question if it scores better or worse than the first of ``results`` in the
    first of ``metrics``. A declined answer has the worst score, as in comparisons. The keys of ``roles`` and
    ``funnels`` are names of configs.
    """
    first = results[0].questions
    ids = list(first["question_id"])[:MOST_QUESTIONS]
    labelled = given.evidence.get(results[0].run.dataset.golden_digest, {})
    chunks: dict[Chunk, int] = {}
    labels = {label: _texts(first[label], len(ids)) for label in results[0].summaries.groups if label in first}
    summary = results[0].summaries.metrics[metrics[0]]
    configs = [
        _config(result, ids, metrics, roles.get(result.name, ""), chunks)
        | _paths(result.questions, ids, funnels.get(result.name))
        for result in results
    ]
    compared = np.array([one["scores"][metrics[0]] for one in configs], dtype=np.float64)
    fill_declined(results, metrics[0], ids, compared)
    for config, row in zip(configs, compared.tolist(), strict=True):
        config["compared"] = [*map(_rounded, row)]
    lines: dict[str, int] = {}
    for result, config in zip(results, configs, strict=True):
        config["prompts"] = _prompts(result, ids, config["contexts"], list(chunks), lines, given)
    texts, left_out = _chunk_texts(chunks, given)
    return {
        "kind": "browser",
        "metrics": list(metrics),
        "lowerIsBetter": summary.higher_is_better is False,
        "missable": bool(summary.higher_is_better) and not summary.unit,
        "ids": ids,
        "asked": len(first["question_id"]),
        "questions": _texts(first["question"], len(ids)),
        "references": _texts(first["reference"], len(ids)) if "reference" in first else None,
        "evidence": list(first["evidence"])[: len(ids)] if "evidence" in first else None,
        "expected": [_texts(labelled.get(one, ()), LONGEST) for one in ids],
        "labels": labels,
        "configs": configs,
        "chunks": [name for _, name in chunks],
        "texts": texts,
        "lines": list(lines),
        "leftOut": left_out,
    }


def _chunk_texts(chunks: Collection[Chunk], given: PageTexts) -> tuple[list[str], str]:
    """Return the texts of the first chunks, up to `MOST_TEXT` bytes, and sentences on omitted texts ("" for none).

    The text of a chunk is "" if its corpus is missing or has changed.
    """
    lost = "are left out: the corpus is missing, or has changed since it was searched."
    if not given.chunks:
        return [], f"The texts of chunks {lost}"
    texts, size = [], 0
    for corpus, name in chunks:
        text = _texts([given.chunks[corpus](name)], 1)[0] if corpus in given.chunks else ""
        size += len(text.encode("utf-8", "replace"))
        if size > MOST_TEXT:
            break
        texts.append(text)
    notes = [f"The texts of some configs' chunks {lost}"] if any(one not in given.chunks for one, _ in chunks) else []
    if missing := len(chunks) - len(texts):
        notes.append(f"The texts of {counted(missing, 'chunk')} are left out, to keep the page small.")
    return texts, " ".join(notes)


def _paths(questions: QuestionResults, ids: Sequence[str], found: Funnel | None) -> dict[str, Any]:
    """Return, per question, the stage that lost it (``Funnel.lost_by``), and the path of each piece of its evidence.

    Both lists are empty if ``found`` is None.
    """
    if found is None:
        return {"lost": [], "paths": []}
    paths = [
        list(_path_texts(questions, questions.row_of[name], found.fates[name])) if name in found.fates else []
        for name in ids
    ]
    return {"lost": [found.lost_by.get(name, "") for name in ids], "paths": paths}


def _path_texts(questions: QuestionResults, question: int, fates: Sequence[str]) -> Iterator[str]:
    """Yield each piece's ranks, and the stage that lost the piece: ``bm25 12, vector -, final 7: lost by top_k``."""
    evidence = questions.evidence
    assert evidence is not None, "a funnel is computed from ranks"
    places = evidence.of_question(question)
    stages = {stage: ranks[places].tolist() for stage, ranks in evidence.stages.items()}
    for n, fate in enumerate(fates):
        ranks = ", ".join(f"{stage} {ranks[n] or NOT_MEASURED}" for stage, ranks in stages.items())
        yield f"{ranks}: {f'lost by {fate}' if fate else 'in the context'}"


def _config(
    result: Result, ids: Sequence[str], metrics: Sequence[str], role: str, chunks: dict[Chunk, int]
) -> dict[str, Any]:
    """Return one config's columns in the order of ``ids``; contexts are indices into ``chunks``, which is extended."""
    columns = result.questions
    rows = [columns.row_of.get(name) for name in ids]

    def column(name: str) -> list[Any] | None:
        values = columns.get(name)
        return None if values is None else [None if row is None else values[row] for row in rows]

    corpus = result.run.dataset.corpus_digest
    contexts = [
        [chunks.setdefault((corpus, name), len(chunks)) for name in context or ()]
        for context in column("context") or ()
    ]
    measured: dict[str, str] = {}  # quantiles of one measurement have equal columns
    for one in result.summaries.metrics.values():
        if one.unit and one.name in columns:
            measured.setdefault(str(columns[one.name]), one.name)
    numbers = {name: [*map(_rounded, column(name) or ())] for name in ("top_score", *measured.values())}
    return {
        "name": result.name,
        "role": role,
        "scores": {name: [_rounded(value) for value in column(name) or ()] for name in metrics if name in columns},
        "unscored": [
            "" if row is None else columns.unscored[row].get(metrics[0], "") for row in rows if columns.unscored
        ],
        "ranks": [_rounded(rank) for rank in column("first_evidence_rank") or ()],
        "contexts": contexts,
        "texts": {name: _texts(some, len(ids)) for name, some in _written(column, result, rows).items() if any(some)},
        "numbers": {name: values for name, values in numbers.items() if any(value is not None for value in values)},
    }


def _written(
    column: Callable[[str], list[Any] | None], result: Result, rows: Sequence[int | None]
) -> dict[str, list[str]]:
    """Map labels of the page to one string per question: answer, failure, judges' reasons, and the steps' numbers."""
    outcome = [
        failed or ("declined" if declined else "")
        for failed, declined in zip(column("answer_failed") or (), column("abstained") or (), strict=True)
    ]
    questions = result.questions
    steps = [{} if row is None else questions.steps_of(row) for row in rows]
    words = [{} if row is None else questions.words_of(row) for row in rows]
    judges = dict.fromkeys(name for one in words for name in one)
    prices = result.run.config.get("prices") or {}
    return {
        "answer": [text or "" for text in column("answer") or ()],
        "thoughts": column("answer_thoughts") or [],
        "no answer": outcome,
        **{f"{JUDGE}{name}": [one.get(name, "") for one in words] for name in judges},
        "milliseconds": [_by_step(one, lambda step: number(step["ms"], "ms") if "ms" in step else "") for one in steps],
        "tokens read and written": [
            _by_step(one, lambda step: f"{step['tokens_in']:,} + {step['tokens_out']:,}" if "tokens_in" in step else "")
            for one in steps
        ],
        f"cost, {prices.get('currency', '')}": [
            _by_step(one, lambda step: f"{step['money']:.2g}" if "money" in step else "") for one in steps
        ],
    }


def _by_step(steps: Mapping[str, Any], write: Callable[[Mapping[str, Any]], str]) -> str:
    return "\n".join(f"{name} {text}" for name, step in steps.items() if (text := write(step)))


def _prompts(
    result: Result,
    ids: Sequence[str],
    contexts: Sequence[Sequence[int]],
    chunks: Sequence[Chunk],
    lines: dict[str, int],
    given: PageTexts,
) -> list[list[list[Any]]]:
    """Return each question's messages as pairs of a role and a list of numbers, which stand for texts.

    A number is an index into ``lines``, which is extended, or ``~n`` for the text of chunk n, so that each text is
    stored only once. Return an empty list if the prompts or the texts of chunks are unavailable.
    """
    chunk_text = given.chunk(result)
    read = given.prompts(result) if chunk_text else None
    if read is None or chunk_text is None:
        return []
    prompts = []
    for name, context in zip(ids, contexts, strict=True):
        names = [chunks[n][1] for n in context]
        passages = [(n, chunk_text(chunk).strip()) for n, chunk in zip(context, names, strict=True)]
        messages = read(name, names)
        prompts.append([[one["role"], _pieces(one["content"], passages, lines)] for one in messages])
    return prompts


def _pieces(text: str, passages: Sequence[tuple[int, str]], lines: dict[str, int]) -> list[int]:
    pieces: list[int] = []
    for n, passage in passages:
        before, found, after = text.partition(passage)
        if found and passage:
            pieces += [*(lines.setdefault(line, len(lines)) for line in before.splitlines(keepends=True)), ~n]
            text = after
    return [*pieces, *(lines.setdefault(line, len(lines)) for line in text.splitlines(keepends=True))]


def _texts(values: Sequence[Any], most: int) -> list[str]:
    texts = ("" if value is None else str(value) for value in values[:most])
    return [text if len(text) <= LONGEST else f"{text[:LONGEST]} ..." for text in texts]


def _rounded(value: float | None) -> float | None:
    """Round a number to four significant digits, to keep the page small; return None for NaN and infinity."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")
