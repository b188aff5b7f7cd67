"""The plugin gives what Hydra gives: the same configs, jobs, folders and errors, in any Hydra program."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.types import RunMode
from hypothesis import example, given, settings
from hypothesis import strategies as st
from omegaconf import Container, DictConfig, ListConfig, OmegaConf

from hydra_plugins.ragsweep_grid import Composer, expand, open_composer, sharing
from hydra_plugins.ragsweep_grid._cloning import clone
from hydra_plugins.ragsweep_grid._expansion import chosen, stretches
from hydra_plugins.ragsweep_grid._late import late, only
from hydra_plugins.ragsweep_grid._writing import text
from ragsweep.sweep.composition import CONFIG, VERSION_BASE, config_folder


class Colour(Enum):
    RED = 1


@dataclass
class Typed:
    """A structured config with a node of each kind."""

    whole: int = 1
    share: float = 0.5
    word: str | None = None
    colour: Colour = Colour.RED
    path: Path = Path("a")
    either: int | str = 3
    missing: str = "???"
    lengths: list[int] = field(default_factory=lambda: [1, 2])
    words: dict[str, str] = field(default_factory=lambda: {"a": "${word}"})


def anatomy(node: Any) -> Any:
    """Spell out all that a node is, without its parents and caches."""
    metadata = {k: v for k, v in node._metadata.__dict__.items() if k != "resolver_cache"}
    inner = node.__dict__.get("_content", node.__dict__.get("_val"))
    if isinstance(inner, dict):
        inner = {key: anatomy(child) for key, child in inner.items()}
    elif isinstance(inner, list):
        inner = [anatomy(child) for child in inner]
    elif hasattr(inner, "_metadata"):
        inner = anatomy(inner)
    return type(node), metadata, inner


def walk(node: Container) -> list[Any]:
    inner = node.__dict__.get("_content")
    children = inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else []
    return [node, *(each for child in children for each in walk(child))]


@pytest.fixture(scope="module")
def composing() -> Composer:
    return open_composer(config_folder(), version_base=VERSION_BASE)


# --- copies -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["shipped", "typed"])
def config(request: pytest.FixtureRequest, composing: Composer) -> DictConfig:
    if request.param == "shipped":
        return composing.compose(CONFIG, ["retriever=hybrid_rrf", "+extra=[1,{a: null}]"])
    return OmegaConf.create({"typed": OmegaConf.structured(Typed), "gone": "${typed}", "none": None})


def test_copy_is_what_deepcopy_gives_and_shares_no_node(config: DictConfig) -> None:
    OmegaConf.get_cache(config)["now"]["x"] = "y"
    copied = clone(config)
    assert anatomy(copied) == anatomy(copy.deepcopy(config))
    assert OmegaConf.get_cache(copied) == OmegaConf.get_cache(config)
    assert not set(map(id, walk(copied))) & set(map(id, walk(config)))
    assert all(each._metadata.flags is not mine._metadata.flags
               for each, mine in zip(walk(copied), walk(config), strict=True))  # fmt: skip
    assert all(child._get_parent() is not None for child in walk(copied)[1:])


def test_partial_copies_are_what_hydra_makes_by_deletion_and_by_mask(config: DictConfig) -> None:
    key = next(iter(config))
    deleted = copy.deepcopy(config)
    OmegaConf.set_struct(deleted, False)
    del deleted[key]
    OmegaConf.set_struct(deleted, OmegaConf.is_struct(config))
    assert list(late(config, str(key))) == list(deleted)
    assert anatomy(late(config, str(key)))[2] == anatomy(deleted)[2]
    assert anatomy(only(config, str(key))) == anatomy(OmegaConf.masked_copy(config, str(key)))


# --- composition ------------------------------------------------------------------------------------------------

LINES = [
    "retriever=bm25", "retriever=vector", "retriever=hybrid_rrf", "retriever=bm52", "retriever=null", "~retriever",
    "retriever@retriever.legs.vector=bm25", "~reranker=none", "+reranker=none", "chunker=fixed_size", "chunker.size=5",
    "retriever.k1=2", "retriever.k=3", "retriever={k1: 7}", "retriever.legs.bm25.k1=3",
    "+metrics.mine={_target_: my.Metric}", "+metrics.mrr_at_3={_target_: ragsweep.parts.metrics.Mrr, cutoff: 3}",
    "~metrics.mrr", "~metrics.mrr=5", "~metrics.none", "metrics=unlabelled", "~metrics",
    "top_k=3", "top_k=${depth}", "+top_k=4", "++top_k=4", "~top_k", "topk=3", "top_k=null", "top_k.deep=1",
    "depth='50'", 'seed="a,b=c d"', "seed=[1,[2,{x: y}]]", "seed=${oc.env:HOME,x}", "+new.deep.key=1", "++new.deep=2",
    "headline=[mrr]", "headline.0=mrr", "headline.9=mrr", "+other='${hydra:job.num}'", "+other.inside=1",
    "dataset.limit=3", "+embedder.extra=true", "retriever.embedder.dtype=bfloat16", "sweeps=top_k", "store.path=\\x",
    "hydra.job.name=mine", "hydra.job.chdir=true", "+hydra.job.env_set.A=b", "hydra.sweep.dir=x/${now:%Y}",
    "hydra.runtime.cwd=x", "~hydra.job", "hydra/job_logging=default", "hydra/launcher=none", "hydra.verbose=true",
    "hydra.job.config.override_dirname.exclude_keys=[top_k]", "hydra.sweeper.params={a: '1,2'}", "hydra.nothing=1",
    "top_k=1,2", "top_k=[", "=", "hydra.searchpath=[pkg://nothing]", "hydra.job.env_copy=[HOME]",
]  # fmt: skip


def outcome(act: Callable[[], DictConfig]) -> tuple[Any, DictConfig | None]:
    """What was composed, spelled out node by node, or the kind and text of the error; and the config."""
    try:
        made = act()
    except Exception as fault:
        return (type(fault), str(fault)), None
    return (anatomy(made), OmegaConf.to_container(made), list(made)), made


@settings(max_examples=15)
@given(st.lists(st.sampled_from(LINES), max_size=5, unique=True))
@example(["retriever=bm25", "retriever.k1=2", "top_k=3", "~metrics.mrr", "+new.deep.key=1"])
@example(["hydra.job.env_copy=[HOME]", "+hydra.job.env_set.A=b"])
@example(["hydra.job.config.override_dirname.exclude_keys=[top_k]", "top_k=3", "depth='50'"])
@example(["+other=${hydra.runtime.cwd}", "~other"])
@example(["retriever={k1: 7}", "retriever=bm25", "retriever.k1=2"])
@pytest.mark.filterwarnings("ignore:provider=hydra.searchpath")
def test_composition_from_a_template_is_hydras(composing: Composer, lines: list[str]) -> None:
    expected, hydras = outcome(lambda: composing._loader.load_configuration(CONFIG, lines, RunMode.RUN))
    assert outcome(lambda: composing.compose(CONFIG, lines))[0] == expected
    if hydras is not None:
        task = outcome(lambda: late(hydras, "hydra"))[0]
        assert outcome(lambda: composing.compose(CONFIG, lines, task_only=True))[0] == task


@pytest.mark.parametrize(
    "lines",
    [
        ["retriever=bm25", "retriever.k1=2", "top_k=3", "depth='50'"],
        ["~metrics.mrr", "+metrics.mine={_target_: my.Metric}", "headline=[mrr]"],
        ["hydra.sweep.dir=x", "+hydra.job.env_set.A=b", "hydra.mode=MULTIRUN", "retriever@retriever.legs.vector=bm25"],
    ],
)
def test_what_sweeps_consist_of_is_composed_from_a_template(lines: list[str]) -> None:
    composing = open_composer(config_folder(), version_base=VERSION_BASE)
    composing.compose(CONFIG, lines)
    assert composing.slow == 0


def test_jobs_that_choose_alike_share_a_template_and_no_node(composing: Composer) -> None:
    first = composing.compose(CONFIG, ["retriever=bm25", "top_k=3"])
    first.retriever.k1 = 9
    second = composing.compose(CONFIG, ["retriever=bm25", "top_k=4"])
    assert (first.top_k, second.top_k, second.retriever.k1) == (3, 4, 1.5)


def test_composers_share_templates_only_while_somebody_says_so(tmp_path: Path) -> None:
    def composed(value: int) -> int:
        (tmp_path / "config.yaml").write_text(f"a: {value}\n")
        return int(open_composer(tmp_path, version_base=VERSION_BASE).compose("config", []).a)

    assert [composed(1), composed(2)] == [1, 2]
    with sharing():
        assert [composed(3), composed(4)] == [3, 3]
    assert composed(5) == 5


# --- YAML -------------------------------------------------------------------------------------------------------

LETTERS = st.characters(codec="utf-8", exclude_characters="\x85\u2028\u2029")  # PyYAML's own dumper loses these
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(LETTERS, max_size=20),
    st.sampled_from(["1", "true", "null", "1e3", "off", "a: b", "- a", " x", "é\n\tü", "#", "???", "", "~", "x" * 100]),
)  # fmt: skip
KEYS = st.one_of(st.sampled_from(["hydra", "a", "on", "1", "é", "a: b"]), st.text("ab ", min_size=1, max_size=3))
NESTED = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=12
)


def readable(value: Any) -> Any:
    """Take out what OmegaConf would read as an interpolation."""
    if isinstance(value, dict):
        return {key: readable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [readable(inner) for inner in value]
    return value.replace("$", "") if isinstance(value, str) else value


@settings(max_examples=50)
@given(st.dictionaries(KEYS, NESTED, max_size=4))
def test_yaml_reads_as_the_one_that_omegaconf_writes(values: dict[str, Any]) -> None:
    config = OmegaConf.create(readable(values))
    assert OmegaConf.create(text(config)) == OmegaConf.create(OmegaConf.to_yaml(config))
    assert yaml.safe_load(text(config)) == yaml.safe_load(OmegaConf.to_yaml(config))


def test_yaml_of_values_that_look_alike_differs() -> None:
    alike = [1, "1", 1.0, True, "true", "True", None, "null", "None", [], "[]", {}, "{}"]
    for value in alike * 2:
        assert yaml.safe_load(text(OmegaConf.create({"a": value, "b": {"c": value}}))) == {
            "a": value,
            "b": {"c": value},
        }


def test_yaml_of_shipped_and_typed_configs_is_omegaconfs_to_the_letter(config: DictConfig) -> None:
    assert text(config) == OmegaConf.to_yaml(config)
    assert text(ListConfig(["a=1", "b=é"])) == OmegaConf.to_yaml(ListConfig(["a=1", "b=é"]))


# --- expansion --------------------------------------------------------------------------------------------------


def lines_of(jobs: list[Any]) -> list[str]:
    return [" ".join(job.overrides) for job in jobs]


SWEPT = st.sampled_from(["a=1,2", "a=3", "b=x,y", "b=range(1,4)", "+c=[1,2],[3]", "~d", "d=choice(1,2)", "a=1,1"])


@given(st.lists(SWEPT, max_size=4), st.dictionaries(st.sampled_from("abe"), st.sampled_from(["1,2", "7"]), max_size=2))
def test_without_cases_the_jobs_are_those_of_hydras_basic_sweeper(typed: list[str], params: dict[str, str]) -> None:
    parsed = OverridesParser.create().parse_overrides([*(f"{k}={v}" for k, v in params.items()), *typed])
    (expected,) = BasicSweeper.split_arguments(parsed, None)
    assert [list(job.overrides) for job in expand(typed, params, once=False)] == expected
    distinct = list({frozenset(job): tuple(job) for job in reversed(expected)}.values())
    assert {job.overrides for job in expand(typed, params)} == set(distinct)
    assert len(expand(typed, params)) == len(distinct)


def test_cases_are_a_union_of_products() -> None:
    jobs = expand(["seed=1,2"], {"top_k": "3,5"}, [["retriever=bm25"], ["retriever=rrf", "retriever.k=20,40"]])
    assert lines_of(jobs) == [
        f"top_k={k} {case} seed={seed}"
        for cases in (["retriever=bm25"], ["retriever=rrf retriever.k=20", "retriever=rrf retriever.k=40"])
        for k, case, seed in [(k, case, seed) for k in (3, 5) for case in cases for seed in (1, 2)]
    ]
    assert [job.case for job in jobs] == [0] * 4 + [1] * 8


def test_a_case_overrides_params_and_what_is_typed_overrides_both() -> None:
    cases = [["top_k=7", "depth=50"], ["depth=60,70"]]
    assert lines_of(expand([], {"top_k": "3,5"}, cases)) == [
        "top_k=7 depth=50", "top_k=3 depth=60", "top_k=3 depth=70", "top_k=5 depth=60", "top_k=5 depth=70",
    ]  # fmt: skip
    assert lines_of(expand(["depth=9"], {"top_k": "3,5"}, cases)) == [
        "top_k=7 depth=9", "top_k=3 depth=9", "top_k=5 depth=9",
    ]  # fmt: skip


def test_equal_sets_of_overrides_run_once() -> None:
    assert lines_of(expand([], None, [["a=1", "b=2"], ["b=2,3", "a=1"], ["a=1,1"]])) == ["a=1 b=2", "b=3 a=1", "a=1"]


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        ("a=1", "hydra.sweeper.cases: must be null or a list of cases, given 'a=1'; write each case as a list"),
        ([], "hydra.sweeper.cases: must be null or a list of cases, given []"),
        ({"a": 1}, "hydra.sweeper.cases: must be null or a list of cases"),
        ([["a=1"], "b=2"], "hydra.sweeper.cases[1]: must be a list of overrides, given 'b=2'; write [b=2]"),
        ([["a=1"], {"b": 2}], "hydra.sweeper.cases[1]: must be a list of overrides, given {'b': 2}; write [\"b=2\"]"),
        ([["a=1"], []], "hydra.sweeper.cases[1]: is empty; name at least one override, or leave the case out"),
        ([["k=2", 4]], 'hydra.sweeper.cases[0]: 4 is no override; quote an override that holds commas: "k=2,4"'),
        ([[4]], "hydra.sweeper.cases[0]: 4 is no override; write KEY=VALUE"),
        ([["a=1", {"b": 2}]], "hydra.sweeper.cases[0]: {'b': 2} is no override; write \"b=2\""),
        ([["a=1"], ["b=["]], 'hydra.sweeper.cases[1]: cannot read "b=["'),
        ([["a=interval(0,1)"]], 'hydra.sweeper.cases[0]: "a=interval(0,1)": the grid takes choices and ranges'),
    ],
)
def test_a_bad_case_is_one_sentence_with_its_number_and_the_way_out(cases: Any, message: str) -> None:
    with pytest.raises(HydraException) as fault:
        expand([], None, cases)
    assert str(fault.value).startswith(message)
    assert len(str(fault.value).splitlines()) == 1


@given(st.lists(st.integers(0, 30)), st.none() | st.integers(1, 5))
def test_stretches_hold_every_number_once_without_gaps(numbers: list[int], longest: int | None) -> None:
    found = stretches(numbers, longest)
    assert [number for stretch in found for number in stretch] == sorted(set(numbers))
    assert all(1 <= len(stretch) <= (longest or 99) for stretch in found)
    if longest is None:
        assert all(before.stop < after.start for before, after in pairwise(found))


@pytest.mark.parametrize("only", [3, "1", [-1], [4], [True], ["1"], [1.0]])
def test_jobs_that_do_not_exist_cannot_be_chosen(only: Any) -> None:
    with pytest.raises(HydraException, match=r"hydra\.sweeper\.only"):
        chosen(only, 4)


# --- a Hydra program that knows nothing of us -----------------------------------------------------------------------

APP = """
import json, logging, os, sys
import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import OmegaConf


