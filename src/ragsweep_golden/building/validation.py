"""Reject questions whose passage does not contain the answer verbatim, by its words or by similarity."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.words import is_syllabic, words
from ragsweep.golden.golden_format import REJECTED
from ragsweep.parts.languages import STOP_WORDS, fold
from ragsweep_golden.building.drafts import Draft
from ragsweep_golden.gates.subject import is_verbatim
from ragsweep_golden.sets.entries import METHODS, VALIDATED

Embed = Callable[[Sequence[str]], NDArray[np.float32]]
"""Embeds texts as unit vectors; NaN for empty ones."""

SHORTEST_WORD = 4
"""Fewest characters of a word of an answer that is searched for."""
COMPARED = 512
"""Characters at the start of the passage that are compared with the answer by similarity."""


def validate(drafts: Sequence[Draft], passages: Sequence[str], embed: Embed | None) -> list[Draft]:
    """Validate answerable drafts; the method is the first to succeed of verbatim, keywords and similarity.

    Args:
        drafts: Answerable questions.
        passages: The text of the chunks of each.
        embed: Embeds texts; with None, similarity is not measured.

    Returns:
        All drafts in their order, validated or rejected.
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
            found = checked[n]
            reason = f"{found.reason}, similarity {cosine:.2f}"
            checked[n] = found.validated(REJECTED, found.method, found.score, reason)
    return checked


def _by_words(draft: Draft, passage: str) -> Draft:
    if is_verbatim(draft.answer, passage):
        return draft.validated(VALIDATED, "verbatim", 1.0)
    if invented := numbers(draft.answer) - numbers(draft.explanation or passage):
        return draft.validated(
            REJECTED, "verbatim", 0.0, f"{', '.join(sorted(invented))} is not in the quoted evidence"
        )
    coverage = keyword_coverage(draft.answer, passage, draft.language)
    if coverage >= METHODS["keywords"]:
        return draft.validated(VALIDATED, "keywords", coverage)
    reason = f"not verbatim, {coverage:.0%} of its words in the passage"
    return draft.validated(REJECTED, "keywords", coverage, reason)


def keyword_coverage(answer: str, passage: str, language: str) -> float:
    """Return the share of an answer's words (4 characters or more, no stop words) in a passage; 0 without any."""
    stop_words = STOP_WORDS[language]
    wanted = {
        word for word in _words(answer) if (len(word) >= SHORTEST_WORD or is_syllabic(word)) and word not in stop_words
    }
    return len(wanted & _words(passage)) / len(wanted) if wanted else 0.0


def numbers(text: str) -> set[str]:
    """Return the numbers of a text, which word overlap and embeddings compare poorly."""
    return set(re.findall(r"\d+(?:[.,]\d+)*", text))


def _words(text: str) -> set[str]:
    return set(words(fold(re.sub(r"[*_`]", " ", text))))
