"""Build a golden set from a corpus in six resumable phases, each with its result in a file.

0 strata -> 1 answerable questions -> 2 unanswerable ones -> 3 validation -> 4 entries -> 5 the chosen set.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.identity import content_hash
from ragsweep.core.types import Corpus, Spans
from ragsweep.golden.golden_format import REJECTED
from ragsweep.parts.languages import detect_language
from ragsweep.parts.text_ranking import rank_texts
from ragsweep_golden.building.asking import ModelAsker
from ragsweep_golden.building.drafts import Draft, read_draft
from ragsweep_golden.building.enrichment import LISTED, Sources, enrich
from ragsweep_golden.building.extractive import LANGUAGES, draft_by_rule, read_sentences
from ragsweep_golden.building.selection import FAILS, WantedSet, choose, drop_copies
from ragsweep_golden.building.strata import Floats, Quotas, Stratum, allocate, cluster, folders, stratify
from ragsweep_golden.building.unanswerable import Exhaustive, draft_unanswerable
from ragsweep_golden.building.validation import COMPARED, Embed, validate
from ragsweep_golden.gates.judging import find_faulty
from ragsweep_golden.gates.subject import Subject
from ragsweep_golden.sets.entries import SHORTEST_ANSWER, SHORTEST_QUESTION, VALIDATED, value
from ragsweep_golden.sets.files import write_rows

PHASES = ("strata", "answerable", "unanswerable", "validation", "entries", "selection")
MOST_DOCUMENTS = 2
"""Most documents with a chunk that contains the words of a rule-based question."""
VERSION = "4"
"""Version of the rules: raised if the same corpus would give other questions."""

Row = dict[str, Any]


@dataclass(frozen=True)
class BuildSettings:
    """Settings of a build. ``languages``: languages of the questions; ``priorities``: stratum -> 1 to 4."""

    languages: Sequence[str]
    questions: int
    unanswerable: float
    seed: int
    clusters: int = 0
    patterns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    priorities: Mapping[str, int] = field(default_factory=dict)
    quotas: Quotas = field(default_factory=Quotas)
    mix: Mapping[str, float] = field(default_factory=dict)
    minimums: Mapping[str, int] = field(default_factory=dict)
    independent: float = 0.9


class Built(NamedTuple):
    """The chosen entries, the rejected ones, and the dropped ones: an entry's question and the reason."""

    entries: list[Row]
    rejected: list[Row]
    left_out: list[Row]


class PhaseDone(NamedTuple):
    """A completed phase: its number, its result, whether the result was cached, and the set at this point."""

    number: int
    result: list[Row]
    kept: bool
    entries: list[Row]


class PhaseFiles:
    """The cached results of the phases in a folder: a result is reused if the inputs of its phase are unchanged.

    A result is marked as complete unless ``is_whole`` returns False; an incomplete result is recomputed next time.
    """

    def __init__(
        self,
        folder: Path,
        made_from: str,
        done: Callable[[PhaseDone], None],
        is_whole: Callable[[], bool] = lambda: True,
    ) -> None:
        self._folder, self._made_from, self._done, self._is_whole = folder, made_from, done, is_whole

    def run(
        self, number: int, compute: Callable[[], list[Row]], as_entries: Callable[[list[Row]], list[Row]]
    ) -> list[Row]:
        """Return the rows of a phase, which are inputs of the later phases."""
        path = self._folder / f"phase-{number}-{PHASES[number]}.jsonl"
        head = {"phase": number, "made_from": self._made_from, "whole": True}
        rows = _read_rows(path, head)
        if kept := rows is not None:
            found = rows or []
        else:
            found = compute()
            write_rows(path, [{**head, "whole": self._is_whole()}, *found])
        self._made_from = content_hash([self._made_from, found])
        self._done(PhaseDone(number, found, kept, as_entries(found)))
        return found


def _read_rows(path: Path, head: Row) -> list[Row] | None:
    if not path.exists():
        return None
    first, *rows = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    return rows if first == head else None


