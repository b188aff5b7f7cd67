"""`ragsweep gate`: may a candidate replace the baseline?"""

import json
import math
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragsweep.commands import cli
from ragsweep.commands.gate import gate, read, read_condition, read_questions
from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.question_texts import REPEATED
from ragsweep.core.results import PARTIAL, Result
from ragsweep.stats.gate import MOST, Condition
from ragsweep.stats.inference.matrix import score_matrix
from ragsweep.stats.inference.noninferiority import sequential_gate
from ragsweep.sweep.composing.command import compose_jobs, read_command
from support.commands import user_environment, write_dataset
from support.results import FACTS, changed, changed_table, drawn, record, refuse, scored, table_rows

ROOT = Path(__file__).parent.parent.parent
CATEGORY = ["how-to"] * 25 + ["trouble"] * 15


def pair(folder: Path, gain: float | list[float], count: int = 40, **changes: Any) -> list[str]:
    """Record a baseline and a candidate that gains so much a question, and return the options that name them."""
    before = drawn(0.5, count)
    gains = gain if isinstance(gain, list) else [gain] * count
    after = [one + more for one, more in zip(before, gains, strict=True)]
    labels = {"category": CATEGORY} if count == len(CATEGORY) else None
    return named(folder, scored({"ndcg": before}, labels), changed(scored({"ndcg": after}, labels), **changes))


def named(folder: Path, *results: Result) -> list[str]:
    baseline, candidate = record(folder, *results)
    return ["--baseline", baseline, "--candidate", candidate, "--path", str(folder)]


def decided(folder: Path, *arguments: str) -> tuple[int, Any, list[dict[str, Any]]]:
    """Run the gate; return its exit status, its JSON, and its checks."""
    status = gate([*arguments, "--json", str(folder / "out" / "gate.json")])
    found = json.loads((folder / "out" / "gate.json").read_text())
    return status, found, table_rows(found["checks"])


