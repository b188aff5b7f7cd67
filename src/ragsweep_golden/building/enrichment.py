"""Convert drafts to entries, with all fields of the schema that can be filled."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from ragsweep.core.identity import content_hash
from ragsweep.core.types import Evidence, Question
from ragsweep.golden.golden_set import chance
from ragsweep.golden.markdown import headings
from ragsweep.parts.languages import content_words
from ragsweep.parts.metrics.right_answers import keyword_coverage
from ragsweep_golden.building.drafts import Draft, Sources
from ragsweep_golden.evidence.passages import lexical_overlap, numbers
from ragsweep_golden.evidence.quotes import shortest_anchor
from ragsweep_golden.sets.entries import SCHEMA_VERSION, as_label, is_filled

CHOICES = 4
DISTRACTORS = 3
DEEPEST = 20  # BM25 rank of a passage, from 0, beyond which the difficulty does not rise further
KEYWORDS = 5

_ARTICLE = re.compile(r"^(?:article|section|art\.|§|chapter|chapitre)?\s*(\d+(?:\.\d+)*)\b[.:)]?\s", re.IGNORECASE)
_CHOOSE = {"en": "Which of these is right?", "fr": "Laquelle de ces réponses est juste ?"}


def difficulty(overlap: float, rank: int) -> float:
    """Return a question's difficulty from 0 to 1: half from its words, half from the rank of its passage.

    ``overlap`` is the share of the question's words that the passage contains; a lower share raises the difficulty.
    ``rank`` is the rank of the passage by BM25, from 0; a higher number raises the difficulty, up to DEEPEST.
    """
    return 0.5 * (1 - overlap) + 0.5 * min(rank, DEEPEST) / DEEPEST


def enrich(drafts: Sequence[Draft], sources: Sources) -> list[dict[str, Any]]:
    """Return an entry for each draft, in order; an entry of a rejected draft has the validation status "rejected".

    Difficulties are computed from a BM25 ranking of the chunks for the question alone. Distractors are chosen from a
    ranking for the question together with its evidence.
    """
    ranked = sources.rank(drafts, [one.question for one in drafts])
    near = sources.rank(drafts, [f"{one.question} {one.explanation}" for one in drafts])
    by_language: dict[str, list[Draft]] = {}
    for draft in drafts:
        by_language.setdefault(draft.language, []).append(draft)
    return [
        _entry(draft, chunks, alike, by_language[draft.language], sources)
        for draft, chunks, alike in zip(drafts, ranked, near, strict=True)
    ]


def _entry(
    draft: Draft, ranked: list[int], near: Sequence[int], alike: Sequence[Draft], sources: Sources
) -> dict[str, Any]:
    corpus, own = sources.corpus, sources.chunks_of(draft)
    passage = sources.context(draft)
    overlap = lexical_overlap(draft.question, passage, draft.language)
    evidence = [
        as_label(Evidence(corpus.ids[document], *shortest_anchor(corpus.texts[document], start, end)))
        for document, start, end in draft.evidence
    ]
    entry: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "id": content_hash([draft.question, draft.language, evidence])[:16],
        "question": draft.question,
        "answerable": draft.answerable,
        "unanswerable_type": draft.unanswerable_type or None,
        "category": draft.question_type if draft.answerable else "unanswerable",
        "language": draft.language,
        "reference": draft.answer or None,
        "keywords": _keywords(draft),
        "evidence": evidence,
        "distractors": _distractors(near, own, sources),
        "content": {"passage": passage, "explanation": draft.explanation, "answer_type": _answer_type(draft)},
        "multiple_choice": _choices(draft, alike, sources.seed),
        "provenance": _provenance(draft, own, evidence, sources),
        "classification": _classification(draft, ranked, own, overlap, sources),
        "validation": {
            "status": draft.status,
            "method": draft.method,
            "score": draft.score,
            "answer_in_evidence": draft.method == "verbatim" if draft.answerable else None,
            "corpus_digest": corpus.digest,
        },
        "processing": {
            "generator": draft.generator,
            "pattern": draft.pattern,
            "seed": sources.seed,
            "by_design": draft.chunk is not None,
            "lexical_overlap": round(overlap, 6),
        },
        "audit": {"status": "silver", "created_by": "ragsweep golden build", "reviews": []},
    }
    if not draft.answerable or draft.reason:
        entry["notes"] = draft.reason or draft.checked
    return _without_empty(entry)


def _without_empty(entry: dict[str, Any]) -> dict[str, Any]:
    groups = {name: _without_empty(given) if isinstance(given, dict) else given for name, given in entry.items()}
    return {name: given for name, given in groups.items() if is_filled(given)}


def _keywords(draft: Draft) -> list[str]:
    """Return the longest content words and numbers of the answer, at most KEYWORDS, in the order of the answer.

    Parts of numbers, such as ``500`` of ``12,500``, are left out, because ``keyword_coverage`` does not find them.
    """

    def is_found(word: str) -> bool:
        asked = Question("", "", keywords=(word,), labels={"language": draft.language})
        return keyword_coverage(asked, draft.answer, "word", "label") == 1

    written = numbers(draft.answer)
    negative = {f"-{number}" for number in written if not is_found(number)}
    found = filter(is_found, content_words(draft.answer, draft.language) | written | negative)
    longest = sorted(found, key=lambda word: (-len(word), word))[:KEYWORDS]
    return sorted(longest, key=lambda word: (draft.answer.casefold().find(word), word))


def _distractors(near: Sequence[int], own: Sequence[int], sources: Sources) -> list[str]:
    """Return the ids of up to DISTRACTORS documents that do not contain the evidence of a question.

    ``near`` are the best chunks by BM25 for the question and its evidence, and ``own`` are the chunks with the
    evidence. The distractors are the documents of the chunks in ``near`` or, if all of those contain evidence, other
    documents of the same strata.
    """
    right = {sources.documents[chunk] for chunk in own}
    documents = list(dict.fromkeys(sources.documents[chunk] for chunk in near))
    if right.issuperset(documents):
        strata = [sources.stratum_of.get(name) for name in sources.corpus.ids]
        documents = [n for n, one in enumerate(strata) if one in {strata[each] for each in right} and one]
    return [sources.corpus.ids[one] for one in documents if one not in right][:DISTRACTORS]


def _answer_type(draft: Draft) -> str:
    if not draft.answerable:
        return "none"
    if len(draft.answer.splitlines()) > 1:
        return "list"
    return "number" if re.fullmatch(r"[\d.,%\s]+", draft.answer) else "code" if "`" in draft.answer else "text"


def _choices(draft: Draft, alike: Sequence[Draft], seed: int) -> dict[str, Any] | None:
    """Return the multiple-choice form of a question; None if the question is unanswerable or has no wrong choices.

    The wrong choices are right answers to questions in ``alike`` about other documents; answers of the same question
    type and of similar length are preferred.
    """
    if not draft.answerable:
        return None
    others = {one.answer: one.question_type for one in alike if one.answer and one.document != draft.document}
    others.pop(draft.answer, None)

    def distance(text: str) -> tuple[bool, int, str]:
        return others[text] != draft.question_type, abs(len(text) - len(draft.answer)), text

    near = sorted(others, key=distance)[: 3 * CHOICES]
    wrong = sorted(near, key=lambda text: chance(seed, draft.question + text))[: CHOICES - 1]
    if not wrong:
        return None
    choices = sorted([draft.answer, *wrong], key=lambda text: chance(seed, f"{draft.question}\n{text}"))
    question = f"{draft.question} {_CHOOSE[draft.language]}"
    return {"question": question, "choices": choices, "correct": choices.index(draft.answer), "answer": draft.answer}


def _provenance(
    draft: Draft, own: Sequence[int], evidence: Sequence[Mapping[str, Any]], sources: Sources
) -> dict[str, Any] | None:
    if draft.document is None or not own:
        return None
    text, chunk = sources.corpus.texts[draft.document], own[0]
    passage = (draft.document, int(sources.spans.start[chunk]), int(sources.spans.end[chunk]))
    _, start, end = draft.evidence[0] if draft.evidence else passage
    name = sources.corpus.ids[draft.document]
    section = next((one.text for one in reversed(list(headings(text))) if one.start <= start), "")
    section = section.split("{")[0].strip() or sources.corpus.titles[draft.document] or name
    article, starts = _ARTICLE.match(f"{section} "), sources.corpus.page_starts.get(name, ())
    return {
        "document": name,
        "chunk_id": sources.chunk_id(chunk),
        "start": passage[1],
        "end": passage[2],
        "anchor": evidence[0]["anchor"] if evidence else None,
        "section": section,
        "pages": list(range(bisect_right(starts, start), bisect_left(starts, end) + 1)) if starts else [],
        "article": article[1] if article else None,
    }


def _classification(
    draft: Draft, ranked: list[int], own: Sequence[int], overlap: float, sources: Sources
) -> dict[str, Any]:
    stratum = None if draft.document is None else sources.stratum_of[sources.corpus.ids[draft.document]]
    rank = next((n for n, chunk in enumerate(ranked) if chunk in own), DEEPEST)
    found: dict[str, Any] = {
        "question_type": draft.question_type,
        "bloom": draft.bloom,
        "reasoning_class": draft.reasoning_class,
        "stratum": stratum,
        "priority": sources.strata[stratum].priority if stratum else None,
    }
    if draft.answerable:
        hard = round(difficulty(overlap, rank), 6)
        found |= {"difficulty": hard, "difficulty_method": "half unshared words, half BM25 rank"}
    return found
