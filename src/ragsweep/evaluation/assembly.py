"""Build the graph of stages that a config describes, part by part."""

from collections.abc import Mapping, Sequence
from typing import Any

from ragsweep.core.building import Builder, check_members
from ragsweep.core.errors import ConfigError
from ragsweep.core.identity import BuiltPart
from ragsweep.core.traits import traits_of
from ragsweep.core.types import (
    Chunker,
    Corpus,
    DatasetReader,
    Generator,
    HybridRetriever,
    OutputReader,
    QueryWriter,
    Reranker,
    Router,
    System,
    TextRetriever,
    VectorRetriever,
)
from ragsweep.evaluation.config_graph import ConfigGraph, Parts
from ragsweep.evaluation.pipeline import graph

PROTOCOLS: Mapping[str, Sequence[type]] = {
    "chunker": (Chunker,),
    "retriever": (TextRetriever, VectorRetriever, HybridRetriever),
    "reranker": (Reranker,),
    "llm": (Generator,),
    "router": (Router,),
    "query": (QueryWriter,),
    "system": (System,),
    "dataset": (DatasetReader,),
    "output": (OutputReader,),
}
"""The protocols of each group of a config; a part of the group must satisfy one of them."""


def checked_part(builder: Builder, plain: Mapping[str, Any], group: str) -> BuiltPart:
    """Build the part of a group. Raises ConfigError if the part satisfies none of the group's protocols."""
    built = builder.build(plain[group], group)
    check_members(built.value, PROTOCOLS[group], group)
    return built


def optional_part(builder: Builder, plain: Mapping[str, Any], group: str) -> BuiltPart | None:
    """Build the part of an optional group; return None if the group is disabled."""
    built = checked_part(builder, plain, group)
    return None if traits_of(built.value).silent else built


def build_graph(
    builder: Builder,
    plain: Mapping[str, Any],
    corpus: Corpus,
    judged: Mapping[str, BuiltPart] | None = None,
    exact: bool = False,
    excluded: Mapping[str, Sequence[str]] | None = None,
) -> ConfigGraph:
    """Build the graph of a config over a corpus.

    ``judged`` maps names to judged metrics. With ``exact``, every approximate index is compared with an exact search.
    ``excluded`` maps search texts to the ids of documents to remove from their rankings. Raises ConfigError, whose
    message names the key, for incompatible parts.
    """
    chunker, retriever, reranker = (
        checked_part(builder, plain, group) for group in ("chunker", "retriever", "reranker")
    )
    depth, candidates = plain["depth"], reranker.value.candidates
    if candidates > depth:
        raise ConfigError(
            f"reranker.candidates={candidates} exceeds depth={depth}; raise depth, or lower reranker.candidates"
        )
    generator, router, query = (optional_part(builder, plain, group) for group in ("llm", "router", "query"))
    return graph(
        Parts(
            corpus,
            chunker,
            retriever,
            reranker,
            depth,
            plain["top_k"],
            exact,
            plain["context_budget"],
            generator,
            judged or {},
            router,
            query,
            excluded or {},
        )
    )
