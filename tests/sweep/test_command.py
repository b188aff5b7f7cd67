"""What is typed becomes the jobs that Hydra would make, and a typo becomes one sentence."""

import re
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsweep.core.errors import ConfigError
from ragsweep.core.secrets import Secrets
from ragsweep.sweep.composing.command import Command, compose_jobs, read_command
from ragsweep.sweep.composing.compose import Composer, config_folder
from support import nightly
from support.commands import read, write_option


def refusal(overrides: list[str], multirun: bool) -> str:
    """Return why a command is refused, in one line."""
    with pytest.raises(ConfigError) as fault:
        compose_jobs(read(overrides, multirun))
    assert len(str(fault.value).splitlines()) == 1
    return str(fault.value)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["topk=3"], 'topk=3: no key "topk"; did you mean "top_k"?'),
        nightly(["retriever=bm52"], 'retriever=bm52: no such option; did you mean "bm25"?'),
        nightly(["retrever=bm25"], 'no key "retrever"; did you mean "retriever"?'),
        (["retriever=bm25", "retriever.k2=1"], 'no key "retriever.k2"; did you mean "retriever.k1"?'),
        (["metrics=[retrieval,answerz]"], 'metrics=answerz: no such option; did you mean "answers"?'),
        (["sweeps=topk"], 'sweeps=topk: no such option; did you mean "top_k"? known: ablation, answers, chunking, '),
        (["retriever=bm25", "retriever.alpha=.5"], "; options that have this key: retriever=hybrid_convex"),
        (["targets.mrr.threshold=.5"], "known: targets.enforce; options that have this key: targets=retrieval"),
        nightly(["dataset.limt=3"], 'no key "dataset.limt"; did you mean "dataset.limit"?'),
        (["+top_k=3"], "top_k exists already; omit the +"),
        (["+retriever=vector"], "+retriever=vector: retriever has an option already; omit the +"),
        (["metrics.mine={_target_: mine.Metric}"], "; to add a part under a new key, write + before the key"),
        (["~retriver"], '~retriver: no key "retriver"; did you mean "retriever"?'),
        (["~baseline"], "~baseline: baseline has no value; omit ~baseline"),
        (["=3"], 'cannot read "=3": the key is missing; write KEY=VALUE'),
        (["top_k"], "missing EQUAL at '<EOF>'; write KEY=VALUE"),
        (["prompt=\"it's"], """quote it: 'prompt="\\"it'"'"'s"'"""),
        (["top_k.x=3"], "top_k.x=3: top_k has no keys; set top_k=VALUE, or top_k={x: VALUE} if it"),
        (["headline.x=3"], "headline.x=3: Hydra cannot apply one of these overrides: invalid literal for int()"),
        (["hydra/sweeper/sampler=tpe"], "the chosen sweeper has no sampler; choose hydra/sweeper=optuna"),
        (["hydra.sweeper.n_trials=5"], "the chosen sweeper has no n_trials; choose hydra/sweeper=optuna"),
        (
            ["hydra/sweeper=optuna", "hydra.sweeper.cases=[]"],
            "the chosen sweeper has no cases; choose hydra/sweeper=grid",
        ),
        (
            ["hydra/sweeper=optuna", "hydra.sweeper.n_trials=null"],
            "hydra.sweeper.n_trials=null: must have a value; omit it for the default",
        ),
        (["hydra/sweeper=optuna", "hydra.sweeper.storage={a: 1}"], "storage={a: 1}: must be text, not a mapping"),
        (["store=[a]"], "store=[a]: must be a mapping, not a list"),
        (["hydra.sweeper.race.margin=.1"], "no race is chosen; add hydra/sweeper/race=betting"),
        (["hydra/sweeper=optuna", "hydra.sweeper.stop.budget.calls=1"], "hydra.sweeper.stop={budget: {calls: VALUE}}"),
        (["hydra/launchr=basic"], 'no key "hydra/launchr"; did you mean "hydra/launcher"? known: hydra/'),
        (["hydra/job_logging=x"], "hydra/job_logging=x: no such option; known: default"),
        (["hydra.callbacks.x._target_=C"], "hydra.callbacks: are never called"),
        (["hydra.callbacks={x: {_target_: C}}"], "hydra.callbacks: are never called"),
        (["hydra/callbacks=x"], "hydra.callbacks: are never called"),
        (["hydra.mode=x"], "hydra.mode=x: Invalid value 'x', expected one of [RUN, MULTIRUN]"),
        (["hydra.sweeper.max_batch_size=0"], "hydra.sweeper.max_batch_size: must be at least 1 or null, got 0"),
        (["hydra.sweeper.race=foo"], "hydra.sweeper.race: must be chosen with hydra/sweeper/race=betting, got 'foo'"),
        (["hydra.verbose=true,false"], "hydra.verbose: cannot differ within a sweep"),
        (["top_k=interval(1,5)"], "names several values: add -m hydra/sweeper=optuna to search over them"),
        (["+experiment=x"], "+experiment=x: the current folder has no folder conf/experiment"),
        (
            ["retriever=vector", "retriever.embedder=hashing"],
            "embedder is a group of the whole config, not of retriever; write embedder=hashing",
        ),
        (["hydra/launcher=[joblib]"], "hydra/launcher takes one option; write hydra/launcher=joblib"),
        (["top_k=3,", "5"], "list values without spaces between them, top_k=A,B; or to take the value as it is, quote"),
        (["dataset=csv", "dataset.columns={id: 番号}"], """quote each value of the mapping, '{KEY: "..."}'; or"""),
        (["llm=openai", 'llm.extra={"top_p": 0.9}'], """quote only values of the mapping, '{KEY: "..."}'; or"""),
        (["top_k=3 depth=50"], "pass several overrides as separate arguments, without quotes around all of them; or"),
        (["retriever.legs.vector.index=hnsw"], "is a group; write retriever/index@retriever.legs.vector.index=hnsw"),
        (["retriever/index=hnsw"], "has no index of its own; write retriever/index@retriever.legs.vector.index=hnsw"),
        (["retriever=bm25", "retriever/index=hnsw"], "retriever=bm25 has no index of its own; choose retriever=vector"),
        (
            ["answer_context=short"],
            "answer_context has no option yet; write +answer_context=short",
        ),
        (["metrics={mine: {_target_: x.Y}}"], "metrics has no such keys; known: ndcg_at_3, ndcg_at_5, "),
        (["top_k=3,5"], '"top_k=3,5" names several values: add -m'),
        (["headline=mrr,map"], '"headline=mrr,map" names several values: for a list, write headline=[mrr,map]'),
        (["headline=[mrr],[map]"], '"headline=[mrr],[map]" names several values: add -m to sweep over them'),
        (["sweeps=top_k,demo"], 'sweeps: cannot differ within a sweep, got "sweeps=top_k,demo"; give it one value'),
        (
            ["reranker=[none,late_interaction]"],
            "reranker takes one option; to sweep over several, write rerank",
        ),
        (["retriever=vector", "retriever.index=hnsw"], "retriever.index is a group; write retriever/index=hnsw"),
        nightly(["hydra.sweep.dri=x"], 'no key "hydra.sweep.dri"; did you mean "hydra.sweep.dir"?'),
        nightly(["hydra/launcher=jobllib"], 'did you mean "joblib"'),
    ],
)
def test_typo_is_one_sentence_with_the_nearest_name(overrides: list[str], message: str) -> None:
    assert message in refusal(overrides, multirun=False)


