"""Every form of Hydra's documented grammar and every option of its command line works, or is refused by its name."""

import itertools
import re
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser

from ragsweep.commands import cli, run
from ragsweep.core.errors import ConfigError, RagsweepError
from ragsweep.sweep.composing.command import compose_jobs, read_command
from support import nightly
from support.commands import read, write_option

HYBRIDS = ["retriever=hybrid_convex", "retriever=hybrid_rrf"]

SINGLE: list[dict[str, dict[str, object]]] = [
    {
        "top_k=7": {"top_k": 7},
        "retriever=bm25": {"retriever.k1": 1.5},
        "+retriever.further=1": {"retriever.further": 1},
        "~targets.enforce": {"targets.enforce": None},
        "objective=[mrr,map]": {"objective": ["mrr", "map"]},
        "llm.extra={top_p: 0.5}": {"llm.extra.top_p": 0.5},
        "llm.model='a b'": {"llm.model": "a b"},
        "llm.temperature=1e-1": {"llm.temperature": 0.1},
    },
    {
        "++retriever.further=1": {"retriever.further": 1},
        "++top_k=4": {"top_k": 4},
        "llm.extra={top_p:0.5,user:me}": {"llm.extra.user": "me"},
        'llm.model="a=b,c"': {"llm.model": "a=b,c"},
    },
    {"~top_k=5": {"top_k": None}, "llm.model=a\\,b": {"llm.model": "a,b"}},
    {"top_k=int(3.0)": {"top_k": 3}, "llm.model=": {"llm.model": ""}},
    {"depth=${top_k}": {"depth": 5}, "llm.model=str(3)": {"llm.model": "3"}},
]
"""Overrides of one config that do not touch each other, with values of the config."""

NO_FORM = "retriever/bm25@retriever=bm25"
"""Hydra's own merge refuses it, and so does the command."""

SWEPT = {
    "top_k=3,5": ["top_k=3", "top_k=5"],
    "top_k=choice(3,5)": ["top_k=3", "top_k=5"],
    "top_k=range(3,6)": ["top_k=3", "top_k=4", "top_k=5"],
    "top_k=range(start=3,stop=8,step=2)": ["top_k=3", "top_k=5", "top_k=7"],
    "top_k=sort(5,3)": ["top_k=3", "top_k=5"],
    "top_k=sort(3,5,reverse=true)": ["top_k=5", "top_k=3"],
    "top_k=tag(t,choice(3,5))": ["top_k=3", "top_k=5"],
    "top_k=int(3.0,5.0)": ["top_k=3", "top_k=5"],
    "retriever=glob(hybrid*)": HYBRIDS,
    "retriever=glob([*rrf,*convex])": HYBRIDS,
    "retriever=glob(hybrid*,exclude=*rrf)": HYBRIDS[:1],
    "llm.extra={top_p: 0.5},{top_p: 1}": ["++llm.extra={top_p:0.5}", "++llm.extra={top_p:1}"],
}

CHAT = ["llm=openai", "llm.model=x"]


def value(config: object, key: str) -> object:
    for part in key.split("."):
        config = config.get(part) if isinstance(config, dict) else None
    return config


@pytest.mark.parametrize("forms", SINGLE)
def test_a_form_of_one_config_sets_what_hydra_sets(forms: dict[str, dict[str, object]]) -> None:
    (job,) = compose_jobs(read([*CHAT, *forms], multirun=False))
    for line, expected in forms.items():
        assert {key: value(job.config.values, key) for key in expected} == expected, line


def test_what_hydra_refuses_is_refused_by_its_key() -> None:
    with pytest.raises(ConfigError, match=re.escape(NO_FORM.partition("=")[0])):
        compose_jobs(read([NO_FORM], multirun=False))


@pytest.mark.parametrize("line", SWEPT)
def test_a_form_of_several_configs_is_expanded_as_hydra_does(line: str) -> None:
    lines = [*CHAT, line] if line.startswith("llm") else [line]
    command = read(lines, multirun=True)
    assert [job[-1] for job in command.jobs] == SWEPT[line]
    compose_jobs(command)


