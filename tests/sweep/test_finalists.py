"""Who of a search is evaluated on the holdout, how that is counted, and what is said of it."""

import io
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragsweep.commands.comparison import find_family
from ragsweep.core.results import PARTIAL, Failure, HumanLabel, Result
from ragsweep.records.claims import CONFIG, FINALIST
from ragsweep.records.ledger import FAILED, FINISHED, Ledger, Sweep
from ragsweep.report.terminal import Terminal
from ragsweep.stats.compare_configs import compare_configs
from ragsweep.stats.comparison import NoComparison, SweepComparison
from ragsweep.sweep.composing.job import SUFFIX
from ragsweep.sweep.concluding.parent_run import RecordedContents, describe
from ragsweep.sweep.concluding.recorded_runs import RecordedRun
from ragsweep.sweep.concluding.summarise import summarise_sweep
from ragsweep.sweep.concluding.sweep_content import finalist_facts, finalist_lines, show_sweep, sweep_content
from ragsweep.sweep.concluding.sweep_summary import Finalists, SweepSummary, choose, collect_finalists
from ragsweep.sweep.running.session import Session
from ragsweep.sweep.searching.study_summary import StudySummary, read_summary, study_folder
from support.results import METRIC, changed, changed_table, noisy, one_metric, parent_run

pytestmark = pytest.mark.slow

LEFT_OUT = {"in partition=holdout": 100}


def tuned(name: str, mean: float, tokens: float, seed: int = 0, count: int = 210, **facts: object) -> Result:
    result = one_metric(name, noisy(mean, count, seed), context_tokens=tokens)
    known = {"partition": "tune", "whole_digest": "w", "left_out": LEFT_OUT, **facts}
    return changed(result, dataset=replace(result.run.dataset, **known), parameters={"x": name, "partition": "null"})


def held(result: Result, mean: float, seed: int = 0, count: int = 210) -> Result:
    other = tuned(result.name + SUFFIX, mean, 1.0, seed, count, partition="holdout", left_out={})
    return changed(other, parameters={**result.run.parameters, "partition": "holdout"})


ROWS = (("first", 0.3, 100), ("dear", 0.602, 900), ("cheap", 0.6, 10), ("middle", 0.601, 500), ("poor", 0.2, 1))
FIELD = [tuned(*row, seed) for seed, row in enumerate(ROWS)]


def partial(result: Result) -> Result:
    metrics = result.summaries.metrics
    return changed(result, state=PARTIAL, metrics={**metrics, METRIC: replace(metrics[METRIC], coverage=0.5)})


def names(results: list[Result]) -> list[str]:
    return [one.name for one in results]


def recorded(folder: Path, trials: Iterable[Result | Failure], finalists: Iterable[Result | Failure]) -> Ledger:
    """Record the trials of a search, and the results of its finalists on the holdout."""
    ledger = Ledger(folder)
    for kind, outcomes in ((CONFIG, trials), (FINALIST, finalists)):
        for place, outcome in enumerate(outcomes):
            ledger.write("search", place, outcome, kind=kind)
    return ledger


def ended(
    folder: Path,
    *finalists: Result | Failure,
    trials: Iterable[Result | Failure] = FIELD[:2],
    baseline: int | None = 1,
    labels: Sequence[HumanLabel] | None = None,
) -> SweepSummary:
    """End a search; by default "dear" is the best of its trials, and "first" its baseline."""
    ledger = recorded(folder, trials, finalists)
    return summarise_sweep(ledger, ledger.records("search"), declared=baseline, labels=labels)


def test_finalists_are_the_first_config_the_choice_the_best_and_the_cheapest_that_may_be_the_best() -> None:
    verdict = compare_configs(FIELD)
    best = max(FIELD, key=lambda one: one.summaries.metrics[METRIC].value).name
    leading = list(dict.fromkeys([verdict.chosen.name, best]))
    whole = choose(FIELD, verdict)
    assert names(whole)[: 1 + len(leading)] == ["first", *leading]
    assert set(names(whole)) == {"first", "dear", "cheap", "middle"}  # the poor one is shown worse
    others = [name for name in ("cheap", "middle", "dear") if name not in leading]
    assert names(whole)[1 + len(leading) :] == others  # by what they cost
    assert names(choose(FIELD, verdict, 2)) == ["first", *[*leading, *others][:2]]
    assert choose(FIELD, verdict, 0) == []