def note(**facts):
    with open(os.environ["NOTES"], "a") as file:
        file.write(json.dumps(facts) + "\\n")


class Recorder(Callback):
    def on_multirun_start(self, config, **rest):
        note(event="start")

    def on_job_start(self, config, *, task_function, **rest):
        note(event="job", number=config.hydra.job.num, folder=config.hydra.runtime.output_dir)

    def on_job_end(self, config, job_return, **rest):
        note(event="end", status=job_return.status.name, overrides=list(job_return.overrides),
             name=job_return.task_name, cfg=OmegaConf.to_yaml(job_return.cfg), folder=job_return.working_dir,
             flags=[OmegaConf.is_struct(job_return.cfg), OmegaConf.is_readonly(job_return.hydra_cfg.hydra)])

    def on_multirun_end(self, config, **rest):
        note(event="over", sees_a_job=HydraConfig.initialized())


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(config):
    hydra = HydraConfig.get()
    logging.getLogger("app").warning("x is %s", config.x)
    note(event="task", x=config.x, kind=config.kind.name, lazy=config.lazy, folder=os.getcwd(), mode=hydra.mode.name,
         env=os.environ.get("MINE"), job=OmegaConf.to_container(hydra.job), choices=dict(hydra.runtime.choices),
         output=hydra.runtime.output_dir, typed=list(hydra.overrides.task), readonly=OmegaConf.is_readonly(hydra))
    config.kind.name = "changed by the task"
    if config.x == 13:
        raise ValueError("unlucky")
    return config.x


