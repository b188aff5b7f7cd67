"""A bundle: a folder with a config, its corpus and its computed stages, for serving without a store."""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ragsweep.core.errors import InputError
from ragsweep.core.identity import Node, content_hash
from ragsweep.core.types import Corpus
from ragsweep.evaluation.config_graph import ConfigGraph
from ragsweep.stages.blobs import OtherFormat, pack, unpack
from ragsweep.stages.executor import Executor
from ragsweep.stages.graph import SOURCE, walk

FORMAT = "ragsweep.bundle/2"
MANIFEST, CORPUS, STAGES = "manifest.json", "corpus.jsonl", "stages"
PARTS = ("chunker", "retriever or reranker", "top_k or context_budget", "query", "router", "llm")
"""Config keys that belong to each address in ``ConfigGraph.addresses``, in the same order."""
_AGAIN = "ship the config again: ragsweep ship RUN --name MODEL"


def served_nodes(graph: ConfigGraph) -> Iterator[Node]:
    """Yield the nodes of the values that all questions share (chunks, indexes); the corpus is a separate file."""
    ends = [graph.context, graph.chunks, *(node for node in (graph.answer, graph.route, graph.query) if node)]
    yield from (node for node in walk(ends) if node.kind == "whole" and node.stage != SOURCE)


def changed_part(graph: ConfigGraph, addresses: Mapping[str, str]) -> str:
    """Return the keys (see `PARTS`) of the first part whose address differs from ``addresses``; "" if none differs."""
    parts = zip(PARTS, graph.addresses.items(), strict=True)
    return next((part for part, (name, address) in parts if addresses.get(name, "") != address), "")


def write_bundle(
    folder: Path, config: Mapping[str, Any], corpus: Corpus, graph: ConfigGraph, executor: Executor
) -> None:
    """Write a bundle to a folder; the manifest also lists the files that the folder already contains.

    Stages that are not stored are computed.
    """
    (folder / STAGES).mkdir(parents=True)
    rows = zip(corpus.ids, corpus.titles, corpus.texts, strict=True)
    with (folder / CORPUS).open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    for node in served_nodes(graph):
        with (folder / STAGES / node.address).open("wb") as file:
            file.writelines(pack(node.address, executor.get(node)))
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    manifest = {
        "format": FORMAT,
        "ragsweep": version("ragsweep"),
        "corpus": corpus.version,
        "addresses": graph.addresses,
        "files": {path.relative_to(folder).as_posix(): _digest(path) for path in files},
        "config": json.loads(json.dumps(config, default=str)),
    }
    (folder / MANIFEST).write_text(json.dumps({"digest": content_hash(manifest), **manifest}, indent=2), "utf-8")


def read_manifest(folder: Path, names: Collection[str] | None) -> dict[str, Any]:
    """Return the manifest of a bundle, after verifying the digests of all its files, or of the files in ``names``.

    Raises InputError for a folder that is not a bundle, has a different format, or has changed since it was shipped.
    """
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
        found, digest = manifest["format"], manifest.pop("digest", "")
        is_whole = digest == content_hash(manifest)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as fault:
        raise InputError(f"{folder}: not a ragsweep bundle ({type(fault).__name__}: {fault}); {_AGAIN}") from None
    if found != FORMAT:
        raise InputError(f"{folder}: has format {found!s:.40}; this version reads {FORMAT}; {_AGAIN}")
    if not is_whole:
        raise InputError(f"{folder / MANIFEST}: differs from the shipped file; {_AGAIN}")
    for name in manifest["files"] if names is None else names:
        if _digest(folder / name) != manifest["files"].get(name):
            raise InputError(f"{folder / name}: is missing, or differs from the shipped file; {_AGAIN}")
    return manifest


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "blake2b").hexdigest()
    except OSError:
        return ""


@dataclass(frozen=True)
class Bundle:
    """The manifest and the corpus of a bundle; its stages remain in files until `load` is called."""

    folder: Path
    manifest: Mapping[str, Any]
    corpus: Corpus

    @classmethod
    def read(cls, folder: Path, names: Collection[str] | None = None) -> Bundle:
        """Return the bundle in a folder; ``names`` and the errors are as in ``read_manifest``."""
        manifest = read_manifest(folder, names)
        with (folder / CORPUS).open(encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        ids, titles, texts = zip(*rows, strict=True) if rows else ((), (), ())
        return cls(folder, manifest, Corpus(ids, titles, texts, manifest["corpus"]))

    def load(self, graph: ConfigGraph, executor: Executor) -> None:
        """Load the bundled values into an executor.

        Raises InputError if a part of ``graph`` differs from the shipped part, or if a value has a different format.
        """
        if part := changed_part(graph, self.manifest["addresses"]):
            raise InputError(
                f"{self.folder}: {part}: differs from the shipped part: ragsweep, a library, your own code or the model"
                " weights have changed, or dtype=auto selects another precision on this processor; install the model's"
                " requirements.txt, or run the config again on this machine, with a fixed dtype, and ship that run"
            )
        for node in served_nodes(graph):
            with (self.folder / STAGES / node.address).open("rb") as file:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            try:
                executor.provide(node, unpack(data, node.address, node.result).value)
            except OtherFormat as fault:
                raise InputError(f"{self.folder}: {node.stage}: cannot be used: {fault}; {_AGAIN}") from None