def build_set(
    corpus: Corpus,
    spans: Spans,
    settings: BuildSettings,
    files: PhaseFiles,
    embed: Embed | None,
    asker: ModelAsker | None,
) -> Built:
    """Build a golden set.

    Args:
        corpus: The documents.
        spans: Their chunks.
        settings: The settings of the build.
        files: The folder of the phases' results.
        embed: Embeds texts for similarities; with None, no similarity is measured or required.
        asker: A model that generates questions; None: rules only.
    """
    documents = of_language(corpus, settings.languages)
    strata = files.run(0, lambda: find_strata(corpus, spans, documents, settings, embed), lambda rows: [])
    stratum_of = {name: row["stratum"] for row in strata for name in row["documents"]}
    named = {row["stratum"]: Stratum(row["stratum"], row["priority"], row["chunks"]) for row in strata}
    quotas = {row["stratum"]: int(row["quota"]) for row in strata}
    sources = Sources(corpus, spans, stratum_of, named, settings.seed)

    wanted = WantedSet(
        settings.questions, settings.unanswerable, quotas, settings.mix, settings.minimums, settings.seed
    )

    def entries_of(rows: list[Row]) -> list[Row]:
        drafts = _drafts(rows)
        ranked = rank(drafts, [one.question for one in drafts], sources)
        near = rank(drafts, [f"{one.question} {one.explanation}" for one in drafts], sources)
        return enrich(drafts, ranked, near, sources)

    made = files.run(1, lambda: _rows(ask(sources, documents, wanted, asker)), entries_of)
    others = files.run(
        2,
        lambda: _rows(ask_unanswerable(sources, documents, _drafts(made), wanted, asker)),
        lambda rows: entries_of([*made, *rows]),
    )
    checked = files.run(
        3,
        lambda: _rows([*check(_drafts(made), sources, embed), *map(_accept, _drafts(others))]),
        entries_of,
    )
    entries = files.run(4, lambda: entries_of(checked), lambda rows: rows)
    kept = [one for one in entries if value(one, "validation", "status") == VALIDATED]
    selection = files.run(
        5,
        lambda: select(kept, wanted, settings.independent, sources, embed),
        lambda rows: _chosen(kept, rows),
    )
    reason_of = {row["id"]: row.get("reason", "") for row in selection}
    return Built(
        _chosen(kept, selection),
        [one for one in entries if value(one, "validation", "status") == REJECTED],
        [{"question": one["question"], "reason": reason_of[one["id"]]} for one in kept if reason_of[one["id"]]],
    )


def _chosen(entries: Sequence[Row], selection: Sequence[Row]) -> list[Row]:
    left_out = {row["id"] for row in selection if "reason" in row}
    return [one for one in entries if one["id"] not in left_out]


def _rows(drafts: Sequence[Draft]) -> list[Row]:
    return [one.as_row() for one in drafts]


def _drafts(rows: Sequence[Row]) -> list[Draft]:
    return [read_draft(row) for row in rows]


# --- phase 0 -----------------------------------------------------------------------------------------------------


def of_language(corpus: Corpus, languages: Sequence[str]) -> dict[str, list[int]]:
    """Return the documents of each language. Raises ConfigError if there are none."""
    detected = [detect_language(text) for text in corpus.texts]
    if len(languages) == 1:  # the language of a short page may not be detectable
        detected = [one or languages[0] for one in detected]
    found = {one: [n for n, each in enumerate(detected) if each == one] for one in languages}
    if not any(found.values()):
        counts = ", ".join(f"{name or 'unclear'} {count}" for name, count in Counter(detected).most_common(4))
        wanted = " or ".join(languages)
        raise ConfigError(
            f"language: no document is in {wanted}; detected: {counts}; questions need {', '.join(LANGUAGES)}"
        )
    return {one: documents for one, documents in found.items() if documents}


def find_strata(
    corpus: Corpus, spans: Spans, documents: Mapping[str, list[int]], settings: BuildSettings, embed: Embed | None
) -> list[Row]:
    """Divide the documents into strata, and allocate the answerable questions to them."""
    numbers = sorted(n for each in documents.values() for n in each)
    groups = folders(corpus)
    if settings.clusters:
        assert embed is not None
        texts = [f"{corpus.titles[n]} {corpus.texts[n][:COMPARED]}" for n in numbers]
        labels = cluster(np.nan_to_num(embed(texts)), settings.clusters, settings.seed)
        groups = {corpus.ids[n]: label for n, label in zip(numbers, labels, strict=True)}
    names = stratify(groups, settings.patterns)
    chunks = np.bincount(spans.document, minlength=len(corpus.ids))
    members: dict[str, list[int]] = {}
    for n in numbers:
        members.setdefault(names[corpus.ids[n]], []).append(n)
    strata = [
        Stratum(name, settings.priorities.get(name, 2), int(chunks[inside].sum())) for name, inside in members.items()
    ]
    answerable = settings.questions - round(settings.questions * settings.unanswerable)
    quotas = allocate(strata, answerable, settings.quotas)
    return [
        {
            "stratum": one.name,
            "priority": one.priority,
            "chunks": one.chunks,
            "quota": quotas.get(one.name, 0),
            "documents": [corpus.ids[n] for n in members[one.name]],
        }
        for one in strata
    ]


# --- phases 1 and 2 ----------------------------------------------------------------------------------------------