def test_a_baseline_of_the_search_replaces_the_first_trial_and_a_recorded_one_is_no_finalist() -> None:
    assert names(choose(FIELD, compare_configs(FIELD, baseline="poor")))[0] == "poor"
    recorded = tuned("ffea9bd0#3 k=1", 0.61, 50, 5)
    found = names(choose(FIELD, compare_configs([*FIELD, recorded], baseline=recorded.name)))
    assert found[0] == "first"
    assert recorded.name not in found


def test_nobody_is_a_finalist_where_there_is_nothing_to_look_at() -> None:
    verdict = compare_configs(FIELD)
    assert choose([changed(FIELD[0], dataset=replace(FIELD[0].run.dataset, left_out={})), *FIELD[1:]], verdict) == []
    few = replace(FIELD[0].run.dataset, left_out={"in partition=holdout": 80})  # 290 questions in all
    assert choose([changed(FIELD[0], dataset=few), *FIELD[1:]], verdict) == []
    everything = replace(FIELD[0].run.dataset, partition="all")
    assert choose([changed(FIELD[0], dataset=everything), *FIELD[1:]], verdict) == []
    assert choose(FIELD, NoComparison("why")) == []


def test_the_last_lines_hold_tune_and_holdout_against_each_other() -> None:
    outcomes = [held(FIELD[0], 0.25), held(FIELD[1], 0.5, 1), Failure(f"cheap{SUFFIX}", (), {}, "broke")]
    earlier = held(FIELD[4], 0.1)  # of an earlier choice
    summary = collect_finalists([*outcomes, earlier], FIELD[:3], METRIC)
    assert [one.error for one in summary.failures] == ["broke"]
    lines = [text for _, text in finalist_lines(summary)]
    assert lines[0] == "ndcg of 2 configs on 210 questions that the search did not use"
    for line, one in zip(lines[1:], finalist_facts(summary), strict=True):
        assert line.endswith(f"· {one['config']}")
        assert one["gap"] == pytest.approx(one["holdout"] - one["tune"])
    assert (summary.gap.config, summary.gap.over) == ("dear", "first")  # as these configs are named in results.json
    assert summary.gap.change == pytest.approx(-0.052)  # its lead was .302, and is .25
    assert list(finalist_lines(collect_finalists([], FIELD, METRIC))) == []


def test_the_gap_of_few_finalists_is_not_that_of_the_best_trial(tmp_path: Path) -> None:
    """With ``finalists=1``, "middle", the best trial on the tune questions, is no finalist."""
    finalists = [held(FIELD[row], mean, row) for row, mean in ((0, 0.3), (2, 0.5))]
    text = said(ended(tmp_path, *finalists, trials=FIELD, baseline=None))
    assert "gap: #3 cheap, the best of these on the tune questions, led #1 first" in text


def test_a_finalist_s_means_and_gap_have_the_digits_of_the_metric() -> None:
    def measured(result: Result, value: float) -> Result:
        metrics = result.summaries.metrics
        return changed(result, metrics={**metrics, METRIC: replace(metrics[METRIC], value=value, unit="tokens")})

    finalists = Finalists([measured(held(FIELD[0], 0.3), 1398.25)], (), [measured(FIELD[0], 1398.0)], METRIC)
    text = list(finalist_lines(finalists))[1][1]
    assert text.startswith("tune 1,398 · holdout 1,398")
    assert "gap +0.25 " in text


def told(summary: SweepSummary) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(parent_run(summary).files["results.json"])
    return found


def said(summary: SweepSummary) -> str:
    """Return what the terminal shows, its lines joined."""
    stream = io.StringIO()
    show_sweep(summary, Terminal(stream, bars=False))
    return " ".join(stream.getvalue().split())


def test_a_search_is_decided_by_what_its_finalists_reach_on_the_holdout(tmp_path: Path) -> None:
    tune, lost, kept = (
        ended(tmp_path / "tune"),
        ended(tmp_path / "lost", held(FIELD[0], 0.3), held(FIELD[1], 0.302, 1)),
        ended(tmp_path / "kept", held(FIELD[0], 0.3), held(FIELD[1], 0.5, 1)),
    )
    assert [parent_run(one).tags["ragsweep.result"] for one in (tune, lost, kept)] == ["better", "keep", "better"]
    assert "Decided on 210 questions that the search did not use." in said(lost)
    legend = "The table shows results on the questions of the search; the conclusion is based on other questions"
    assert [legend in said(one) for one in (tune, lost, kept)] == [False, True, True]
    assert legend in parent_run(kept).files["verdict/verdict.md"].decode()
    assert legend in describe(kept)
    assert told(lost)["result"]["where"] == "on 210 questions that the search did not use"
    found = told(kept)
    assert (found["result"]["choice"], found["result"]["baseline"]) == ("#2 dear", "#1 first")
    assert found["result"]["from_reference"] == found["sweep"]["finalists"][1]["lead"]
    assert found["sweep"]["verdict"]["best_set"] == ["#2 dear"]  # on the tune questions


