"""A late copy is a deep copy, whatever is done to it; and what it was taken from never changes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from omegaconf import DictConfig, OmegaConf, flag_override, open_dict, read_write

from hydra_plugins.ragsweep_grid._following import selected
from hydra_plugins.ragsweep_grid._late import copied, late, only, set_flag
from hydra_plugins.ragsweep_grid._writing import text
from ragsweep.sweep.plain import parameters, resolved

WRITTEN = """
seed: 7
same: ${seed}
part: {kind: a, size: 3, words: [x, "${seed}"], inner: {deep: 1, other: "${part.size}", none: null}}
rest: {of: "${part.inner}", text: "n${seed}_${part.kind}", list: [{a: 1}], path: "${oc.env:NO_SUCH_VARIABLE,.x}"}
hydra: {job: {num: 3, name: n}, log: "${hydra.job.name}/${hydra.job.num}.log", runtime: {dir: d}}
"""


def original() -> DictConfig:
    config = OmegaConf.create(WRITTEN)
    assert isinstance(config, DictConfig)
    OmegaConf.set_struct(config, True)
    return config


def flags(config: Any) -> Any:
    content = config.__dict__.get("_content")
    own = dict(config._metadata.flags), config._get_flag("struct"), config._get_flag("readonly")
    children = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return own, [flags(child) for child in children]


def facts(config: DictConfig) -> Any:
    """All that can be asked of a config: values, order, interpolations, flags, YAML, parents."""
    for key, node in config.items_ex(resolve=False):
        assert not OmegaConf.is_config(node) or node._get_parent() is config, key
    return OmegaConf.to_container(config), OmegaConf.to_yaml(config), flags(config), text(config)


def a_job_sets(config: DictConfig) -> Any:
    config.part.size = 9
    config.part.words[0] = "y"
    config.rest.list.append({"a": 3})
    return config.rest.of.other, config.same


def keys_come_and_go(config: DictConfig) -> Any:
    with open_dict(config):
        config.new = {"a": "${part.size}"}
        del config["same"]
        popped = config.part.pop("kind")
    config.part.inner = {"instead": 1}
    return popped, list(config), "same" in config, len(config.part), config.get("gone", 5)


def others_are_merged(config: DictConfig) -> Any:
    OmegaConf.update(config, "part.inner.deep", {"er": 2}, force_add=True)
    config.merge_with({"part": {"size": 4}})
    config.merge_with_dotlist(["rest.text=z"])
    return OmegaConf.to_container(OmegaConf.merge(config, {"seed": 1}), resolve=True)


def flags_are_set(config: DictConfig) -> Any:
    found = [config._get_flag("readonly"), config.part.inner._get_flag("readonly")]
    set_flag(config.part, "readonly", True)
    found += [config.part.inner._get_flag("readonly"), config.part.words._get_flag("readonly")]
    with pytest.raises(Exception, match="read-only"):
        config.part.inner.deep = 2
    with read_write(config.part), flag_override(config.part, "struct", False):
        config.part.inner.more = 2
    OmegaConf.set_readonly(config, True)
    return found, config.rest._get_flag("readonly")


def it_is_copied(config: DictConfig) -> Any:
    config.part.size = 5
    others = [pickle.loads(pickle.dumps(config)), copied(config, "hydra"), copy.deepcopy(config), config.copy()]
    alone = only(config, "part")
    config.part.size = 6
    config.part.inner.deep = 6
    return [facts(one) for one in others[:3]], OmegaConf.to_container(alone), list(others[3])


def it_is_read(config: DictConfig) -> Any:
    plain = resolved(config)
    seen = plain, parameters(config, plain), text(config), config == original(), repr(config), dict(config.part)
    return *seen, [*config.items()], [*config.part.values()], OmegaConf.missing_keys(config), config.part.inner.keys()


ACTS = [a_job_sets, keys_come_and_go, others_are_merged, flags_are_set, it_is_copied, it_is_read]


@given(st.lists(st.sampled_from(ACTS), max_size=3, unique=True))
@example([it_is_read, a_job_sets])
@example([it_is_copied, keys_come_and_go])
def test_whatever_is_done_to_a_late_copy_is_as_if_done_to_a_deep_one(
    acts: list[Callable[[DictConfig], Any]],
) -> None:
    whole, first = original(), original()
    deep, other = copy.deepcopy(whole), late(first)
    taken = late(first)
    for act in acts:
        outcomes = []
        for config in (deep, taken):
            try:
                outcomes.append(repr(act(config)))
            except Exception as fault:
                outcomes.append(f"{type(fault).__name__} {fault}")
        assert outcomes[0] == outcomes[1], act.__name__
    assert facts(taken) == facts(deep)
    assert facts(first) == facts(whole)
    assert facts(other) == facts(whole)


def test_text_of_copies_that_differ_in_one_value_is_that_of_each() -> None:
    first = original()
    for size in (3, "3", True, None, 1.0, "x: y"):
        config = late(first)
        config.part.size = size
        assert text(config) == OmegaConf.to_yaml(config)


KEYS = st.sampled_from(["seed", "part.kind", "part.size", "hydra.job.num", "part.words", "part.inner.none", "nowhere"])
PIECES = st.one_of(KEYS.map(lambda key: f"${{{key}}}"), st.sampled_from(["a", "/", " ", "\\", "${", "${oc.env:HOME}"]))


@given(st.lists(PIECES, max_size=4).map("".join))
def test_value_that_is_selected_is_the_one_that_omegaconf_selects(written: str) -> None:
    def outcome(ask: Callable[[], Any]) -> Any:
        try:
            found = ask()
        except Exception as fault:
            return type(fault), str(fault)
        return type(found), found

    config = original()
    config.rest._get_node("text").__dict__["_val"] = written
    expected = outcome(lambda: OmegaConf.select(config, "rest.text"))
    assert outcome(lambda: selected(late(config), "rest.text")) == expected


def test_variable_of_the_environment_is_read_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = original()
    assert resolved(late(first))["rest"]["path"] == ".x"
    monkeypatch.setenv("NO_SUCH_VARIABLE", str(tmp_path))
    assert resolved(late(first))["rest"]["path"] == str(tmp_path)
