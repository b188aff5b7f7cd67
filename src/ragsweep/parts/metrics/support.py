"""Support of an answer by the passages given to its generator: by words, embeddings, entailment and citations.

Citations after Gao, Yen, Yu and Chen 2023, "Enabling Large Language Models to Generate Text with Citations", with
support decided by content words instead of a model.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import ABSTAINED, NO_CITATIONS, NOT_CONFIGURED, NOTHING_SAID
from ragsweep.core.types import Answer, Case, Embedder, Floats, Judgement, Passage, Question
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
from ragsweep.parts.metrics.right_answers import CASES_EMBEDDED, embed_texts
from ragsweep.parts.sentences import LIBRARY, sentences


class GroundingLexical(AnswerMetric):
    """Proportion of the answer's distinct content words that occur in its passages.

    Stop words of the answer's language (detected), case and accents are ignored. An answer without passages scores 0.
    """

    VERSION = "1"
    name = "grounding_lexical"

    def _skip_reason(self, question: Question) -> str:
        return reason_conversational(question)

    def _score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
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

    def _skip_reason(self, question: Question) -> str:
        return reason_conversational(question)

    def _unjudged_score(self, answer: Answer, passages: Sequence[Passage]) -> float | str:
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
    """Return the folded words of a text."""
    return frozenset(WORD.findall(fold(text)))


def sentences_of(text: str, language: str = "") -> list[str]:
    """Split a text into sentences with a word, stripped; by English rules, except for French."""
    pieces = sentences(text, "french" if language == "fr" else "english")
    return [text[start:end].strip() for start, end in pieces if WORD.search(text[start:end])]


CASES_ENTAILED = 16
"""Number of cases judged at once; judgements are stored after each batch."""


@dataclass(eq=False)
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

    model: str | None = None
    threshold: float = 0.5
    max_length: int | None = None
    device: str = "auto"
    dtype: str = "auto"
    batch_size: int = 32
    download: bool = False

    def __post_init__(self) -> None:
        check_threshold(self.threshold, self.name)

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
        for batch in batches(cases, CASES_ENTAILED):
            answers = {n: sentences_of(without_citations(case.answer)) for n, case in batch}
            pairs = [(text, sentence) for n, case in batch for sentence in answers[n] for text in case.contexts]
            distinct = list(dict.fromkeys(pairs))
            chances = dict(zip(distinct, self._entailment_probabilities(distinct), strict=True))
            for n, case in batch:
                best = [max((chances[text, part] for text in case.contexts), default=0.0) for part in answers[n]]
                if self.model is None or not best:
                    done(n, Judgement(reason=NOTHING_SAID if self.model else NOT_CONFIGURED))
                else:
                    done(n, Judgement(float(np.mean(np.array(best) >= self.threshold))))

    def _skip_reason(self, question: Question) -> str:
        return NOT_CONFIGURED if self.model is None else super()._skip_reason(question)

    def _entailment_probabilities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the probability that each pair's first text entails its second."""
        if not pairs or self.model is None:
            return [0.0] * len(pairs)
        probabilities = self._loaded.predict(
            pairs, batch_size=self.batch_size, show_progress_bar=False, apply_softmax=True
        )
        chances = np.asarray(probabilities, dtype=np.float64)[:, self._entailment_class()]
        if not np.isfinite(chances).all():
            raise ConfigError(
                f"{self.KEY}.model is {self.model!r}, which gave numbers that are not finite; try dtype=float32"
            )
        return [float(chance) for chance in chances]

    def _entailment_class(self) -> int:
        """Return the number of the class entailment."""
        path = self._folder() / "config.json"
        config = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        labels = {int(n): str(label).lower() for n, label in (config.get("id2label") or {}).items()}
        for n, label in labels.items():
            if label == "entailment" and len(labels) > 1:
                return n
        raise ConfigError(
            f"{self.KEY}.model is {self.model!r}, whose classes are {', '.join(labels.values()) or 'none'}; "
            'name a model with a class "entailment" and another'
        )

    @cached_property
    def _loaded(self) -> Any:
        from sentence_transformers import CrossEncoder

        return self._load(CrossEncoder, max_length=self.max_length)


