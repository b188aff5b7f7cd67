"""The option files: they compose as documented, and hold exactly the constructor's arguments."""

import inspect
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import get_class, instantiate
from omegaconf import OmegaConf

from ragsweep.core.types import Corpus, HybridRetriever, TextRetriever, VectorRetriever
from ragsweep.evaluation.corpus_language import resolve_language
from ragsweep.parts.retrievers import NoRetriever

CONF = Path(__file__).parents[3] / "conf"


def composed(*overrides: str) -> Any:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose(overrides=["+embedder=minilm", *overrides])
    OmegaConf.resolve(config)
    return config


def built(*overrides: str) -> Any:
    """Build the retriever of overrides for an English corpus."""
    plain = OmegaConf.to_container(composed(*overrides).retriever)
    return instantiate(resolve_language(plain, Corpus(["d"], [""], ["The cat is on the mat."])))


@pytest.mark.parametrize("group", ["chunker", "embedder", "retriever", "retriever/index", "reranker"])
def test_option_files_hold_exactly_the_constructors_arguments(group: str) -> None:
    for path in sorted((CONF / group).glob("*.yaml")):
        assert path.read_text("utf-8").startswith("# "), f"{path}: the first line says what it is"
        with initialize_config_dir(str(CONF), version_base="1.3"):
            node = OmegaConf.select(compose(overrides=[f"+{group}={path.stem}"]), group.replace("/", "."))
        arguments = set(inspect.signature(get_class(node["_target_"])).parameters)
        assert set(node) - {"_target_"} == arguments, path


def test_every_kind_of_retriever_is_recognised_by_its_methods() -> None:
    kinds = {"bm25": TextRetriever, "none": TextRetriever, "vector": VectorRetriever, "hybrid_rrf": HybridRetriever}
    for option, kind in {**kinds, "hybrid_convex": HybridRetriever}.items():
        part = built(f"+retriever={option}")
        assert [k for k in (TextRetriever, VectorRetriever, HybridRetriever) if isinstance(part, k)] == [kind], option


def test_legs_of_a_hybrid_are_the_retrievers_own_files() -> None:
    for option in ("hybrid_rrf", "hybrid_convex"):
        legs = composed(f"+retriever={option}").retriever.legs
        assert legs.bm25 == composed("+retriever=bm25").retriever
        assert legs.vector == composed("+retriever=vector").retriever


def test_index_of_a_hybrids_leg_can_be_chosen() -> None:
    config = composed("+retriever=hybrid_rrf", "retriever/index@retriever.legs.vector.index=flat")
    assert config.retriever.legs.vector.index._target_ == "ragsweep.parts.indexes.Flat"


def test_any_retriever_can_be_a_leg() -> None:
    part = built("+retriever=hybrid_rrf", "retriever@retriever.legs.vector=none")
    assert isinstance(part.legs["vector"], NoRetriever)
    added = ["+retriever@retriever.legs.french=bm25", "retriever.legs.french.language=french"]
    part = built("+retriever=hybrid_rrf", *added)
    assert part.weights == {"bm25": 1, "vector": 1, "french": 1}
    assert (part.legs["french"].language, part.legs["bm25"].language) == ("french", "english")
    nested = composed("+retriever=hybrid_convex", "retriever@retriever.legs.vector=hybrid_rrf").retriever
    assert nested.legs.vector.legs.vector.index._target_ == "ragsweep.parts.indexes.Flat"
