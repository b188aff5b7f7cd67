"""`ragsweep ablate`: one change at a time around a recorded config."""

import math
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from ragsweep.commands.ablate import ablate, changes_document, experiments, prepare, write_sweep
from ragsweep.commands.ablation_cases import (
    OPTIONS,
    Ablation,
    AblationCase,
    around,
    neighbours,
    other_options,
    with_option,
)
from ragsweep.commands.effects import effects
from ragsweep.commands.gate import gate
from ragsweep.core.errors import ConfigError, InputError, RagsweepError
from ragsweep.core.results import PARTIAL, Result
from ragsweep.report.document import Document, Table
from ragsweep.sweep.composing import compose
from ragsweep.sweep.composing.command import choices
from ragsweep.sweep.composing.compose import config_folder
from ragsweep.sweep.concluding.recorded_runs import find_run
from support import output, printed_json
from support.commands import RUN, composed, printed, read, write_dataset
from support.results import changed, changed_table, drawn, record, refuse, scored

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("top_k", "5", ["3", "8"]),
        ("top_k", "6", ["5", "8"]),
        ("retriever.k", "60", ["40", "80"]),
        ("retriever.alpha", "0.5", ["0.4", "0.6"]),
        ("retriever.alpha", "1", ["0.9"]),
        ("retriever.legs.bm25.k1", "1.5", ["1.2", "1.8"]),
        ("chunker.overlap", "0", ["20"]),
        ("retriever.index.nprobe", "16", ["8", "32"]),
        ("retriever.index.nprobe", "1", ["2"]),
        ("context_budget", "1048576", ["524288", "2097152"]),
        ("context_budget", "600000", ["300000", "1200000"]),
        ("llm.threshold", "0.4", ["0.3", "0.5"]),
        ("retriever.min_score", "null", []),
        ("retriever.normalisation", "min_max", []),
        ("retriever.weights", "nan", []),
        ("llm.seed", "0", []),
        ("evidence.threshold", "0.5", []),
        ("dataset.limit", "100", []),
    ],
)
def test_neighbours_of_a_value_are_the_next_ones_that_are_tried(name: str, value: str, expected: list[str]) -> None:
    assert neighbours(name, value) == expected


def test_options_are_exchanged_where_that_asks_for_nothing_else() -> None:
    assert other_options("retriever", "bm25") == ["hybrid_rrf", "hybrid_convex", "vector"]
    assert other_options("reranker", "none") == ["late_interaction"]
    assert other_options("reranker", "cross_encoder") == ["none"]
    assert other_options("chunker", "none") == []
    assert other_options("llm", "openai") == []


def test_every_option_that_is_tried_exists() -> None:
    for group, options in OPTIONS.items():
        assert {path.stem for path in (config_folder() / group).glob("*.yaml")} >= set(options)


@pytest.mark.parametrize(
    ("base", "option", "expected"),
    [
        (["retriever=bm25", "retriever.k1=1.2", "top_k=3"], "vector", ["top_k=3", "retriever=vector"]),
        (["retriever=bm25", "retriever.k1=1.2"], "hybrid_rrf", ["retriever=hybrid_rrf", "retriever.legs.bm25.k1=1.2"]),
        (["retriever=vector", "retriever/index=hnsw", "retriever.index.m=8"], "hybrid_convex",
         ["retriever=hybrid_convex", "retriever/index@retriever.legs.vector.index=hnsw",
          "retriever.legs.vector.index.m=8"]),
        (["retriever=hybrid_rrf", "retriever.k=20", "retriever.legs.bm25.k1=1.2"], "hybrid_convex",
         ["retriever=hybrid_convex", "retriever.legs.bm25.k1=1.2"]),
        (["retriever=hybrid_rrf", "retriever.legs.bm25.k1=1.2", "retriever.legs.vector.min_score=0.1",
          "retriever/index@retriever.legs.vector.index=hnsw", "retriever.legs.vector.index.m=8"], "vector",
         ["retriever=vector", "retriever.min_score=0.1", "retriever/index=hnsw", "retriever.index.m=8"]),
        (["+retriever.legs.bm25.extra=1"], "bm25", ["retriever=bm25", "+retriever.extra=1"]),
        (["~retriever.legs.bm25.k1"], "bm25", ["retriever=bm25", "~retriever.k1"]),
        (["retriever=bm25", "~retriever.k1"], "hybrid_rrf", ["retriever=hybrid_rrf", "~retriever.legs.bm25.k1"]),
    ],
)  # fmt: skip
def test_a_leg_keeps_its_settings_in_a_retriever(base: Sequence[str], option: str, expected: Sequence[str]) -> None:
    before = next((line.partition("=")[2] for line in base if line.startswith("retriever=")), "hybrid_rrf")
    assert sorted(with_option(base, "retriever", before, option)) == sorted(expected)


