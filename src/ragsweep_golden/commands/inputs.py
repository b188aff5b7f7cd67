"""Inputs of the subcommands of ``ragsweep golden``: config, corpora, entries and vectors."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.commands.documents import read_documents, show_notes
from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError, Faults
from ragsweep.core.identity import BuiltPart
from ragsweep.core.plurals import counted
from ragsweep.core.secrets import Secrets
from ragsweep.core.types import Corpus, Dataset, Question, Spans
from ragsweep.evaluation.corpus_language import resolve_language
from ragsweep.parts.prices import Prices
from ragsweep.services.session import ServiceSession
from ragsweep.services.usage import Budget
from ragsweep.stages.executor import Executor, Listener
from ragsweep.stages.store import open_store
from ragsweep.sweep.composing.compose import Composer
from ragsweep.sweep.composing.composition_errors import compose
from ragsweep.sweep.composing.config_policy import ConfigPolicy
from ragsweep_golden.entries import Entry, as_entry, lacks_evidence, read_entries_with_questions

Floats = NDArray[np.float32]

OVERRIDES = "KEY=VALUE, as in conf/golden.yaml: corpus=FOLDER, embedder=minilm, gates.G5-8.threshold=.5"


OTHER_LAYOUT = "a set of another layout is read by dataset=beir dataset.path=FOLDER or made ours by golden import"


def read_config(overrides: Sequence[str], secrets: Secrets) -> dict[str, Any]:
    """Compose ``conf/golden.yaml`` with overrides. Raises ConfigError for an unknown key."""
    for word in overrides:
        if "=" not in word and not word.startswith("~"):
            raise ConfigError(f"{word!r}: neither an option nor KEY=VALUE")
    return compose(Composer(None, ConfigPolicy(secrets), "golden"), overrides).values


def read_given_corpus(place: str | None) -> Corpus | None:
    """Read the corpus that ``corpus=`` names; None if none is given. Raises as ``read_documents`` does."""
    return read_documents(place) if place else None


def need_corpus(values: Mapping[str, Any], command: str) -> Corpus:
    """Read the corpus that ``corpus=`` names; raises ConfigError if none is given."""
    corpus = read_given_corpus(values["corpus"])
    if corpus is None:
        raise ConfigError(f"golden {command}: give the documents, corpus=FOLDER or FILE")
    return corpus


class Given(NamedTuple):
    """A golden set as given: its entries, the question that an evaluation reads of each, and its own corpus, if any."""

    entries: list[dict[str, Any]]
    questions: Sequence[Question]
    own_corpus: Corpus | None = None


def read_given_set(file: str | None, values: Mapping[str, Any], builder: Builder) -> Given:
    """Read the golden set of a file, or of the reader that ``dataset=`` names.

    Raises ConfigError if neither or both are given, and InputError for faults of the files.
    """
    if (file is None) == ("dataset" not in values):
        raise ConfigError("give the golden file, or a reader of another format: dataset=squad dataset.path=FILE")
    if file is not None:
        faults = Faults()
        read = read_entries_with_questions(Path(file).expanduser(), faults)
        if any("unknown key" in fault for fault in faults.found):
            faults.found.insert(0, f"{file}: {OTHER_LAYOUT}")
        faults.raise_any()
        return Given([entry for entry, _ in read], [question for _, question in read])
    dataset: Dataset = builder.build(values["dataset"], "dataset").value.load()
    questions = dataset.golden.questions
    show_notes(dataset.notes)
    return Given([as_entry(question) for question in questions], questions, dataset.corpus)


def read_given_entries(
    file: str | None, values: Mapping[str, Any], builder: Builder
) -> tuple[list[Any], Corpus | None]:
    """Read the entries of a golden set and the corpus; irrelevant labels of another format are dropped.

    Raises as ``read_given_set`` does.
    """
    corpus = read_given_corpus(values["corpus"])
    given = read_given_set(file, values, builder)
    if file is None:
        for entry in given.entries:
            entry["evidence"] = [label for label in entry.get("evidence", ()) if label.get("grade", 1) > 0]
    return given.entries, corpus or given.own_corpus


def only_file(options: Any, command: str) -> str | None:
    """Return the only file among the arguments of a command; None without one. Raises ConfigError for several."""
    files = [word for word in options.words if "=" not in word]
    if len(files) > 1:
        raise ConfigError(f"golden {command}: one file at a time, given {', '.join(files)}")
    return files[0] if files else None


def need_file(options: Any, command: str) -> Path:
    """Return the only file among the arguments of a command; raises ConfigError for none or several."""
    file = only_file(options, command)
    if file is None:
        raise ConfigError(f"golden {command}: give the golden file")
    return Path(file).expanduser()


def evidence_step(entries: Sequence[Entry], file: object, corpus: object) -> list[tuple[Sequence[str], str]]:
    """Return the command that adds evidence to entries without any, as a next step; empty if all have evidence."""
    lacking = counted(sum(map(lacks_evidence, entries)), "question")
    command = ["ragsweep", "golden", "add", str(file), f"corpus={corpus}"]
    is_needed = file and corpus and any(map(lacks_evidence, entries))
    return [(command, f"take the evidence of {lacking} without any")] if is_needed else []


def user_name() -> str:
    """Return the user name of git, else of the system."""
    try:
        named = subprocess.run(["git", "config", "user.name"], capture_output=True, text=True, check=False).stdout
    except OSError:
        named = ""
    return named.strip() or os.environ.get("USER") or "unnamed"


def split(corpus: Corpus, values: Mapping[str, Any], builder: Builder) -> Spans:
    """Chunk the corpus by the chosen chunker."""
    chunker = resolve_language(values["chunker"], corpus, "chunker")
    spans: Spans = builder.build(chunker, "chunker").value.split(corpus)
    return spans


def embed(texts: Sequence[str], values: Mapping[str, Any], builder: Builder) -> Floats:
    """Embed texts as unit vectors (texts, dimension); NaN rows for empty texts."""
    embedder = builder.build(values["embedder"], "embedder").value
    vectors = np.asarray(embedder.embed_documents([text or " " for text in texts]).vectors, dtype=np.float32)
    with np.errstate(invalid="ignore", divide="ignore"):
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[[not text.strip() for text in texts]] = np.nan
    return np.asarray(vectors)


class Model:
    """The chosen ``llm`` with any of the config's prompts; its replies are cached in a folder."""

    def __init__(self, values: Mapping[str, Any], services: ServiceSession, folder: Path, listener: Listener) -> None:
        self._values, self._builder = values, Builder(services.connect)
        prices: Prices = self._builder.build(values["prices"], "prices").value
        budget = Budget(**values["budget"])
        budget.check()
        services.meter.limit(budget, prices.money, prices.currency)
        self.executor = Executor(open_store(folder, listener.warned), listener)

    def prompted(self, key: str) -> BuiltPart:
        """Return the model with the prompt at a key of the config."""
        return self._builder.build({**self._values["llm"], "prompt": self._values[key]}, "llm")