if __name__ == "__main__":
    main()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A Hydra program of its own, with a group and a value that Hydra knows."""
    (tmp_path / "conf" / "kind").mkdir(parents=True)
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "conf" / "config.yaml").write_text(
        "defaults:\n  - _self_\n  - kind: plain\nx: 1\nlazy: ${hydra:job.num}\n"
        "hydra:\n  sweep: {dir: 'out/${now:%Y}', subdir: 'n${hydra.job.num}_${hydra:job.override_dirname}'}\n"
        "  job: {env_set: {MINE: 'set'}, env_copy: [NOTES]}\n  callbacks: {r: {_target_: app.Recorder}}\n"
    )
    for kind in ("plain", "fancy"):
        (tmp_path / "conf" / "kind" / f"{kind}.yaml").write_text(f"name: {kind}\n")
    return tmp_path


def launched(program: Path, *arguments: str, status: int = 0) -> tuple[list[dict[str, Any]], str]:
    """Run the program; return what it noted, and what it wrote on its error stream."""
    notes = program / "notes"
    notes.write_text("")
    environment = {**os.environ, "NOTES": str(notes), "PYTHONPATH": os.pathsep.join([str(program), *sys.path])}
    done = subprocess.run(
        [sys.executable, "app.py", "-m", *arguments],
        cwd=program, env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    return [json.loads(line) for line in notes.read_text().splitlines()], done.stderr


def tasks(notes: list[dict[str, Any]]) -> list[tuple[int, Any]]:
    return [(note["job"]["num"], note["x"]) for note in notes if note["event"] == "task"]


def tree(folder: Path) -> dict[str, Any]:
    """Read a folder of jobs: YAML as values, logs without the time."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".yaml":
            found[str(path.relative_to(folder))] = yaml.safe_load(path.read_text())
        elif path.is_file():
            found[str(path.relative_to(folder))] = [
                line.split("]", 1)[1] for line in path.read_text().splitlines() if "app" in line
            ]
    return found


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["hydra.job.chdir=true", "hydra.verbose=true", "hydra.output_subdir=null"],
        [
            "hydra.job.config.override_dirname.exclude_keys=[x]",
            "hydra/job_logging=disabled",
            "hydra.output_subdir=kept",
        ],
    ],
    ids=["plain", "chdir", "unusual"],
)
def test_a_job_leaves_and_sees_the_same_under_both_launchers(program: Path, more: list[str]) -> None:
    swept = ["x=2,13,'a b'", "kind=fancy,plain", "+added.deep=[1,${x}]", "hydra.job.name=job_${x}", *more]
    seen = {}
    for launcher in ("basic", "inline"):
        notes, error = launched(program, *swept, "hydra/sweeper=basic", f"hydra/launcher={launcher}", status=1)
        assert "unlucky" in error
        (out,) = (program / "out").iterdir()
        spelled = json.dumps([notes, tree(out)])
        spelled = spelled.replace("hydra._internal.core_plugins.basic_launcher.BasicLauncher", "LAUNCHER")
        spelled = spelled.replace("hydra_plugins.ragsweep_grid.launcher.InlineLauncher", "LAUNCHER")
        seen[launcher] = json.loads(spelled.replace("hydra/launcher=basic", "=").replace("hydra/launcher=inline", "=")
                                    .replace('"hydra/launcher": "basic"', '"L": 0')
                                    .replace('"hydra/launcher": "inline"', '"L": 0'))  # fmt: skip
        out.rename(program / launcher)
    assert seen["inline"] == seen["basic"]
    assert len(tasks(seen["inline"][0])) == 6


