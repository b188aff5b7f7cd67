"""Read the inputs of the subcommands of ``ragsweep golden``: config, corpora, entries, vectors and the model."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ragsweep.commands.command_line import NO_OUTPUT, Parser
from ragsweep.commands.documents import read_documents, show_notes
from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError, Faults
from ragsweep.core.identity import BuiltPart
from ragsweep.core.plurals import counted
from ragsweep.core.secrets import Secrets
from ragsweep.core.types import Corpus, Dataset, Floats, Question, Spans
from ragsweep.evaluation.corpus_language import resolve_language
from ragsweep.parts.prices import Prices
from ragsweep.report.document import Statement
from ragsweep.services.session import ServiceSession
from ragsweep.services.usage import Budget
from ragsweep.stages.executor import Executor, Listener
from ragsweep.stages.store import open_store
from ragsweep.sweep.composing.compose import Composer
from ragsweep.sweep.composing.composition_errors import check_readable, compose
from ragsweep.sweep.composing.config_policy import ConfigPolicy
from ragsweep.sweep.composing.trees import value_at
from ragsweep_golden.gates.subject import Embed
from ragsweep_golden.sets.entries import Entry, as_entry, lacks_evidence, read_entries

_DEFAULTS = ("dataset=null", "embedder=null", "llm=null", "llm=none")  # omitted: Hydra accepts null only in a file
_MAPPINGS = ("budget", "gates", "minimums", "mixes", "profiles", "strata", "strata.patterns", "strata.priorities")
_OF_BUILD = ("language", "questions", "unanswerable", "strata", "mix", "minimums", "prompt", "unanswerable_prompt")
_READ_BY: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(_OF_BUILD, ("build",)),
    **dict.fromkeys(("log", "traces", "experiment"), ("harvest",)),
    **dict.fromkeys(("pool", "reviewer", "port"), ("review",)),
    **dict.fromkeys(("golden", "depth"), ("pool",)),
    **dict.fromkeys(("encoding", "overwrite"), ("import",)),
    **dict.fromkeys(("llm", "budget", "gates", "profile", "profiles"), ("build", "gates")),
    "answer_prompt": ("gates",),
    "chunker": ("add", "build", "export", "gates", "harvest"),
    "dataset": ("export", "gates", "import", "verify"),
    "embedder": ("build", "gates", "harvest"),
    "format": ("export", "import"),
    "mixes": ("build", "check"),
    "old": ("verify",),
    "out": ("build", "export", "import", "pool", "verify"),
    "quotas": ("check",),
    "seed": ("build", "export", "gates", "import", "verify"),
    "share": ("partition",),
}
"""Key of conf/golden.yaml -> the subcommands that read it; a key that is not listed is accepted by all of them."""


def words_parser(command: str, about: str, words: str, metavar: str = "FILE | KEY=VALUE", nargs: str = "*") -> Parser:
    """Return the parser of a subcommand that takes a file and settings; ``about`` and ``words`` are help texts."""
    parser = Parser(f"ragsweep golden {command}", description=about)
    parser.add_argument("words", nargs=nargs, metavar=metavar, help=words)
    return parser


def read_inputs(parser: Parser, arguments: Sequence[str]) -> tuple[argparse.Namespace, Inputs]:
    """Return the options and the inputs of a subcommand.

    Raises ConfigError for several files, and as ``Inputs`` does.
    """
    options, command = parser.parse_intermixed_args(arguments), parser.prog.rpartition(" ")[2]
    settings = [word for word in options.words if "=" in word or re.match("~[^/]", word)]
    files = [word for word in options.words if word not in settings]
    if len(files) > 1:
        raise ConfigError(f"golden {command}: takes only one file, got {', '.join(files)}; write settings as KEY=VALUE")
    return options, Inputs(command, settings, files[0] if files else None)


class Given(NamedTuple):
    """A golden set: its entries, the question that an evaluation reads from each, and the set's own corpus, if any."""

    entries: list[dict[str, Any]]
    questions: Sequence[Question]
    own_corpus: Corpus | None = None


