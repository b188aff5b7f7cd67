"""What the subcommands of ``ragsweep golden`` read: their config, corpora, entries, vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError, Faults
from ragsweep.core.secrets import Secrets
from ragsweep.core.types import Corpus, Dataset, Spans
from ragsweep.curation.entries import read_entries
from ragsweep.golden.corpora import read_corpus, read_folder
from ragsweep.sweep.command import compose
from ragsweep.sweep.compose import Composer
from ragsweep.sweep.config_policy import ConfigPolicy

Floats = NDArray[np.float32]

OVERRIDES = "KEY=VALUE, as in conf/golden.yaml: corpus=FOLDER, embedder=minilm, gates.G5-8.threshold=.5"


def read_config(overrides: Sequence[str], secrets: Secrets) -> dict[str, Any]:
    """Compose ``conf/golden.yaml`` with overrides. Raises ConfigError for what it has not."""
    return compose(Composer(None, ConfigPolicy(secrets), "golden"), overrides).values


def read_given_corpus(place: str | None) -> Corpus | None:
    """Read the corpus that ``corpus=`` names: a folder of pages, a BEIR folder, or a file; None where none is given.

    Raises InputError for its faults.
    """
    if place is None:
        return None
    path, faults = Path(place).expanduser(), Faults()
    if path.is_dir() and not (path / "corpus.jsonl").exists():
        corpus = read_folder(path, (), faults)[0]
    else:
        corpus = read_corpus(path / "corpus.jsonl" if path.is_dir() else path, faults)
    faults.raise_any()
    return corpus


def read_given_entries(
    file: str | None, values: Mapping[str, Any], builder: Builder
) -> tuple[list[Any], Corpus | None]:
    """Read the entries of a file, or of the reader that ``dataset=`` names, with the corpus.

    Raises ConfigError where neither or both are given, and InputError for faults of the files.
    """
    corpus = read_given_corpus(values["corpus"])
    if (file is None) == ("dataset" not in values):
        raise ConfigError("give the golden file, or a reader of another format: dataset=squad dataset.path=FILE")
    if file is not None:
        faults = Faults()
        entries = read_entries(Path(file).expanduser(), faults)
        faults.raise_any()
        return entries, corpus
    dataset: Dataset = builder.build(values["dataset"], "dataset").value.load()
    return [_as_entry(question) for question in dataset.golden.questions], corpus or dataset.corpus


def _as_entry(question: Any) -> dict[str, Any]:
    """Return a question of another format as an entry without groups."""
    entry = {
        "id": question.id,
        "question": question.text,
        "category": question.category,
        "answerable": question.answerable,
        "unanswerable_type": question.unanswerable_type,
        "needs_retrieval": question.needs_retrieval,
        "reference": question.references[0] if question.references else None,
        "references": list(question.references[1:]),
        "keywords": list(question.keywords),
        "evidence": [
            {"document": one.document, "anchor": one.anchor, "start": one.start}
            for one in question.evidence
            if one.grade > 0
        ],
        "distractors": list(question.distractors),
    }
    return {name: given for name, given in entry.items() if given not in (None, "", [])}


def split(corpus: Corpus, values: Mapping[str, Any], builder: Builder) -> Spans:
    """Cut the corpus by the chosen chunker."""
    spans: Spans = builder.build(values["chunker"], "chunker").value.split(corpus)
    return spans


def embed(texts: Sequence[str], values: Mapping[str, Any], builder: Builder) -> Floats:
    """Embed texts as unit vectors (texts, dimension); NaN rows for empty texts."""
    embedder = builder.build(values["embedder"], "embedder").value
    vectors = np.asarray(embedder.embed_documents([text or " " for text in texts]).vectors, dtype=np.float32)
    with np.errstate(invalid="ignore", divide="ignore"):
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[[not text.strip() for text in texts]] = np.nan
    return np.asarray(vectors)
