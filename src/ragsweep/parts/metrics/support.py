"""Support of an answer by the passages given to its generator: by words, embeddings, entailment and citations.

Citations after Gao, Yen, Yu and Chen 2023, "Enabling Large Language Models to Generate Text with Citations", with
support decided by content words instead of a model.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import ABSTAINED, NO_CITATIONS, NOT_CONFIGURED, NOTHING_SAID
from ragsweep.core.types import Answer, Case, Embedder, Judgement, Passage, Question
from ragsweep.parts.languages import WORD, content_words, detect_language, fold
from ragsweep.parts.local_model import LocalModel
from ragsweep.parts.metrics.bases import (
    CITATIONS,
    AnswerMetric,
    JudgedAnswerMetric,
    batches,
    check_threshold,
    is_refusal,
    reason_conversational,
    without_citations,
)
from ragsweep.parts.metrics.right_answers import CASES_EMBEDDED, Vectors, vectors
from ragsweep.parts.sentences import LIBRARY, sentences


class GroundingLexical(AnswerMetric):
    """Proportion of the answer's distinct content words that occur in its passages.

    Stop words of the answer's language (detected), case and accents are ignored. An answer without passages scores 0.
    """

    VERSION = "1"
    name = "grounding_lexical"

    def skip_reason(self, question: Question) -> str:
        """Leave out conversation."""
        return reason_conversational(question)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Look up every content word."""
        if is_refusal(answer):
            return ABSTAINED
        words = content_words(without_citations(answer.text))
        if not words:
            return NOTHING_SAID
        return len(words & frozenset().union(*(words_of(passage.text) for passage in passages))) / len(words)