CITED_AFTER_STOP = re.compile(r"([.!?…]+[\"'\u201d\u2019»)]*)((?:\s*\[\d{1,3}(?:\s*,\s*\d{1,3})*\])+)")
"""A full stop and the citations behind it, which belong to the sentence before it."""


class CitedClaim(NamedTuple):
    """A sentence, or the part of one that ends with citations: its content words and the cited numbers."""

    words: frozenset[str]
    cited: tuple[int, ...]


class CitationsCorrect(AnswerMetric):
    """Proportion of the citations whose passage exists and contains the claim's content words.

    A claim is a sentence, or the part of one that ends with citations.

    Args:
        threshold: Proportion of the claim's content words that the passage must contain.

    Raises:
        ConfigError: The threshold is not above 0 and at most 1.
    """

    VERSION = "2"
    name = "citations_correct"

    def __init__(self, threshold: float = 0.5) -> None:
        self.threshold = check_threshold(threshold, self.name)

    def fingerprint(self) -> Mapping[str, str]:
        """Return the version of the library that splits sentences."""
        return {LIBRARY: importlib.metadata.version(LIBRARY)}

    def _skip_reason(self, question: Question) -> str:
        return reason_conversational(question)

    def _score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        if is_refusal(answer):
            return ABSTAINED
        citations = [(claim, n) for claim in claims(answer.text) for n in claim.cited]
        if not citations:
            return NO_CITATIONS
        return sum(supports(claim.words, passages, [n], self.threshold) for claim, n in citations) / len(citations)


class CitationRecall(CitationsCorrect):
    """Proportion of the claims with content words that their cited passages together contain.

    An answer without citations scores 0.

    Args:
        threshold: Proportion of the claim's content words that the passages must contain.

    Raises:
        ConfigError: The threshold is not above 0 and at most 1.
    """

    VERSION = "2"
    name = "citation_recall"

    def _score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        if is_refusal(answer):
            return ABSTAINED
        stated = [claim for claim in claims(answer.text) if claim.words]
        if not stated:
            return NOTHING_SAID
        return sum(supports(claim.words, passages, claim.cited, self.threshold) for claim in stated) / len(stated)


def claims(text: str) -> list[CitedClaim]:
    """Split an answer into claims, each with the numbers of the cited passages, from 1."""
    moved, language = CITED_AFTER_STOP.sub(r"\2\1", text), detect_language(without_citations(text))
    result = []
    for sentence in sentences_of(moved, language):
        for part in _split_after_citations(sentence):
            numbers = [n for match in CITATIONS.finditer(part) if match[2] for n in match[2].split(",")]
            cited = tuple(dict.fromkeys(map(int, numbers)))
            result.append(CitedClaim(content_words(without_citations(part), language), cited))
    return result


def supports(words: frozenset[str], passages: Sequence[Passage], cited: Sequence[int], threshold: float) -> bool:
    """Return whether the existing cited passages contain enough of the words; without words, whether one exists."""
    texts = [words_of(passages[n - 1].text) for n in cited if 1 <= n <= len(passages)]
    return bool(texts) and len(words & frozenset().union(*texts)) >= threshold * len(words)


def _split_after_citations(sentence: str) -> list[str]:
    """Split a sentence behind its groups of citations; the rest belongs to the last part."""
    ends: list[int] = []
    for match in CITATIONS.finditer(sentence):
        if match[2]:
            is_apart = not ends or WORD.search(sentence[ends[-1] : match.start()])
            ends[len(ends) if is_apart else -1 :] = [match.end()]
    starts = [0, *ends[:-1]]
    return [sentence[start:end] for start, end in zip(starts, [*starts[1:], len(sentence)], strict=True)]