def test_the_next_step_compares_the_choice_on_the_holdout(tmp_path: Path) -> None:
    """The tune questions lead to another choice."""
    finalists = held(FIELD[0], 0.3), held(FIELD[1], 0.6, 1), held(FIELD[2], 0.5, 2)
    summary = ended(tmp_path, *finalists, trials=FIELD[:3], baseline=None)
    assert isinstance(summary.verdict, SweepComparison)
    assert (summary.verdict.chosen.name, summary.conclusion.chosen) == ("#3 cheap", "#2 dear")
    commands = {one.label: one.text for one in sweep_content(summary, reference="ffea9bd0").commands}
    what = "which questions changed among those that the search used"
    assert commands["ragsweep compare ffea9bd0#3 ffea9bd0#2"] == what


def test_the_limits_are_those_of_the_deciding_questions(tmp_path: Path) -> None:
    scores = noisy(0.602, 210, 1)
    scores[7] = np.nan
    facts = FIELD[1].run.dataset
    dear = changed(one_metric("dear", scores), dataset=facts, parameters=FIELD[1].run.parameters)
    trials = FIELD[0], dear, Failure("lost", (), {}, "broke")
    text = said(ended(tmp_path, held(FIELD[0], 0.3, count=100), held(FIELD[1], 0.5, 1, count=100), trials=trials))
    assert "With 100 questions, a true difference" in text
    assert "With 210 questions" not in text
    assert "of 210 scored questions" not in text
    assert "Compared: without 1 failed (#3 lost)." in text


def test_questions_that_would_show_a_lead_are_to_be_in_the_holdout(tmp_path: Path) -> None:
    config = {"objective": METRIC, "headline": [METRIC], "recommend": {"margin": 0.001}}
    near = [changed(held(FIELD[row], mean, row), config=config) for row, mean in ((0, 0.5), (1, 0.503))]
    needed = r"Showing the choice's lead .* takes about [0-9,]+ questions in the holdout\."
    assert re.search(needed, said(ended(tmp_path, *near)))


def test_a_search_shown_against_a_trial_that_is_no_finalist_is_decided_among_the_finalists(tmp_path: Path) -> None:
    finalists = held(FIELD[0], 0.3), held(FIELD[1], 0.6, 1), held(FIELD[2], 0.5, 2)
    summary = ended(tmp_path, *finalists, trials=FIELD, baseline=5)
    assert summary.conclusion.chosen == "#2 dear"
    assert "without 1 that is not a finalist, the baseline (#5 poor)" in said(summary)


def test_labels_of_some_trials_do_not_change_who_was_a_finalist(tmp_path: Path) -> None:
    """The reference, "first", has no labels."""

    def answered(result: Result) -> Result:
        columns = {"answer": [result.name] * 210, "context": [["c"]] * 210}
        return changed(result, questions=changed_table(result, columns))

    finalists = held(FIELD[0], 0.3), held(FIELD[1], 0.6, 1)
    labels = [HumanLabel(f"q{n}", METRIC, 0.5, f"#{job}") for job in (3, 4) for n in range(60)]
    summary = ended(tmp_path, *finalists, trials=map(answered, FIELD), baseline=None, labels=labels)
    assert summary.conclusion.chosen == "#2 dear"


def test_a_search_with_a_partial_finalist_is_sent_as_failed(tmp_path: Path) -> None:
    ledger, statuses = Ledger(tmp_path), []
    opened = ledger.open_sweep("key", Sweep("", "s", "", (("x=first",), ("x=dear",)), ("first", "dear")))
    for job, one in enumerate(FIELD[:2]):
        ledger.write(opened.id, job, one)
    contents = RecordedContents(ledger, Session().page_texts)
    for end in (held, lambda *given: partial(held(*given))):
        for job, one in enumerate(FIELD[:2]):
            ledger.write(opened.id, job, end(one, 0.3 + 0.2 * job), kind=FINALIST)
        statuses.append(contents.of_sweep(opened, ledger.records(opened.id))[1])
    assert statuses == [FINISHED, FAILED]