def test_shuffled_values_are_the_values() -> None:
    jobs = read(["top_k=shuffle(range(1,6))"], multirun=True).jobs
    assert sorted(jobs) == [(f"top_k={n}",) for n in range(1, 6)]


def test_an_interval_is_refused_by_a_grid_and_read_by_a_search() -> None:
    with pytest.raises(ConfigError, match="no intervals"):
        read(["depth=interval(10,20)"], multirun=True)
    assert read(["depth=int(interval(10,20))", "hydra/sweeper=optuna"], multirun=True).search


def test_a_pattern_matches_the_options_of_a_user_s_folder_and_names_those_there_are(tmp_path: Path) -> None:
    write_option(tmp_path, "retriever/hybrid_own", "defaults: [bm25]\n")
    command = read_command(["retriever=glob(hybrid*)"], multirun=True, config_dir=str(tmp_path))
    assert [job[0] for job in command.jobs] == [HYBRIDS[0], "retriever=hybrid_own", HYBRIDS[1]]
    with pytest.raises(
        ConfigError, match=r"^\"retriever=glob\(x\*\)\": the pattern matches no option; known: [\w, ]+$"
    ):
        read(["retriever=glob(x*)"], multirun=True)


FAULTY = {
    "top_k: 3\nseed: 1\ntop_k: 4\n": ['mine.yaml:4:1: key "top_k" occurs twice, first in line 2; keep one'],
    "metrics: {a: &a {top_k: 1}, b: [*a, *a, {top_k: 2, top_k: 3}]}\n": ['key "top_k" occurs twice'],
    "hydra: {sweeper: {parms: {top_k: '3,5'}}}\n": ["hydra.sweeper.parms", 'did you mean "hydra.sweeper.params"?'],
    "hydra: {mode: MULTRUN}\n": [".yaml: hydra.mode: Invalid value 'MULTRUN'", "MULTIRUN"],
    "- top_k: 3\n": ["the file must be a mapping of keys to values"],
    "defaults: [{retriever: bm25}]\n": ['write "override /retriever: OPTION"'],
    "defaults: [{override retriever: bm25}]\n": ['write "override /retriever: OPTION"'],
}
"""Contents of a user's file -> parts of the error."""


@pytest.mark.parametrize("content", FAULTY)
def test_a_fault_in_a_user_s_file_is_named_with_the_file_and_the_way_out(content: str, tmp_path: Path) -> None:
    write_option(tmp_path, "experiment/mine", f"# @package _global_\n{content}")
    with pytest.raises(ConfigError) as fault:
        read_command(["+experiment=mine"], multirun=True, config_dir=str(tmp_path))
    message = str(fault.value)
    assert "experiment/mine.yaml:" in message
    assert [part for part in FAULTY[content] if part not in message] == []
    assert "raised while composing" not in message


@pytest.mark.parametrize("line", ["hydra.sweeper.params={top_k: '3,4'}", "+hydra.sweeper.params.top_k='3,4'"])
def test_swept_values_of_a_grid_may_be_typed_as_params(line: str) -> None:
    assert read([line], multirun=True).jobs == (("top_k=3",), ("top_k=4",))


def test_a_search_reads_a_pattern_as_the_options_that_match() -> None:
    command = read(["hydra/sweeper=optuna", "retriever=glob(hybrid*)"], multirun=True)
    assert {line for job in command.jobs for line in job if line.startswith("retriever=")} == set(HYBRIDS)


@pytest.mark.parametrize("line", ["llm=null", "~llm", "~llm=none", "tracking=null", "retriever=3", "sweeps=null"])
def test_a_group_without_an_option_is_refused(line: str) -> None:
    with pytest.raises(ConfigError) as fault:
        read([line], multirun=False)
    group = re.split("[=~]", line.lstrip("~"))[0]
    assert str(fault.value).startswith(f"{line}: {group} must be set to one of its options")
    assert ("llm=none disables it" in str(fault.value)) == (group == "llm")


