"""A bundle: a folder with a config, its corpus and its computed stages, from which it is served without a store."""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ragsweep.core.errors import InputError
from ragsweep.core.identity import Node
from ragsweep.core.types import Corpus
from ragsweep.evaluation.config_graph import ConfigGraph
from ragsweep.stages.blobs import Damaged, OtherFormat, pack, unpack
from ragsweep.stages.executor import Executor
from ragsweep.stages.graph import SOURCE, walk

FORMAT = "ragsweep.bundle/1"
MANIFEST, CORPUS, STAGES = "manifest.json", "corpus.jsonl", "stages"


def served_nodes(graph: ConfigGraph) -> Iterator[Node]:
    """Yield the whole values that answering a question reads; the corpus is a file of its own."""
    ends = [graph.context, graph.chunks, *(node for node in (graph.answer, graph.route, graph.query) if node)]
    yield from (node for node in walk(ends) if node.kind == "whole" and node.stage != SOURCE)


def write_bundle(
    folder: Path, config: Mapping[str, Any], corpus: Corpus, graph: ConfigGraph, executor: Executor
) -> None:
    """Write a bundle into an empty folder; what the store has is not computed again."""
    (folder / STAGES).mkdir(parents=True)
    rows = zip(corpus.ids, corpus.titles, corpus.texts, strict=True)
    with (folder / CORPUS).open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    addresses = []
    for node in served_nodes(graph):
        addresses.append(node.address)
        with (folder / STAGES / node.address).open("wb") as file:
            file.writelines(pack(node.address, executor.get(node)))
    manifest = {
        "format": FORMAT,
        "ragsweep": version("ragsweep"),
        "corpus": {"digest": corpus.digest, "version": corpus.version},
        "context": graph.context.address,
        "stages": addresses,
        "files": sorted({f"{name} {digest}" for node in walk([graph.context, *graph.asked])
                         for name, digest in node.spec.files.items()}),
        "config": dict(config),
    }  # fmt: skip
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2, default=str), "utf-8")


def read_bundled_corpus(folder: Path, manifest: Mapping[str, Any]) -> Corpus:
    """Read the corpus of a bundle. Raises InputError where it is not there, or not the one that was bundled."""
    try:
        with (folder / CORPUS).open(encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
    except (OSError, ValueError) as fault:
        raise InputError(f"{folder}: no bundle of ragsweep: {fault}") from None
    ids, titles, texts = zip(*rows, strict=True) if rows else ((), (), ())
    corpus = Corpus(ids, titles, texts, manifest["corpus"]["version"])
    if corpus.digest != manifest["corpus"]["digest"]:
        raise InputError(f"{folder / CORPUS}: is not the corpus that was bundled")
    return corpus


@dataclass(frozen=True)
class Bundle:
    """A bundle that was read."""

    folder: Path
    manifest: Mapping[str, Any]
    corpus: Corpus

    @classmethod
    def read(cls, folder: Path) -> Bundle:
        """Read manifest and corpus. Raises InputError for a folder that is no bundle, or is damaged."""
        try:
            manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        except (OSError, ValueError) as fault:
            raise InputError(f"{folder}: no bundle of ragsweep: {fault}") from None
        if manifest.get("format") != FORMAT:
            raise InputError(f"{folder}: format {manifest.get('format')}, this version reads {FORMAT}")
        return cls(folder, manifest, read_bundled_corpus(folder, manifest))

    def load(self, graph: ConfigGraph, executor: Executor) -> None:
        """Give an executor the bundled values.

        Raises InputError where the parts, built here, are not those that were bundled, or a file is damaged.
        """
        if graph.context.address != self.manifest["context"]:
            raise InputError(
                f"{self.folder}: the parts that are installed here compute something else than what was bundled"
                " (another version of ragsweep, of a library or model weights, or a processor on which dtype=auto is"
                " another precision); install the model's requirements, or ship a config with the precision named"
            )
        for node in served_nodes(graph):
            path = self.folder / STAGES / node.address
            try:
                with path.open("rb") as file:
                    data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                executor.provide(node, unpack(data, node.address, node.result).value)
            except (OSError, ValueError, Damaged, OtherFormat) as fault:
                raise InputError(f"{path}: cannot be used: {fault}") from None
