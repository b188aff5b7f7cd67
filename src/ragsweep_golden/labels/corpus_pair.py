"""Compare the current corpus with an earlier version, and search the documents of both for anchors."""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ragsweep.core.types import Corpus, Evidence
from ragsweep.golden.anchors import Span, canonical, composed, in_order, resolve, visible_words
from ragsweep_golden.evidence.passages import SENTENCE_END

_SUCCESSORS = 3  # maximum number of added documents that are searched for a passage missing from its document


class SearchableText(NamedTuple):
    """A document: its id, its text, and its text in composed characters (searched first by ``occurrences``)."""

    name: str
    text: str
    composed: str


@dataclass(frozen=True, eq=False)
class CorpusPair:
    """The current corpus (``new``), and the corpus for which the labels were written (``old``), if it is given."""

    new: Corpus
    old: Corpus | None

    @cached_property
    def renamed(self) -> dict[str, str]:
        """Old id -> new id of each document that the new corpus lacks, if exactly one added document has its text."""
        if self.old is None:
            return {}
        after = defaultdict(list)
        for name, text in zip(self.new.ids, self.new.texts, strict=True):
            if name not in self.old.position:
                after[canonical(text)].append(name)
        gone = [name for name in self.old.ids if name not in self.new.position]
        found = {name: after.get(canonical(text_of(self.old, name) or ""), []) for name in gone}
        return {name: names[0] for name, names in found.items() if len(names) == 1}

    @cached_property
    def arrived(self) -> dict[str, list[str]]:
        """Sentence -> the added documents that contain the sentence; {} if ``old`` is None."""
        found = defaultdict(list)
        for name, text in zip(self.new.ids, self.new.texts, strict=True):
            if self.old and name not in self.old.position:
                for sentence in sentences_of(text):
                    found[sentence].append(name)
        return found

    @cached_property
    def candidates(self) -> list[SearchableText]:
        """The new and changed documents, to which a passage may have moved; all documents if there is no old corpus."""
        return searchable(self.new, self.old)

    @cached_property
    def before(self) -> list[SearchableText]:
        """All documents of the old corpus, which is required."""
        assert self.old is not None
        return searchable(self.old, None)

    def successors(self, document: str) -> list[str]:
        """Return up to _SUCCESSORS added documents that share sentences with an old document, best match first."""
        sentences = sentences_of(text_of(self.old, document) or "")
        shared = Counter(name for sentence in sentences for name in self.arrived.get(sentence, ()))
        return [name for name, _ in shared.most_common(_SUCCESSORS)]


def text_of(corpus: Corpus | None, document: str) -> str | None:
    """Return the text of a document; None if ``corpus`` is None or lacks the document."""
    return None if corpus is None or document not in corpus.position else corpus.texts[corpus.position[document]]


def searchable(corpus: Corpus, other: Corpus | None) -> list[SearchableText]:
    """Return the documents of ``corpus`` that are missing or different in ``other``; all if ``other`` is None."""
    pairs = zip(corpus.ids, corpus.texts, strict=True)
    return [SearchableText(name, text, composed(text)) for name, text in pairs if text_of(other, name) != text]


def sentences_of(text: str) -> set[str]:
    """Return the distinct sentences of ``text`` in canonical form (see ``canonical``), without blank sentences."""
    return {canonical(sentence) for sentence in SENTENCE_END.split(text) if sentence.strip()}


def occurrences(texts: Sequence[SearchableText], excluded: str, anchor: str) -> Iterator[tuple[SearchableText, Span]]:
    """Yield (document, span) for each occurrence of an anchor in the given documents except ``excluded``."""
    words = visible_words(anchor)
    longest = max(words, key=len, default="")  # a search for this word is cheap, and rules out most documents
    for one in texts:
        if one.name != excluded and longest in one.composed and in_order(one.composed, words):
            yield from ((one, span) for span in resolve(one.text, anchor))


def re_encoded(label: Evidence, spans: Iterable[Span], text: str, before: str | None) -> Span | None:
    """Return the span that begins at the label's start, counted with other white space or in another Unicode form.

    Return None if no span does. ``before`` is the document's text in the old corpus; None if it is unknown.
    """
    if label.start is None:
        return None
    if before is not None:
        same = canonical(text) == canonical(before)
        start = len(canonical(before[: label.start]))
        return next((span for span in spans if same and len(canonical(text[: span[0]])) == start), None)
    for span in spans:
        head = text[: span[0]]
        for lines in (head, head.replace("\r\n", "\n"), head.replace("\n", "\r\n"), canonical(head)):
            if label.start in {len(unicodedata.normalize(form, lines)) for form in ("NFC", "NFD")}:
                return span
    return None