def test_an_experiment_needs_a_plus() -> None:
    with pytest.raises(ConfigError, match=r"to add conf/experiment/x\.yaml, write \+experiment=x"):
        read(["experiment=x"], multirun=False)


SHOWN = [
    ["--cfg", "job", "--resolve"], ["top_k=7", "-i"], ["-c=job"], ["-i", "defaults"], ["--version"],
    ["-sc", "install=bash"], ["-m", "top_k=3,5", "--help"],
    *map(nightly, (
        ["--cfg", "job"], ["-c", "job"], ["--cfg=hydra"], ["-c", "all"], ["--cfg", "job", "-p", "retriever"],
        ["--cfg", "job", "--package=retriever"], ["--info", "searchpath"], ["--hydra-help"],
    )),
]  # fmt: skip
"""--help is tried in commands/test_cli.py."""

REFUSED = [
    ["-cp", "DIR"], ["-cp=DIR"], ["--config-path=DIR"], ["-cn", "NAME"], ["-cn=NAME"], ["--config-name", "NAME"],
    ["--experimental-rerun", "FILE"], ["--experimental-rerun=FILE"],
]  # fmt: skip


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_an_option_that_shows_something_shows_it(
    words: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HydraConfig.instance(), "cfg", None)  # restores it: Hydra leaves its last config there
    with suppress(SystemExit):
        assert run.run(words) == 0
    assert capfd.readouterr().out.strip()


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_an_option_without_a_meaning_here_is_refused_by_its_name_with_the_way_out(words: list[str]) -> None:
    with pytest.raises(RagsweepError) as fault:
        run.run([*words, "top_k=3"])
    assert words[0].partition("=")[0] in str(fault.value).partition(":")[0].split(", ")


def test_two_ways_to_use_one_command_are_refused() -> None:
    with pytest.raises(RagsweepError, match="-m runs a sweep, whereas --cfg and --info show a config"):
        run.run(["-m", "--cfg", "job"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--resolve"], "--resolve and --package change what --cfg shows: add --cfg job"),
        (["-p", "retriever"], "--resolve and --package change what --cfg shows: add --cfg job"),
        (["--cfg", "jobs"], "run: --cfg/-c: invalid choice: 'jobs' (choose from"),
        (["--config-dir"], "run: --config-dir/-cd: expected one argument; see --help"),
    ],
)
def test_a_wrong_option_of_hydra_is_one_sentence(words: list[str], message: str) -> None:
    with pytest.raises(RagsweepError) as fault:
        run.run(["plan=true", *words])
    assert str(fault.value).startswith(message)


def test_the_parser_reads_every_form_that_is_tried() -> None:
    """The forms are Hydra's, not ours."""
    parser = OverridesParser.create()
    for line in [*itertools.chain.from_iterable(SINGLE), NO_FORM, *SWEPT]:
        parser.parse_override(line)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ragsweep ", "run ablate compare"),
        ("ragsweep ju", "run ablate compare"),
        ("ragsweep run retriever=hy", "retriever=hybrid_convex retriever=hybrid_rrf"),
        ("ragsweep show to", ""),
    ],
)
def test_ragsweep_completes_its_commands_and_what_run_takes(
    line: str, expected: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setattr(sys, "argv", ["ragsweep", "-sc", "query=bash"])
    with pytest.raises(SystemExit):
        cli.main()
    printed = capfd.readouterr().out.strip()
    assert printed.startswith(expected)
    assert bool(printed) == bool(expected)
    assert not printed.startswith("run ") or {"golden", "ship", "watch"} <= set(printed.split())


def test_a_value_with_signs_of_the_grammar_is_named_with_its_quoted_form() -> None:
    with pytest.raises(ConfigError) as fault:
        read(["system.url=http://host/ask?a=b"], multirun=False)
    assert str(fault.value).endswith("""quote it: 'system.url="http://host/ask?a=b"'""")
    read(["system=http", 'system.url="http://host/ask?a=b"'], multirun=False)