def test_an_option_that_was_typed_is_not_blamed_on_a_file() -> None:
    assert refusal(["retriever=vector", "retriever/index=hnswx"], False).startswith("retriever/index=hnswx: no such op")


def test_key_that_all_swept_options_have_may_be_set_though_the_default_option_lacks_it() -> None:
    typed = ["llm=openai,ollama", "llm.model=m", "llm.temperature=0.5", "~metrics.semantic_similarity"]
    jobs = compose_jobs(read([*typed, "metrics.keyword_coverage.match=stem"], multirun=True))
    configs = [job.config.written["llm"] for job in jobs]
    metrics = [job.config.written["metrics"] for job in jobs]  # those that an llm adds
    assert [one["keyword_coverage"]["match"] for one in metrics] == ["stem", "stem"]
    assert not any("semantic_similarity" in one for one in metrics)
    assert [(one["model"], one["temperature"]) for one in configs] == [("m", 0.5)] * 2
    assert len({one["base_url"] for one in configs}) == 2


@pytest.mark.parametrize(
    "typed",
    [
        ["llm=openai,ollama", "llm.extra={top_p: 0.5}"],
        ["llm=openai,ollama", "llm.extra={top_p: 0.5},{top_p: 0.5,seed: 1}"],
        ['hydra.sweeper.params={llm: "openai,ollama", llm.extra: "{top_p: 0.5}"}'],
        ["llm=openai,ollama", 'hydra.sweeper.params={llm.extra: "{top_p: 0.5}"}'],
        ['hydra.sweeper.cases=[["llm=openai", "llm.extra={top_p: 0.5}"],["llm=ollama", "llm.extra={top_p: 0.5}"]]'],
    ],
)
def test_a_mapping_of_an_option_that_the_same_sweep_chooses_may_have_new_keys(typed: list[str]) -> None:
    jobs = compose_jobs(read([*typed, "llm.model=m"], multirun=True))
    chosen = [job.config.written["llm"] for job in jobs]
    assert {one["extra"]["top_p"] for one in chosen} == {0.5}
    assert len({one["base_url"] for one in chosen}) == 2


