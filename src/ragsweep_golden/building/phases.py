"""Build a golden set from a corpus in six phases; their results are stored, so an interrupted build can resume.

0 strata -> 1 answerable questions -> 2 unanswerable questions -> 3 validation -> 4 entries -> 5 selection.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ragsweep.core.errors import InputError
from ragsweep.core.identity import content_hash
from ragsweep.core.types import Corpus, Spans
from ragsweep.golden.golden_format import REJECTED
from ragsweep_golden.building.asking import ModelAsker
from ragsweep_golden.building.drafts import Draft, Sources, Stratum, read_draft
from ragsweep_golden.building.enrichment import enrich
from ragsweep_golden.building.extractive import draft_by_rule, read_sentences
from ragsweep_golden.building.selection import select
from ragsweep_golden.building.settings import BuildSettings
from ragsweep_golden.building.strata import documents_by_language, find_strata
from ragsweep_golden.building.unanswerable import Exhaustive, draft_unanswerable
from ragsweep_golden.evidence.passages import is_verbatim, keyword_coverage, numbers
from ragsweep_golden.gates.subject import Embed
from ragsweep_golden.sets.entries import METHODS, SHORTEST_ANSWER, SHORTEST_QUESTION, VALIDATED, is_rejected, value
from ragsweep_golden.sets.files import write_rows

PHASES = ("strata", "answerable", "unanswerable", "validation", "entries", "selection")
MOST_DOCUMENTS = 2  # maximum number of documents that may match a rule-based question (see ``specific``)
VERSION = "5"  # version of the rules: raise it if a change yields different questions for the same corpus
Row = dict[str, Any]
Documents = Mapping[str, list[int]]  # language -> indices of documents
PhaseDone = Callable[[int, list[Row], bool, list[Row]], None]


class Built(NamedTuple):
    """The chosen entries, the rejected entries, and the valid entries that were not chosen.

    Each item of ``left_out`` is the text of a question, with the reason why the question was not chosen.
    """

    entries: list[Row]
    rejected: list[Row]
    left_out: list[Row]


class PhaseFiles:
    """The results of the phases, cached in a folder; a result is reused if the inputs of its phase are unchanged.

    ``made_from`` is a hash of the build's inputs. ``done`` is called after each phase with the number of the phase, its
    rows, whether the rows were cached, and the entries of the set after this phase. ``is_whole`` is called when a phase
    has been computed; if it returns False, the result is stored as incomplete, and the next build recomputes it.
    """

    def __init__(self, folder: Path, made_from: str, done: PhaseDone, is_whole: Callable[[], bool]) -> None:
        self._folder, self._made_from, self._done, self._is_whole = folder, made_from, done, is_whole

    def run(
        self, number: int, compute: Callable[[], list[Row]], as_entries: Callable[[list[Row]], list[Row]]
    ) -> list[Row]:
        """Return the rows of a phase, read from its file or computed by ``compute``, and pass them to ``done``.

        ``as_entries`` converts the rows to the entries of the set after this phase. The rows are an input of every
        later phase. Raises InputError if the file of the phase is damaged or cannot be written.
        """
        path = self._folder / f"phase-{number}-{PHASES[number]}.jsonl"
        head = {"phase": number, "made_from": self._made_from, "whole": True}
        try:
            # not splitlines, which also splits at characters that JSON strings may contain, such as U+2028
            lines = path.read_text("utf-8").removesuffix("\n").split("\n") if path.exists() else ["{}"]
            first, *rows = map(json.loads, lines)
        except ValueError:
            raise InputError(f"{path}: damaged; delete it, and repeat the command to compute the phase again") from None
        if not (kept := first == head):
            rows = compute()
            write_rows(path, [{**head, "whole": self._is_whole()}, *rows])
        self._made_from = content_hash([self._made_from, rows])
        self._done(number, rows, kept, as_entries(rows))
        return rows


def build_set(
    corpus: Corpus,
    spans: Spans,
    settings: BuildSettings,
    files: PhaseFiles,
    embed: Embed | None,
    asker: ModelAsker | None,
) -> Built:
    """Return the golden set built from a corpus and its chunks (``spans``).

    Without ``embed``, the checks by similarity are omitted, and ``settings.clusters`` must be 0. Without ``asker``, all
    questions are made by rule. Raises ConfigError as ``find_strata`` and ``documents_by_language`` do, and InputError
    as ``PhaseFiles.run`` does.
    """
    documents = documents_by_language(corpus, settings.languages)
    strata = files.run(0, lambda: find_strata(corpus, spans, documents, settings, embed), lambda rows: [])
    stratum_of = {name: row["stratum"] for row in strata for name in row["documents"]}
    named = {row["stratum"]: Stratum(row["stratum"], row["priority"], row["chunks"], row["quota"]) for row in strata}
    sources = Sources(corpus, spans, stratum_of, named, settings.seed)

    def run(number: int, compute: Callable[[], Sequence[Draft]], earlier: Sequence[Draft] = ()) -> list[Draft]:
        rows = files.run(
            number,
            lambda: [one.as_row() for one in compute()],
            lambda rows: enrich([*earlier, *map(read_draft, rows)], sources),
        )
        return list(map(read_draft, rows))

    made = run(1, lambda: ask(sources, documents, settings, asker))
    others = run(2, lambda: ask_unanswerable(sources, documents, made, settings, asker), made)
    checked = run(3, lambda: check(made, others, sources, embed))
    entries = files.run(4, lambda: enrich(checked, sources), lambda rows: rows)
    kept = [one for one in entries if value(one, "validation", "status") == VALIDATED]

    def chosen(rows: list[Row]) -> list[Row]:
        left_out = {row["id"] for row in rows if "reason" in row}
        return [one for one in kept if one["id"] not in left_out]

    selection = files.run(5, lambda: select(kept, settings, sources, embed), chosen)
    reason_of = {row["id"]: row["reason"] for row in selection if "reason" in row}
    left_out = [{"question": one["question"], "reason": reason_of[one["id"]]} for one in kept if one["id"] in reason_of]
    return Built(chosen(selection), [one for one in entries if is_rejected(one)], left_out)


def ask(sources: Sources, documents: Documents, settings: BuildSettings, asker: ModelAsker | None) -> list[Draft]:
    """Return drafts of answerable questions: first by the model, if there is one, then by rule.

    Drafts made by rule are kept only if they are specific (see ``specific``). Drafts with a question of fewer than
    SHORTEST_QUESTION or an answer of fewer than SHORTEST_ANSWER characters are dropped. Of drafts with the same
    question, ignoring case, the first is kept.
    """
    by_model = asker.answerable(sources, settings) if asker else []
    by_rule: list[Draft] = []
    for language, indices in documents.items():
        sentences = read_sentences(sources.corpus, sources.spans, indices, language)
        by_rule += draft_by_rule(sources.corpus, sentences, language, settings.mix)
    return _distinct(
        one
        for one in [*by_model, *specific(by_rule, sources)]
        if len(one.question) >= SHORTEST_QUESTION and len(one.answer) >= SHORTEST_ANSWER
    )


def specific(drafts: Sequence[Draft], sources: Sources) -> list[Draft]:
    """Return the drafts whose questions are specific to their source.

    For a specific question, BM25 ranks a chunk with evidence of the question first, and at most MOST_DOCUMENTS
    documents have a chunk with most words of the question (see ``Exhaustive.having``).
    """
    searches = {language: Exhaustive(sources.passages, language) for language in {one.language for one in drafts}}
    ranked = sources.rank(drafts, [one.question for one in drafts])
    found = []
    for one, best in zip(drafts, ranked, strict=True):
        having = searches[one.language].having(one.question)
        documents = {sources.documents[chunk] for chunk in having}
        if best[:1] and best[0] in sources.chunks_of(one) and len(documents) <= MOST_DOCUMENTS:
            found.append(one)
    return found


def ask_unanswerable(
    sources: Sources, documents: Documents, made: Sequence[Draft], settings: BuildSettings, asker: ModelAsker | None
) -> list[Draft]:
    """Return drafts of unanswerable questions: first by the model, if there is one, then by rule.

    The rules combine templates with sentences of documents and with the drafts in ``made`` that are made by rule. Of
    drafts with the same question, ignoring case, the first is kept.
    """
    found = asker.unanswerable(sources, settings) if asker else []
    for language, indices in documents.items():
        sentences = read_sentences(sources.corpus, sources.spans, indices, language)
        by_rule = [one for one in made if one.language == language and one.generator == "rule"]
        found += draft_unanswerable(by_rule, sentences, Exhaustive(sources.passages, language), language, sources.seed)
    return _distinct(found)


def _distinct(drafts: Iterable[Draft]) -> list[Draft]:
    first: dict[str, Draft] = {}
    for one in drafts:
        first.setdefault(one.question.casefold(), one)
    return list(first.values())


def check(made: Sequence[Draft], others: Sequence[Draft], sources: Sources, embed: Embed | None) -> list[Draft]:
    """Return all drafts with the results of the validation.

    ``validate`` checks the answerable drafts in ``made`` against the chunks of their evidence. An unanswerable draft in
    ``others`` keeps its status; a draft without a status becomes validated.
    """
    accepted = [one if one.status else one.validated(VALIDATED, one.method, one.score) for one in others]
    return [*validate(made, [sources.context(one) for one in made], embed), *accepted]


COMPARED = 512  # number of characters at the start of a passage that are embedded, to compare them with the answer


def validate(drafts: Sequence[Draft], passages: Sequence[str], embed: Embed | None) -> list[Draft]:
    """Return answerable drafts as validated or rejected; ``passages`` has, for each draft, the text of its chunks.

    A draft is validated if its passage contains the answer verbatim, or enough of the answer's keywords, or, with
    ``embed``, is similar enough to the answer. The first of these methods that succeeds is recorded (see METHODS). An
    answer that is not verbatim is rejected if it has a number that is not in its evidence.
    """
    checked = [_by_words(draft, passage) for draft, passage in zip(drafts, passages, strict=True)]
    left = [n for n, draft in enumerate(checked) if draft.status == REJECTED and draft.method == "keywords"]
    if embed is None or not left:
        return checked
    answers = embed([drafts[n].answer for n in left])
    heads = embed([passages[n][:COMPARED] for n in left])
    for n, cosine in zip(left, np.einsum("ij,ij->i", answers, heads).tolist(), strict=True):
        if cosine >= METHODS["similarity"]:
            checked[n] = drafts[n].validated(VALIDATED, "similarity", cosine)
        else:
            checked[n] = replace(checked[n], reason=f"{checked[n].reason}, similarity {cosine:.2f}")
    return checked


def _by_words(draft: Draft, passage: str) -> Draft:
    if is_verbatim(draft.answer, passage):
        return draft.validated(VALIDATED, "verbatim", 1.0)
    if invented := numbers(draft.answer) - numbers(draft.explanation or passage):
        reason = f"the quoted evidence does not have {', '.join(sorted(invented))}"
        return draft.validated(REJECTED, "verbatim", 0.0, reason)
    coverage = keyword_coverage(draft.answer, passage, draft.language)
    if coverage >= METHODS["keywords"]:
        return draft.validated(VALIDATED, "keywords", coverage)
    reason = f"the answer is not verbatim; {coverage:.0%} of its words are in the passage"
    return draft.validated(REJECTED, "keywords", coverage, reason)
