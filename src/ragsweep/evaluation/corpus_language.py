"""Detect the language of a corpus, substitute it for ``language: auto``, and note settings that do not fit it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ragsweep.core.identity import BuiltPart
from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.plurals import counted, percentage
from ragsweep.core.traits import traits_of
from ragsweep.core.trust import find_class
from ragsweep.core.types import Corpus, GoldenSet
from ragsweep.core.words import words
from ragsweep.evaluation.experiment import Experiment
from ragsweep.parts.languages import NAMES, STOP_WORDS, detect_language, fold, script_language

AUTO, NONE, FALLBACK = "auto", "none", "english"
SAMPLE = 200
"""Maximum number of documents, or questions, sampled to detect their language."""

HEAD = 1000
"""Maximum number of characters read from each document or question."""

MIXED = 0.9
"""A corpus is mixed if its most frequent language has less than this share of the texts with a detected language."""

LEAST_STOP_WORDS = 0.25
"""The minimum mean share of a language's stop words among the words of the texts detected as that language.

If the share is lower, the detection is discarded, because unsupported languages share words with supported ones
(``a``, ``to``, ``do``). In Polish, Danish, Hungarian, Latin, Vietnamese and Indonesian texts, 7 to 21 % of the words
are stop words of the detected language; in English and French collections, 29 to 41 % are.
"""

PARTS_IN_USE = ("chunker", "retriever", "reranker", "llm")

Build = Callable[[Any, str], BuiltPart]


class SampledLanguage(NamedTuple):
    """The most frequent language of texts; ``shares`` maps each detected language to its share of the sampled texts."""

    name: str  # empty if none is detected
    shares: Mapping[str, float]
    texts: int  # number of sampled texts

    @property
    def is_mixed(self) -> bool:
        """Whether the most frequent language has less than the share MIXED of the texts with a detected language."""
        return self.shares.get(self.name, 0.0) < MIXED * sum(self.shares.values())


@memoize_by_identity
def corpus_language(corpus: Corpus) -> SampledLanguage:
    """Detect the most frequent language of a corpus from evenly spaced documents, which every process chooses alike."""
    return sample_language(corpus.texts)


@memoize_by_identity
def _language_of_questions(golden: GoldenSet) -> SampledLanguage:
    return sample_language([question.text for question in golden.questions])


def sample_language(texts: Sequence[str]) -> SampledLanguage:
    """Detect the most frequent language of texts by script and stop words, from at most SAMPLE evenly spaced texts."""
    count = min(SAMPLE, len(texts))
    heads = [texts[n * len(texts) // count][:HEAD] for n in range(count)]
    codes = [script_language(head) or detect_language(head) for head in heads]
    if not any(codes):  # detect short texts jointly
        codes = [detect_language(" ".join(heads))] * len(heads)
    spoken = [(NAMES[code], _stop_word_share(head, code)) for head, code in zip(heads, codes, strict=True) if code]
    totals = Counter(name for name, _ in spoken)
    known = {
        name: number / count
        for name, number in totals.most_common()
        if sum(share for one, share in spoken if one == name) >= LEAST_STOP_WORDS * number
    }
    return SampledLanguage(next(iter(known), ""), known, count)


def _stop_word_share(text: str, code: str) -> float:
    """Return the share of a language's stop words in ``text``; 1 for a language that is identified by its script."""
    if code not in STOP_WORDS:
        return 1.0
    found = words(fold(text))
    return sum(word in STOP_WORDS[code] for word in found) / max(len(found), 1)


def resolve_language(node: Any, corpus: Corpus, where: str = "") -> Any:
    """Return a tree of plain values, with ``language: auto`` of parts replaced by the corpus's language.

    The traits of a part's class list the languages that the part accepts; a part without a list is unchanged. If the
    corpus's language is not in the list, "none" is substituted or, if "none" is not in the list either, English. If no
    language is detected, English is substituted. ``where`` is the key of ``node``, for messages. Raises ConfigError for
    a class that is not trusted or does not exist.
    """
    if isinstance(node, list):
        return [resolve_language(item, corpus, f"{where}[{n}]") for n, item in enumerate(node)]
    if not isinstance(node, Mapping):
        return node
    resolved = {key: resolve_language(value, corpus, f"{where}.{key}".strip(".")) for key, value in node.items()}
    if node.get("language") == AUTO and (accepted := _accepted(node, where)):
        resolved["language"] = _closest(corpus_language(corpus).name, accepted)
    return resolved