def test_a_mapping_is_refused_only_for_an_option_without_it_and_the_case_is_named() -> None:
    cases = 'hydra.sweeper.cases=[["llm=openai", "llm.extra={top_p: 1}"],["llm=extractive", "llm.extra={top_p: 1}"]]'
    assert refusal([cases, "llm.model=m"], multirun=True).startswith("hydra.sweeper.cases[1]: ")


def test_a_misspelt_deletion_in_a_sweep_is_quoted_as_typed() -> None:
    assert refusal(["llm=none,extractive", "~metrics.ndgc"], multirun=True).startswith(
        '~metrics.ndgc: no key "metrics.'
    )


@pytest.mark.parametrize(
    ("sweeper", "way"),
    [
        ("grid", "; a key that only some options have must be set in a case: 'hydra.sweeper.cases="
                 '[["retriever=hybrid_rrf"],["retriever=hybrid_convex","retriever.alpha=..."]]\''),
        ("optuna", "; under hydra.sweeper.params, a key that only some options have needs a condition:"
                   " retriever.alpha: {over: ..., when: retriever=hybrid_convex}"),
    ],
)  # fmt: skip
def test_key_that_only_some_swept_options_have_is_set_with_them(sweeper: str, way: str) -> None:
    typed = [f"hydra/sweeper={sweeper}", "retriever=hybrid_convex,hybrid_rrf", "retriever.alpha=0.2,0.5"]
    told = refusal(typed, multirun=True)
    assert told.startswith("retriever.alpha=0.2: retriever=hybrid_rrf has no alpha; known: retriever._targ")
    assert told.endswith(f"; options that have this key: retriever=hybrid_convex{way}")
    alone = refusal([typed[0], "retriever=hybrid_rrf", *typed[2:]], multirun=True)
    assert alone == told.removesuffix(way)


@settings(max_examples=50)
@given(st.lists(st.lists(st.sampled_from(["a=1", "a=2", "b=1", "b=2", "c=1"]), max_size=4).map(tuple), min_size=1))
def test_a_name_holds_the_settings_that_some_sibling_lacks(jobs: list[tuple[str, ...]]) -> None:
    names = Command((), True, Composer(), Secrets(), tuple(jobs)).names()
    for job, name in zip(jobs, names, strict=True):
        values = [dict(override.split("=") for override in other) for other in jobs]  # the last value of a key counts
        own = dict(override.split("=") for override in job)
        varying = [key for key in own if any(other.get(key) != own[key] for other in values)]
        assert sorted(name.split()) == sorted([f"{key}={own[key]}" for key in varying or own] or ["defaults"])


CASES = "hydra.sweeper.cases=[['retriever=bm25'],['retriever=hybrid_rrf','retriever.k=20,40']]"


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        nightly("[['top_k=3'],['retriever=bm52']]", 'cases[1]: retriever=bm52: no such option; did you mean "bm25"?'),
        ("[['top_k=3'],['top_k=5'],['retriever=bm25','retriever.kk=1']]", "hydra.sweeper.cases[2]: retriever.kk=1: no"),
    ],
)
def test_a_bad_case_is_one_sentence_with_its_number(cases: str, message: str) -> None:
    assert message in refusal([f"hydra.sweeper.cases={cases}"], multirun=True)


def test_a_fault_of_what_is_typed_is_not_blamed_on_a_case() -> None:
    assert refusal([CASES, "topk=3,5"], multirun=True).startswith('topk=3: no key "topk"')


def test_a_folder_of_configs_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--config-dir: no folder"):
        read_command([], multirun=False, config_dir=str(tmp_path / "gone"))


def test_hydras_basic_sweeper_may_repeat_a_job_and_ours_does_not() -> None:
    assert len(read(["top_k=3,3"], multirun=True).jobs) == 1
    assert len(read(["top_k=3,3", "hydra/sweeper=basic"], multirun=True).jobs) == 2


