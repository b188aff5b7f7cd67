"""A job's config equals Hydra's own composition in every key, although only parts of it are composed again."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import compose
from hypothesis import example, given, settings
from hypothesis import strategies as st
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ragsweep.core.errors import ConfigError
from ragsweep.sweep.composing.compose import CONFIG, Composer, hydra_initialized
from ragsweep.sweep.composing.job import JobConfig, Template, to_plain
from ragsweep.sweep.running.loop import to_yaml
from support.commands import write_option

LINES = [
    "retriever=bm25", "retriever=vector", "retriever=hybrid_rrf", "retriever=bm52", "retriever=null", "~retriever",
    "retriever@retriever.legs.vector=bm25", "~reranker=none", "+reranker=none", "chunker=fixed_size", "chunker.size=5",
    "retriever.k1=2", "retriever.k=3", "retriever={k1: 7}", "retriever.legs.bm25.k1=3",
    "+metrics.mine={_target_: my.Metric}", "~metrics.mrr", "~metrics.mrr=5", "metrics=unlabelled", "~metrics",
    "metrics.mrr._target_=my.Metric", "top_k=3", "top_k=${depth}", "+top_k=4", "++top_k=4", "~top_k", "topk=3",
    "top_k=null", "top_k.deep=1", "depth='50'", 'seed="a,b=c d"', "seed=[1,[2,{x: y}]]", "seed=${oc.env:HOME,x}",
    "+new.deep.key=1", "++new.deep=2", "headline=[mrr]", "headline.0=mrr", "embedder.normalize=false",
    "embedder.dtype=float32", "dataset.limit=3", "+embedder.extra=true", "retriever.embedder.dtype=bfloat16",
    "sweeps=top_k", "store.path=\\x", "store.path='???'", "evidence.threshold=nan", "timeout=1e3", "rerun=TRUE",
    "hydra.job.name=mine", "+hydra.job.env_set.A=b", "hydra.sweep.dir=x/${now:%Y}", "hydra/job_logging=default",
    "hydra.nothing=1",
]  # fmt: skip


@pytest.fixture(scope="module")
def composer() -> Composer:
    return Composer()


def outcome(act: Any) -> Any:
    """Return what was made, or the kind and text of the error."""
    try:
        return act()
    except Exception as fault:
        return type(fault), str(fault)


def by_hydra(lines: list[str]) -> Any:
    with hydra_initialized():
        config = compose(CONFIG, lines)
    try:
        values: Any = to_plain(config)
    except ConfigError as fault:
        values = str(fault)
    return repr([OmegaConf.to_container(config, resolve=False), values])


def ours(config: JobConfig) -> Any:
    try:
        values: Any = config.values
    except ConfigError as fault:
        values = str(fault)
    return repr([config.written, values])


OVERRIDES = st.lists(st.sampled_from(LINES), max_size=5, unique=True)


@settings(max_examples=3)
@given(OVERRIDES)
@example(["retriever=bm25", "retriever.k1=2", "top_k=3", "~metrics.mrr", "+new.deep.key=1"])
@example(["embedder.normalize=false", "embedder.dtype=float32", "retriever=hybrid_rrf", "depth='50'"])
@example(["retriever=null"])
@example(["retriever={k1: 7}", "top_k=3", "++top_k=4", "retriever=bm25", "retriever.k1=2"])
def test_config_is_the_one_that_hydra_composes(composer: Composer, lines: list[str]) -> None:
    assert outcome(lambda: ours(composer.compose(lines))) == outcome(lambda: by_hydra(lines))


@pytest.mark.nightly
@settings(max_examples=50)
@given(OVERRIDES)
def test_more_configs_are_those_that_hydra_composes(composer: Composer, lines: list[str]) -> None:
    assert outcome(lambda: ours(composer.compose(lines))) == outcome(lambda: by_hydra(lines))


def test_jobs_that_differ_in_values_share_a_template_and_no_value() -> None:
    composer = Composer()
    first, second = (composer.compose(["retriever=bm25", f"top_k={k}", "retriever.k1=2"]) for k in (3, 4))
    assert first.template is second.template
    first.values["retriever"]["b"] = "changed"
    assert (first.values["top_k"], second.values["top_k"], second.values["retriever"]["b"]) == (3, 4, 0.75)
    assert composer.compose(["retriever=bm25"]).values["top_k"] == 5


def test_value_that_another_key_reads_reaches_that_key() -> None:
    config = Composer().compose(["retriever=vector", "embedder.max_length=77"])
    assert config.changes == {"embedder.max_length": 77}
    assert config.values["retriever"]["embedder"]["max_length"] == 77
    assert config.template.values({})["retriever"]["embedder"]["max_length"] != 77


READS = {
    "seed": 7, "same": "${seed}", "part": {"size": 3, "inner": {"deep": 1, "up": "${..size}", "own": "${.deep}"}},
    "rest": {"of": "${part.inner}", "text": "n${seed}_${part.size}", "list": ["${part.size}"], "env": "${oc.env:X,7}"},
    "chosen": "${oc.select:part.size}", "hydra": {"runtime": {"choices": {}}},
}  # fmt: skip


@given(st.dictionaries(st.sampled_from(["seed", "part.size", "part.inner.deep", "same", "rest.text"]), st.integers()))
@pytest.mark.parametrize("without", [(), ("chosen",)])
def test_values_are_those_of_a_config_in_which_they_were_set(without: tuple[str, ...], changes: dict[str, int]) -> None:
    tree = {key: value for key, value in READS.items() if key not in without}
    template, changed = Template(DictConfig(tree)), DictConfig(copy.deepcopy(tree))
    for key, value in changes.items():
        OmegaConf.update(changed, key, value)
    expected = OmegaConf.to_container(changed, resolve=True)
    assert {**template.values(changes), "hydra": tree["hydra"]} == expected
    assert OmegaConf.to_container(template.changed(changes), resolve=True) == expected
    assert OmegaConf.to_container(template.changed({})) == tree


KEYS = st.sampled_from(["a", "b", "c", "d"])
LINKS = st.lists(KEYS, min_size=1, max_size=3).map(lambda keys: f"${{{'.'.join(keys)}}}")
UNUSUAL = st.sampled_from(["word", "???", "${oc.env:HOME}", "${a}/${b}", "${.a}"])
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), UNUSUAL, LINKS)
NODES = st.recursive(
    LEAVES, lambda inside: st.dictionaries(KEYS, inside, max_size=3) | st.lists(inside, max_size=2), max_leaves=12
)


@given(st.dictionaries(KEYS, NODES, max_size=4))
def test_config_without_plain_values_is_one_error(content: dict[str, Any]) -> None:
    config = OmegaConf.create(content)
    try:
        expected = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except (OmegaConfBaseException, RecursionError):
        with pytest.raises(ConfigError):
            to_plain(config)
    else:
        assert to_plain(config) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("${nowhere}", r"^a\.b: interpolates nowhere, which is not a key; correct the name$"),
        ("${oc.env:NO_SUCH}", r"^a\.b: the environment variable NO_SUCH is not set; .* \$\{oc\.env:NO_SUCH,DEFAULT\}$"),
    ],
)
def test_value_that_cannot_be_resolved_is_named_with_its_key_and_a_way_out(value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        to_plain(DictConfig({"a": {"b": value}}))


def test_folder_that_is_added_is_searched_and_not_written_down(tmp_path: Path) -> None:
    write_option(tmp_path, "retriever/mine", "_target_: ragsweep.parts.retrievers.Bm25\nk1: 9\n")
    config = Composer(tmp_path).compose(["retriever=mine", "hydra.job.name=x"])
    assert config.values["retriever"]["k1"] == 9
    assert config.template.hydra["overrides"]["hydra"] == ["hydra.job.name=x"]


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text("aé :#'\"-1e.", max_size=8),
    st.sampled_from(["1", "true", "null", "1e3", "1_000", "off", "a: b", "- a", " x", "é\n\tü", "#", "", "~", "0x1"]),
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["a", "on", "1", "é", "a: b"]), SCALARS | st.lists(SCALARS, max_size=2)))
def test_files_of_jobs_are_read_as_they_were(values: dict[str, Any]) -> None:
    assert OmegaConf.to_container(OmegaConf.create(to_yaml(values))) == values
    assert yaml.safe_load(to_yaml(values)) == values


def test_jobs_of_a_named_sweep_that_differ_in_plain_values_are_composed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    composed: list[list[str]] = []

    def counted(name: str, overrides: list[str], **settings: Any) -> Any:
        composed.append(overrides)
        return compose(name, overrides, **settings)

    monkeypatch.setattr("ragsweep.sweep.composing.compose.compose", counted)
    composer = Composer()
    for top_k in (3, 5):
        composer.compose(["sweeps=top_k", f"top_k={top_k}"])
    assert composed == [["sweeps=top_k"]]
