"""`ragsweep list` and `ragsweep show`: sweeps and configs found again by number."""

import json
import math
import re
import sqlite3
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ragsweep.commands.effects import effects
from ragsweep.commands.list import list as list_runs
from ragsweep.commands.name import name
from ragsweep.commands.report import report
from ragsweep.commands.show import show
from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.locks import LAPSE
from ragsweep.core.missing import ABSTAINED, NO_ANSWERS
from ragsweep.core.results import Failure, Result
from ragsweep.records.claims import COMMAND, FINALIST, ClaimKey
from ragsweep.records.ledger import Ledger, Sweep
from ragsweep.stats.compare_configs import compare_configs
from ragsweep.stats.comparison import FIELD_OF_CASE, SweepComparison
from ragsweep.sweep.composing.job import SUFFIX
from ragsweep.sweep.concluding.recorded_runs import find_run
from ragsweep.sweep.concluding.summarise import past_sweeps, recorded_sweeps
from support import output
from support.results import (
    FACTS,
    a_result,
    break_constraints,
    changed,
    changed_table,
    drawn,
    record,
    record_sweep,
    refuse,
    refusing,
    scored,
)

PARENT = "feed" * 8


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A ledger with a sweep of two configs and a single run."""
    category = ["how-to"] * 20 + ["trouble"] * 20
    low = scored({"ndcg": [0.0] * 5 + drawn(0.3, 35)}, {"category": category}, name="top_k=3", overrides=("top_k=3",),
                 parameters={"top_k": "3"})  # fmt: skip
    high = scored({"ndcg": drawn(0.6)}, {"category": category}, name="top_k=5", overrides=("top_k=5",),
                  parameters={"top_k": "5"})  # fmt: skip
    record_sweep(tmp_path, PARENT, low, high)
    record(tmp_path, scored({"ndcg": drawn(0.5)}, name="bm25"))
    return str(tmp_path)


def test_sweeps_and_single_runs_are_listed_with_keys_and_best(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    printed = output(capsys, list_runs, "--path", path)
    (sweep,) = [line for line in printed.splitlines() if line.startswith("feedfeed")]
    assert "top_k" in sweep
    assert "#2 top_k=5: ndcg .60" in sweep
    assert "bm25" in printed


def test_a_sweep_whose_process_died_is_listed_as_killed(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = Ledger(Path(path))
    sweep = ledger.open_sweep("key", Sweep("", "sweep", "beef" * 8, (("top_k=3",),), ("top_k=3",)))
    for status in ("running", "killed"):
        assert list_runs(["--path", path]) == 0
        (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("beefbeef")]
        assert row.split()[-1] == status
        ledger.claims.release(ClaimKey(COMMAND, sweep.id))


def test_a_sweep_of_a_silent_process_on_another_machine_is_not_listed_as_killed(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The process may be alive: in another container, or where the ledger was copied from."""
    ledger = Ledger(Path(path))
    ledger.open_sweep("key", Sweep("", "sweep", "beef" * 8, (("top_k=3",),), ("top_k=3",)))
    for silent, status in ((LAPSE - 30, "running"), (LAPSE + 1, "no heartbeat for 90 s")):
        with sqlite3.connect(ledger.path) as connection:
            connection.execute("UPDATE claims SET host = 'elsewhere', heartbeat = ?", (time.time() - silent,))
        connection.close()
        assert list_runs(["--path", path]) == 0
        (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("beefbeef")]
        assert row.rstrip().endswith(status)