def _accepted(node: Mapping[str, Any], where: str) -> Sequence[str]:
    """List the languages that a part's class accepts; () for a node without a class and for a class without a list."""
    return traits_of(find_class(node["_target_"], where), where).languages if "_target_" in node else ()


def _closest(language: str, accepted: Sequence[str]) -> str:
    if not language or language in accepted:
        return language or FALLBACK
    return NONE if NONE in accepted else FALLBACK


# --- lines of a plan ---------------------------------------------------------------------------------------------


def language_lines(experiments: Sequence[Experiment], build: Build) -> list[tuple[str, str]]:
    """Return the lines (label, text) that a plan shows for unsuitable settings, and for mixed or non-English corpora.

    ``build`` builds the part of a config node at a key. There are no lines for a config with an external system,
    because the system reads the corpus itself, or for a config whose corpus has no detected language.
    """
    lines: dict[tuple[str, str], None] = {}
    for one in experiments:
        found = corpus_language(one.dataset.corpus)
        if one.parameters.get("system", "pipeline") == "pipeline" and found.name:
            if found.name != FALLBACK or found.is_mixed:
                lines["language", f"{found.name}, of the corpus ({_shares(found)})"] = None
            lines |= dict.fromkeys(("note", note) for note in _misfits(one, found.name, build))
    return list(lines)


def _shares(found: SampledLanguage) -> str:
    """Format the share of the main language and, in a mixed corpus, every other share of at least 5 %."""
    first, *others = found.shares.items()
    named = [f"{percentage(share)} {name}" for name, share in others if found.is_mixed and share >= 0.05]
    return "; ".join([f"{100 * first[1]:.0f} % of {counted(found.texts, 'document')}", *named])


def _misfits(experiment: Experiment, language: str, build: Build) -> Iterator[str]:
    """Yield notes on questions and parts that do not fit the corpus's language; a note on a part names a remedy."""
    named = language.capitalize()
    fact = f"the corpus is {named}"
    option = experiment.parameters.get
    parts = [part for group in PARTS_IN_USE for part in _parts(experiment.config.get(group), group)]
    asked = _language_of_questions(experiment.dataset.golden)
    by_words = any(where.startswith("retriever") and _accepted(node, where) for where, node in parts)
    if by_words and asked.name not in ("", language) and asked.shares[asked.name] >= 0.5:
        yield f"{fact} and the questions are {asked.name.capitalize()}: BM25 finds only words that both languages share"
    for where, node in parts:
        accepted, chosen = _accepted(node, where), node.get("language", NONE)
        fitting = _closest(language, accepted)
        if accepted and chosen not in (NONE, fitting):
            rules = f"{where}.language={chosen} applies the rules of {chosen.capitalize()}"
            yield f"{fact}: {rules}; set {where}.language={fitting}"
        is_trained = hasattr(find_class(node["_target_"], where), "trained_on")  # trained on one language
        trained = build(node, where).value.trained_on if is_trained else ""
        if trained not in ("", language):
            name = f"embedder={option('embedder', '')}"
            yield f"{fact}: {name} is trained on {trained.capitalize()}; embedder=use_multilingual supports {named}"
        if language == "french" and detect_language(str(node.get("system", ""))) == "en":
            yield f"{fact}: prompt={option('prompt', '')} is written in English; prompt=default_fr is in French"


def _parts(node: Any, where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the key and the mapping of every part in a tree of mappings."""
    if isinstance(node, Mapping):
        if "_target_" in node:
            yield where, node
        for key, value in node.items():
            yield from _parts(value, f"{where}.{key}")
