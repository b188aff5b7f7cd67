"""The loop of a race: every rung runs the remaining jobs, and who is dropped is not run again."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hydra.core.utils import JobReturn
from hydra.errors import HydraException
from hypothesis import given
from hypothesis import strategies as st

from optuna_sweeper.race_loop import Rung, check_race, run_race
from test_study import completed


class Scripted:
    """A race in which it is settled how far each rung goes, and who is dropped then."""

    key = "until"

    def __init__(self, rungs: Sequence[tuple[int, Sequence[int]]], gone: Sequence[int] = ()) -> None:
        self.rungs, self.gone, self.ended = list(rungs), tuple(gone), dict[int, Any]()

    def begin(self, jobs: Sequence[int]) -> Rung:
        return Rung(self.rungs[0][0] if self.rungs else None, self.gone)

    def decide(self, until: int, returned: Mapping[int, Any]) -> Rung:
        _, dropped = self.rungs.pop(0)
        return Rung(self.rungs[0][0] if self.rungs else None, tuple(dropped))

    def end(self, returned: Mapping[int, Any]) -> None:
        self.ended = dict(returned)


@given(st.integers(1, 6), st.lists(st.lists(st.integers(0, 7), max_size=3), max_size=4), st.sets(st.integers(0, 7)))
def test_each_rung_is_run_by_all_who_are_left(jobs: int, drops: list[list[int]], failing: set[int]) -> None:
    ran: list[tuple[int, int | None]] = []

    def launch(wanted: Mapping[int, str], until: int | None) -> dict[int, JobReturn | Exception]:
        assert wanted
        assert wanted.items() <= given_jobs.items()  # handed on as they are
        ran.extend((number, until) for number in wanted)
        return {n: completed(ValueError() if n in failing else n) for n in wanted}

    race = Scripted([(8 * n, dropped) for n, dropped in enumerate(drops, start=1)])
    given_jobs = {number: f"job {number}" for number in range(jobs)}
    raced = run_race(race, given_jobs, launch)
    left = set(range(jobs))
    for n, dropped in enumerate(drops, start=1):
        assert {number for number, until in ran if until == 8 * n} == left
        left -= failing | set(dropped)
    whole = {number for number, until in ran if until is None}
    assert whole == left
    assert set(race.ended) == whole - failing
    assert raced.results.keys() == set(range(jobs))
    assert raced.dropped <= set(range(jobs)) - whole - failing


def test_who_was_dropped_before_is_not_launched() -> None:
    ran: list[int] = []

    def launch(wanted: Mapping[int, str], until: int | None) -> dict[int, JobReturn | Exception]:
        ran.extend(wanted)
        return {number: completed(0) for number in wanted}

    raced = run_race(Scripted([(8, ())], gone=[1]), {0: "one", 1: "two"}, launch)
    assert ran == [0, 0]
    assert raced.dropped == {1}
    assert 1 not in raced.results


def test_what_is_no_race_is_refused() -> None:
    assert check_race(None) is None
    with pytest.raises(HydraException, match="choose one with hydra/sweeper/race=NAME"):
        check_race({"block": 3})