def test_settings_of_hydra_reach_the_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGSWEEP_TRUSTED_PACKAGES", "my")
    write_option(tmp_path, "reranker/mine", "_target_: my.Reranker\n")
    searched = f"hydra.searchpath=[file://{tmp_path},pkg://hydra.conf]"
    (job,) = compose_jobs(read([searched, "reranker=mine"], multirun=False))
    assert job.config.written["reranker"]["_target_"] == "my.Reranker"


@pytest.mark.parametrize("scheme", ["file://", ""])
def test_folder_on_the_search_path_is_read_and_checked_with_and_without_a_scheme(scheme: str, tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    file, typed = tmp_path / "experiment" / "mine.yaml", [f"hydra.searchpath=[{scheme}{tmp_path}]", "+experiment=mine"]
    file.write_text("# @package _global_\ntop_k: 3\n")
    assert compose_jobs(read_command(typed, multirun=False))[0].config.values["top_k"] == 3
    file.write_text("# @package _global_\ntop_k: 3\ntop_k: 4\n")
    with pytest.raises(ConfigError, match='key "top_k" occurs twice'):
        read_command(typed, multirun=False)


@pytest.mark.parametrize("path", ["file://missing", "missing"])
def test_missing_folder_on_the_search_path_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match='no folder "missing"; create it'):
        read([f"hydra.searchpath=['{path}']", "top_k=3"], multirun=False)


def test_named_sweep_is_a_multirun_without_being_told() -> None:
    command = shipped("top_k")
    assert command.multirun
    assert command.names() == ["top_k=3", "top_k=5", "top_k=10"]


@pytest.mark.nightly  # a second a dozen options
def test_every_shipped_option_composes() -> None:
    others = ("hydra", "answer_metrics", "answer_context")  # the latter two are chosen by a task and an llm
    for folder in sorted(path for path in config_folder().iterdir() if path.is_dir() and path.name not in others):
        for option in sorted(folder.glob("*.yaml")):
            config = compose_jobs(read([f"{folder.name}={option.stem}"], multirun=False))[0].config
            assert config.written.get(folder.name, option.stem) is not None  # a task has no key of its own


@cache
def shipped(sweep: str) -> Command:
    return read([f"sweeps={sweep}"], multirun=False)


@pytest.mark.nightly
def test_every_shipped_sweep_expands_to_several_jobs() -> None:
    for sweep in sorted((config_folder().parent / "sweeps").glob("*.yaml")):
        first, launch, question, *_ = sweep.read_text().splitlines()
        assert first == "# @package _global_"
        assert launch == f"# python run.py -m sweeps={sweep.stem}"
        assert question.startswith("# ")
        assert "?" in question
        assert len(shipped(sweep.stem).jobs) > 1


@pytest.mark.parametrize(
    ("sweep", "key", "values"),
    [
        ("fusion_grid", "retriever.k", {20, 30, 40, 50, 60, 70, 80}),
        ("fusion_grid", "retriever.alpha", {n / 10 for n in range(11)}),
        ("rerank_depth", "reranker.candidates", {30, 50, 75, 100}),
        ("hnsw", "retriever.index.ef_search", {10, 20, 40, 100, 400}),
        ("hnsw", "retriever.index.m", {4, 8, 32}),
        ("hnsw", "retriever.index.ef_construction", {16, 32, 64, 256}),
    ],
)
def test_named_sweeps_cover_the_ranges_of_practice(sweep: str, key: str, values: set[float]) -> None:
    found = [line.partition("=")[2] for job in shipped(sweep).jobs for line in job if line.startswith(f"{key}=")]
    assert {float(value) for value in found} == values


@pytest.mark.nightly
def test_the_ablation_starts_with_the_defaults_and_changes_one_thing_at_a_time() -> None:
    command = read(["sweeps=ablation"], multirun=False)
    first, *others = (job.config.written for job in compose_jobs(command))
    defaults = compose_jobs(read([], multirun=False))[0].config.written
    assert {**first, "baseline": None} == {**defaults, "baseline": None}
    assert all(other != first for other in others)
    assert all(len(job) == 2 for job in command.jobs)  # the change, and the sweep's own name


def test_a_sweep_of_a_file_needs_no_option_and_its_options_are_not_merged(cwd: Path) -> None:
    for name, params in (("mine", "top_k: '3,5'"), ("listed", "reranker: [none, late_interaction]")):
        write_option(cwd, f"sweeps/{name}", f"hydra: {{sweeper: {{params: {{{params}}}}}}}\n")
    assert len(read(["sweeps=mine"], multirun=False).jobs) == 2
    assert "reranker takes one option" in refusal(["sweeps=listed"], multirun=False)