@pytest.mark.parametrize("before", OPTIONS["retriever"])
@pytest.mark.parametrize("after", OPTIONS["retriever"])
def test_what_is_carried_over_composes(before: str, after: str) -> None:
    settings = {
        "bm25": ["retriever.k1=1.2"],
        "vector": ["retriever/index=hnsw", "retriever.index.m=8"],
        "hybrid_rrf": ["retriever.k=20", "retriever.legs.bm25.k1=1.2"],
        "hybrid_convex": ["retriever.alpha=0.2", "retriever/index@retriever.legs.vector.index=hnsw",
                          "retriever.legs.vector.index.m=8"],
    }  # fmt: skip
    base = [f"retriever={before}", *settings[before]]
    exchanged, plain = (
        composed(*lines).written["retriever"]
        for lines in (with_option(base, "retriever", before, after), [f"retriever={after}"])
    )
    assert exchanged["_target_"] == plain["_target_"]


PARAMETERS: Mapping[str, str] = {"retriever": "bm25", "reranker": "none", "top_k": "5", "retriever.k1": "1.5",
                                 "seed": "0", "embedder.model": "bundled"}  # fmt: skip


def test_each_case_differs_in_one_thing() -> None:
    cases = around(["retriever=bm25"], PARAMETERS, {})
    assert [case.factor for case in cases] == ["retriever"] * 3 + ["reranker", "top_k", "top_k"] + ["retriever.k1"] * 2
    assert cases[0].overrides == ("retriever=hybrid_rrf",)
    assert cases[3].overrides == ("retriever=bm25", "reranker=late_interaction")
    assert cases[-1].overrides == ("retriever=bm25", "retriever.k1=1.8")


def test_a_key_that_was_added_is_added_in_every_case() -> None:
    for sign in ("+", "++"):
        cases = around([f"{sign}llm.extra.top_k=20"], {"llm.extra.top_k": "20"}, {})
        assert [case.overrides for case in cases] == [(f"{sign}llm.extra.top_k={k}",) for k in (12, 30)]


def test_another_option_of_any_group_has_none_of_the_settings_of_the_replaced_one() -> None:
    base, parameters = ["llm=openai", "llm.model=a", "top_k=3"], {"llm": "openai", "llm.model": "a", "top_k": "3"}
    cases = around(base, parameters, {"llm": ["mistral", "openai"]}, ["llm"])
    assert [case.overrides for case in cases] == [("top_k=3", "llm=mistral"), ("llm.model=a", "top_k=3", "llm=openai")]


def test_given_values_take_the_place_of_neighbours_and_factors_can_be_chosen() -> None:
    cases = around([], PARAMETERS, {"top_k": ["1", "2"]}, ["top_k", "reranker"])
    assert [case.overrides for case in cases] == [("reranker=late_interaction",), ("top_k=1",), ("top_k=2",)]
    assert {case.factor for case in around([], PARAMETERS, {}, ["retriever"])} == {"retriever", "retriever.k1"}
    with pytest.raises(ConfigError, match='nothing to change in "topk"; did you mean "top_k"'):
        around([], PARAMETERS, {}, ["topk"])
    with pytest.raises(ConfigError, match=r"^top_k=4,6: --factor excludes these values; add --factor top_k, or"):
        around([], PARAMETERS, {"top_k": ["4", "6"]}, ["retriever"])


def test_an_override_stands_for_the_values_it_sweeps() -> None:
    assert choices("retriever.k=20,40") == ["retriever.k=20", "retriever.k=40"]
    assert choices("top_k=range(1,4)") == ["top_k=1", "top_k=2", "top_k=3"]
    assert choices("retriever=glob(hybrid*)") == ["retriever=hybrid_convex", "retriever=hybrid_rrf"]
    assert choices("metrics=[retrieval,answers]") == ["metrics=[retrieval,answers]"]
    with pytest.raises(ConfigError, match="cannot read"):
        choices("top_k=[1")


def recorded(folder: Path, *overrides: str) -> Result:
    """Make the result that a config of the small dataset would have, without running it."""
    made = experiments(None)(overrides)
    options = {"retriever": "bm25", "reranker": "none", "chunker": "recursive", "prompt": "default"}
    parameters = {**made.parameters, **options}
    return scored({"context_ndcg": drawn(0.5)}, overrides=overrides, parameters=parameters, signature=made.signature)


