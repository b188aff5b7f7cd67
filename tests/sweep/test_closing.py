"""The output and the tracked data of a sweep at its end are made from its records, even if a part of this fails."""

import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ragsweep.core.results import DROPPED, Failure, Result
from ragsweep.records.ledger import Ledger, Sweep
from ragsweep.report.choice import choice_statements
from ragsweep.report.document import texts
from ragsweep.report.evidence import evidence_statements
from ragsweep.report.holdout import gap_line, holdout_gap
from ragsweep.report.sweep_report import PageTexts, PastSweep
from ragsweep.report.terminal import Terminal
from ragsweep.stats.comparison import NoComparison, SweepComparison
from ragsweep.sweep.concluding import summarise as closing
from ragsweep.sweep.concluding.parent_run import describe, sweep_page
from ragsweep.sweep.concluding.summarise import summarise_sweep
from ragsweep.sweep.concluding.sweep_content import show_sweep, sweep_content
from ragsweep.sweep.running.jobs import job_value
from ragsweep.sweep.running.recording import RunContext
from support.inputs.human_labels import M, pair, written
from support.results import METRIC, changed, changed_table, drawn, noisy, one_metric, parent_run, scored


def measured(name: str, mean: float, partition: str = "all", seed: int = 0) -> Result:
    result = one_metric(name, noisy(mean, seed=seed))
    value, half = result.summaries.metrics[METRIC].value, 0.03
    facts = replace(result.run.dataset, partition=partition, partition_digest="p", whole_digest="w")
    summary = replace(result.summaries.metrics[METRIC], low=value - half, high=value + half)
    parameters = {"x": name, "partition": partition}
    return changed(result, dataset=facts, parameters=parameters, metrics={METRIC: summary})


def kept(folder: Path, *outcomes: Result | Failure, sweep: str = "sweep") -> Ledger:
    ledger = Ledger(folder)
    for job, outcome in enumerate(outcomes):
        ledger.write(sweep, job, outcome)
    return ledger


def concluded(folder: Path, *outcomes: Result | Failure, **settings: Any) -> closing.SweepSummary:
    ledger = kept(folder, *outcomes)
    return summarise_sweep(ledger, ledger.records("sweep"), **settings)


def printed(came: closing.SweepSummary) -> list[str]:
    stream = io.StringIO()
    show_sweep(came, Terminal(stream, bars=False))
    return stream.getvalue().splitlines()


def test_a_single_finished_config_heads_its_sweep(tmp_path: Path) -> None:
    came = concluded(tmp_path, measured("a", 0.4), weighed=False)
    assert "ragsweep  #1 a" in "\n".join(printed(came))
    assert came.verdict is None


@pytest.mark.parametrize("tokens", [500.0, 900.0])
def test_no_question_has_changed_if_all_scores_are_the_same(tmp_path: Path, tokens: float) -> None:
    """A cost is not a change of a question, but a second metric's score is."""
    for sweep, recall in (("same", 0.5), ("apart", 0.6)):
        outcomes = [
            one_metric(name, noisy(0.4), context_tokens=cost, recall=value)
            for name, cost, value in (("a", 500.0, 0.5), ("b", tokens, recall))
        ]
        ledger = kept(tmp_path, *outcomes, sweep=sweep)
        steps = sweep_content(summarise_sweep(ledger, ledger.records(sweep)), reference=sweep).commands
        told = [one.text for one in steps]
        assert ("which questions changed" in told) == (sweep == "apart")


def test_what_is_printed_is_what_the_parent_run_holds(tmp_path: Path) -> None:
    came = concluded(tmp_path, measured("a", 0.4), measured("b", 0.6, seed=1), Failure("c", (), {}, "error"))
    parent = parent_run(came)
    told = json.loads(parent.files["results.json"])["sweep"]
    shown = " ".join(" ".join(printed(came)).split())
    choice = texts(choice_statements(came.conclusion))
    evidence = texts(evidence_statements(came.conclusion))
    assert all(sentence in shown for sentence in (*choice, *evidence))
    assert {*choice, *evidence} <= set(told["verdict"]["lines"])
    result = json.loads(parent.files["results.json"])["result"]
    assert parent.tags["ragsweep.verdict"] == " ".join([*choice, *evidence])
    assert parent.tags["ragsweep.result"] == result["kind"] == "choice"
    assert "**Choice.** " + " ".join(choice) in parent.tags["mlflow.note.content"]
    assert parent.metrics["verdict_best_set"] == 1
    assert "without 1 failed (#3 c)" in shown


