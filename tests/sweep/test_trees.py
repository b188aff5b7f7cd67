"""A config becomes parameters as they are typed."""

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st

from ragsweep.core.errors import ConfigError
from ragsweep.sweep.composing.job import Job
from ragsweep.sweep.composing.trees import spell
from support.commands import composed


def job(*overrides: str) -> Job:
    return Job(composed(*overrides), "x", overrides)


def test_parameters_are_spelled_as_they_are_typed() -> None:
    found = job("top_k=7", "dataset.limit=null", "embedder.normalize=false").parameters
    assert found["top_k"] == "7"
    assert found["dataset.limit"] == "null"
    assert found["embedder.normalize"] == "false"
    assert found["retriever"] == "hybrid_rrf"
    assert found["retriever.legs.bm25.k1"] == "1.5"
    assert "hydra/launcher" not in found


def test_every_parameter_can_be_typed_back() -> None:
    first = job("retriever.legs.bm25.k1=1.2").parameters
    lines = [f"{name}={value}" for name, value in first.items() if "." in name or name in ("top_k", "depth", "seed")]
    assert job(*lines).parameters == first


def test_part_named_by_interpolation_appears_under_its_own_key_only() -> None:
    names = job().parameters
    assert "embedder.model" in names
    assert not any("vector.embedder" in name for name in names)


def test_what_cannot_change_a_result_is_no_parameter() -> None:
    assert not any(
        name.startswith(("tracking.", "store.", "metrics.", "plan", "headline")) for name in job().parameters
    )


def test_values_still_missing_are_named_all_at_once() -> None:
    with pytest.raises(ConfigError) as fault:
        _ = job("dataset=jsonl", "embedder=sentence_transformer").config.values
    assert "dataset.corpus: requires a value" in str(fault.value)
    assert "embedder.model: requires a value" in str(fault.value)


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("'\\\n\"{}[],=: .1e"), max_size=12))
@example("null")
@example("1e5")
@example("it's \\'so\\")
@example("two\nlines of {braces}, and more")
def test_a_text_is_spelled_so_that_hydra_reads_it_back(text: str) -> None:
    if "${" in text:  # an interpolation, wherever it stands
        return
    values = {"word": text, "all": [text, "z"]}
    parameters = spell(values, values)
    for name, expected in (("word", text), ("all", [text, "z"])):
        read = OverridesParser.create().parse_override(f"{name}={parameters[name]}").value()
        assert ([str(one) for one in read] if isinstance(read, list) else str(read)) == expected