def test_what_cannot_be_or_changes_nothing_is_left_out(cwd: Path) -> None:
    base = (*write_dataset(cwd), "depth=5")
    factors = ["top_k", "prompt"]
    found = prepare(recorded(cwd, *base), [], factors, None)
    assert found.cases[0].overrides == base
    assert found.same
    assert [case.overrides[-1] for case in found.cases[1:]] == ["top_k=3"]
    assert found.impossible == {"top_k=8": "top_k=8 exceeds depth=5; raise depth, or lower top_k"}
    with pytest.raises(ConfigError, match=r'^--metric: no metric "context_ndgc" in this config; did you mean "context'):
        prepare(recorded(cwd, *base), [], factors, None, "context_ndgc")
    found_mean = recorded(cwd, *base).summaries.metrics["context_ndcg"]
    measured = {"context_ndcg": replace(found_mean, value=0.99)}  # not the mean of the scores
    with pytest.raises(ConfigError, match=r"^context_ndcg: is a quantile"):
        prepare(changed(recorded(cwd, *base), metrics=measured), [], factors, None, "context_ndcg")
    assert set(found.idle) >= {"prompt=concise", "prompt=cite"}


def test_the_baseline_of_an_ablation_is_its_config_whatever_the_run_declared(cwd: Path) -> None:
    base = (*write_dataset(cwd), "depth=5")
    found = prepare(recorded(cwd, *base, 'baseline="3"'), [], ["top_k"], None)
    assert found.cases[0].overrides == base


@pytest.mark.nightly
def test_changes_that_are_all_left_out_have_their_reasons(cwd: Path) -> None:
    result = recorded(cwd, *write_dataset(cwd))
    with pytest.raises(RagsweepError) as raised:
        prepare(result, ["reranker=cross_encoder,none"], ["reranker"], None)
    first, *reasons = str(raised.value).splitlines()
    assert first.startswith("no change is left to run; give other values, such as top_k=3,10")
    assert any(line.startswith("reranker=cross_encoder: ") and "neither a folder" in line for line in reasons)
    assert "reranker=none: changes no result" in reasons


def test_what_is_typed_is_set_in_every_case_or_tried(cwd: Path) -> None:
    result = recorded(cwd, *write_dataset(cwd))
    found = prepare(result, ["depth=20", "retriever.k1=1,2", "hydra/launcher=basic"], ["retriever.k1"], None)
    assert [case.overrides[-1] for case in found.cases[1:]] == ["retriever.k1=1", "retriever.k1=2"]
    assert all("depth=20" in case.overrides for case in found.cases)
    assert found.hydra == ("hydra/launcher=basic",)
    assert found.same  # a typed override is no change of code, data or defaults
    found = prepare(result, ["retriever.k1=1.1", "retriever=bm25"], ["top_k"], None)  # in any order
    assert all({"retriever=bm25", "retriever.k1=1.1"} <= set(case.overrides) for case in found.cases)
    for typed, said in ((["llm.api_key=x"], "ends up in files"), (["topk=3"], 'did you mean "top_k"')):
        with pytest.raises(RagsweepError, match=said):
            prepare(result, typed, None, None)


def test_options_on_the_search_path_are_composed_in_every_case(cwd: Path) -> None:
    (cwd / "more" / "retriever").mkdir(parents=True)
    option = (config_folder() / "retriever" / "bm25.yaml").read_text("utf-8")
    (cwd / "more" / "retriever" / "mine.yaml").write_text(option, "utf-8")
    searched = f"hydra.searchpath=[file://{cwd}/more]"
    result = recorded(cwd, *write_dataset(cwd))
    found = prepare(result, ["retriever=mine", "top_k=1,2", searched], ["top_k"], None)
    assert all("retriever=mine" in case.overrides for case in found.cases)
    assert found.hydra == (searched,)
    with pytest.raises(ConfigError, match="retriever=mine: no such option"):
        prepare(result, ["retriever=mine", "top_k=1,2"], ["top_k"], None)


def test_a_default_that_has_moved_is_set_as_it_was(cwd: Path) -> None:
    then = recorded(cwd, *write_dataset(cwd), "top_k=2")
    found = prepare(changed(then, overrides=then.run.overrides[:-1]), [], ["retriever.b"], None)
    assert found.same
    assert "top_k=2" in found.cases[0].overrides


def test_an_option_of_a_sweeps_file_is_chosen_in_every_case(cwd: Path) -> None:
    then = recorded(cwd, *write_dataset(cwd), "retriever.k1=1.1")
    typed = tuple(line for line in then.run.overrides if line != "retriever=bm25")
    found = prepare(changed(then, overrides=typed), [], ["top_k"], None)
    assert found.same
    assert all({"retriever=bm25", "retriever.k1=1.1"} <= set(case.overrides) for case in found.cases)