@pytest.mark.parametrize(("count", "asked"), [(2, METRIC), (1, "latency_p95_ms")])
def test_the_history_of_a_page_is_by_the_metric_of_the_page(
    tmp_path: Path, count: int, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quantile cannot decide between two configs; without a comparison, the page is by the objective itself."""
    scores = [{"latency_p95_ms": drawn(50, seed=n), METRIC: drawn(0.5, seed=n)} for n in range(count)]
    rows = [scored(one, name=f"k={n}", config={"headline": [METRIC]}) for n, one in enumerate(scores)]
    came, metrics = concluded(tmp_path, *rows), list[str]()

    def past(*arguments: Any) -> list[PastSweep]:
        metrics.append(arguments[-1])
        return []

    monkeypatch.setattr("ragsweep.sweep.concluding.parent_run.past_sweeps", past)
    sweep_page(came, Sweep("", "t", "", (), ()), PageTexts())
    assert metrics == [asked]


def test_labels_of_people_correct_what_is_printed_and_what_the_parent_run_holds(tmp_path: Path) -> None:
    results, labels = pair()
    came = concluded(tmp_path / "labels", *results, labels=labels)
    told = json.loads(parent_run(came).files["results.json"])
    shown = printed(came)
    assert " .73 as judged, becomes .43 with at least 72 labels per config" in " ".join(" ".join(shown).split())
    assert [line.split("  ")[0] for line in shown if " -> ." in line] == ["1", "2"]  # the best by the labels first
    assert told["sweep"]["verdict"]["labels"][M]["configs"]["#2 b"]["corrected"]["difference"] < 0
    assert told["result"]["choice"] == "#1 a"
    judged = json.loads(parent_run(concluded(tmp_path / "judge", *results)).files["results.json"])
    assert judged["result"]["choice"] == "#2 b"


def test_sweep_that_was_run_with_labels_is_read_with_them_ever_after(tmp_path: Path) -> None:
    results, labels = pair()
    judge = {"judge": {"labels": written(tmp_path / "labels.jsonl", labels)}}
    came = concluded(tmp_path, *(changed(result, config={**result.run.config, **judge}) for result in results))
    assert "72 labels per config" in describe(came)


def test_limits_name_the_slice_where_the_best_config_is_worse_than_its_own_leg(tmp_path: Path) -> None:
    scores = [0.0] * 12 + [1.0] * 40
    fused = one_metric("b", scores)
    leg = [1.0] * 4 + scores[4:]
    trace = {"held": [1], "legs": {"vector": [1]}, "ranked": [1]}
    traces = [json.dumps({**trace, "scores": {"vector": {METRIC: score}}}) for score in leg]
    labels = {"category": ["how_to"] * 12 + ["fact"] * 40, "evidence_trace": traces}
    best = changed(fused, questions=changed_table(fused, labels), groups={"category": {"how_to": {}, "fact": {}}})
    came = concluded(tmp_path, one_metric("a", [0.0] * 52), best)
    said = "In category how_to (12 questions), "
    assert any(said in line for line in printed(came))
    assert said in describe(came)


def test_sweep_without_a_result_has_no_verdict(tmp_path: Path) -> None:
    came = concluded(tmp_path, Failure("c", (), {}, "error"))
    assert came.verdict is None
    assert json.loads(parent_run(came).files["results.json"])["sweep"]["holdout_looks"] == 0
    assert printed(came) == ["failed    #1 c · error"]


def test_sweep_of_which_a_race_left_nothing_whole_still_ends(tmp_path: Path) -> None:
    race = {"asked": 8, "of": 40, "ahead": 0.1, "rule": "betting", "guarantee": "95 %"}
    dropped = changed(measured("a", 0.5), state=DROPPED, race=race)
    came = concluded(tmp_path, dropped, Failure("b", (), {}, "out of memory"))
    assert isinstance(came.verdict, NoComparison)
    assert came.gap is None
    assert "no config remains" in parent_run(came).tags["mlflow.note.content"]


def test_verdict_that_cannot_be_made_costs_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(closing, "compare_labelled", fails)
    came = concluded(tmp_path, measured("a", 0.4), measured("b", 0.6, seed=1))
    assert isinstance(came.verdict, NoComparison)
    assert "the comparison failed: ZeroDivisionError: division by zero" in " ".join(" ".join(printed(came)).split())
    assert "results.csv" in parent_run(came).files


def test_gap_is_the_lead_that_the_best_of_the_tune_questions_loses() -> None:
    """Holdout questions that are harder for all configs (by .2) are not a gap."""
    tuned = [measured("a", 0.5, "tune"), measured("b", 0.7, "tune", 1), measured("elsewhere", 0.9, "tune")]
    held = [measured("a", 0.3, "holdout"), measured("b", 0.35, "holdout", 1)]
    found = holdout_gap(held, tuned, METRIC)
    assert (found.config, found.over) == ("b", "a")
    assert found.tune == pytest.approx(np.mean(noisy(0.7, seed=1) - noisy(0.5)))
    assert found.change == pytest.approx(-0.15)
    error = np.std(noisy(0.7, seed=1) - noisy(0.5), ddof=1) / 10
    assert found.high - found.change == pytest.approx(1.96 * error * 2**0.5)
    unmeasured = changed(measured("c", 0.4, "holdout"), metrics={})
    assert holdout_gap([unmeasured, *held], tuned, METRIC) == found


def test_gap_is_of_configs_with_the_same_settings_whatever_their_sweep_is_called() -> None:
    tuned, held = (
        [
            changed(one, parameters={**one.run.parameters, "name": name, "baseline": baseline, "objective": METRIC})
            for one in (measured("a", 0.5, partition), measured("b", 0.7, partition, 1))
        ]
        for partition, name, baseline in (("tune", "search", "null"), ("holdout", "final", "1"))
    )
    dropped = changed(measured("b", 0.4, "tune", 1), state=DROPPED, parameters=tuned[1].run.parameters)
    found = holdout_gap(held, [*tuned, dropped], METRIC)
    assert found
    assert (found.config, found.change) == ("b", 0)


def test_gap_is_over_the_best_on_the_questions_that_every_config_was_scored_on() -> None:
    """The mean of b's own scores is the highest, but a is better on each of these questions."""
    columns = {"a": [0.8, 0.4] * 20, "b": [0.7, np.nan] * 20}
    tuned = [scored({METRIC: one}, name=name, parameters={"x": name}) for name, one in columns.items()]
    assert holdout_gap([measured("a", 0.5), measured("b", 0.6, seed=1)], tuned, METRIC) is None


def test_gap_of_an_amount_is_printed_with_the_digits_and_the_unit_of_the_metric() -> None:
    def partition(lead: float) -> list[Result]:
        columns = {"a": drawn(20, spread=1), "b": drawn(20 - lead, spread=1)}
        return [scored({"latency_ms": one}, name=name, parameters={"x": name}) for name, one in columns.items()]

    (line,) = gap_line(holdout_gap(partition(0.75), partition(12.5), "latency_ms"))
    assert (
        "led a there by +12.5 ms, and leads by +0.75 ms on the holdout, a change of -11.8 [-11.8, -11.8] ms"
        in line.text
    )


def test_gap_is_unknown_where_one_side_lacks_a_config_or_the_first_is_the_best() -> None:
    held = [measured("a", 0.6, "holdout"), measured("b", 0.5, "holdout", 1)]
    assert holdout_gap(held, [measured("b", 0.6, "tune", 1)], METRIC) is None
    assert holdout_gap(held, [measured("a", 0.6, "tune")], METRIC) is None
    assert holdout_gap(held, [measured("a", 0.6, "tune"), measured("b", 0.5, "tune", 1)], METRIC) is None


def test_holdout_sweep_finds_what_was_measured_on_tune(tmp_path: Path) -> None:
    kept(tmp_path, measured("a", 0.5, "tune"), measured("b", 0.7, "tune", seed=1), sweep="first")
    ledger = kept(tmp_path, measured("a", 0.5, "holdout"), measured("b", 0.6, "holdout", seed=1), sweep="second")
    came = summarise_sweep(ledger, ledger.records("second"))
    assert isinstance(came.verdict, SweepComparison)
    assert came.gap is not None
    assert parent_run(came).metrics["verdict_holdout_gap"] == pytest.approx(-0.1)
    shown = " ".join(" ".join(printed(came)).split())
    assert "The holdout was used once" in shown
    assert summarise_sweep(ledger, ledger.records("first")).gap is None
    assert "The holdout was used once" in " ".join(printed(summarise_sweep(ledger, ledger.records("first"))))


def test_without_an_objective_a_lone_config_is_shown_by_the_first_headline_metric(tmp_path: Path) -> None:
    alone = measured("a", 0.4, "holdout")
    config = {**alone.run.config, "objective": None, "headline": [METRIC]}
    came = concluded(tmp_path, changed(alone, config=config, groups={"category": {"x": alone.summaries.metrics}}))
    stream = io.StringIO()
    show_sweep(came, Terminal(stream, bars=False), by="category")
    assert f"{METRIC} by category:" in stream.getvalue()
    assert came.gap is None
    assert job_value(cast(RunContext, SimpleNamespace(sweep=None, search=None)), 0, came.results[0], {}) is None
