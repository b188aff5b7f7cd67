"""Comparison of answers with the right ones: by ROUGE-L and BLEU, which ragas computes, by keywords and embeddings."""

from __future__ import annotations

import importlib.metadata
import re
import unicodedata
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from typing import Any, Literal

import numpy as np

from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.missing import CONVERSATIONAL, NO_KEYWORDS, UNANSWERABLE
from ragsweep.core.types import Answer, Case, Embedder, Floats, Judgement, Passage, Question
from ragsweep.parts.languages import detect_language, fold, language_code
from ragsweep.parts.metrics.bases import (
    AnswerMetric,
    JudgedAnswerMetric,
    answer_text,
    batches,
    clamp,
    is_refusal,
    reason_conversational,
    reason_incomparable,
    without_citations,
)
from ragsweep.parts.metrics.ragas_calls import library
from ragsweep.parts.unit_vectors import unit


class _Overlap(AnswerMetric):
    """The best score over the right answers; a refusal scores 0, unanswerable questions are not scored."""

    needs = ("answer", "reference")

    def fingerprint(self) -> Mapping[str, str]:
        """Return the versions of the libraries that compute."""
        return {name: importlib.metadata.version(name) for name in ("ragas", "rouge-score", "sacrebleu")}

    def _skip_reason(self, question: Question) -> str:
        return reason_incomparable(question)

    def _score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        text = answer_text(answer)
        return max(self._compare(text, right) for right in question.expected) if text else 0.0

    @abstractmethod
    def _compare(self, text: str, right: str) -> float:
        """Compare an answer with one right answer, by ragas."""


class RougeL(_Overlap):
    """F-measure of the longest common subsequence of words (Lin 2004, "ROUGE"), with English stems.

    Accents are removed first: the library drops letters that carry them.
    """

    VERSION = "1"
    name = "rouge_l"

    def _compare(self, text: str, right: str) -> float:
        return _value(self._metric.ascore(reference=fold(right), response=fold(text)))

    @cached_property
    def _metric(self) -> Any:
        return library().metrics.RougeScore(rouge_type="rougeL", mode="fmeasure")


class Bleu(_Overlap):
    """BLEU of one answer (Papineni et al. 2002), with as many orders of n-grams as its length permits.

    ragas 0.4.3 splits both texts at ". " and scores the first sentence only; line breaks keep the answer whole.
    """

    VERSION = "1"
    name = "bleu"

    def _compare(self, text: str, right: str) -> float:
        reference, response = (whole.replace(". ", ".\n") for whole in (right, text))  # white space to sacrebleu
        return _value(self._metric.ascore(reference=reference, response=response))

    @cached_property
    def _metric(self) -> Any:
        return library().metrics.BleuScore(kwargs={"use_effective_order": True})


def _value(score: Coroutine[Any, Any, Any]) -> float:
    """Run a coroutine that never waits, which works inside a running event loop, too."""
    try:
        score.send(None)
    except StopIteration as end:
        return clamp(float(end.value.value), (0.0, 1.0))
    raise RuntimeError("ragas' metric waits, though it only computes")


Match = Literal["word", "substring", "stem"]

_STEMMERS = {"en": "english", "fr": "french", "de": "german", "es": "spanish", "it": "italian", "nl": "dutch",
             "pt": "portuguese"}  # fmt: skip
_TOKEN = re.compile(r"\w+|[^\w\s]")


class KeywordCoverage(AnswerMetric):
    """Proportion of the keywords found in the answer, ignoring case and accents.

    A refusal of an answerable question scores 0; unanswerable questions are not scored.

    Args:
        match: "word": as whole words; "substring": also within longer words (``gratuit`` in ``gratuites``); "stem":
            as words with the same Snowball stem (``gratuite`` in ``gratuits``).
        language: Language of the stems; "label": the question's label ``language``, else detected, else English.

    Raises:
        ConfigError: ``language`` is unknown.
    """

    VERSION = "1"
    name = "keyword_coverage"
    needs = ("answer", "keywords")

    def __init__(self, match: Match = "word", language: str = "label") -> None:
        self.match = match
        self.language = language
        if language != "label" and not language_code(language):
            suggestion = nearest(language, ["label", *_STEMMERS.values()])
            raise ConfigError(f"metrics.{self.name}.language is {language!r}{suggestion}")

    def _skip_reason(self, question: Question) -> str:
        if not question.answerable:
            return UNANSWERABLE
        if question.keywords:
            return ""
        return NO_KEYWORDS if question.needs_retrieval else CONVERSATIONAL

    def _score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        return keyword_coverage(question, answer_text(answer), self.match, self.language)