def test_cases_run_in_a_program_that_knows_nothing_of_us(program: Path) -> None:
    cases = "hydra.sweeper.cases=[['kind=fancy'],['x=5,6']]"
    notes, _ = launched(program, "hydra/sweeper=grid", "hydra/launcher=inline", cases, "+y=1,2")
    ran = [(note["kind"], note["x"], note["typed"][-1]) for note in notes if note["event"] == "task"]
    assert ran == [("fancy", 1, "+y=1"), ("fancy", 1, "+y=2"), ("plain", 5, "+y=1"), ("plain", 5, "+y=2"),
                   ("plain", 6, "+y=1"), ("plain", 6, "+y=2")]  # fmt: skip


@pytest.mark.parametrize("launcher", ["basic", "inline"])
def test_chosen_jobs_keep_their_numbers_and_folders_in_batches(program: Path, launcher: str) -> None:
    grid = ["hydra/sweeper=grid", f"hydra/launcher={launcher}", "hydra.sweeper.max_batch_size=2"]
    notes, _ = launched(program, *grid, "x=range(20,30)", "hydra.sweeper.only=[1,2,3,7,9]")
    assert tasks(notes) == [(1, 21), (2, 22), (3, 23), (7, 27), (9, 29)]
    (out,) = (program / "out").iterdir()
    assert sorted(path.name for path in out.iterdir() if path.is_dir()) == [f"n{n}_x={n + 20}" for n in (1, 2, 3, 7, 9)]