@pytest.mark.parametrize(("objective", "kept"), [("context_recall", True), ("a_metric_of_the_file", False)])
def test_the_objective_of_a_sweeps_file_is_that_of_the_ablation(objective: str, kept: bool, cwd: Path) -> None:
    then = recorded(cwd, *write_dataset(cwd))
    config, parameters = ({**one, "objective": objective} for one in (then.run.config, then.run.parameters))
    found = prepare(changed(then, config=config, parameters=parameters), [], ["top_k"], None)
    assert all((f"objective={objective}" in case.overrides) is kept for case in found.cases)
    assert found.same


def test_a_config_of_a_search_is_ablated_on_the_questions_of_the_search(cwd: Path) -> None:
    base = tuple(write_dataset(cwd))
    tuned = recorded(cwd, *base, "partition=tune")
    parameters = {**tuned.run.parameters, "partition": recorded(cwd, *base).run.parameters["partition"]}
    facts = replace(tuned.run.dataset, partition="tune")
    found = prepare(changed(tuned, overrides=base, parameters=parameters, dataset=facts), [], ["top_k"], None)
    assert found.same
    assert all(case.overrides[: len(base) + 1] == (*base, "partition=tune") for case in found.cases)


def test_a_plan_shows_the_cases_and_writes_nothing(cwd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run,) = record(cwd / "kept", recorded(cwd, *write_dataset(cwd)))
    before = {path.name for path in cwd.iterdir()}
    shown = output(capsys, ablate, run, "--factor", "top_k", "depth=50", "--plan", "--path", "kept")
    assert "2 changes, one at a time, of top_k" in shown
    assert "plan      3 configs" in shown
    assert {path.name for path in cwd.iterdir()} == before


