"""The loop that both sweepers race with, and the pruners of Optuna in a Hydra program that knows nothing of us."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException
from hypothesis import given
from hypothesis import strategies as st

from hydra_plugins.ragsweep_optuna import pruned
from hydra_plugins.ragsweep_optuna._pruning import Pruning, steps_of
from ragsweep.sweep.race_loop import Rung, check, run

APP = """
import random
import hydra

@hydra.main(version_base="1.3", config_path=None, config_name="config")
def main(config):
    noise = [random.Random(number).random() / 5 for number in range(40)]
    scores = [config.x / 10 + one for one in noise[: config.until]]
    with open(config.log, "a") as log:
        log.write(f"{config.x} {len(scores)}\\n")
    return {"values": sum(scores) / len(scores), "steps": scores}

main()
"""
CONFIG = "x: 1\nuntil: null\nlog: ???\n"


class Scripted:
    """A race in which it is settled how far each rung goes, and who is dropped then."""

    key = "until"

    def __init__(self, rungs: Sequence[tuple[int, Sequence[int]]], gone: Sequence[int] = ()) -> None:
        self.rungs, self.gone, self.ended = list(rungs), tuple(gone), dict[int, Any]()

    def begin(self, jobs: Sequence[int]) -> Rung:
        return Rung(self.rungs[0][0] if self.rungs else None, self.gone)

    def look(self, until: int, returned: Mapping[int, Any]) -> Rung:
        _, dropped = self.rungs.pop(0)
        return Rung(self.rungs[0][0] if self.rungs else None, tuple(dropped))

    def end(self, returned: Mapping[int, Any]) -> None:
        self.ended = dict(returned)


def came(value: Any, status: JobStatus = JobStatus.COMPLETED) -> JobReturn:
    result = JobReturn()
    result.status = status
    result.return_value = value
    return result


@given(st.integers(1, 6), st.lists(st.lists(st.integers(0, 7), max_size=3), max_size=4), st.sets(st.integers(0, 7)))
def test_each_rung_is_run_by_all_who_are_left_and_the_rest_whole(
    jobs: int, drops: list[list[int]], failing: set[int]
) -> None:
    ran: list[tuple[int, str]] = []

    def launch(wanted: Mapping[int, Sequence[str]]) -> dict[int, JobReturn | Exception]:
        assert wanted
        ran.extend((number, lines[-1]) for number, lines in wanted.items())
        return {n: came(n) if n not in failing else came(ValueError(), JobStatus.FAILED) for n in wanted}

    race = Scripted([(8 * n, dropped) for n, dropped in enumerate(drops, start=1)])
    raced = run(race, {number: (f"x={number}",) for number in range(jobs)}, launch)
    left = set(range(jobs))
    for n, dropped in enumerate(drops, start=1):
        assert {number for number, line in ran if line == f"until={8 * n}"} == left
        left -= failing | set(dropped)
    whole = {number for number, line in ran if line.startswith("x=")}
    assert whole == left
    assert set(race.ended) == whole - failing
    assert raced.results.keys() == set(range(jobs))
    assert raced.dropped <= set(range(jobs)) - whole - failing


def test_who_was_dropped_before_is_not_launched() -> None:
    ran: list[int] = []

    def launch(wanted: Mapping[int, Sequence[str]]) -> dict[int, JobReturn | Exception]:
        ran.extend(wanted)
        return {number: came(0) for number in wanted}

    raced = run(Scripted([(8, ())], gone=[1]), {0: (), 1: ()}, launch)
    assert ran == [0, 0]
    assert raced.dropped == {1}
    assert 1 not in raced.results


def test_what_is_no_race_is_refused() -> None:
    assert check(None) is None
    with pytest.raises(HydraException, match="choose one with hydra/sweeper/race=NAME"):
        check({"block": 3})
    with pytest.raises(HydraException, match="a job must return"):
        steps_of(0.5)
    with pytest.raises(HydraException, match="no pruner 'hyperband'"):
        Pruning("hyperband", "until", 8, "minimize")


def test_pruners_drop_the_worse_whichever_end_is_better() -> None:
    low, high = dict.fromkeys(range(12), 0.2), dict.fromkeys(range(12), 0.8)
    for name in ("wilcoxon", "median"):
        assert pruned(name, {}, "maximize", {0: low, 1: high, **_more(high)}) == (0,)
        assert 1 in pruned(name, {}, "minimize", {0: low, 1: high, **_more(low)})
    broken = {**low, 0: float("nan")}
    assert pruned("wilcoxon", {}, "maximize", {0: broken, 1: high}) == (0,)  # by the other eleven


def _more(steps: dict[int, float]) -> dict[int, dict[int, float]]:
    """Add trials: the median pruner wants five."""
    return dict.fromkeys(range(2, 7), steps)


@pytest.mark.parametrize("sweeper", ["grid", pytest.param("optuna", marks=pytest.mark.nightly)])
def test_program_that_knows_nothing_of_us_races_by_a_pruner(sweeper: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "config.yaml").write_text(CONFIG)
    more = ["hydra/sweeper/sampler=grid", "hydra.sweeper.default=false", "hydra.sweeper.n_jobs=2"]
    done = subprocess.run(
        [sys.executable, "app.py", "--config-dir", ".", "-m", "x=4,1,3,2", f"log={tmp_path}/log",
         f"hydra/sweeper={sweeper}", "hydra/sweeper/race=wilcoxon_pruner", *(more if sweeper == "optuna" else [])],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, text=True, capture_output=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ran = [tuple(map(int, line.split())) for line in (tmp_path / "log").read_text().splitlines()]
    assert (1, 40) in ran  # the best is run whole
    assert {x for x, asked in ran if asked == 40} == {1}
    assert all(asked == 16 for x, asked in ran if x != 1)
