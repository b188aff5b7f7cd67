"""Metrics that compare an answer with right answers (by ROUGE-L, BLEU or embeddings) or with keywords.

ContextSimilarity, also based on embeddings, compares a question with its context.
"""

import re
import unicodedata
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np

from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.foreign_results import embed_checked, embed_queries_checked
from ragsweep.core.missing import CONVERSATIONAL, NO_KEYWORDS, NOT_JUDGED, UNANSWERABLE
from ragsweep.core.types import (
    Answer,
    Case,
    Embedder,
    EvaluationView,
    Floats,
    Judgement,
    PartTraits,
    Passage,
    Question,
    Scores,
)
from ragsweep.core.words import pattern, spaced, without_soft_hyphens, words
from ragsweep.parts.languages import NAMES, STOP_WORDS, fold, language_code
from ragsweep.parts.libraries import UsesLibraries
from ragsweep.parts.metrics.bases import (
    AnswerMetric,
    JudgedAnswerMetric,
    Proportion,
    answer_text,
    batches,
    clamp,
    is_refusal,
    judgements,
    reason_incomparable,
    spoken_language,
    to_scores,
    without_citations,
)
from ragsweep.parts.metrics.numerals import unbroken
from ragsweep.parts.unit_vectors import unit


class _Overlap(UsesLibraries, AnswerMetric):
    """Base class of metrics that compare an answer with each right answer; the highest score counts.

    A refusal scores 0. Unanswerable questions, and questions without a right answer, are not scored.
    """

    LIBRARIES = ("rouge-score", "sacrebleu")
    needs = ("answer", "reference")

    def _skip_reason(self, question: Question) -> str:
        return reason_incomparable(question)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        text, right_answers = composed(answer_text(answer, question.expected)), map(composed, question.expected)
        if not text:
            return 0.0
        return max(1.0 if text == right else self._compare(text, right) for right in right_answers)

    @abstractmethod
    def _compare(self, text: str, right: str) -> float:
        """Return the score of an answer against a right answer; equal strings are not passed to this method."""


def composed(text: str) -> str:
    """Return a stripped text in Unicode's composed form (NFC), in which an accented letter has only one encoding."""
    return unicodedata.normalize("NFC", text.strip())


class RougeL(_Overlap):
    """F-measure of the longest common subsequence of word stems in the answer and a right answer (Lin 2004, "ROUGE").

    If there are several right answers, the best score counts. Accents are removed first, and words in ASCII are reduced
    to English stems. Words with letters other than ``a`` to ``z`` bypass the tokenizer of rouge_score, because it drops
    these letters. A refusal scores 0. Unanswerable questions, and questions without a right answer, are not scored.
    """

    TRAITS = PartTraits(version="5")
    name = "rouge_l"

    def _compare(self, text: str, right: str) -> float:
        return clamp(self.overlap(text, right).fmeasure, (0.0, 1.0))

    def overlap(self, text: str, other: str) -> Any:
        """Return the ROUGE-L scores of two texts, as a ``Score`` of rouge_score.

        ``precision`` is relative to the words of ``text``, and ``recall`` to the words of ``other``; ``fmeasure`` is
        the harmonic mean of the two scores.
        """
        return self._scorer.score(fold(other), fold(text))["rougeL"]

    def tokenize(self, text: str) -> list[str]:
        """Return the words of a case-folded text; words in ASCII are stemmed by rouge_score, others unchanged."""
        parts = words(text.replace("_", " "))
        return [one for part in parts for one in (self._english.tokenize(part) if part.isascii() else [part])]

    @cached_property
    def _scorer(self) -> Any:
        from rouge_score.rouge_scorer import RougeScorer

        return RougeScorer(["rougeL"], tokenizer=self)

    @cached_property
    def _english(self) -> Any:
        from rouge_score.tokenizers import DefaultTokenizer

        return DefaultTokenizer(use_stemmer=True)