@pytest.mark.parametrize(("typed", "variable"), [(["store.path=elsewhere"], None), ([], "elsewhere")])
def test_cases_use_the_store_that_has_the_run(
    typed: list[str], variable: str | None, cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = recorded(cwd, *write_dataset(cwd))
    (run,) = record(cwd / ".ragsweep", changed(result, overrides=(*result.run.overrides, *typed)))  # moved there
    if variable:
        monkeypatch.setenv("RAGSWEEP_STORE", variable)
    assert ablate([run, "--factor", "top_k", "depth=50", "--plan", "--path", ".ragsweep"]) == 0
    assert not (cwd / "elsewhere").exists()


def test_cases_that_differ_in_values_alone_are_composed_once(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count, hydras = Counter[str](), compose.compose
    monkeypatch.setattr(compose, "compose", lambda *given, **more: count.update(["times"]) or hydras(*given, **more))
    experiment = experiments(None)
    made = [experiment((*write_dataset(cwd), f"top_k={n}")) for n in (3, 5, 8)]
    assert [one.top_k for one in made] == [3, 5, 8]
    assert count["times"] == 1


def test_the_cases_are_written_once_and_read_as_a_sweep(cwd: Path) -> None:
    odd = (r"""prompt.system='Say \'no\', # or ${oc.env:HOME}, "é"'""", "top_k=3")
    cases = (AblationCase("", ("top_k=5",)), AblationCase("top_k", odd))
    found = Ablation(cases, {}, (), (), True)
    assert (write_sweep(found, "ab" * 16), write_sweep(found, "ab" * 16)) == ("ablate_abababab", "ablate_abababab")
    assert write_sweep(replace(found, cases=cases[::-1]), "ab" * 16) == "ablate_abababab_2"
    assert [write_sweep(found, run) for run in ("feed#2", "record 1")] == ["ablate_feed-2", "ablate_record-1"]
    written = OmegaConf.load(cwd / "sweeps" / "ablate_abababab.yaml")
    assert OmegaConf.to_container(written.hydra.sweeper.cases, resolve=True) == [["top_k=5"], list(odd)]
    assert written.baseline == 1
    read(["sweeps=ablate_abababab_2"], multirun=False)


def test_cases_that_cannot_be_written_are_an_error(cwd: Path) -> None:
    (cwd / "sweeps").touch()
    with pytest.raises(InputError, match=r"sweeps/ablate_abababab\.yaml: cannot be written"):
        write_sweep(Ablation((AblationCase("", ("top_k=5",)),), {}, (), (), True), "ab" * 16)


def test_changes_are_told_by_how_much_they_matter() -> None:
    base = drawn(0.5)

    def result(gain: float, **parameters: str) -> Result:
        scores = [one + more for one, more in zip(base, drawn(gain, 40, 0.01, len(parameters)), strict=True)]
        return scored({"ndcg": scores if parameters else base}, parameters={"a": "1", "b": "1", **parameters})

    document = changes_document([result(0), result(0.1, a="2"), result(-0.3, b="2"), result(0.0, b="3")], None)
    first, second = changes(document)[:2]
    assert first[:2] == ["shown worse", "b 1 -> 2"]
    assert first[2].startswith("-.300 [")
    assert second[:2] == ["shown better", "a 1 -> 2"]
    assert document.statements[0].data == {"questions": 40, "changes": 3}


def changes(document: Document) -> list[Sequence[str]]:
    (table,) = [block for block in document.sections[0].blocks if isinstance(block, Table)]
    return [*table.rows]


def test_a_partial_config_counts_if_the_metric_is_complete() -> None:
    """Each config lacks some score of a shown metric; the objective lacks one in the last config only."""

    def partial(a: str, objective: list[float]) -> Result:
        columns = {"ndcg": objective, "faithful": [math.nan, *drawn(0.5, 39)]}
        made = scored(columns, parameters={"a": a}, state=PARTIAL)
        known = {name: replace(one, coverage=one.n_scored / 40) for name, one in made.summaries.metrics.items()}
        return changed(made, metrics=known)

    whole, last = [partial("1", drawn(0.5)), partial("2", drawn(0.6))], partial("3", [math.nan, *drawn(0.7, 39)])
    assert [row[1] for row in changes(changes_document([*whole, last], None))] == ["a 1 -> 2"]
    for metric, configs in ((None, [last, *whole]), ("faithful", [*whole, last])):
        (statement,) = changes_document(configs, metric).statements
        assert "no effect can be compared" in statement.text


def test_changes_of_an_amount_are_ratios() -> None:
    base = [1000.0 * (1000 if n == 0 else 1) * (1 + one) for n, one in enumerate(drawn(0.5))]
    half = [one / 2 for one in base]
    changed = [scored({"latency_ms": column}, parameters={"a": a}) for a, column in (("1", base), ("2", half))]
    assert changes(changes_document(changed, None))[0][2] == "x 0.50 [0.50, 0.50]"


def test_the_weights_are_those_of_the_compared_questions() -> None:
    scores = [math.nan, *[0.5] * 39]
    weights = {"weight": [5.0, 3.0, *[1.0] * 38]}
    made = [scored({"ndcg": scores}, parameters={"a": a}) for a in "12"]
    configs = [changed(one, questions=changed_table(one, weights)) for one in made]
    (statement,) = changes_document(configs, None).statements
    assert "on 39 questions, weighted: 39 questions count as 36 (" in statement.text  # (3 + 38)^2 / (9 + 38)


def test_wrong_options_are_one_clear_line(tmp_path: Path) -> None:
    record(tmp_path, scored({"ndcg": drawn(0.5)}))
    cases = {"RUN": [], 'no run "z" has a result': ["z"], "--factors": ["1", "--factors", "a"]}
    refuse(ablate, cases, "--path", str(tmp_path))


def test_a_run_is_ablated_compared_and_gated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = printed(tmp_path, RUN, "retriever=bm25", "dataset.limit=40", "headline=[context_recall]")
    run = done.split()[-1]
    ablated = printed(tmp_path, "-m", "ragsweep", "ablate", run, "--factor", "top_k", "--metric", "context_recall")
    told = ablated[ablated.index("ablate    context_recall") :]
    assert "top_k 5 -> 3" in told
    assert "top_k 5 -> 8" in told
    (sweep,) = (tmp_path / "sweeps").glob("*.yaml")
    assert sweep.stem == f"ablate_{run}"
    with sqlite3.connect(tmp_path / ".ragsweep" / "ledger.db") as connection:
        ((parent,),) = connection.execute("SELECT parent FROM sweeps").fetchall()
        runs = [row[0] for row in connection.execute("SELECT run FROM records WHERE sweep IS NOT NULL ORDER BY job")]
    path = ["--path", str(tmp_path / ".ragsweep")]
    assert find_run(path[1], run).result.run.signature == find_run(path[1], runs[0]).result.run.signature
    margin = ["--margin", "context_recall=.02"]
    assert gate(["--baseline", run, "--candidate", runs[0], *margin, *path]) == 0
    assert gate(["--baseline", run, "--candidate", runs[1], *margin, *path]) in (1, 3)
    capsys.readouterr()
    assert printed_json(capsys, effects, parent, *path)["method"] == "full grid"
    with pytest.raises(InputError, match="is a sweep"):
        find_run(path[1], parent)
