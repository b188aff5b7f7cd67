"""The Pareto front in words and as a table."""

import math

from ragsweep.core.results import PARTIAL, Result
from ragsweep.report.front import MOST, front_csv, front_lines
from ragsweep.stats.comparison import ExcludedConfig
from ragsweep.sweep.concluding.sweep_content import sweep_content
from ragsweep.sweep.concluding.sweep_summary import SweepSummary
from ragsweep.sweep.searching.study_summary import StudySummary
from support.results import changed, scored

METRICS = ("ndcg", "latency_mean_ms")  # of the second less is better


def point(name: str, quality: float, latency: float) -> Result:
    return changed(scored({"ndcg": [quality], "latency_mean_ms": [latency]}), name=name)


def test_the_lines_name_the_best_by_the_first_metric_on_top() -> None:
    found = [point("quick", 0.5, 10), point("best", 0.8, 90)]
    lines = list(front_lines(found, METRICS, 7))
    assert lines[0].data == {"configs": 7, "front": 2}
    assert [line.data["config"] for line in lines[1:]] == ["best", "quick"]
    twins = [*found, point("twin", 0.8, 90)]
    assert list(front_lines(twins, METRICS, 7))[1].data == {"config": "best", "same": 1}
    assert next(front_lines([], METRICS, 7)).data == {}
    assert list(front_lines(found, METRICS[:1], 7)) == []
    many = [point(str(n), n / 100, n) for n in range(MOST + 3)]
    assert list(front_lines(many, METRICS, 20))[-1].data == {"hidden": 3}
    table = front_csv(found, METRICS).decode().splitlines()
    assert [line.split(",")[:2] for line in table] == [["config", "ndcg"], ["best", "0.8"], ["quick", "0.5"]]


def test_the_front_is_counted_among_the_configs_that_are_not_excluded() -> None:
    """Of all four, "beyond" is unbeaten too; of the other three, "beaten" is beaten by "good"."""
    points = [("beyond", 0.9, 90), ("good", 0.8, 50), ("quick", 0.5, 10), ("beaten", 0.4, 55)]
    results = [changed(point(*one), config={"objective": list(METRICS)}) for one in points]
    excluded = [ExcludedConfig("beyond", "excluded by latency_mean_ms <= 60")]
    (line, *_) = sweep_content(SweepSummary(results, (), excluded=excluded)).notes
    assert line.data == {"configs": 3, "front": 2}
    assert line.text.startswith("of 3 configs (without 1 excluded by latency_mean_ms <= 60), 2 are on the Pareto front")
    (line, *_) = sweep_content(SweepSummary(results, ())).notes
    assert line.text.startswith("of 4 configs, 3 are on the Pareto front")


def test_a_config_with_too_few_scores_is_not_on_the_front_and_beats_no_other() -> None:
    """Config "partly" has a score for one question of two, probably the easier one."""
    partly = scored({"ndcg": [0.9, math.nan], "latency_mean_ms": [10, 10]}, name="partly", state=PARTIAL)
    partly = changed(partly, measured={"ndcg": {"coverage": 0.5}})
    whole = scored({"ndcg": [0.8, 0.6], "latency_mean_ms": [20, 20]}, name="whole")
    results = [changed(one, settings={"objective": list(METRICS)}) for one in (partly, whole)]
    summary = SweepSummary(results, ())
    assert [one.name for one in summary.front] == ["whole"]
    assert sweep_content(summary).notes[0].text.startswith("of 1 config (without 1 PARTIAL), 1 is on the Pareto front")


def test_a_search_minimizes_an_objective_without_a_direction_as_it_was_told() -> None:
    def sized(name: str, quality: float, length: float) -> Result:
        one = scored({"ndcg": [quality], "answer_length": [length]})
        undirected = {"answer_length": {"higher_is_better": None}}
        return changed(one, name=name, measured=undirected, config={"objective": ["ndcg", "answer_length"]})

    results = [sized("brief", 0.5, 10), sized("good", 0.8, 50), sized("long", 0.8, 90)]
    study = StudySummary(directions=["maximize", "minimize"])
    assert [one.name for one in SweepSummary(results, (), study=study).front] == ["brief", "good"]
