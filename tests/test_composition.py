"""What is typed becomes the jobs that Hydra would make, and a typo becomes one sentence."""

from __future__ import annotations

import pytest
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsweep.composition import compose_jobs, config_folder, read_command
from ragsweep.errors import ConfigError


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["topk=3"], 'topk=3: no key "topk"; did you mean "top_k"?'),
        (["retriever=bm52"], 'retriever=bm52: no such option; did you mean "bm25"?'),
        (["retrever=bm25"], 'no key "retrever"; did you mean "retriever"?'),
        (["retriever=bm25", "retriever.k2=1"], 'no key "retriever.k2"; did you mean "retriever.k1"?'),
        (["sweeps=topk"], 'sweeps=topk: no such option; did you mean "top_k"? known: retrievers, top_k'),
        (["dataset.limt=3"], 'no key "dataset.limt"; did you mean "dataset.limit"?'),
        (["+top_k=3"], "top_k is there already; leave out the +"),
        (["top_k=3,5"], '"top_k=3,5" names several values: add -m'),
        (["hydra/launcher=jobllib"], 'did you mean "joblib"'),
    ],
)
def test_typo_is_one_sentence_with_the_nearest_name(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as fault:
        compose_jobs(read_command(overrides, multirun=False))
    assert message in str(fault.value)
    assert len(str(fault.value).splitlines()) == 1


WORDS = st.sampled_from(
    ["top_k=3", "top_k=3,5,10", "top_k=range(1,4)", "depth=choice(50,100)", "retriever=bm25,vector", "seed=1", "+x=1,2"]
)


@settings(max_examples=25, deadline=None)
@given(st.lists(WORDS, max_size=4, unique_by=lambda word: word.split("=")[0]))
def test_jobs_are_those_of_hydras_own_sweeper(overrides: list[str]) -> None:
    parsed = OverridesParser.create().parse_overrides(overrides)
    expected = [tuple(job) for batch in BasicSweeper.split_arguments(parsed, None) for job in batch]
    assert list(read_command(overrides, multirun=True).jobs) == expected


def test_names_tell_jobs_apart_and_leave_out_what_they_share() -> None:
    command = read_command(["top_k=3,5", "retriever=bm25", "depth=50,100"], multirun=True)
    assert command.names() == ["top_k=3 depth=50", "top_k=3 depth=100", "top_k=5 depth=50", "top_k=5 depth=100"]


def test_named_sweep_is_a_multirun_without_being_told() -> None:
    command = read_command(["sweeps=top_k"], multirun=False)
    assert command.multirun
    assert command.names() == ["top_k=3", "top_k=5", "top_k=10"]


def test_every_shipped_option_composes() -> None:
    for folder in sorted(path for path in config_folder().iterdir() if path.is_dir() and path.name != "hydra"):
        for option in sorted(folder.glob("*.yaml")):
            config = compose_jobs(read_command([f"{folder.name}={option.stem}"], multirun=False))[0]
            assert config[folder.name] is not None


def test_every_shipped_sweep_expands_to_several_jobs() -> None:
    for sweep in sorted((config_folder().parent / "sweeps").glob("*.yaml")):
        first, launch, *_ = sweep.read_text().splitlines()
        assert first == "# @package _global_"
        assert launch == f"# python run.py -m sweeps={sweep.stem}"
        assert len(read_command([f"sweeps={sweep.stem}"], multirun=False).jobs) > 1
