"""Substitute the language of a corpus for ``language: auto``, and note settings that do not fit the language."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ragsweep.core.identity import BuiltPart
from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.plurals import counted, percentage
from ragsweep.core.traits import traits_of
from ragsweep.core.trust import find_class
from ragsweep.core.types import Corpus, GoldenSet
from ragsweep.evaluation.experiment import Experiment
from ragsweep.parts.languages import SampledLanguage, detect_language, sample_language

AUTO, NONE, FALLBACK = "auto", "none", "english"
PARTS_IN_USE = ("chunker", "retriever", "reranker", "llm")

Build = Callable[[Any, str], BuiltPart]


@memoize_by_identity
def corpus_language(corpus: Corpus) -> SampledLanguage:
    """Detect the most frequent language of a corpus in a fixed sample of evenly spaced documents."""
    return sample_language(corpus.texts)


@memoize_by_identity
def _language_of_questions(golden: GoldenSet) -> SampledLanguage:
    return sample_language([question.text for question in golden.questions])


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
    """Yield notes on questions and parts that do not fit the corpus's language; each note names a remedy."""
    named = language.capitalize()
    fact = f"the corpus is {named}"
    option = experiment.parameters.get
    parts = [part for group in PARTS_IN_USE for part in _parts(experiment.config.get(group), group)]
    asked = _language_of_questions(experiment.dataset.golden)
    by_words = any(where.startswith("retriever") and _accepted(node, where) for where, node in parts)
    if by_words and asked.name not in ("", language) and asked.shares[asked.name] >= 0.5:
        yield (
            f"{fact} and the questions are {asked.name.capitalize()}: BM25 finds only words that both languages share;"
            " try retriever=vector embedder=use_multilingual"
        )
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
