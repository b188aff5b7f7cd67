"""Search all chunks for the words of a question, to check that no chunk answers it."""

import re
from collections.abc import Sequence
from functools import cached_property

from ragsweep.parts.languages import content_words, fold
from ragsweep_golden.building.wording import alternatives, word_set
from ragsweep_golden.sets.entries import LANGUAGES

ANSWERING = 0.8  # a chunk that contains at least this share of a question's content words may answer the question
FEWEST_WORDS = 2  # a question with fewer content words cannot be searched for


class Exhaustive:
    """Searches every chunk for the words of a question."""

    def __init__(self, chunks: Sequence[str], language: str) -> None:
        import Stemmer

        self._texts, self._language = [fold(chunk) for chunk in chunks], language
        self._stemmer = Stemmer.Stemmer(LANGUAGES.get(language, "english"))
        media = re.compile(alternatives("any", "media"), re.IGNORECASE)
        self.media = [bool(media.search(chunk)) for chunk in chunks]

    def _stems(self, text: str) -> frozenset[str]:
        """Return the stems of the content words of a text, except words such as "many" in "how many".

        Stems are compared, because a question and a chunk may inflect the same word differently.
        """
        words = content_words(text, self._language) - word_set("any", "asking")
        return frozenset(self._stemmer.stemWords(sorted(words)))

    @cached_property
    def words(self) -> list[frozenset[str]]:
        """The stems of each chunk's content words."""
        return [self._stems(text) for text in self._texts]

    def coverage(self, question: str) -> float:
        """Return the highest share of a question's content words in a single chunk; 0 if the question has none."""
        asked = self._stems(question)
        return max((len(asked & words) / len(asked) for words in self.words), default=0.0) if asked else 0.0

    def having(self, question: str) -> list[int]:
        """Return the indices of the chunks that contain at least the share ANSWERING of a question's content words.

        For a question with fewer than FEWEST_WORDS content words, which cannot be searched for, return the indices of
        all chunks.
        """
        asked = self._stems(question)
        if len(asked) < FEWEST_WORDS:
            return list(range(len(self.words)))
        return [n for n, words in enumerate(self.words) if len(asked & words) >= ANSWERING * len(asked)]

    def names(self, text: str) -> bool:
        """Return whether any chunk contains a text, ignoring case, accents and typographic variants of punctuation."""
        wanted = fold(text)
        return any(wanted in one for one in self._texts)

    def is_shown(self, subject: str) -> bool:
        """Return whether any chunk contains the content words of a subject and also mentions a picture or a video."""
        wanted = self._stems(subject)
        return any(shown and wanted <= words for shown, words in zip(self.media, self.words, strict=True))
