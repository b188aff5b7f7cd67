"""Metrics of whether the context supports an answer, computed from words or from sentence embeddings."""

import importlib.metadata
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from ragsweep.core.missing import ABSTAINED, CONVERSATIONAL, NOT_JUDGED, NOTHING_SAID
from ragsweep.core.types import Answer, Case, Embedder, Floats, Judgement, PartTraits, Passage, Question
from ragsweep.core.words import words
from ragsweep.parts.languages import NAMES, content_words, detect_language, fold, script_language
from ragsweep.parts.metrics.bases import (
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


class SupportMetric(AnswerMetric):
    """A metric that compares an answer's text with passages; conversational questions and refusals are not scored."""

    uses = ("answer", "contexts")

    def _skip_reason(self, question: Question) -> str:
        return "" if question.needs_retrieval else CONVERSATIONAL

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Return the score of one answer, or the reason why it has none."""
        return ABSTAINED if is_refusal(answer) else self._score_text(answer.text, passages)

    @abstractmethod
    def _score_text(self, text: str, passages: Sequence[Passage]) -> float | str:
        """Return the score of a text that is not blank, or the reason why it has none."""


class GroundingLexical(SupportMetric):
    """Proportion of the answer's distinct content words that occur in the context.

    Content words are all words except single letters and the stop words of the answer's detected language (of English
    if no language is detected). Case and accents are ignored. An answer without passages scores 0; an answer without
    content words is not scored.
    """

    TRAITS = PartTraits(version="3")
    name = "grounding_lexical"

    def _score_text(self, text: str, passages: Sequence[Passage]) -> float | str:
        said = content_words(without_citations(text))
        if not said:
            return NOTHING_SAID
        return len(said & frozenset().union(*(words_of(passage.text) for passage in passages))) / len(said)


class GroundingRougeL(SupportMetric):
    """Proportion of the answer's words that the context contains in the same order (ROUGE-L precision).

    The score is the length of the longest common subsequence of words, divided by the number of words in the answer
    (Lin 2004, "ROUGE"). Words are defined as in ``right_answers.RougeL``. An answer without passages scores 0; an
    answer without words is not scored.
    """

    TRAITS = PartTraits(version="2")
    name = "grounding_rouge_l"

    def __init__(self) -> None:
        self._rouge = RougeL()

    def fingerprint(self) -> Mapping[str, str]:
        """Return the version of the library that computes ROUGE-L."""
        return {"rouge-score": importlib.metadata.version("rouge-score")}

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

    TRAITS = PartTraits(version="2", skips_abstained=True)
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
    """Return the sentences of a text that contain words, stripped.

    The text is split by the rules of its language, a code in NAMES; if this is empty, it is detected. English rules
    apply to languages without rules.
    """
    name = NAMES.get(language or detect_language(text) or script_language(text), "")
    pieces = sentences(text, name if name in LANGUAGES else "english")
    return [text[start:end].strip() for start, end in pieces if words(text[start:end])]