def test_the_name_of_a_sweep_may_end_with_that_of_its_file() -> None:
    assert read(["sweeps=hybrid_tpe.yaml"], multirun=False).searching


def test_a_sweep_without_a_header_sets_keys_of_the_whole_config(cwd: Path) -> None:
    write_option(cwd, "sweeps/mine", "depth: 50\nhydra: {sweeper: {params: {top_k: '3,5'}}}\n")
    command = read(["sweeps=mine"], multirun=True)
    assert [job.config.values["depth"] for job in compose_jobs(command)] == [50, 50]
    assert [job[0] for job in command.jobs] == ["top_k=3", "top_k=5"]


def test_unknown_key_inside_a_value_is_said_with_those_that_are_known() -> None:
    told = refusal(["retriever.legs={first:{k1:1}}"], multirun=False)
    assert re.search(r"retriever\.legs has no such keys; known: bm25, .*add others with", told)


def test_configs_are_named_without_the_rounding_of_arithmetic() -> None:
    command = read(["retriever=hybrid_convex", "retriever.alpha=range(0.1,0.5,0.1)"], True)
    assert command.names() == [f"alpha=0.{n}" for n in (1, 2, 3, 4)]
    assert "0.30000000000000004" in str(command.jobs)


def test_configs_that_differ_in_the_fourth_digit_have_different_names() -> None:
    assert read(["retriever=bm25", "retriever.k1=1.2341,1.2342"], True).names() == ["k1=1.2341", "k1=1.2342"]


OWN = "{_target_: own.Mine}"


@pytest.fixture
def own_metrics(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the user two options of the group metrics, each with one metric of theirs."""
    monkeypatch.setenv("RAGSWEEP_TRUSTED_PACKAGES", "own")
    for name, metric in (("mine", "success_rate"), ("cut", "recall_at_5")):
        write_option(Path("conf"), f"metrics/{name}", f"defaults: [retrieval]\n{metric}: {OWN}\n")


@pytest.mark.parametrize(
    ("overrides", "first", "second"),
    [
        (
            ["metrics=mine", "llm=extractive"],
            "metrics/mine.yaml sets it to own.Mine",
            "metrics/answers.yaml sets it to ragsweep",
        ),
        nightly(["metrics=[retrieval,mine]", "llm=extractive"], "metrics/mine.yaml sets it to", "metrics/answers.yaml"),
        (
            ["metrics=cut"],
            "metrics/retrieval.yaml sets it to ragsweep.parts.metrics.Recall",
            "metrics/cut.yaml sets it to own.Mine",
        ),
        nightly(
            [f"+metrics.success_rate={OWN}", "llm=extractive"],
            "metrics/answers.yaml sets it to",
            "the command line sets it to own",
        ),
        ([f"metrics.recall_at_5={OWN}"], "metrics/retrieval.yaml sets it to", "the command line sets it to own.Mine"),
    ],
)
@pytest.mark.usefixtures("own_metrics")
def test_two_metrics_under_one_key_are_refused(overrides: list[str], first: str, second: str) -> None:
    told = refusal(overrides, multirun=False)
    assert re.match(r"metrics\.(success_rate|recall_at_5): ", told)
    assert first in told
    assert f", but {second}" in told
    assert "another key" in told


@pytest.mark.parametrize(
    ("overrides", "key", "target"),
    [
        (["metrics=mine"], "success_rate", "own.Mine"),  # without an llm there is no other one
        nightly(["metrics=mine", "llm=none"], "recall_at_5", "ragsweep.parts.metrics.Recall"),
        nightly([f"+metrics.mine={OWN}", "llm=extractive"], "mine", "own.Mine"),
        (["~metrics.recall_at_5", f"+metrics.recall_at_5={OWN}"], "recall_at_5", "own.Mine"),
        nightly(["metrics.recall_at_5._target_=own.Mine"], "recall_at_5", "own.Mine"),
        nightly(["metrics.recall_at_5={cutoff: 6}"], "recall_at_5", "ragsweep.parts.metrics.Recall"),
    ],
)
@pytest.mark.usefixtures("own_metrics")
def test_a_key_that_one_metric_has_is_its_own(overrides: list[str], key: str, target: str) -> None:
    (job,) = compose_jobs(read(overrides, multirun=False))
    assert job.config.written["metrics"][key]["_target_"] == target
