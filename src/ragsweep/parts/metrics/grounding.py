"""Metrics that measure whether passages support an answer: the whole context, or the passages that a claim cites.

The metrics of citations follow Gao, Yen, Yu and Chen 2023, "Enabling Large Language Models to Generate Text with
Citations", except that a passage supports a claim if both share enough content words; no model is used.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ragsweep.core.missing import ABSTAINED, CONVERSATIONAL, NO_CITATIONS, NOT_JUDGED, NOTHING_SAID
from ragsweep.core.types import Answer, Case, Embedder, Floats, Judgement, PartTraits, Passage, Question
from ragsweep.core.words import words
from ragsweep.parts.languages import NAMES, content_words, detect_language, fold, script_language
from ragsweep.parts.libraries import UsesLibraries
from ragsweep.parts.metrics.bases import (
    CITATION,
    CITATIONS,
    CITED,
    AnswerMetric,
    JudgedAnswerMetric,
    batches,
    check_threshold,
    clamp,
    is_refusal,
    without_citations,
)
from ragsweep.parts.metrics.right_answers import CASES_EMBEDDED, RougeL, embed_texts
from ragsweep.parts.sentences import LANGUAGES, SentenceSplitter, sentences

_ITEM = re.compile(r"^([ \t>#*_]*)\d{1,2}[.)](?=\**[ \t]+\S)", re.MULTILINE)
"""Matches the number of a list item at the start of a line; the number is not a statement."""


class SupportMetric(AnswerMetric):
    """A metric that compares an answer's text with passages, ignoring the numbers of list items.

    Conversational questions and refusals are not scored.
    """

    uses = ("answer", "contexts")

    def _skip_reason(self, question: Question) -> str:
        return "" if question.needs_retrieval else CONVERSATIONAL

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Return the score of one answer, or the reason why it has none."""
        return ABSTAINED if is_refusal(answer) else self._score_text(_ITEM.sub(r"\1-", answer.text), passages)

    @abstractmethod
    def _score_text(self, text: str, passages: Sequence[Passage]) -> float | str:
        """Return the score of a text that is not blank, or the reason why it has none."""


class GroundingLexical(SupportMetric):
    """Proportion of the answer's distinct content words that occur in the context.

    Content words are all words except single letters and the stop words of the answer's detected language (or of
    English, if no language is detected). Case and accents are ignored. An answer without passages scores 0; an answer
    without content words is not scored.
    """

    TRAITS = PartTraits(version="5")
    name = "grounding_lexical"

    def _score_text(self, text: str, passages: Sequence[Passage]) -> float | str:
        said = content_words(without_citations(text))
        if not said:
            return NOTHING_SAID
        return len(said & frozenset().union(*(words_of(passage.text) for passage in passages))) / len(said)


class GroundingRougeL(UsesLibraries, SupportMetric):
    """Proportion of the answer's words that the context contains in the same order (ROUGE-L precision).

    The score is the length of the longest common subsequence of words, divided by the number of words in the answer
    (Lin 2004, "ROUGE"). Words are defined as in ``right_answers.RougeL``. An answer without passages scores 0; an
    answer without words is not scored.
    """

    TRAITS = PartTraits(version="4")
    LIBRARIES = ("rouge-score",)
    name = "grounding_rouge_l"

    def __init__(self) -> None:
        self._rouge = RougeL()

    def _score_text(self, text: str, passages: Sequence[Passage]) -> float | str:
        said = without_citations(text)
        if not self._rouge.tokenize(fold(said)):
            return NOTHING_SAID
        context = "\n".join(passage.text for passage in passages)
        return clamp(self._rouge.overlap(said, context).precision, self.bounds)


class SentenceMetric(SentenceSplitter, JudgedAnswerMetric, SupportMetric):
    """A metric that judges an answer sentence by sentence; an answer without passages scores 0."""

    def _score_text(self, text: str, passages: Sequence[Passage]) -> float | str:
        return NOT_JUDGED if passages else 0.0


class GroundingSemantic(SentenceMetric):
    """Proportion of the answer's sentences that are similar to at least one sentence of the context.

    Two sentences are similar if the cosine of their embeddings is at least ``threshold``. The embedder may truncate
    long sentences. An answer without passages scores 0; refusals and answers without sentences are not scored.
    """

    TRAITS = PartTraits(version="4", skips_abstained=True)
    name = "grounding_semantic"

    def __init__(self, embedder: Embedder, threshold: float = 0.7) -> None:
        self.embedder = embedder
        self.threshold = check_threshold(threshold, self.name)

    def judge(self, cases: Sequence[Case], done: Callable[[int, Judgement], None]) -> None:
        """Judge each case by the proportion of the answer's sentences that resemble a sentence of the context."""
        for batch in batches(cases, CASES_EMBEDDED):
            answers = {n: sentences_of(without_citations(case.answer)) for n, case in batch}
            contexts = {n: [sentence for text in case.contexts for sentence in sentences_of(text)] for n, case in batch}
            vectors = embed_texts(self.embedder, [text for n in answers for text in (*answers[n], *contexts[n])])
            for n in answers:
                done(n, self._judge_case(answers[n], contexts[n], vectors))

    def _judge_case(self, answer: Sequence[str], context: Sequence[str], vectors: Mapping[str, Floats]) -> Judgement:
        if not answer:
            return Judgement(reason=NOTHING_SAID)
        if not context:
            return Judgement(0.0)
        cosines = np.stack([vectors[text] for text in answer]) @ np.stack([vectors[text] for text in context]).T
        return Judgement(float(np.mean(cosines.max(axis=1) >= self.threshold)))