class _SentenceMetric(JudgedAnswerMetric):
    """A metric that judges an answer sentence by sentence; an answer without passages scores 0."""

    uses = ("answer", "contexts")

    def fingerprint(self) -> Mapping[str, str]:
        """Return the version of the library that splits sentences."""
        return {LIBRARY: importlib.metadata.version(LIBRARY)}

    def skip_reason(self, question: Question) -> str:
        """Leave out conversation."""
        return reason_conversational(question)

    def unjudged_score(self, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score answers without passages 0."""
        return ABSTAINED if is_refusal(answer) else "" if passages else 0.0


class GroundingSemantic(_SentenceMetric):
    """Proportion of the answer's sentences with a similar sentence in the context.

    An answer without passages scores 0. Of a sentence longer than the model's window the beginning is compared.

    Args:
        embedder: Embeds sentences as documents.
        threshold: Cosine from which two sentences are similar.

    Raises:
        ConfigError: The threshold is not above 0 and at most 1.
    """

    VERSION = "1"
    name = "grounding_semantic"

    def __init__(self, embedder: Embedder, threshold: float = 0.7) -> None:
        self.embedder = embedder
        self.threshold = check_threshold(threshold, self.name)

    def judge(self, cases: Sequence[Case], done: Callable[[int, Judgement], None]) -> None:
        """Compare every sentence of an answer with every sentence of its context."""
        for some in batches(cases, CASES_EMBEDDED):
            stated = {n: sentences_of(without_citations(case.answer)) for n, case in some}
            context = {n: [one for text in case.contexts for one in sentences_of(text)] for n, case in some}
            known = vectors(self.embedder, [text for n in stated for text in (*stated[n], *context[n])])
            for n in stated:
                done(n, self._judge_case(stated[n], context[n], known))

    def _judge_case(self, stated: Sequence[str], context: Sequence[str], known: Vectors) -> Judgement:
        if not stated:
            return Judgement(reason=NOTHING_SAID)
        if not context:
            return Judgement(0.0)
        cosines = np.stack([known[one] for one in stated]) @ np.stack([known[one] for one in context]).T
        return Judgement(float(np.mean(cosines.max(axis=1) >= self.threshold)))


@lru_cache(maxsize=1 << 12)
def words_of(text: str) -> frozenset[str]:
    """Return the folded words of a text."""
    return frozenset(WORD.findall(fold(text)))


def sentences_of(text: str, language: str = "") -> list[str]:
    """Split a text into sentences with a word, stripped; by English rules, except for French."""
    pieces = sentences(text, "french" if language == "fr" else "english")
    return [text[start:end].strip() for start, end in pieces if WORD.search(text[start:end])]


ENTAILMENT = "entailment"
CASES_ENTAILED = 16
"""Number of cases judged at once; judgements are stored after each batch."""


class FaithfulnessNli(LocalModel, _SentenceMetric):
    """Proportion of the answer's sentences that some passage of its context entails.

    Each passage is a premise of its own, as in Laban et al. 2022, "SummaC", at the granularity of paragraphs; a passage
    longer than the model's window is cut. An answer without passages scores 0.

    Args:
        model: Folder or hub id of a cross-encoder with a class named entailment; None: nothing is judged.
        threshold: Probability of entailment from which a sentence counts.
        max_length: Maximum tokens of passage and sentence together; None: the model's own limit.
        device: "auto", "cpu", "cuda", ...
        dtype: "auto", "float32", "bfloat16" or "float16".
        batch_size: Number of pairs computed at once.
        download: Whether the model may be fetched from the hub.
    """

    VERSION = "1"
    name = "faithfulness_nli"
    KEY = "metrics.faithfulness_nli"

    def __init__(
        self,
        model: str | None = None,
        threshold: float = 0.5,
        max_length: int | None = None,
        device: str = "auto",
        dtype: str = "auto",
        batch_size: int = 32,
        download: bool = False,
    ) -> None:
        self.model = model
        self.threshold = check_threshold(threshold, self.name)
        self.max_length = max_length
        self.device = device
        self.dtype = dtype
        self.batch_size = batch_size
        self.download = download

    def check(self) -> None:
        """Raise ConfigError where the model cannot be loaded or has no class entailment, without loading it."""
        if self.model is not None:
            super().check()
            self._entailment_class()

    def fingerprint(self) -> Mapping[str, str]:
        """Return the hash of the model's files, the resolved dtype, and the versions of the libraries that compute."""
        if self.model is None:
            return {"weights": "none"}
        return {LIBRARY: importlib.metadata.version(LIBRARY), **super().fingerprint()}

    def judge(self, cases: Sequence[Case], done: Callable[[int, Judgement], None]) -> None:
        """Judge every pair of passage and sentence."""
        for some in batches(cases, CASES_ENTAILED):
            stated = {n: sentences_of(without_citations(case.answer)) for n, case in some}
            pairs = [(text, one) for n, case in some for one in stated[n] for text in case.contexts]
            known = dict(
                zip(dict.fromkeys(pairs), self._entailment_probabilities(list(dict.fromkeys(pairs))), strict=True)
            )
            for n, case in some:
                done(n, self._judge_case(stated[n], case.contexts, known))

    def skip_reason(self, question: Question) -> str:
        """Leave out conversation; everything where there is no model."""
        return NOT_CONFIGURED if self.model is None else super().skip_reason(question)

    def _judge_case(
        self, stated: Sequence[str], contexts: Sequence[str], known: Mapping[tuple[str, str], float]
    ) -> Judgement:
        if self.model is None:
            return Judgement(reason=NOT_CONFIGURED)
        if not stated:
            return Judgement(reason=NOTHING_SAID)
        best = [max((known[text, one] for text in contexts), default=0.0) for one in stated]
        return Judgement(float(np.mean(np.array(best) >= self.threshold)))

    def _entailment_probabilities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the probability that each pair's first text entails its second."""
        if not pairs or self.model is None:
            return [0.0] * len(pairs)
        found = self._loaded.predict(
            list(pairs), batch_size=self.batch_size, show_progress_bar=False, apply_softmax=True
        )
        chances = np.asarray(found, dtype=np.float64)[:, self._entailment_class()]
        if not np.isfinite(chances).all():
            raise ConfigError(
                f"{self.KEY}.model is {self.model!r}, which gave numbers that are not finite; try dtype=float32"
            )
        return [float(chance) for chance in chances]

    def _entailment_class(self) -> int:
        """Return the number of the class entailment."""
        path = self._folder() / "config.json"
        config = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        named = {int(n): str(label).lower() for n, label in (config.get("id2label") or {}).items()}
        for n, label in named.items():
            if label == ENTAILMENT and len(named) > 1:
                return n
        known = ", ".join(named.values()) or "none"
        raise ConfigError(
            f"{self.KEY}.model is {self.model!r}, whose classes are {known}; "
            f'name a model with a class "{ENTAILMENT}" and another'
        )

    @cached_property
    def _loaded(self) -> Any:
        from sentence_transformers import CrossEncoder

        return self._load(CrossEncoder, max_length=self.max_length)


BEHIND = re.compile(r"([.!?…]+[\"'\u201d\u2019»)]*)((?:\s*\[\d{1,3}(?:\s*,\s*\d{1,3})*\])+)")
"""Citations behind a full stop, which belong to the sentence before it."""


class Claim(NamedTuple):
    """A sentence, or the part of one that ends with citations: its content words and the cited numbers."""

    words: frozenset[str]
    cited: tuple[int, ...]


class _ClaimMetric(AnswerMetric):
    """A metric of claims with a threshold of support."""

    VERSION = "2"
    name: str

    def __init__(self, threshold: float = 0.5) -> None:
        self.threshold = check_threshold(threshold, self.name)

    def fingerprint(self) -> Mapping[str, str]:
        """Return the version of the library that splits sentences."""
        return {LIBRARY: importlib.metadata.version(LIBRARY)}

    def skip_reason(self, question: Question) -> str:
        """Leave out conversation."""
        return reason_conversational(question)


class CitationsCorrect(_ClaimMetric):
    """Proportion of the citations whose passage exists and contains the claim's content words.

    A claim is a sentence, or the part of one that ends with citations.

    Args:
        threshold: Proportion of the claim's content words that the passage must contain.

    Raises:
        ConfigError: The threshold is not above 0 and at most 1.
    """

    VERSION = "2"
    name = "citations_correct"

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Check every citation."""
        if is_refusal(answer):
            return ABSTAINED
        found = [(claim, n) for claim in claims(answer.text) for n in claim.cited]
        if not found:
            return NO_CITATIONS
        return sum(supports(claim.words, passages, [n], self.threshold) for claim, n in found) / len(found)


class CitationRecall(_ClaimMetric):
    """Proportion of the claims with content words that their cited passages together contain.

    An answer without citations scores 0.

    Args:
        threshold: Proportion of the claim's content words that the passages must contain.

    Raises:
        ConfigError: The threshold is not above 0 and at most 1.
    """

    VERSION = "2"
    name = "citation_recall"

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Check every claim."""
        if is_refusal(answer):
            return ABSTAINED
        stating = [claim for claim in claims(answer.text) if claim.words]
        if not stating:
            return NOTHING_SAID
        return sum(supports(claim.words, passages, claim.cited, self.threshold) for claim in stating) / len(stating)


def claims(text: str) -> list[Claim]:
    """Split an answer into claims, each with the numbers of the cited passages, from 1."""
    moved, language = BEHIND.sub(r"\2\1", text), detect_language(without_citations(text))
    return [
        Claim(content_words(without_citations(sentence), language), _cited_numbers(sentence))
        for whole in sentences_of(moved, language)
        for sentence in _parts(whole)
    ]


def supports(words: frozenset[str], passages: Sequence[Passage], cited: Sequence[int], threshold: float) -> bool:
    """Return whether the existing cited passages contain enough of the words; without words, whether one exists."""
    known = [words_of(passages[n - 1].text) for n in cited if 1 <= n <= len(passages)]
    return bool(known) and len(words & frozenset().union(*known)) >= threshold * len(words)


def _parts(sentence: str) -> list[str]:
    """Split a sentence behind its groups of citations; the rest belongs to the last part."""
    ends: list[int] = []
    for found in CITATIONS.finditer(sentence):
        if found[2]:
            apart = not ends or WORD.search(sentence[ends[-1] : found.start()])
            ends[len(ends) if apart else -1 :] = [found.end()]
    starts = [0, *ends[:-1]]
    return [sentence[start:end] for start, end in zip(starts, [*starts[1:], len(sentence)], strict=True)]


def _cited_numbers(sentence: str) -> tuple[int, ...]:
    numbers = [found[2].split(",") for found in CITATIONS.finditer(sentence) if found[2]]
    return tuple(dict.fromkeys(int(number) for some in numbers for number in some))