def keyword_coverage(question: Question, text: str, match: Match, language: str) -> float:
    """Return the proportion of a question's keywords found in a text; see KeywordCoverage for ``match``."""
    keywords = question.keywords
    if match == "stem":
        code = language_code(question.labels.get("language", "") if language == "label" else language)
        code = code or detect_language(" ".join([question.text, *question.expected])) or "en"
        stems = _stems(text, code)
        return sum(_stems(keyword, code) in stems for keyword in keywords) / len(keywords)
    folded = fold(text)
    return sum(bool(_pattern(keyword, match).search(folded)) for keyword in keywords) / len(keywords)


@lru_cache(maxsize=1 << 14)
def _stems(text: str, code: str) -> str:
    """Return the folded stems of a text's words, and its signs, each between spaces."""
    tokens = _TOKEN.findall(unicodedata.normalize("NFC", text).lower())
    return f" {' '.join(fold(stem) for stem in _stemmer(code).stemWords(tokens))} "


@cache
def _stemmer(code: str) -> Any:
    import Stemmer

    return Stemmer.Stemmer(_STEMMERS[code])


@lru_cache(maxsize=1 << 14)
def _pattern(keyword: str, match: Match) -> re.Pattern[str]:
    """Compile the pattern of a keyword; a whole word is bounded, a sign at its edge (``-(x+1)``) is not."""
    words = [re.escape(word) for word in fold(keyword).split()]
    pattern = r"\s+".join(words)
    if match == "substring":
        return re.compile(pattern)
    begin = r"(?<!\w)" if re.match(r"\w", fold(keyword).strip()) else ""
    end = r"(?!\w)" if re.search(r"\w$", fold(keyword).strip()) else ""
    return re.compile(f"{begin}{pattern}{end}")


CASES_EMBEDDED = 32
"""Number of cases embedded at once; judgements are stored after each batch."""


class SemanticSimilarity(JudgedAnswerMetric):
    """Cosine between the embeddings of the answer and of the first right answer.

    A refusal of an answerable question scores 0; unanswerable questions and conversation are not scored. Of a text
    longer than the model's window the beginning is compared.

    Args:
        embedder: Embeds both texts as documents.
    """

    VERSION = "1"
    name = "semantic_similarity"
    needs = ("answer", "reference")
    bounds = (-1.0, 1.0)
    uses = ("answer", "reference")

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder

    def judge(self, cases: Sequence[Case], done: Callable[[int, Judgement], None]) -> None:
        """Embed both texts of every case."""
        for batch in batches(cases, CASES_EMBEDDED):
            pairs = {n: (without_citations(case.answer), case.reference) for n, case in batch}
            vectors = embed_texts(self.embedder, [text for pair in pairs.values() for text in pair])
            for n, (answer, reference) in pairs.items():
                done(n, Judgement(float(vectors[answer] @ vectors[reference])))

    def _skip_reason(self, question: Question) -> str:
        return reason_conversational(question) or reason_incomparable(question)

    def _unjudged_score(self, answer: Answer, passages: Sequence[Passage]) -> float | str:
        return 0.0 if is_refusal(answer) else ""


def embed_texts(embedder: Embedder, texts: Sequence[str]) -> Mapping[str, Floats]:
    """Embed distinct texts and normalise the vectors to length 1."""
    distinct = sorted(set(texts))
    if not distinct:
        return {}
    vectors = unit(np.asarray(embedder.embed_documents(distinct).vectors, dtype=np.float32))
    return dict(zip(distinct, vectors, strict=True))