@lru_cache(maxsize=1 << 12)
def words_of(text: str) -> frozenset[str]:
    """Return the distinct words of a text in lower case, without accents."""
    return frozenset(words(fold(text)))


def sentences_of(text: str, language: str = "") -> list[str]:
    """Return the stripped sentences of a text, except those without words.

    The text is split by the rules of ``language``, a code in NAMES; if ``language`` is empty, the language is detected.
    English rules apply to languages without rules.
    """
    name = NAMES.get(language or detect_language(text) or script_language(text), "")
    pieces = sentences(text, name if name in LANGUAGES else "english")
    return [text[start:end].strip() for start, end in pieces if words(text[start:end])]


CITED_AFTER_STOP = re.compile(rf"([.!?…]+[\"'\u201d\u2019»)*_~]*)((?:{CITATION})+)")
"""Matches the punctuation that ends a sentence, with Markdown emphasis (group 1), and the citations after it (group 2).

The citations belong to the sentence that the punctuation ends.
"""


_FOOTNOTE = re.compile(r"^[ \t]*\[\^\d{1,3}\]:.*", re.MULTILINE)
"""Matches the text of a Markdown footnote; it describes the cited passage and is not a claim."""


class CitedClaim(NamedTuple):
    """A claim (see CitationsCorrect): its content words, and the distinct numbers of the passages that it cites."""

    words: frozenset[str]
    cited: tuple[int, ...]


class CitationsCorrect(SentenceSplitter, SupportMetric):
    """Proportion of the answer's citations whose passage exists and contains the content words of the citing claim.

    A claim is a sentence, or a part of a sentence: a sentence with several groups of citations is split after each
    group. The passage must contain at least the proportion ``threshold`` of the claim's content words; if the claim has
    no content words, it is enough that the passage exists. An answer without citations, a refusal, and the answer to a
    conversational question are not scored.
    """

    TRAITS = PartTraits(version="7")
    name = "citations_correct"
    _unscored = NO_CITATIONS

    def __init__(self, threshold: float = 0.5) -> None:
        self.threshold = check_threshold(threshold, self.name)

    def _score_text(self, text: str, passages: Sequence[Passage]) -> float | str:
        checked = self._checked(text)
        if not checked:
            return self._unscored
        return sum(supports(claim, passages, self.threshold) for claim in checked) / len(checked)

    def _checked(self, text: str) -> list[CitedClaim]:
        return [CitedClaim(claim.words, (n,)) for claim in claims(text) for n in claim.cited]


class CitationRecall(CitationsCorrect):
    """Proportion of the answer's claims whose content words occur in the passages that they cite.

    Claims and ``threshold`` are defined as in CitationsCorrect, but the passages that a claim cites are taken together.
    Claims without content words are ignored; an answer in which all claims are ignored is not scored. Claims without
    citations count as unsupported.
    """

    TRAITS = PartTraits(version="7")
    name = "citation_recall"
    _unscored = NOTHING_SAID

    def _checked(self, text: str) -> list[CitedClaim]:
        return [claim for claim in claims(text) if claim.words]


def claims(text: str) -> list[CitedClaim]:
    """Return the claims of an answer in order, each with the numbers (from 1) of the passages that it cites."""
    moved = CITED_AFTER_STOP.sub(r"\2\1", _FOOTNOTE.sub("", text))
    language = detect_language(without_citations(text))
    result = []
    for sentence in sentences_of(moved, language):
        for part in _split_after_citations(sentence):
            found = [pair for match in CITATIONS.finditer(part) for pair in CITED.findall(match[2] or "")]
            cited = dict.fromkeys(n for first, last in found for n in range(int(first), int(last or first) + 1))
            result.append(CitedClaim(content_words(without_citations(part), language), tuple(cited)))
    return result


def supports(claim: CitedClaim, passages: Sequence[Passage], threshold: float) -> bool:
    """Return whether the cited passages contain at least the proportion ``threshold`` of the claim's content words.

    The passages are taken together. Citations of missing passages are ignored. If the claim cites no existing
    passage, return False; otherwise, a claim without content words counts as supported.
    """
    texts = [words_of(passages[n - 1].text) for n in claim.cited if 1 <= n <= len(passages)]
    return bool(texts) and len(claim.words & frozenset().union(*texts)) >= threshold * len(claim.words)


def _split_after_citations(sentence: str) -> list[str]:
    """Split a sentence after each group of citations, and add the text after the last group to the last part.

    Citations without words between them form one group. A sentence without citations is returned whole.
    """
    ends: list[int] = []
    for match in CITATIONS.finditer(sentence):
        if match[2]:
            is_apart = not ends or words(sentence[ends[-1] : match.start()])
            ends[len(ends) if is_apart else -1 :] = [match.end()]
    starts = [0, *ends[:-1]]
    return [sentence[start:end] for start, end in zip(starts, [*starts[1:], len(sentence)], strict=True)]