def _check_read(command: str, overrides: Sequence[str]) -> None:
    for word in overrides:
        key = word.partition("=")[0].lstrip("+~").rpartition("@")[2].partition(".")[0]
        if command not in _READ_BY.get(key, (command,)):
            readers = ", ".join(f"golden {name}" for name in _READ_BY[key])
            raise ConfigError(f"{word}: is not used by golden {command}, only by {readers}; remove it")


def _check_shapes(values: Mapping[str, Any]) -> None:
    if values["out"] == "-":
        raise ConfigError(f"out: {NO_OUTPUT}")
    for key in _MAPPINGS:
        if not isinstance(given := value_at(values, key), Mapping):
            raise ConfigError(f"{key}: must be a mapping, got {given!r}; set single keys, as in {key}.KEY=VALUE")
    for name, mix in values["mixes"].items():
        if not isinstance(mix, Mapping) or not all(isinstance(share, int | float) for share in mix.values()):
            raise ConfigError(f"mixes.{name}: must map question types to shares, as in {{factual: .5}}, got {mix!r}")
    for name, gates in values["profiles"].items():
        if not isinstance(gates, list):
            raise ConfigError(f"profiles.{name}: must be a list of gates, such as [G1-1, G2-1], got {gates!r}")


class Inputs:
    """The config of a subcommand, and the inputs named in the config; each text is embedded only once."""

    def __init__(self, command: str, overrides: Sequence[str], file: str | None = None) -> None:
        """Compose conf/golden.yaml with overrides.

        Raises ConfigError for a malformed or unknown override, and for a key that the subcommand does not read.
        """
        for word in overrides:
            if "=" not in word and not word.startswith("~"):
                raise ConfigError(f"{word!r}: neither an option nor KEY=VALUE, such as corpus=FOLDER")
        given = [word for word in overrides if word not in _DEFAULTS]
        check_readable(given)
        _check_read(command, given)
        named = {word.partition("=")[0].removeprefix("+") for word in given}
        if "llm" in named and "embedder" not in named:
            given.append("~metrics.semantic_similarity")  # llm= adds this metric, but it needs an embedder
        self.command, self.file, self.builder = command, file, Builder()
        self.values = compose(Composer(None, ConfigPolicy(Secrets()), "golden"), given).values
        _check_shapes(self.values)
        self._vectors: dict[str, Floats] = {}

    @property
    def path(self) -> Path:
        """The path of the golden file; raises ConfigError if no file is given."""
        if self.file is None:
            raise ConfigError(f"golden {self.command}: specify the golden file")
        return Path(self.file).expanduser()

    @cached_property
    def given_corpus(self) -> Corpus | None:
        """The corpus given by ``corpus=``; None if ``corpus=`` is not set; raises as ``read_documents`` does."""
        return read_documents(self.values["corpus"]) if self.values["corpus"] else None

    @property
    def corpus(self) -> Corpus:
        """The corpus given by ``corpus=``; raises ConfigError if ``corpus=`` is not set."""
        if self.given_corpus is None:
            raise ConfigError(f"golden {self.command}: specify the documents with corpus=FOLDER or corpus=FILE")
        return self.given_corpus

    def destination(self, way: str) -> Path:
        """Return the path given by ``out=``; raises ConfigError, with ``way`` as the remedy, if ``out=`` is not set."""
        if not self.values["out"]:
            raise ConfigError(f"golden {self.command}: specify the destination: {way}")
        return Path(str(self.values["out"])).expanduser()

    def read_set(self) -> Given:
        """Return the golden set of the file, or of the reader given by ``dataset=``.

        Raises ConfigError unless exactly one of file and reader is given, and InputError for faults of the set.
        """
        if (self.file is None) == ("dataset" not in self.values):
            way = "specify the golden file or, for another format, its reader: dataset=squad dataset.path=FILE"
            raise ConfigError(f"golden {self.command}: {way}{'; not both' if self.file else ''}")
        if self.file is not None:
            faults = Faults()
            read = read_entries(self.path, faults)
            if any("unknown key" in fault for fault in faults.found):
                way = "name its reader, such as dataset=beir dataset.path=FOLDER, or run ragsweep golden import"
                faults.found.insert(0, f"{self.file}: for a set in another format, {way}")
            faults.raise_any()
            return Given([entry for entry, _ in read], [question for _, question in read])
        dataset: Dataset = self.builder.build(self.values["dataset"], "dataset").value.load()
        show_notes(dataset.notes)
        return Given([as_entry(one) for one in dataset.golden.questions], dataset.golden.questions, dataset.corpus)

    def split(self, corpus: Corpus) -> Spans:
        """Return the spans of the chunks into which the chunker of the config splits a corpus."""
        chunker = resolve_language(self.values["chunker"], corpus, "chunker")
        spans: Spans = self.builder.build(chunker, "chunker").value.split(corpus)
        return spans

    @property
    def embed(self) -> Embed | None:
        """A function that embeds texts as an array of unit vectors (texts, dimension); None if there is no embedder.

        The vector of a blank text is NaN.
        """
        return self._embed if "embedder" in self.values else None

    def _embed(self, texts: Sequence[str]) -> Floats:
        if new := [text for text in dict.fromkeys(texts) if text not in self._vectors]:
            embedder = self.builder.build(self.values["embedder"], "embedder").value
            vectors = np.asarray(embedder.embed_documents([text or " " for text in new]).vectors, dtype=np.float32)
            with np.errstate(invalid="ignore", divide="ignore"):
                vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors[[not text.strip() for text in new]] = np.nan
            self._vectors |= dict(zip(new, vectors, strict=True))
        return np.stack([self._vectors[text] for text in texts]) if texts else np.empty((0, 1), dtype=np.float32)


