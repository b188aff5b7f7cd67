"""Differences between a shipped corpus and today's documents, and the affected requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ragsweep.core.errors import InputError
from ragsweep.core.plurals import counted
from ragsweep.core.types import Corpus
from ragsweep.parts.languages import detect_language
from ragsweep.parts.text_ranking import rank_texts
from ragsweep.parts.tracking.models import ModelRegistry, ModelVersion
from ragsweep.parts.tracking.served_traces import ServedTrace
from ragsweep_serving.bundle import CORPUS, MANIFEST, Bundle


@dataclass(frozen=True)
class CorpusChanges:
    """Today's corpus, and the ids of documents that were added, changed or removed since a model was made."""

    today: Corpus
    new: frozenset[str]
    changed: frozenset[str]
    gone: frozenset[str]

    def __bool__(self) -> bool:
        """Return whether anything differs."""
        return bool(self.new or self.changed or self.gone)

    def __str__(self) -> str:
        """Describe the counts in one phrase."""
        return f"{counted(len(self.changed), 'document')} changed, {len(self.new):,} new, {len(self.gone):,} gone"

    def concerned(self, traces: Sequence[ServedTrace]) -> list[float]:
        """Return for each request 1 if an added, changed or removed document affects it, else 0.

        A request is affected if its context contains a changed or removed document, or if BM25 ranks a new or
        changed document first among today's.
        """
        if not self:
            return [0.0] * len(traces)
        texts = [f"{title} {text}" for title, text in zip(self.today.titles, self.today.texts, strict=True)]
        questions = list(dict.fromkeys(trace.query or trace.question for trace in traces))
        ranked = rank_texts(questions, texts, detect_language(" ".join(texts)[:10_000]), 1)
        first = {text: self.today.ids[found[0]] for text, found in zip(questions, ranked, strict=True) if found}
        moved, better = self.changed | self.gone, self.new | self.changed
        found = [first.get(one.query or one.question) in better for one in traces]
        return [float(bool(moved.intersection(one.documents)) or new) for one, new in zip(traces, found, strict=True)]


def compare_corpora(shipped: Corpus, today: Corpus, place: str) -> CorpusChanges:
    """Compare two corpora by document id. Raises InputError, with ``place``, if they share no id."""
    texts = [dict(zip(one.ids, zip(one.titles, one.texts, strict=True), strict=True)) for one in (shipped, today)]
    shared = texts[0].keys() & texts[1].keys()
    if not shared:
        raise InputError(
            f"--corpus {place}: contains no document id of the model's corpus; specify the same folder or file as the"
            " config's dataset"
        )
    changed = frozenset(name for name in shared if texts[0][name] != texts[1][name])
    return CorpusChanges(today, frozenset(texts[1].keys() - shared), changed, frozenset(texts[0].keys() - shared))


def read_shipped_corpus(registry: ModelRegistry, version: ModelVersion, folder: Path) -> tuple[Corpus, Sequence[str]]:
    """Download the corpus of a version to a folder; return it, and the patterns of pages that its dataset excludes."""
    bundle = Bundle.read(registry.download(version, (MANIFEST, CORPUS), folder), (CORPUS,))
    excluded = ((bundle.manifest["config"].get("dataset") or {}).get("exclude")) or ()
    return bundle.corpus, [excluded] if isinstance(excluded, str) else list(excluded)