class Bleu(_Overlap):
    """BLEU of one answer (Papineni et al. 2002), with n-grams of up to 4 tokens, or fewer if the answer is shorter.

    If there are several right answers, the best score counts. Texts are split by sacrebleu's tokenizer ``13a``, but
    each character is a token in Hangul and in scripts without spaces. A refusal scores 0. Unanswerable questions, and
    questions without a right answer, are not scored.
    """

    TRAITS = PartTraits(version="4")
    name = "bleu"

    def _compare(self, text: str, right: str) -> float:
        from sacrebleu import sentence_bleu

        score = sentence_bleu(spaced(text), [spaced(right)], use_effective_order=True).score
        return clamp(score / 100, (0.0, 1.0))


Match = Literal["word", "substring", "stem"]

_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,3})(?=\S)([^*\n]+)(?<=\S)\1(?![\w*])")
"""Matches emphasis in Markdown (group 2: the text), but not the asterisks of ``x**2``."""


class KeywordCoverage(AnswerMetric):
    """Proportion of the question's keywords that the answer contains.

    Case, accents and the forms of apostrophes and hyphens are ignored. ``match`` determines whether whole words
    ("word"), substrings ("substring") or word stems ("stem") are compared; a number such as ``12,500`` is one word.
    ``language`` determines the stems and the form of numbers. "label" selects the question's label ``language``; if
    this label is missing or unknown, the language is detected, with English as the default. A refusal of an answerable
    question scores 0. Unanswerable questions, and questions without keywords, are not scored.
    """

    TRAITS = PartTraits(version="9")
    name = "keyword_coverage"
    needs = ("answer", "keywords")

    def __init__(self, match: Match = "word", language: str = "label") -> None:
        self.match = match
        self.language = language
        if language != "label" and not language_code(language):
            suggestion = nearest(language, ["label", *map(NAMES.__getitem__, STOP_WORDS)])
            raise ConfigError(f"metrics.{self.name}.language is {language!r}{suggestion}")

    def _skip_reason(self, question: Question) -> str:
        if not question.answerable:
            return UNANSWERABLE
        if question.keywords:
            return ""
        return NO_KEYWORDS if question.needs_retrieval else CONVERSATIONAL

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Return the proportion of the keywords that the answer contains; 0 for a refusal."""
        return keyword_coverage(question, answer_text(answer, question.keywords), self.match, self.language)


def keyword_coverage(question: Question, text: str, match: Match, language: str) -> float:
    """Return the proportion of a question's keywords (at least one) in a text; for the options, see KeywordCoverage."""
    text = text if any("*" in one for one in question.keywords) else _EMPHASIS.sub(r"\2", text)
    keywords = [keyword for keyword in question.keywords if fold(keyword).strip()]
    found = sum(mark.strip() in text for mark in question.keywords if mark not in keywords)  # keywords that fold to ""
    if match == "substring":
        folded = fold(text)
        return (found + sum(bool(_pattern(one, match).search(folded)) for one in keywords)) / len(question.keywords)
    code = language_code(question.labels.get("language", "") if language == "label" else language)
    code = code or spoken_language(" ".join([question.text, *question.expected])) or "en"
    notation = "french" if code == "fr" else "english"
    for keyword in keywords:
        said = unbroken(text, keyword, notation)
        forms = {keyword, unbroken(keyword, keyword, notation)}  # "3.8" is found in both "3,8" and "3.8.1"
        if match == "stem":
            found += any(_stems(one, code) in _stems(said, code) for one in forms)
        else:
            found += any(_pattern(one, match).search(fold(said)) for one in forms)
    return found / len(question.keywords)


@lru_cache(maxsize=1 << 14)
def _stems(text: str, code: str) -> str:
    """Return a text's punctuation marks and folded word stems in the language ``code``, with spaces around each."""
    import Stemmer

    tokens = pattern("token").findall(unicodedata.normalize("NFC", without_soft_hyphens(text)).lower())
    return f" {' '.join(map(fold, Stemmer.Stemmer(NAMES[code]).stemWords(tokens)))} "