@pytest.mark.parametrize(
    ("gain", "spread", "decision", "status"),
    [(-0.01, 0.01, "pass", 0), (-0.05, 0.01, "fail", 1), (-0.02, 0.1, "inconclusive", 3), (0.0, 0.0, "pass", 0)],
)
def test_the_exit_status_says_what_is_decided(
    gain: float, spread: float, decision: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = pair(tmp_path, drawn(gain, 240, spread, 3), 240)
    found = decided(tmp_path, *options, "--margin", "ndcg=.02")
    assert (found[0], found[1]["decision"], found[1]["exit_status"]) == (status, decision, status)
    assert capsys.readouterr().out.startswith(f"gate      {decision}: ")
    (check,) = found[2]
    assert check["difference"] == pytest.approx(gain)
    assert check["slack"] == pytest.approx(gain + 0.02)


def test_a_relative_margin_is_a_share_of_the_baseline(tmp_path: Path) -> None:
    options = pair(tmp_path, drawn(-0.04, 240, 0.001, 3), 240)
    assert decided(tmp_path, *options, "--margin", "ndcg=10%")[0] == 0  # .05 of .5
    status, _, ((check),) = decided(tmp_path, *options, "--margin", "ndcg=5%")
    assert status == 1
    assert check["margin"] == pytest.approx(0.025)
    assert check["margin_given"] == "ndcg=5%"


def test_every_margin_must_hold(tmp_path: Path) -> None:
    quick, slow = [10 + one for one in drawn(0, 40)], [12 + one for one in drawn(0, 40)]
    one, other = drawn(0.5), drawn(0.5, spread=0.101)
    options = named(tmp_path, scored({"ndcg": one, "latency_ms": quick}), scored({"ndcg": other, "latency_ms": slow}))
    status, _, checks = decided(tmp_path, *options, "--margin", "ndcg=.1", "--margin", "latency_ms=10%")
    assert (status, [check["decision"] for check in checks]) == (1, ["pass", "fail"])


def test_a_slice_can_stop_what_is_good_on_average(tmp_path: Path) -> None:
    gains = [*drawn(0.3, 25, 0.01, 1), *drawn(-0.2, 15, 0.01, 2)]
    options = pair(tmp_path, gains)
    assert decided(tmp_path, *options, "--margin", "ndcg=.02")[0] == 0
    labels = ["--slice", "category"] * 2  # a repeated label is checked once
    status, _, checks = decided(tmp_path, *options, "--margin", "ndcg=.02", *labels)
    assert status == 1
    decisions = [(check["value"], check["decision"]) for check in checks]
    assert decisions == [("", "pass"), ("how-to", "pass"), ("trouble", "fail")]


def test_a_small_slice_that_tells_nothing_has_no_say(tmp_path: Path) -> None:
    gains = [*drawn(0.1, 25, 0.01, 1), *drawn(0.0, 15, 0.3, 2)]
    status, found, checks = decided(tmp_path, *pair(tmp_path, gains), "--margin", "ndcg=.02", "--slice", "category")
    assert status == 0
    assert [(check["decision"], check["counts"]) for check in checks[2:]] == [("inconclusive", False)]
    assert "ignored: 1 slice of fewer than 20 questions, where only a failure would count" in found["notes"]


@pytest.mark.parametrize("empty", [15, 25])
def test_a_slice_whose_baseline_has_a_mean_of_0_has_no_relative_margin(tmp_path: Path, empty: int) -> None:
    """The mean of all questions is above 0, so the gate goes on; all questions with a mean of 0 are refused."""
    values = [0.0] * empty + drawn(300.0, 40 - empty, 9.0)
    labels = {"category": ["unanswerable"] * empty + ["how-to"] * (40 - empty)}
    pair = [scored({"latency_ms": [one * share for one in values]}, labels) for share in (1.0, 0.9)]
    options = [*named(tmp_path, *pair), "--margin", "latency_ms=10%"]
    status, _, checks = decided(tmp_path, *options, "--slice", "category")
    assert status == (0 if empty < 20 else 3)
    (check,) = (check for check in checks if check["value"] == "unanswerable")
    assert (check["decision"], check["counts"], check["margin"]) == ("inconclusive", empty >= 20, None)
    assert check["note"].startswith("10% of the baseline's mean is not a usable margin, because the mean is 0")
    nothing = named(tmp_path / "all", *(scored({"latency_ms": [0.0] * 39 + [last]}) for last in (0.0, 1.0)))
    refuse(gate, {"because the mean is 0": [*nothing, "--margin", "latency_ms=10%"]})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dataset": replace(FACTS, golden_digest="e" * 64)}, "rebaseline: the golden set"),
        ({"dataset": replace(FACTS, corpus_digest="e" * 64)}, "rebaseline: the corpus"),
        ({"state": PARTIAL}, "is PARTIAL"),
        ({"parameters": {"evidence.threshold": "0.9"}}, "rebaseline: evidence.threshold"),
        ({"config": {"coverage": 0.5}}, "coverage is None in top_k=3 and 0.5 in top_k=3"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    changes: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found, checks = decided(tmp_path, *pair(tmp_path, 0.1, **changes), "--margin", "ndcg=.02")
    assert (status, found["decision"], checks) == (3, "refused", [])
    assert said in found["reason"]
    assert said in capsys.readouterr().out


def test_a_label_that_no_scored_question_has_is_said(tmp_path: Path) -> None:
    labels = {"kind": ["", "", *["odd"] * 2]}
    one = scored({"ndcg": [0.5, 0.5, float("nan"), float("nan")]}, labels)
    _, found, _ = decided(tmp_path, *named(tmp_path, one, one), "--margin", "ndcg=.02", "--slice", "kind")
    assert any("no slice" in note for note in found["notes"])


def test_markdown_says_what_is_decided(tmp_path: Path) -> None:
    path = tmp_path / "gate.md"
    assert gate([*pair(tmp_path, 0.1), "--margin", "ndcg=.02", "--markdown", str(path)]) == 0
    text = path.read_text()
    assert text.startswith("### gate: pass\n")
    assert "| pass | ndcg | all | 40 questions | .500 -> .600 | +.100 | margin 0.02 |" in text


def listed(folder: Path, *lines: str) -> list[str]:
    path = folder / "critical.txt"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return ["--questions", str(path)]


def test_only_the_questions_of_the_file_count(tmp_path: Path) -> None:
    options = pair(tmp_path, [*[0.1] * 20, *[-0.5] * 20])
    chosen = listed(tmp_path, "# none of these may suffer", "", *(f"q{n}" for n in range(20)))
    status, found, (check,) = decided(tmp_path, *options, *chosen, "--margin", "ndcg=.02")
    assert (status, check["questions"], found["questions"]) == (0, 20, 20)
    assert check["difference"] == pytest.approx(0.1)


def test_the_note_on_weights_is_of_the_listed_questions(tmp_path: Path) -> None:
    """The note is absent if their weights are equal."""
    table = changed_table(scored({"ndcg": [0.5] * 40}), {"weight": [1.0] * 39 + [3.0]})
    options = [*named(tmp_path, *[scored({"ndcg": [0.5] * 40}, questions=table)] * 2), "--margin", "ndcg=.02"]
    for names, note in ((("q0", "q39"), ["weighted: 2 questions count as 2"]), (("q0", "q1"), [])):
        notes = decided(tmp_path, *options, *listed(tmp_path, *names))[1]["notes"]
        assert [one for one in notes if one.startswith("weighted")] == note


def test_each_question_is_held_to_the_margin_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [*pair(tmp_path, [0.5] * 39 + [-0.03]), "--margin", "ndcg=.02", "--each"]
    assert decided(tmp_path, *options, *listed(tmp_path, "q1", "q2"))[0] == 0
    status, _, (check,) = decided(tmp_path, *options, *listed(tmp_path, "q1", "q39"))
    assert (status, check["note"]) == (1, "margin exceeded on 1 of 2 questions: q39 -0.03")
    assert "q39" in capsys.readouterr().out
    assert decided(tmp_path, *options)[0] == 1
    assert decided(tmp_path, *options[:-3], "--margin", "ndcg=.04", "--each")[0] == 0


def test_a_critical_question_that_was_lost_is_no_pass(tmp_path: Path) -> None:
    before = drawn(0.5)
    options = named(tmp_path, scored({"ndcg": before}), scored({"ndcg": [*before[:39], float("nan")]}))
    status, _, (check,) = decided(tmp_path, *options, "--margin", "ndcg=.02", "--each")
    assert (status, check["note"][:42]) == (1, "margin exceeded on 1 of 40 questions: q39 ")
    assert decided(tmp_path, *options, "--margin", "ndcg=.02", "--each", *listed(tmp_path, "q3"))[0] == 0


def test_a_lost_question_is_tested_but_not_said_to_have_a_score(tmp_path: Path) -> None:
    before, nan = drawn(0.5), math.nan
    options = named(tmp_path, scored({"ndcg": [*before[:39], nan]}), scored({"ndcg": [*before[:38], nan, nan]}))
    _, found, (check,) = decided(tmp_path, *options, "--margin", "ndcg=.02")
    assert check["questions"] == 39  # q38 has the worst score
    assert found["notes"][-1] == "ndcg: tested on 39 of 40 questions; the other lacks a score in at least one config"


def test_critical_questions_by_label_and_lost_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of four critical questions two are worse and one had no score before; the others are not critical."""
    labels, texts = {"critical": ["true"] * 4 + [""] * 6}, [f"How is {n} done?" for n in range(10)]
    columns = ([0.5] * 3 + [math.nan] + [0.5] * 6, [0.4, 0.6] + [0.1] * 8)
    results = [scored({"ndcg": scores}, labels) for scores in columns]
    options = named(tmp_path, *(changed(one, questions=changed_table(one, {"question": texts})) for one in results))
    status, found, (check,) = decided(tmp_path, *options, "--margin", "ndcg=0", "--each", "--questions")
    assert (status, check["questions"], found["questions"]) == (1, 3, 4)
    assert found["notes"] == [
        'ndcg 0.5 -> 0.1 in q2 "How is 2 done?"', 'ndcg 0.5 -> 0.4 in q0 "How is 0 done?"',
        "ndcg: tested on 3 of 4 questions; the other lacks a score in at least one config",
    ]  # fmt: skip
    assert 'note      ndcg 0.5 -> 0.1 in q2 "How is 2 done?"' in capsys.readouterr().out
    latency = {"latency_ms": [5.0] * 40}
    options = named(tmp_path / "lost", scored(latency), scored({"latency_ms": [5.0] * 39 + [math.nan]}))
    status, found, _ = decided(tmp_path, *options, "--margin", "latency_ms=0", "--each")
    assert (status, found["notes"][0]) == (3, 'latency_ms not scored in the candidate: q39 "q39"')
    refuse(gate, {r"no question's labels\.critical is true": [*options, "--margin", "latency_ms=0", "--questions"]})


@given(gains=st.lists(st.sampled_from([-0.1, 0.0, 0.1]), min_size=1, max_size=5))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_question_by_itself_passes_where_another_fails(gains: list[float], tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("gate")
    status, *_ = decided(folder, *pair(folder, gains, len(gains)), "--margin", "ndcg=.05", "--each")
    assert status == (1 if min(gains) < -0.05 else 0)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("q1", "", "refund"), r'critical\.txt:3: no question "refund" was evaluated; correct'),
        (("q1", "q99"), r'critical\.txt:2: no question "q99" .*did you mean "q9'),
        (("# q1",), "contains no question ids"),
    ],
)
def test_a_wrong_list_of_questions_names_the_line(lines: tuple[str, ...], said: str, tmp_path: Path) -> None:
    _, path = listed(tmp_path, *lines)
    with pytest.raises(InputError, match=said):
        read_questions(Path(path), {f"q{n}" for n in range(40)} | {"q90"})


@pytest.mark.parametrize("text", ["ndcg", "ndcg=", "=.02", "ndcg=x", "ndcg=-1", "ndcg=nan", "ndcg=inf", "ndcg=%"])
def test_a_margin_that_is_none_is_one_clear_line(text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f'"{text}" is invalid; write METRIC=NUMBER')) as raised:
        read_condition(text)
    assert "\n" not in str(raised.value)


def test_wrong_options_are_one_clear_line(tmp_path: Path) -> None:
    options, margin = pair(tmp_path, 0.1), ["--margin", "ndcg=.02"]
    refuse(gate, {
        'did you mean "ndcg"': [*options, "--margin", "ndgc=.02"],
        'did you mean "category"': [*options, *margin, "--slice", "categories"],
        "--margin: two values are given for ndcg; give one": [*options, *margin, "--margin", "ndcg=.03"],
        "--at-least: two values are given": [*options, "--at-least", "ndcg=+.1", "--at-least", "ndcg=+.2"],
        "use only one of them": [*options, *margin, "--each", "--slice", "category"],
        "needs a condition for the candidate": options,
        "--candidate": ["--baseline", "1", *margin],
        "cannot be written": [*options, *margin, "--markdown", f"{tmp_path}"],
        "--json: - means standard output": [*options, *margin, "--json", "-"],
        'no run "z" has a result': ["--baseline", "z", *options[2:], *margin],
        "ndcg=0.1 needs a baseline; specify it with --baseline RUN": [*options[2:4], "--margin", "ndcg=.1"],
        "needs a baseline": ["--candidate", "1", "--at-least", "ndcg=+.1"],
        '--at-least: "ndcg" is invalid': ["--candidate", "1", "--at-least", "ndcg"],
        "--each: applies to --margin only": [*options[:4], "--each", *margin, "--at-least", "b=1"],
    })  # fmt: skip


def workflow() -> dict[str, Any]:
    (text,) = re.findall(r"```yaml\n(name: .*?)```", (ROOT / "docs" / "results.md").read_text("utf-8"), re.DOTALL)
    loaded = yaml.safe_load(text)
    assert isinstance(loaded, dict)
    return loaded


def commands() -> list[list[str]]:
    """Split the workflow's commands, joining continued lines and separating the commands in $(...)."""
    scripts = [step["run"] for job in workflow()["jobs"].values() for step in job["steps"] if "run" in step]
    lines = [line for script in scripts for line in script.replace("\\\n", " ").splitlines()]
    found = [match for line in lines for match in re.findall(r"ragsweep [^|>)&]*", line)]
    return [shlex.split(one) for one in found]


def test_the_workflow_of_the_documentation_runs_on_changes_and_its_commands_exist() -> None:
    found = workflow()
    assert {"pull_request", "push"} & set(found[True])  # YAML 1.1 reads "on" as true
    for job in found["jobs"].values():
        assert all({"uses", "run"} & step.keys() for step in job["steps"])
    kinds = {words[1] for words in commands()}
    assert {"run", "gate"} <= kinds
    for words in commands():
        assert words[1] == "run" or words[1] in cli._COMMANDS
        if words[1] == "gate":
            assert read(words[2:]).conditions
        if words[1] == "run":
            compose_jobs(read_command([word for word in words[2:] if "=" in word and "$" not in word], False))


def test_the_workflow_of_the_documentation_gives_the_gate_both_configs(tmp_path: Path) -> None:
    config = [*write_dataset(tmp_path), "metrics=retrieval"]
    (tmp_path / "config.args").write_text(" ".join(config))
    repository = ["git", "-c", "user.name=x", "-c", "user.email=x@example.com"]
    for words in ("init -q", "add .", "commit -qm x", "update-ref refs/remotes/origin/main @"):
        subprocess.run([*repository, *words.split()], cwd=tmp_path, check=True)
    (tmp_path / "config.args").write_text(" ".join([*config, "top_k=1"]))
    (step,) = (one for one in workflow()["jobs"]["gate"]["steps"] if one.get("name") == "run both configs")
    told = {"GITHUB_ENV": f"{tmp_path / 'env'}", "GITHUB_RUN_ID": "7", "GITHUB_RUN_ATTEMPT": "1",
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}  # fmt: skip
    script = ["bash", "-eo", "pipefail", "-c", step["run"]]
    subprocess.run(script, cwd=tmp_path, env=user_environment(**told), check=True)
    runs = dict(line.split("=") for line in (tmp_path / "env").read_text().splitlines())
    options = ["--baseline", runs["baseline"], "--candidate", runs["candidate"], "--path", str(tmp_path / ".ragsweep")]
    status, found, _ = decided(tmp_path, *options, "--margin", "context_tokens=0")
    assert (status, found["factors"]) == (3, [{"name": "top_k", "before": "5", "after": "1"}])


def test_questions_that_the_candidate_dropped_count_as_its_worst_case(tmp_path: Path) -> None:
    """A candidate that scores 0 on a sixth of the questions must not pass by leaving them out."""
    before = drawn(0.6, 180)
    kept = [one + 0.001 * (n % 3) for n, one in enumerate(before)]
    bad, dropped = ([value if n < 148 else lost for n, value in enumerate(kept)] for lost in (0.0, math.nan))
    for folder, scores in (("bad", bad), ("dropped", dropped)):
        options = named(tmp_path / folder, scored({"ndcg": before}), scored({"ndcg": scores}))
        status, found, (check,) = decided(tmp_path, *options, "--margin", "ndcg=.02")
        assert (status, check["questions"]) == (1, 180)
        assert check["difference"] == pytest.approx(sum(bad) / 180 - 0.6)
    assert any("failed or declined, counted as the worst case: 32 (q148, q149" in note for note in found["notes"])


def test_a_score_without_a_worst_case_is_no_pass_where_some_are_missing(tmp_path: Path) -> None:
    before = [10 + one for one in drawn(0, 180)]
    after = [one + 0.01 * (n % 2) if n < 178 else math.nan for n, one in enumerate(before)]
    options = named(tmp_path, scored({"latency_ms": before}), scored({"latency_ms": after}))
    status, _, (check,) = decided(tmp_path, *options, "--margin", "latency_ms=10%")
    assert (status, check["decision"], check["note"]) == (3, "inconclusive", "not scored in the candidate: q178, q179")


def test_no_number_of_questions_is_said_to_decide_where_a_score_is_missing(tmp_path: Path) -> None:
    """The candidate is faster by 60 of 300 ms, so only the lost question keeps it from passing."""
    before, noise = drawn(300, spread=100), drawn(-60, spread=100, seed=1)
    after = [one + more for one, more in zip(before, noise, strict=True)]
    results = [scored({"latency_ms": column}) for column in (before, [*after[:39], math.nan])]
    _, _, (check,) = decided(tmp_path, *named(tmp_path, *results), "--margin", "latency_ms=10")
    assert check["low"] > 0
    assert (check["decision"], check["note"]) == ("inconclusive", "not scored in the candidate: q39")
    assert check["questions_needed"] is None


def test_equal_scores_of_another_config_pass_only_where_rare_losses_are_excluded(tmp_path: Path) -> None:
    """Three of 40 questions in a hundred may be lost unseen; the very same config has nothing to lose."""
    same = scored({"ndcg": drawn(0.5)})
    other = named(tmp_path / "other", same, changed(same, signature="other"))
    assert decided(tmp_path, *other, "--margin", "ndcg=.02")[0] == 3
    assert decided(tmp_path, *other, "--margin", "ndcg=.08")[0] == 0
    assert decided(tmp_path, *named(tmp_path, same, same), "--margin", "ndcg=.02")[0] == 0


@pytest.mark.parametrize(("signature", "last", "status"), [("sig", 0.5, 0), ("other", 0.5, 3), ("sig", 0.4, 3)])
def test_a_config_with_equal_scores_passes_against_itself_on_a_few_questions(
    signature: str, last: float, status: int, tmp_path: Path
) -> None:
    before, after = scored({"ndcg": [0.5] * 6}), scored({"ndcg": [0.5] * 5 + [last]})
    options = named(tmp_path, changed(before, signature="sig"), changed(after, signature=signature))
    assert decided(tmp_path, *options, "--margin", "ndcg=.02")[0] == status


@pytest.mark.parametrize("count", [8, 80])
def test_a_config_with_equal_scores_does_not_pass_against_itself_if_it_lost_scores(count: int, tmp_path: Path) -> None:
    """Tokens have no worst value that a lost score could be given."""
    before, after = scored({"tokens": [50.0] * count}), scored({"tokens": [50.0] * (count - 1) + [math.nan]})
    options = named(tmp_path, *(changed(one, signature="sig") for one in (before, after)))
    assert decided(tmp_path, *options, "--margin", "tokens=5")[0] == 3


@pytest.mark.parametrize(("gain", "status"), [(0.1, 0), (0.0, 1), (0.05, 3)])
def test_a_gain_is_to_be_shown(gain: float, status: int, tmp_path: Path) -> None:
    options = pair(tmp_path, drawn(gain, 80, 0.05, 3), 80)
    found, _, (check,) = decided(tmp_path, *options, "--at-least", "ndcg=+.05")
    assert (found, check["condition"], check["margin"]) == (status, "gain", 0.05)


@pytest.mark.parametrize(("bound", "status"), [("ndcg=.4", 0), ("ndcg=.5", 3), ("ndcg=.6", 1)])
def test_a_level_needs_no_baseline(bound: str, status: int, tmp_path: Path) -> None:
    (run,) = record(tmp_path, scored({"ndcg": drawn(0.5)}))
    found, document, (check,) = decided(tmp_path, "--candidate", run, "--path", str(tmp_path), "--at-least", bound)
    assert (found, document["baseline"], check["condition"]) == (status, None, "at least")


def test_a_level_counts_declined_answers_as_the_worst_case_and_leaves_out_what_does_not_apply(tmp_path: Path) -> None:
    scores = [*drawn(0.9, 40, 0.02), *[math.nan] * 20]
    reasons = [{}] * 40 + [{"ndcg": "abstained"}] * 10 + [{"ndcg": "no reference answer"}] * 10
    result = scored({"ndcg": scores})
    result = changed(result, questions=changed_table(result, {"unscored": [json.dumps(one) for one in reasons]}))
    (run,) = record(tmp_path, result)
    status, _, (check,) = decided(tmp_path, "--candidate", run, "--path", str(tmp_path), "--at-least", "ndcg=.85")
    assert (status, check["questions"], check["candidate"]) == (1, 50, pytest.approx(0.72))


def test_a_bound_on_the_wrong_side_names_the_right_one(tmp_path: Path) -> None:
    (run,) = record(tmp_path, scored({"latency_ms": drawn(5)}))
    with pytest.raises(ConfigError, match="lower values are better; use --at-most"):
        gate(["--candidate", run, "--path", str(tmp_path), "--at-least", "latency_ms=3"])
    assert gate(["--candidate", run, "--path", str(tmp_path), "--at-most", "latency_ms=6"]) == 0


NDCG = {"metrics": {"ndcg_at_10": {"_target_": "ragsweep.parts.metrics.Ndcg", "cutoff": 10}}}
LATENCY_PART = {"_target_": "ragsweep.parts.metrics.Latency", "quantile": None, "stage": None}
LATENCY = {"metrics": {"latency_mean_ms": LATENCY_PART}}


@pytest.mark.parametrize(
    ("config", "reached", "refused"),
    [
        (
            NDCG,
            ["margin .99", "margin 99%", "at-least +1", "at-least 0", "at-least 1"],
            ["margin 1", "margin 100%", "at-least +1.1", "at-least -0.1", "at-least 70"],
        ),
        (LATENCY, ["margin 2", "margin 200%", "at-least +2", "at-most 0", "at-most 300"], ["at-most -0.1"]),
    ],
)
def test_a_value_that_no_candidate_can_miss_or_reach_is_bad_input(
    config: dict[str, Any], reached: list[str], refused: list[str], tmp_path: Path
) -> None:
    (metric,) = config["metrics"]
    one = scored({metric: drawn(0.5)}, config=config)
    options = named(tmp_path, one, one)
    for typed in reached:
        option, value = typed.split()
        assert gate([*options, f"--{option}", f"{metric}={value}"]) in (0, 1, 3)
    for typed in refused:
        option, value = typed.split()
        with pytest.raises(ConfigError, match=rf"--{option}: {metric} ranges from 0 to .*, got {re.escape(value)}$"):
            gate([*options, f"--{option}", f"{metric}={value}"])


WHOLE = {"config": NDCG}


def flips(count: int, lost: float, won: float, seed: int) -> tuple[list[float], list[float]]:
    generator = np.random.default_rng(seed)
    hit, chance = generator.random(count) < 0.6, generator.random(count)
    after = np.where(hit, chance >= lost, chance < won)
    return hit.astype(float).tolist(), after.astype(float).tolist()


def grown(folder: Path, count: int, lost: float, won: float, seed: int = 1, **changes: Any) -> list[str]:
    before, after = flips(count, lost, won, seed)
    labels = {"half": ["odd", "even"] * (count // 2)}
    changes = {**WHOLE, **changes}
    return named(folder, *(scored({"ndcg_at_10": one}, labels, **changes) for one in (before, after)))


def test_a_sequential_gate_decides_by_bets(tmp_path: Path) -> None:
    options = [*grown(tmp_path, 300, 0.12, 0.18), "--margin", "ndcg_at_10=.05"]
    plain, sequential = decided(tmp_path, *options), decided(tmp_path, *options, "--sequential")
    before, after = flips(300, 0.12, 0.18, 1)
    expected = sequential_gate(score_matrix([scored({"m": before}), scored({"m": after})], "m"), 0.05, 1.0)
    assert (plain[0], sequential[0], sequential[2][0]["low"]) == (0, 3, pytest.approx(expected.low))
    assert sequential[2][0]["low"] < plain[2][0]["low"]
    assert sequential[1]["sequential"]


def test_a_sequential_gate_decides_gains_levels_and_slices(tmp_path: Path) -> None:
    options = [*grown(tmp_path, 400, 0.02, 0.6), "--sequential"]
    for bound, expected in (("+.05", 0), ("+.5", 1), (".6", 0), (".95", 1)):
        assert decided(tmp_path, *options, "--at-least", f"ndcg_at_10={bound}")[0] == expected
    status, _, checks = decided(tmp_path, *options, "--margin", "ndcg_at_10=.05", "--slice", "half")
    assert (status, [check["decision"] for check in checks]) == (0, ["pass"] * 3)


def test_the_stated_power_of_a_sequential_gate_is_the_simulated_one(capsys: pytest.CaptureFixture[str]) -> None:
    results = json.loads((ROOT / "benchmarks" / "results" / "designs-gates.json").read_text("utf-8"))
    (row,) = [row for row in results["tables"][0]["rows"] if row[:2] == ["hit or miss", "+0.00"]]
    with pytest.raises(SystemExit):
        gate(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert re.findall(r"passes in (\d+) %", said) == [f"{float(row[n]):.0f}" for n in (5, 3)]


def test_what_bets_cannot_decide_is_one_clear_line(tmp_path: Path) -> None:
    options, margin = [*grown(tmp_path, 40, 0.1, 0.1), "--sequential"], ["--margin", "ndcg_at_10=.05"]
    tokens = {"metrics": {"context_tokens": {"_target_": "ragsweep.parts.metrics.ContextTokens"}}}
    amounts = scored({"context_tokens": drawn(500)}, config=tokens)
    amounts = changed(amounts, metrics={"context_tokens": replace(amounts.summaries.metrics["context_tokens"],
                                                                   higher_is_better=False)})  # fmt: skip
    unbounded = [*named(tmp_path / "unbounded", amounts, amounts), "--sequential"]
    undefined = [*grown(tmp_path / "undefined", 40, 0.1, 0.1, config={}), "--sequential"]
    part = [*grown(tmp_path / "part", 40, 0.1, 0.1, dataset=replace(FACTS, partition="tune")), "--sequential"]
    refuse(gate, {
        "ndcg_at_10=5% is a share of a mean, which": [*options, "--margin", "ndcg_at_10=5%"],
        "--sequential and --each": [*options, *margin, "--each"],
        "--sequential and --questions": [*options, *margin, *listed(tmp_path, "q1")],
        r"smaller than the metric's range \(1\), got 2": [*options, "--margin", "ndcg_at_10=2"],
        "context_tokens has no bounds": [*unbounded, "--margin", "context_tokens=5"],
        "the bounds of ndcg_at_10 are unknown": [*undefined, *margin],
        "rerun it with partition=all": [*part, *margin],
    })  # fmt: skip


def test_releases_that_are_each_a_little_worse_are_caught_by_the_anchor(tmp_path: Path) -> None:
    """Five releases, each worse by .03: within the margin of .05 of the last one, and .15 below the first."""
    results = [scored({"ndcg": drawn(0.7 - 0.03 * n, 160, 0.02, n)}, name=f"v{n}") for n in range(6)]
    runs = record(tmp_path, *results)
    margin, path = ["--margin", "ndcg=.05", "--path", str(tmp_path)], tmp_path / "gate.md"
    for last, candidate in pairwise(runs):
        assert gate(["--baseline", last, "--candidate", candidate, *margin]) == 0
    options = ["--baseline", runs[4], "--anchor", runs[0], "--candidate", runs[5], *margin, "--markdown", str(path)]
    status, found, checks = decided(tmp_path, *options)
    assert (status, found["decisions"]) == (1, {"baseline": "pass", "anchor": "fail"})
    assert found["anchor"]["run_id"] == runs[0]
    assert [(check["against"], check["decision"]) for check in checks] == [("baseline", "pass"), ("anchor", "fail")]
    assert "- anchor: fail against v0" in path.read_text()


def test_an_anchor_checks_a_level_once_and_is_refused_by_name(tmp_path: Path) -> None:
    one = scored({"ndcg": drawn(0.5)})
    first, last, old = record(tmp_path, one, one, changed(one, dataset=replace(FACTS, golden_digest="e" * 64)))
    options = ["--baseline", first, "--candidate", last, "--path", str(tmp_path), "--margin", "ndcg=.05"]
    _, _, checks = decided(tmp_path, *options, "--anchor", first, "--at-least", "ndcg=.4")
    assert [check["against"] for check in checks] == ["baseline", "", "anchor"]
    status, found, _ = decided(tmp_path, *options, "--anchor", old)
    assert (status, found["reason"][:31]) == (3, "against the anchor: rebaseline:")
    refuse(gate, {
        "the first is missing; add --baseline RUN": [*options[2:], "--at-least", "ndcg=+.1", "--anchor", first],
        "--anchor: requires a condition": [*options[:6], "--at-least", "ndcg=.1", "--anchor", old],
    })  # fmt: skip


def test_variances_and_missing_scores_are_told_apart_by_baseline(tmp_path: Path) -> None:
    """The candidate repeats its answers; the metric does not apply to two questions of the anchor."""
    again = [json.dumps({"answers": [0, 1], "scores": {"ndcg": [one - 0.1, one + 0.1]}}) for one in drawn(0.5)]
    candidate = scored({"ndcg": drawn(0.5)}, signature="c")
    runs = record(
        tmp_path, scored({"ndcg": drawn(0.5, seed=1)}), scored({"ndcg": [*drawn(0.5, 38, seed=2), math.nan, math.nan]}),
        changed(candidate, questions=changed_table(candidate, {REPEATED: again})),
    )  # fmt: skip
    options = [one for pair in zip(("--baseline", "--anchor", "--candidate"), runs, strict=True) for one in pair]
    _, found, _ = decided(tmp_path, *options, "--path", str(tmp_path), "--margin", "ndcg=.02")
    assert list(found["variance"]) == ["ndcg=0.02", "ndcg=0.02 against the anchor"]
    notes = [one.partition(":")[0] for one in found["notes"]]
    assert notes == ["ndcg against the anchor", "ndcg against the baseline", "ndcg against the anchor"]
    assert "38 of 40 questions" in found["notes"][0]


def test_a_condition_is_written_as_it_is_typed() -> None:
    conditions = (
        Condition("context_tokens", 1_048_576, MOST),
        Condition("ndcg", 0.02),
        Condition("ndcg", 0.07, MOST, True),
    )
    assert [str(one) for one in conditions] == ["context_tokens=1048576", "ndcg=0.02", "ndcg=7%"]
