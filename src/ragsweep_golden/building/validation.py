"""Reject questions whose passage does not contain the answer: literally, by its words, or by similarity."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ragsweep.golden.golden_format import REJECTED
from ragsweep_golden.building.drafts import Draft
from ragsweep_golden.evidence.passages import is_verbatim, keyword_coverage, numbers
from ragsweep_golden.gates.subject import Embed
from ragsweep_golden.sets.entries import METHODS, VALIDATED

COMPARED = 512  # characters at the start of the passage that are compared with the answer by similarity


def validate(drafts: Sequence[Draft], passages: Sequence[str], embed: Embed | None) -> list[Draft]:
    """Validate or reject answerable drafts by ``passages``, the text of each draft's chunks.

    The methods are verbatim, keywords and, with ``embed``, similarity; the first that succeeds is recorded. An answer
    that is not verbatim and has a number that its evidence lacks is rejected without further tests.
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
    reason = f"the answer is not verbatim, {coverage:.0%} of its words are in the passage"
    return draft.validated(REJECTED, "keywords", coverage, reason)