def test_a_partial_finalist_has_a_remedy(tmp_path: Path) -> None:
    text = said(ended(tmp_path, held(FIELD[0], 0.3), partial(held(FIELD[1], 0.5, 1))))
    assert "FIX #2 dear partition=holdout is PARTIAL: " in text


def test_slices_of_a_leg_are_those_of_the_choice_on_the_holdout(tmp_path: Path) -> None:
    """On the tune questions, no leg is better than the fusion."""

    def with_leg(result: Result, gain: float) -> Result:
        own, category = result.questions[METRIC], ["fact", "how_to"] * 105
        traces = [
            {"held": [1], "legs": {"a": [1]}, "ranked": [1],
             "scores": {"": {METRIC: one}, "a": {METRIC: one + (gain if kind == "how_to" else 0)}}}
            for one, kind in zip(own, category, strict=True)
        ]  # fmt: skip
        columns = {"category": category, "evidence_trace": list(map(json.dumps, traces))}
        groups = {"category": {"fact": {}, "how_to": {}}}
        return changed(result, questions=changed_table(result, columns), groups=groups)

    trials = [with_leg(one, 0.0) for one in FIELD[:2]]
    finalists = [with_leg(held(one, 0.3 + 0.2 * job, job), 0.2) for job, one in enumerate(FIELD[:2])]
    found = ended(tmp_path, *finalists, trials=trials, baseline=None).conclusion.audits.slices
    assert found
    assert (found.config, [one.value for one in found.slices]) == ("#2 dear", ["how_to"])


def test_lead_of_a_finalist_on_the_holdout_has_an_interval(tmp_path: Path) -> None:
    summary = ended(tmp_path, held(FIELD[0], 0.3), held(FIELD[1], 0.5, 1))
    first, second = told(summary)["sweep"]["finalists"]
    assert first["lead"] is None
    verdict = compare_configs(summary.finalists.named()[0], baseline="#1 first")
    low, high = float(verdict.differences.low[1]), float(verdict.differences.high[1])
    lead = np.mean(noisy(0.5, 210, 1) - noisy(0.3, 210))
    assert second["lead"] == pytest.approx({"estimate": lead, "low": low, "high": high})
    assert low < lead < high


@pytest.mark.parametrize("baseline", [None, 1])
def test_two_finalists_are_compared_among_all_of_them(tmp_path: Path, baseline: int | None) -> None:
    config = {"objective": METRIC, "headline": [METRIC], "baseline": baseline}
    trials, finalists = (
        [changed(one, config=config) for one in outcomes]
        for outcomes in (FIELD[:3], [held(one, 0.5 + 0.01 * job, job) for job, one in enumerate(FIELD[:3])])
    )
    ledger = recorded(tmp_path, trials, finalists)
    runs = [RecordedRun("", one.outcome, "", "search") for one in ledger.finalists("search")]
    finals = summarise_sweep(ledger, ledger.records("search")).conclusion.finals
    assert isinstance(finals, SweepComparison)
    assert len(finals.results) == 3
    other = (finals.reference + 1) % 3
    pair = [runs[int(finals.matrix.configs[row][1]) - 1] for row in (finals.reference, other)]
    family = find_family(str(tmp_path), *pair)
    assert family
    found = family.compare(pair[0].result, pair[1].result, METRIC)
    assert found.found.interval(found.rows[1]) == pytest.approx(finals.differences.interval(other))


def test_leads_are_over_the_choice_on_the_holdout_if_no_baseline_is_declared(tmp_path: Path) -> None:
    summary = ended(tmp_path, held(FIELD[0], 0.3), held(FIELD[1], 0.5, 1), baseline=None)
    first, second = told(summary)["sweep"]["finalists"]
    assert first["lead"]["estimate"] == pytest.approx(np.mean(noisy(0.3, 210) - noisy(0.5, 210, 1)))
    assert second["lead"] is None
    assert "(from #2 dear)" in said(summary)
    assert not any("difference  " in text for _, text in finalist_lines(summary.finalists))  # lines would break there