def check_outputs(outputs: Iterable[object], *inputs: object) -> None:
    """Raise ConfigError if a path in ``outputs`` is one of the ``inputs``; empty paths are ignored."""
    read = [Path(str(one)).expanduser().resolve() for one in inputs if one]
    for path in filter(None, outputs):
        if Path(str(path)).expanduser().resolve() in read:
            raise ConfigError(f"{path}: is read by this command; choose another file for the output")


def next_step(command: str, *words: object) -> str:
    """Return the command line of a ``ragsweep golden`` subcommand, quoted for a shell."""
    return shlex.join(["ragsweep", "golden", command, *map(str, words)])


def evidence_step(entries: Sequence[Entry], file: object, corpus: object) -> Iterator[Statement]:
    """Yield the command that adds missing evidence, if an entry lacks evidence, and a file and a corpus are given."""
    lacking = sum(map(lacks_evidence, entries))
    if file and corpus and lacking:
        text = f"choose the evidence for {counted(lacking, 'question')} without any"
        yield Statement(next_step("add", file, f"corpus={corpus}"), text, {"questions": lacking})


def user_name() -> str:
    """Return the user name in the config of git, else the environment variable USER, else "unnamed"."""
    try:
        named = subprocess.run(["git", "config", "user.name"], capture_output=True, text=True, check=False).stdout
    except OSError:
        named = ""
    return named.strip() or os.environ.get("USER") or "unnamed"


class Model:
    """The model ``llm`` of a config, to use with any prompt of the config; replies are cached in a folder.

    The config's budget limits the calls.
    """

    def __init__(self, values: Mapping[str, Any], services: ServiceSession, folder: Path, listener: Listener) -> None:
        self._values, self._builder = values, Builder(services.connect)
        prices: Prices = self._builder.build(values["prices"], "prices").value
        budget = Budget(**values["budget"])
        budget.check()
        services.meter.limit(budget, prices)
        self.executor = Executor(open_store(folder, listener.warned), listener)

    def prompted(self, key: str) -> BuiltPart:
        """Return the model with the prompt under a key of the config."""
        return self._builder.build({**self._values["llm"], "prompt": self._values[key]}, "llm")
