"""Locate the texts of a question in the documents of a corpus, and quote them as evidence."""

from collections.abc import Sequence
from typing import NamedTuple

from ragsweep.core.types import Corpus
from ragsweep.core.words import search_terms, word_count
from ragsweep.golden.anchors import composed, in_order, nearest_passage, resolve, visible_text, visible_words
from ragsweep.parts.languages import detect_language
from ragsweep.parts.text_ranking import rank_texts
from ragsweep_golden.evidence.quotes import best_sentence, shortest_anchor

LEAST_SHARED = 0.6  # minimum share of a text's words in the nearest passage for a match
_CANDIDATES = 5  # best documents by BM25 that are searched for the nearest passage
_LONG = 30  # a passage of more words is quoted by its best sentence


class GivenText(NamedTuple):
    """A text that contains an answer; ``document`` is its document, if known; ``exact``: match verbatim only."""

    text: str
    document: str | None = None
    exact: bool = False


class Place(NamedTuple):
    """The location of a text, and the share of its words found there; ``others``: number of other documents with it."""

    document: int
    start: int
    end: int
    shared: float = 1.0
    others: int = 0


def locate(given: Sequence[GivenText], corpus: Corpus) -> dict[GivenText, Place]:
    """Find each text in a corpus: verbatim or, unless it must be exact, in the passage that has most of its words.

    A text that occurs in several documents is located in the first. A text is omitted if it is found neither verbatim
    nor in a passage with at least LEAST_SHARED of its words.
    """
    found: dict[GivenText, Place] = {}
    words = {one: visible_words(one.text) for one in given}
    for number, (identifier, text) in enumerate(zip(corpus.ids, corpus.texts, strict=True)):
        normal = composed(text)
        for one in words:
            if one.document in (None, identifier) and words[one] and in_order(normal, words[one]):
                places = resolve(text, one.text)
                if places and one in found:
                    found[one] = found[one]._replace(others=found[one].others + 1)
                elif places:
                    found[one] = Place(number, *places[0])
    left = [one for one in words if one not in found and not one.exact and words[one]]
    return found | _locate_nearest(left, corpus)


def _locate_nearest(given: Sequence[GivenText], corpus: Corpus) -> dict[GivenText, Place]:
    if not given:
        return {}
    code = detect_language(" ".join(one.text for one in given)[:10_000])
    ranked = rank_texts([one.text for one in given], corpus.texts, code, _CANDIDATES)
    found = {}
    for one, candidates in zip(given, ranked, strict=True):
        if one.document is not None:
            candidates = [corpus.position[one.document]] if one.document in corpus.position else []
        near = [place for number in candidates if (place := _nearest(one.text, number, corpus.texts[number]))]
        if near and (best := max(near, key=lambda place: place.shared)).shared >= LEAST_SHARED:
            found[one] = best
    return found


def _nearest(text: str, number: int, document: str) -> Place | None:
    passage = nearest_passage(document, text)
    if passage is None:
        return None
    start = passage[0]
    end = min(len(document), start + len(text))
    wanted, present = (set(search_terms(visible_text(part).casefold())) for part in (text, document[start:end]))
    return Place(number, start, end, len(wanted & present) / len(wanted)) if wanted else None


def quote(place: Place, question: str, reference: str, corpus: Corpus) -> tuple[str, int | None]:
    """Return a short anchor in a passage, and its start if the document repeats it, else None.

    If the passage contains the right answer, ``reference``, exactly once, the anchor is from there. Otherwise it is
    from the whole passage or, if this is long, from its sentence that is most similar to question and answer.
    """
    text = corpus.texts[place.document]
    start, end = place.start, place.end
    passage = text[start:end]
    if reference.strip() and passage.count(reference.strip()) == 1:
        start += passage.index(reference.strip())
        end = start + len(reference.strip())
    elif word_count(passage) > _LONG:
        code = detect_language(question) or detect_language(passage)
        start, end = best_sentence(f"{question} {reference}", text, (start, end), code) or (start, end)
    return shortest_anchor(text, start, end)