def test_a_name_that_was_typed_with_the_sweep_is_listed_once(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = Ledger(Path(path))
    jobs = (("top_k=3",), ("top_k=5",))
    sweep = ledger.open_sweep("key", Sweep("", "name=demo top_k=3,5", "beef" * 8, jobs, ("top_k=3", "top_k=5")))
    ledger.names.give("demo", sweep.id)
    ledger.names.give("prod", f"{sweep.id}#2")
    assert "  demo, prod (#2): top_k  " in output(capsys, list_runs, "--path", path)


def test_a_name_that_was_given_to_another_is_no_longer_listed(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = Ledger(Path(path))
    jobs = (("top_k=3",), ("top_k=5",))
    rounds = [
        ledger.open_sweep(key, Sweep("", "name=demo top_k=3,5", start * 8, jobs, ("top_k=3", "top_k=5")))
        for key, start in (("key", "beef"), ("other", "cafe"))
    ]
    ledger.names.give("demo", rounds[1].id)
    ledger.write(None, 0, scored({"ndcg": drawn(0.5)}, name="demo: top_k=4", config={"name": "demo"}))
    listed = output(capsys, list_runs, "--path", path).splitlines()
    assert [line[:8] for line in listed if "demo: " in line] == ["cafecafe"]
    assert any("  top_k=4  " in line for line in listed)


def test_a_long_name_leaves_the_list_readable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"prompt={'a_word_' * 30} bm25"
    record_sweep(tmp_path, PARENT, *(scored({"ndcg": drawn(mean)}, name=f"{name} k={mean}") for mean in (0.3, 0.6)))
    printed = output(capsys, list_runs, "--path", str(tmp_path))
    assert "#2 prompt=a_word_" in printed
    assert max(map(len, printed.splitlines())) < 160


def test_the_best_of_configs_with_different_objectives_is_by_the_metric_that_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The mean of .97 is of a metric that only the second config has, by which the sweep cannot decide."""
    plain = scored({"ndcg": drawn(0.6)}, name="llm=none")
    answering = scored({"success_rate": drawn(0.97), "ndcg": drawn(0.5)}, name="llm=on", config={"headline": ["ndcg"]})
    for parent, results in (("a" * 32, (plain, answering)), ("b" * 32, (answering, plain))):
        record_sweep(tmp_path, parent, *results)
    first, second = output(capsys, list_runs, "--path", str(tmp_path)).splitlines()[1:]
    assert "#1 llm=none: ndcg .60" in first
    assert "#2 llm=none: ndcg .60" in second
    past = [one for one, _ in recorded_sweeps(Ledger(tmp_path))]
    assert [(one.best, one.summary.name) for one in past] == [("#1 llm=none", "ndcg"), ("#2 llm=none", "ndcg")]


@pytest.mark.parametrize("kind", ["breaks a constraint", "is for reference", "refuses every question"])
def test_what_a_sweep_cannot_choose_is_the_best_of_no_list_or_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    high = scored(
        {"ndcg": drawn(0.9)}, name="k=5", config={"llm": {"_target_": FIELD_OF_CASE}} if "ref" in kind else {}
    )
    if kind == "refuses every question":
        high = refusing(high)
    record_sweep(tmp_path, PARENT, scored({"ndcg": drawn(0.6)}, name="k=3"), high)
    if kind == "breaks a constraint":
        break_constraints(tmp_path, 1)
    assert "#1 k=3: ndcg .60" in output(capsys, list_runs, "--path", str(tmp_path))
    ledger = Ledger(tmp_path)
    in_page = past_sweeps(ledger, "", high.run.dataset, "ndcg")
    in_history = [one for one, _ in recorded_sweeps(ledger)]
    assert [(one.best, one.configs) for one in (*in_page, *in_history)] == [("#1 k=3", 2)] * 2


@pytest.mark.parametrize("why", ["no answer", ABSTAINED])
def test_the_best_of_configs_with_other_questions_scored_is_that_of_the_verdict(tmp_path: Path, why: str) -> None:
    """The second config has the higher mean of its own because it lacks the scores of the questions that are hard."""
    coverage = {"coverage": 0.5}
    whole = scored({"ndcg": [0.8, 0.4] * 20}, name="k=3", config=coverage)
    half = scored({"ndcg": [0.7, math.nan] * 20}, name="k=5", config=coverage)
    reasons = ["{}", json.dumps({"ndcg": why})] * 20
    half = changed(half, questions=changed_table(half, {"unscored": reasons, "answerable": [True] * 40}))
    record_sweep(tmp_path, PARENT, whole, half)
    ledger = Ledger(tmp_path)
    verdict = compare_configs([whole, half])
    assert isinstance(verdict, SweepComparison)
    assert verdict.chosen is whole
    in_history = [one for one, _ in recorded_sweeps(ledger)]
    in_page = past_sweeps(ledger, "", FACTS, "ndcg")
    assert [(one.best, one.summary.value) for one in (*in_history, *in_page)] == [("#1 k=3", pytest.approx(0.6))] * 2


@pytest.mark.parametrize(
    "kind", ["all for reference", "all refuse every question", "none within the constraints", "no other is measured"]
)
def test_configs_that_cannot_be_chosen_have_a_best_only_among_themselves(tmp_path: Path, kind: str) -> None:
    configs = [{"llm": {"_target_": FIELD_OF_CASE}}, {} if "other" in kind else {"llm": {"_target_": FIELD_OF_CASE}}]
    scores = drawn(0.9), [math.nan] * 40 if "other" in kind else drawn(0.6)
    rows = [scored({"ndcg": row}, name="k=3", config=config) for row, config in zip(scores, configs, strict=True)]
    if "refuse" in kind:
        rows = [refusing(changed(one, config={**one.run.config, "llm": {}})) for one in rows]
    record_sweep(tmp_path, PARENT, *rows)
    if "constraints" in kind:
        break_constraints(tmp_path, 0, 1)
    found = [one.best for one, _ in recorded_sweeps(Ledger(tmp_path))]
    assert found == [one.best for one in past_sweeps(Ledger(tmp_path), "", rows[0].run.dataset, "ndcg")]
    assert found == (["#1 k=3"] if kind.startswith("all") else [])


def test_a_sweep_is_listed_config_by_config_the_best_first(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [line.split() for line in output(capsys, list_runs, "feed", "--path", path).splitlines()]
    assert [row[:2] for row in rows if row and row[0] in "12"] == [["2", "5"], ["1", "3"]]


def test_a_recorded_baseline_has_a_row_of_its_own_in_the_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The differences in the table are from it."""
    record(tmp_path, scored({"ndcg": drawn(0.5)}, name="k=9", overrides=("k=9",), parameters={"k": "9"}))
    Ledger(tmp_path).names.give("prod", "record 1")
    record_sweep(tmp_path, PARENT, *(
        scored({"ndcg": drawn(0.5 + k / 10)}, name=f"k={k}", overrides=(f"k={k}",), parameters={"k": f"{k}"},
               config={"baseline": "prod"})
        for k in (1, 2)
    ))  # fmt: skip
    rows = [line.split() for line in output(capsys, list_runs, PARENT, "--path", str(tmp_path)).splitlines()]
    (row,) = (row for row in rows if row and row[0] == "prod")
    assert row[1:3] == ["9", ".50"]
    assert row[-1] == "baseline"


def test_a_report_of_a_sweep_that_was_killed_states_that_configs_are_missing(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = Ledger(Path(path))
    (whole,) = ledger.sweeps()
    jobs, titles = (*whole.jobs, ("top_k=7",), ("top_k=9",)), (*whole.names, "top_k=7", "top_k=9")
    part = ledger.open_sweep("killed", Sweep("", "sweep", "beef" * 8, jobs, titles))
    for record_of in ledger.records(whole.id):
        ledger.write(part.id, record_of.job, record_of.outcome)
    missing = "2 configs of the sweep have no result yet; repeat the sweep's command to run them."
    for sweep, expected in ((PARENT, False), ("beef", True)):
        assert (missing in output(capsys, report, sweep, "--format", "markdown", "--path", path)) == expected


def test_a_config_that_a_race_dropped_is_in_no_table_but_said_to_be_dropped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its mean is that of easier questions, so it cannot stand above the only config that was asked them all."""
    race = {"asked": 20, "of": 40, "ahead": 0.1, "rule": "r", "guarantee": "g"}
    gone = scored({"ndcg": drawn(0.9, 20) + [math.nan] * 20}, name="k=3", state="DROPPED", race=race)
    text = "dropped   #1 k=3: after 20 of 40 questions; the best is ahead by at least .100"
    for folder, whole in (("race", [scored({"ndcg": drawn(0.6)}, name="k=5")]), ("none", [])):
        record_sweep(tmp_path / folder, PARENT, gone, *whole)
        printed = output(capsys, list_runs, "feed", "--path", str(tmp_path / folder)).splitlines()
        assert [line[0] for line in printed if line[:1].isdigit()] == ["2"] * len(whole)
        assert text in printed
        assert ("kept      #2 k=5: the only config that was not dropped" in printed) == bool(whole)
    assert text in output(capsys, show, "feed#1", "--path", str(tmp_path / "race")).splitlines()
    assert "dropped" not in output(capsys, show, "feed#2", "--path", str(tmp_path / "race"))


def test_a_config_is_found_by_sweep_and_number(path: str) -> None:
    assert find_run(path, "feed#2").result.name == "#2 top_k=5"
    assert find_run(path, "feed#1").result.name == "#1 top_k=3"
    ledger = Ledger(Path(path))
    sweep = ledger.sweeps()[0]
    assert find_run(path, f"{sweep.id[:8]}#2").result.name == "#2 top_k=5"  # as untracked sweeps are named
    for wrong, why in (("feed#3", "last one is #2"), ("feed#0", "no completed config"), ("nope#1", 'no sweep "nope"')):
        with pytest.raises(InputError, match=why):
            find_run(path, wrong)
    ledger.write(sweep.id, 1, Failure("top_k=5", ("top_k=5",), {}, "no luck"))
    with pytest.raises(InputError, match=r"that config failed: no luck; repeat the command of its sweep$"):
        find_run(path, "feed#2")


def test_a_config_is_shown_with_settings_and_missed_questions(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    printed = output(capsys, show, "feed#1", "--path", path)
    assert "top_k=3" in printed
    assert "how-to" in printed
    printed = output(capsys, show, "feed#1", "--missed", "--path", path)
    assert "ndcg is 0 for 5 of 40 scored questions" in printed
    assert [f"q{n}:" in printed.replace(" (how-to)", "") for n in range(6)] == [True] * 5 + [False]


def test_the_choice_of_a_sweep_is_called_so_where_a_config_is_shown_and_no_other(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a config within the limits there is no choice; and a search's choice may change on the holdout."""
    limits = {"constraints": {"context_tokens": 100}}
    rows = [scored({"ndcg": drawn(mean), "context_tokens": [500.0] * 40}, name=f"k={mean}", config=limits)
            for mean in (0.3, 0.6)]  # fmt: skip
    record_sweep(tmp_path / "limited", PARENT, *rows)
    tuned = [_asked(mean, "tune") for mean in (0.3, 0.6)]
    record_sweep(tmp_path / "search", PARENT, *tuned)
    ledger = Ledger(tmp_path / "search")
    for job, mean in enumerate((0.6, 0.3)):
        held = _asked(mean, "holdout")
        ledger.write(ledger.sweeps()[0].id, job, held.renamed(tuned[job].name + SUFFIX), kind=FINALIST)
    for folder, role in (
        (path, "the choice"),
        (tmp_path / "limited", "the best"),
        (tmp_path / "search", "the choice on the tune questions"),
    ):
        show(["feed#1", "--path", str(folder)])
        printed = " ".join(output(capsys, show, "feed#2", "--path", str(folder)).split())
        assert re.findall(r"against #2 \S+, ([a-z ]+)\.", printed) == [role]
        assert re.findall(r"ndcg: ([a-z ]+) of its sweep", printed) == [role]
        on_holdout = ["shown worse", "the choice of its sweep"] if "tune" in role else []
        assert re.findall(r"ndcg on the holdout: (shown worse|the choice of its sweep)", printed)[::-1] == on_holdout


def test_a_config_that_is_named_by_its_run_is_shown_with_the_verdict_of_its_sweep(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, printed = Ledger(Path(path)), list[list[str]]()
    for kept in ledger.records(ledger.sweeps()[0].id):
        for named in (f"feed#{kept.job + 1}", kept.run or ""):
            printed.append(re.findall(r"^verdict +(.*)", output(capsys, show, named, "--path", path), re.MULTILINE))
    assert printed[0] == printed[1] != printed[2] == printed[3] == ["ndcg: the choice of its sweep."]


def _asked(mean: float, partition: str) -> Result:
    """Make a result on 210 questions of one partition of a golden set."""
    left_out = {"in partition=holdout": 100}
    facts = replace(FACTS, partition=partition, whole_digest="w", questions=210, left_out=left_out)
    return scored({"ndcg": drawn(mean, 210)}, name=f"k={mean}", overrides=(f"k={mean}",), dataset=facts)


def test_a_missed_question_has_a_whole_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ranks = {"first_evidence_rank": [2.0, 12.0, 0.0, float("nan"), 1.0]}
    (run,) = record(tmp_path, scored({"ndcg": [0.0] * 4 + [1.0]}, ranks, name="bm25"))
    printed = output(capsys, show, run, "--missed", "--path", str(tmp_path))
    assert re.findall(r"evidence: (.*)", printed) == [
        "first at rank 2", "first at rank 12", "not retrieved", "not measured"
    ]  # fmt: skip


def test_right_answers_of_a_missed_question_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = {"reference": ["120 euros\n120 EUR", "no"]}
    (run,) = record(tmp_path, scored({"ndcg": [0.0, 1.0]}, answers, name="bm25"))
    assert "reference: 120 euros | 120 EUR" in output(capsys, show, run, "--missed", "--path", str(tmp_path))


def test_the_command_for_a_run_that_is_no_sweep_quotes_its_id(path: str) -> None:
    single = Ledger(Path(path)).write(None, 0, scored({"ndcg": drawn(0.5)}, name="bm25"))
    refuse(report, {f"ragsweep show 'record {single}' --path": [f"record {single}"]}, "--path", path)


def test_a_metric_that_is_asked_for_is_shown_with_the_reason_why_it_has_no_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Among all metrics of a config, those that do not apply would only be a distraction."""
    one = scored({"ndcg": drawn(0.5), "token_f1": [math.nan] * 40}, name="k=9")
    unasked = replace(one.summaries.metrics["token_f1"], n_failed=0, n_skipped=40, reasons={NO_ANSWERS: 40})
    record(tmp_path, changed(one, metrics={**one.summaries.metrics, "token_f1": unasked}))
    told = {}
    for more in ((), ("--metric", "token_f1")):
        assert show(["1" * 32, *more, "--path", str(tmp_path)]) == 0
        told[bool(more)] = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["token_f1", "-", "0", "40", *NO_ANSWERS.split()] in told[True]
    assert "token_f1" not in [row[0] for row in told[False] if row]


def test_slices_have_a_column_of_a_metric_that_applies_to_no_question_only_if_it_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = scored({"ndcg": drawn(0.5), "token_f1": [math.nan] * 40}, {"category": ["a", "b"] * 20}, name="k=9")
    counts = {"n_failed": 0, "n_skipped": 40, "reasons": {NO_ANSWERS: 40}}
    one = changed(one, settings={"headline": ["ndcg", "token_f1"]}, measured={"token_f1": counts})
    (run,) = record(tmp_path, one)
    for asked, columns in (((), ["ndcg"]), (("--metric", "token_f1"), ["token_f1"])):
        printed = output(capsys, show, run, *asked, "--path", str(tmp_path))
        assert re.findall(r"^category +questions +(.*\S)", printed, re.MULTILINE) == columns


def test_what_cannot_be_shown_is_one_sentence(path: str, tmp_path: Path) -> None:
    refuse(show, {'no metric "ndgc" was measured; did you mean "ndcg"': ["feed#1", "--metric", "ndgc"],
                  "no sweep": ["zz#1"]}, "--path", path)  # fmt: skip
    slow = scored({"latency_p95_ms": drawn(50)}, name="slow")
    (run,) = record(tmp_path / "other", changed(slow))
    refuse(show, {"is not a miss": [run, "--missed"]}, "--path", str(tmp_path / "other"))


def test_a_name_stands_for_a_sweep_a_config_or_a_run(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    for target, given in (("feed#2", "baseline"), ("feed", "mine"), ("mine#1", "first")):
        assert name([target, given, "--path", path]) == 0
    assert "mine is the name of feedfeed\n" in capsys.readouterr().out
    assert find_run(path, "baseline").result.name == find_run(path, "mine#2").result.name == "#2 top_k=5"
    assert find_run(path, "first").result.name == "#1 top_k=3"
    assert str(find_run(path, "baseline")) == "#2 top_k=5 (baseline)"
    assert show(["baseline", "--path", path]) == list_runs(["mine", "--path", path]) == 0
    capsys.readouterr()
    list_runs(["--path", path])
    assert "baseline (#2), mine, first (#1): top_k " in (listed := capsys.readouterr().out)
    assert "name" not in listed  # a column of names would not fit on a terminal of 80 columns
    with pytest.raises(InputError, match='"mine" is a sweep; name one of its configs, such as "mine#1" for the first'):
        find_run(path, "mine")


def test_a_config_that_is_taken_for_a_sweep_is_shown_by_another_command(path: str) -> None:
    (run,) = [single.run or "" for single in Ledger(Path(path)).singles()]
    for target, given in (("feed", "mine"), ("feed#2", "best"), (run, "single")):
        name([target, given, "--path", path])
    for config in ("mine#1", "feed#1", "best", "single", run):
        for command in (list_runs, report, effects):
            fact = f'no sweep "{config}"; "{config}" is the run of one config: ragsweep show {config} '
            refuse(command, {fact: [config]}, "--path", path)
    refuse(show, {'no sweep "best"; "best" is the run of one config: ragsweep show best ': ["best#1"]}, "--path", path)
    refuse(report, {'no sweep "nope#1"; list the sweeps': ["nope#1"], 'no sweep "mine#3"; list': ["mine#3"]},
           "--path", path)  # fmt: skip
    ledger = Ledger(Path(path))
    ledger.write(ledger.sweeps()[0].id, 1, Failure("top_k=5", ("top_k=5",), {}, "no luck"))
    refuse(show, {'"best": that config failed: no luck': ["best"]}, "--path", path)


def test_a_taken_name_or_one_like_an_id_is_one_error_until_it_is_dropped(path: str) -> None:
    name(["feed#2", "baseline", "--path", path])
    name(["feed#2", "baseline", "--path", path])  # not a contradiction, because it is the same config
    with pytest.raises(ConfigError, match=r'"baseline" is taken by feedfeed#2; choose another name, or free this one'):
        name(["feed#1", "baseline", "--path", path])
    for wrong in ("feed#1", "badcafe0", "a b", "7th"):
        with pytest.raises(
            ConfigError, match="could be a run id" if wrong == "badcafe0" else "must begin with a letter"
        ):
            name(["feed#1", wrong, "--path", path])
    name(["--drop", "baseline", "--path", path])
    name(["feed#1", "baseline", "--path", path])
    assert find_run(path, "baseline").result.name == "#1 top_k=3"
    with pytest.raises(InputError, match='no name "basline"; did you mean'):
        name(["--drop", "basline", "--path", path])
    with pytest.raises(InputError, match='no sweep "nope"'):
        name(["nope", "base", "--path", path])


def test_a_single_run_of_the_same_config_takes_over_its_name_and_another_config_does_not(tmp_path: Path) -> None:
    """As an experiment file that names itself is run again."""
    ledger = Ledger(tmp_path)
    first, second, other = (ledger.write(None, 0, a_result(signature=signature * 64)) for signature in "aab")
    ledger.names.give("c1600", f"record {first}", "a" * 64)
    ledger.names.check_free("c1600", "", "a" * 64)
    ledger.names.give("c1600", f"record {second}", "a" * 64)
    assert ledger.names.all() == {"c1600": f"record {second}"}
    with pytest.raises(ConfigError, match='"c1600" is taken by'):
        ledger.names.give("c1600", f"record {other}", "b" * 64)


def test_a_single_run_without_tracking_is_found_by_the_id_in_the_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Ledger(tmp_path).write(None, 0, scored({"ndcg": drawn(0.5)}, name="k=3"))
    row = output(capsys, list_runs, "--path", str(tmp_path)).splitlines()[-1]
    (shown,) = re.findall('^"(.*?)" ', row)
    assert str(find_run(str(tmp_path), shown)) == f"k=3 ({shown})"


@pytest.mark.parametrize("estimated", [False, True])
def test_values_of_estimated_token_counts_are_marked(
    estimated: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"answer_tokens_in": drawn(0.5), "token_f1": drawn(0.5), "answer_tokens_out": [math.nan] * 40}
    usage = {"generate": {"calls": 40.0, "tokens_in": 400.0, "tokens_out": 40.0, "estimated": float(estimated)}}
    record(tmp_path, changed(scored(names, name="k=9"), usage=usage))
    assert show(["1" * 32, "--path", str(tmp_path)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert {row[0] for row in rows if row[1:2] == ["about"]} == ({"answer_tokens_in"} if estimated else set())
