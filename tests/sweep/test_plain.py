"""A composed config becomes plain values: OmegaConf's own, whatever is in it."""

from __future__ import annotations

from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ragsweep.core.errors import ConfigError
from ragsweep.sweep.plain import parameters, resolved

KEYS = st.sampled_from(["a", "b", "c", "d"])
LINKS = st.lists(KEYS, min_size=1, max_size=3).map(lambda keys: f"${{{'.'.join(keys)}}}")
UNUSUAL = st.sampled_from(["word", "???", "${oc.env:HOME}", "${a}/${b}", "${.a}"])
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), UNUSUAL, LINKS)
NODES = st.recursive(
    LEAVES, lambda inside: st.dictionaries(KEYS, inside, max_size=3) | st.lists(inside, max_size=2), max_leaves=12
)


@given(st.dictionaries(KEYS, NODES, max_size=4))
def test_values_are_those_of_omegaconf_and_so_is_whether_there_are_any(content: dict[str, Any]) -> None:
    config = OmegaConf.create(content)
    try:
        expected = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except (OmegaConfBaseException, RecursionError):
        with pytest.raises(ConfigError):
            resolved(config)
    else:
        assert resolved(config) == expected


def test_value_that_cannot_be_resolved_is_named_with_its_key() -> None:
    with pytest.raises(ConfigError, match=r"^a\.b: .*nowhere"):
        resolved(DictConfig({"a": {"b": "${nowhere}"}}))


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("'\\\n\"{}[],=: .1e"), max_size=12))
@example("null")
@example("1e5")
@example("it's \\'so\\")
@example("two\nlines of {braces}, and more")
def test_a_text_is_spelled_so_that_hydra_reads_it_back(text: str) -> None:
    if "${" in text:  # an interpolation, wherever it stands
        return
    config = OmegaConf.create({"word": text, "all": [text, "z"]})
    spelled = parameters(config, {"word": text, "all": [text, "z"]})
    for name, expected in (("word", text), ("all", [text, "z"])):
        read = OverridesParser.create().parse_override(f"{name}={spelled[name]}").value()
        assert ([str(one) for one in read] if isinstance(read, list) else str(read)) == expected