def ask(
    sources: Sources,
    documents: Mapping[str, list[int]],
    wanted: WantedSet,
    asker: ModelAsker | None,
) -> list[Draft]:
    """Make answerable questions: by the model first, then the specific ones by rule."""
    by_model = asker.answerable(sources, wanted) if asker else []
    by_rule = [
        one
        for language, numbers in documents.items()
        for one in draft_by_rule(
            sources.corpus, read_sentences(sources.corpus, sources.spans, numbers, language), language, wanted.mix
        )
    ]
    long_enough = (
        one
        for one in [*by_model, *specific(by_rule, sources)]
        if len(one.question) >= SHORTEST_QUESTION and len(one.answer) >= SHORTEST_ANSWER
    )
    return _distinct(long_enough)


def specific(drafts: Sequence[Draft], sources: Sources) -> list[Draft]:
    """Return the drafts whose evidence BM25 ranks first and whose words occur in few documents."""
    chunks = [sources.passage(n) for n in range(len(sources.spans.document))]
    searches = {language: Exhaustive(chunks, language) for language in {one.language for one in drafts}}
    ranked = rank(drafts, [one.question for one in drafts], sources)
    found = []
    for one, best in zip(drafts, ranked, strict=True):
        having = searches[one.language].having(one.question)
        documents = {int(sources.spans.document[chunk]) for chunk in having}
        if best[:1] and best[0] in sources.chunks_of(one) and len(documents) <= MOST_DOCUMENTS:
            found.append(one)
    return found


def ask_unanswerable(
    sources: Sources,
    documents: Mapping[str, list[int]],
    made: Sequence[Draft],
    wanted: WantedSet,
    asker: ModelAsker | None,
) -> list[Draft]:
    """Make questions of the six unanswerable types, each checked against all chunks."""
    chunks = [sources.passage(n) for n in range(len(sources.spans.document))]
    found = asker.unanswerable(sources, wanted) if asker else []
    for language, numbers in documents.items():
        sentences = read_sentences(sources.corpus, sources.spans, numbers, language)
        by_rule = [one for one in made if one.language == language and one.generator == "rule"]
        found += draft_unanswerable(by_rule, sentences, Exhaustive(chunks, language), language, wanted.seed)
    return _distinct(found)


def _distinct(drafts: Iterable[Draft]) -> list[Draft]:
    """Return the first draft of each question."""
    first: dict[str, Draft] = {}
    for one in drafts:
        first.setdefault(one.question.casefold(), one)
    return list(first.values())


# --- phases 3 to 5 -----------------------------------------------------------------------------------------------


def check(drafts: Sequence[Draft], sources: Sources, embed: Embed | None) -> list[Draft]:
    """Validate the answers against the chunks of their evidence."""
    return validate(drafts, [sources.context(one) for one in drafts], embed)


def _accept(draft: Draft) -> Draft:
    """Mark an unanswerable question as validated: it was checked on creation."""
    return draft if draft.status else draft.validated(VALIDATED, draft.method, draft.score)


def rank(drafts: Sequence[Draft], texts: Sequence[str], sources: Sources) -> list[list[int]]:
    """Return the best chunks by BM25 for a text of each draft, best first."""
    chunks = [sources.passage(n) for n in range(len(sources.spans.document))]
    ranked: list[list[int]] = [[] for _ in drafts]
    for language in {one.language for one in drafts}:
        rows = [n for n, one in enumerate(drafts) if one.language == language]
        for n, best in zip(rows, rank_texts([texts[n] for n in rows], chunks, language, LISTED), strict=True):
            ranked[n] = best
    return ranked


def select(
    entries: Sequence[Row], wanted: WantedSet, independent: float, sources: Sources, embed: Embed | None
) -> list[Row]:
    """Choose the set from the entries that pass the gates; every other entry gets a reason."""
    questions: Floats | None = None
    answers: Floats | None = None
    passages: Floats | None = None
    if embed is not None:
        answers = embed([str(one.get("reference") or "") for one in entries])
        questions = embed([one["question"] for one in entries])
        passages = embed([str(value(one, "content", "passage") or "") if one["answerable"] else "" for one in entries])
    subject = Subject(entries, sources.corpus, sources.spans, questions, answers, passages)
    reason_of = {name: f"{FAILS} {why}" for name, why in find_faulty(subject).items()}
    kept, dropped = drop_copies(entries, questions, passages, independent)
    chosen = {one["id"] for one in choose([entries[n] for n in kept if entries[n]["id"] not in reason_of], wanted)}
    reason_of |= {str(one.entry["id"]): one.reason for one in dropped}
    return [
        {"id": one["id"]}
        if one["id"] in chosen
        else {"id": one["id"], "reason": reason_of.get(one["id"], "enough of its kind")}
        for one in entries
    ]