def test_nothing_is_decided_where_the_first_config_has_no_result_on_the_holdout(tmp_path: Path) -> None:
    summary = ended(tmp_path / "one", Failure(f"first{SUFFIX}", (), {}, "broke"), held(FIELD[1], 0.5, 1))
    assert told(summary)["result"]["kind"] == "none"
    assert "the reference, #1 first, was not measured on the holdout" in said(summary)
    failures = [Failure(f"{name}{SUFFIX}", (), {}, "broke") for name in ("first", "dear")]
    assert "was not measured on the holdout. " in said(ended(tmp_path / "both", *failures))


def write_study(folder: Path, **facts: object) -> None:
    study = {"study": "s", "sampler": {}, "states": {"COMPLETE": 2}, "n_trials": 2, "stopped": "", "stop": None}
    study |= {"format": "optuna-sweeper.study/1", "constraints": [], "trials": [], **facts}
    folder = study_folder(folder / "ledger.db", "search")
    folder.mkdir(parents=True)
    (folder / "study.json").write_text(json.dumps(study))


def test_a_finalist_that_violates_a_constraint_on_the_holdout_cannot_be_chosen(tmp_path: Path) -> None:
    write_study(tmp_path, constraints=[f"{METRIC} <= 0.45"])
    finalists = [held(one, 0.3 + 0.1 * job, job) for job, one in enumerate(FIELD[:3])]
    summary = ended(tmp_path, *finalists, trials=FIELD[:3], baseline=None)
    assert summary.conclusion.chosen == "#2 dear"
    assert f"Compared: without 1 excluded by {METRIC} <= 0.45 (#3 cheap)." in said(summary)


def test_a_search_without_a_holdout_says_that_its_questions_chose_the_configs(tmp_path: Path) -> None:
    write_study(tmp_path)
    assert "Decided on the questions that the search used." in said(ended(tmp_path))


def test_a_search_looks_at_the_holdout_once_after_so_many_trials(tmp_path: Path) -> None:
    ledger = recorded(tmp_path, FIELD[:4], [held(one, 0.5, place) for place, one in enumerate(FIELD[:3])])
    assert ledger.holdout_views("w") == 1
    ledger.write("search", 1, held(FIELD[1], 0.5), kind=FINALIST)  # again, after a fault
    assert ledger.holdout_views("w") == 1
    ledger.write("search", 4, FIELD[4])
    ledger.write("search", 3, held(FIELD[3], 0.5), kind=FINALIST)  # the search continued, and chooses again
    assert ledger.holdout_views("w") == 2
    # They are no configs of the search: nobody who reads these compares them with the others.
    assert [record.job for record in ledger.records("search")] == [0, 1, 2, 3, 4]
    assert ledger.jobs("search", "finished") == {0, 1, 2, 3, 4}
    summary = summarise_sweep(ledger, ledger.records("search"))
    assert len(summary.results) == 5
    expected = {f"#{n} {one.name}{SUFFIX}" for n, one in enumerate(FIELD[:4], 1)}
    assert {one.name for one in summary.finalists.results} == expected
    assert parent_run(summary).metrics["verdict_holdout_gap"] == pytest.approx(summary.finalists.gap.change)  # type: ignore[union-attr]


def test_what_a_search_left_is_read_and_what_cannot_be_read_is_nothing(tmp_path: Path) -> None:
    folder = study_folder(tmp_path / "ledger.db", "id")
    assert folder == tmp_path / "searches" / "id"
    assert read_summary(tmp_path / "ledger.db", "id") is None
    folder.mkdir(parents=True)
    whole = {"study": "", "states": {}, "n_trials": 0, "stopped": "", "stop": None, "sampler": {}, "trials": []}
    for broken in ("", "[]", "{}", json.dumps({"format": "other/1", **whole})):
        (folder / "study.json").write_text(broken)
        assert read_summary(tmp_path / "ledger.db", "id") is None
    trials = {0: {"trial": 3, "state": "COMPLETE", "broken": ["a <= 1"]}}
    left = StudySummary(states={"COMPLETE": 2, "REPEATED": 1}, trials=trials)
    assert left.tags() == {"ragsweep.trials": "2 complete, 1 repeated"}
    assert left.trial_tags() == {0: {"ragsweep.trial": "3", "ragsweep.trial_state": "COMPLETE"}}
    assert left.broken() == {0: "a <= 1"}
    assert left.ended
    assert not StudySummary(states={"RUNNING": 1}).ended
    assert StudySummary(states={"WAITING": 1}, stopped="the time limit is reached").ended