@lru_cache(maxsize=1 << 14)
def _pattern(keyword: str, match: Match) -> re.Pattern[str]:
    """Return the pattern that matches a keyword in a folded text.

    Unless ``match`` is "substring", the match must begin and end at a word boundary. No boundary is required where the
    first or last character of the keyword is a symbol (as in ``-(x+1)``) or belongs to Hangul or a script without
    spaces. A letter at the end of the keyword does not match the same letter with a further mark.
    """
    folded, letter = fold(keyword).strip(), pattern("letter")
    expression = r"\s+".join(map(re.escape, folded.split()))
    if folded[-1:].isalnum() or pattern("mark").fullmatch(folded[-1:]):
        expression += rf"(?!{pattern('mark').pattern})"
    if match == "substring":
        return re.compile(expression)
    begin = rf"(?<!{letter.pattern})" if letter.match(folded) else ""
    end = rf"(?!{letter.pattern})" if letter.fullmatch(folded[-1:]) else ""
    return re.compile(f"{begin}{expression}{end}")


CASES_EMBEDDED = 32
"""Number of cases in a batch; judgements are stored after each batch."""


class SemanticSimilarity(JudgedAnswerMetric):
    """Cosine between the embeddings of the answer and of the first right answer.

    A refusal of an answerable question scores 0. Unanswerable and conversational questions, and questions without a
    right answer, are not scored. The embedder may truncate long texts.
    """

    TRAITS = PartTraits(version="4", skips_abstained=True)
    name = "semantic_similarity"
    needs = ("answer", "reference")
    bounds = (-1.0, 1.0)
    uses = ("answer", "reference")

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder

    def judge(self, cases: Sequence[Case], done: Callable[[int, Judgement], None]) -> None:
        """Judge each case by the cosine between its answer and its reference; equal texts score 1."""
        for batch in batches(cases, CASES_EMBEDDED):
            texts = {n: (without_citations(case.answer, [case.reference]), case.reference) for n, case in batch}
            pairs = {n: (composed(answer), composed(reference)) for n, (answer, reference) in texts.items()}
            vectors = embed_texts(self.embedder, [text for pair in pairs.values() for text in pair])
            for n, (answer, reference) in pairs.items():
                done(n, Judgement(1.0 if answer == reference else float(vectors[answer] @ vectors[reference])))

    def _skip_reason(self, question: Question) -> str:
        return reason_incomparable(question) if question.needs_retrieval else CONVERSATIONAL

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Return 0.0 for a refusal; other answers are judged."""
        return 0.0 if is_refusal(answer) else NOT_JUDGED


class ContextSimilarity(Proportion):
    """Mean, over the chunks of the context, of the cosine between the embeddings of the question and the chunk.

    Conversational questions, and questions with an empty context, are not scored. The embedder may truncate long texts.
    """

    TRAITS = PartTraits(version="1")
    name = "context_similarity"
    needs = ("retrieval", "judge")
    higher_is_better = None
    bounds = (-1.0, 1.0)
    uses = ("question", "contexts")

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder

    def judge(self, cases: Sequence[Case], done: Callable[[int, Judgement], None]) -> None:
        """Judge each case by the mean cosine between its question and its chunks; every case must have a chunk."""
        for batch in batches(cases, CASES_EMBEDDED):
            chunks = embed_texts(self.embedder, [text for _, case in batch for text in case.contexts])
            queries = embed_queries_checked(self.embedder, [case.question for _, case in batch])
            for (n, case), query in zip(batch, unit(np.asarray(queries, dtype=np.float32)), strict=True):
                done(n, Judgement(float(np.mean([query @ chunks[text] for text in case.contexts]))))

    def score(self, view: EvaluationView) -> Scores:
        """Return one score per question: the judged value, clipped to the bounds, or NaN and the judgement's reason."""
        judged = judgements(view, self.name)
        return to_scores([one.reason or clamp(one.value, self.bounds) for one in judged])


def embed_texts(embedder: Embedder, texts: Sequence[str]) -> Mapping[str, Floats]:
    """Return a mapping from each distinct text to its embedding, scaled to length 1."""
    distinct = sorted(set(texts))
    if not distinct:
        return {}
    vectors = unit(np.asarray(embed_checked(embedder, distinct).vectors, dtype=np.float32))
    return dict(zip(distinct, vectors, strict=True))