def test_a_failed_job_stops_no_other_not_even_in_a_later_batch(program: Path) -> None:
    grid = ["hydra/sweeper=grid", "hydra/launcher=inline", "hydra.sweeper.max_batch_size=1"]
    notes, error = launched(program, *grid, "x=12,13,14", status=1)
    assert tasks(notes) == [(0, 12), (1, 13), (2, 14)]
    assert "unlucky" in error


def test_a_batch_that_cannot_be_launched_stops_no_other(program: Path) -> None:
    grid = ["hydra/sweeper=grid", "hydra/launcher=inline", "hydra.sweeper.max_batch_size=1"]
    folder = "hydra.sweep.subdir=${end}"  # which one job cannot resolve
    notes, error = launched(program, *grid, folder, "+end=a,'${oc.env:GONE}',c", "x=1", status=1)
    assert [number for number, _ in tasks(notes)] == [0, 2]
    assert "GONE" in error


def test_all_jobs_of_a_sweep_read_one_clock(program: Path) -> None:
    clock = ["hydra.sweep.dir='out/${now:%f}'", "x='${now:%f}'"]
    notes, _ = launched(program, "hydra/sweeper=grid", "hydra/launcher=inline", *clock, "kind=fancy,plain")
    ran = tasks(notes)
    assert len(ran) == 2
    assert ran[0][1] == ran[1][1]


def test_a_case_that_cannot_be_composed_is_named_before_any_job_starts(program: Path) -> None:
    grid = ["hydra/sweeper=grid", "hydra/launcher=inline"]
    notes, error = launched(program, *grid, "hydra.sweeper.cases=[['x=1'],['x=2','kind.nam=y']]", status=1)
    assert tasks(notes) == []
    assert "hydra.sweeper.cases[1]: Could not override 'kind.nam'" in error
    assert not (program / "out").exists()
