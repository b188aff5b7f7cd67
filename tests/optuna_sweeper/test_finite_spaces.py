"""Spaces with a known number of points: when all of them have been tried, and how a grid lists them."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from optuna_sweeper.space import Space
from test_study import Program, open_in, search

FOUR = {"x": "1,2,3,4"}


def test_a_point_is_tried_after_an_enqueued_config_that_differs_from_it_elsewhere() -> None:
    enqueued = ((("x=1", "note=b"), {"x": "1"}),)
    program = Program(lambda values: float(values["x"]))
    search(open_in(None, {"x": "1,2"}, "random", 9, enqueued), program)
    assert sorted(lines for _, lines in program.jobs) == [("x=1",), ("x=1", "note=b"), ("x=2",)]


def test_a_point_is_tried_after_a_process_that_died_before_its_trial_began(tmp_path: Path) -> None:
    interrupted = open_in(tmp_path, FOUR, "brute_force", 9)
    interrupted.space.suggest(interrupted.optuna.ask())
    program = Program(lambda values: float(values["x"]))
    search(open_in(tmp_path, FOUR, "brute_force", 9), program)
    assert sorted(lines for _, lines in program.jobs) == [(f"x={x}",) for x in range(1, 5)]


def test_a_space_of_ones_own_is_searched_without_other_parameters() -> None:
    own: dict[str, Any] = {"extend": lambda trial: trial.suggest_int("x", 1, 9), "has_zero": True}
    program = Program(lambda values: float(values.get("x", 5)))
    search(open_in(None, {}, "random", 4, (((), {}),), **own), program)
    assert len(program.jobs) == 4


def test_a_grid_lists_only_the_points_that_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    points = Space.points

    def few(space: Space) -> Iterator[dict[str, str]]:
        yield from islice(points(space), 5)
        raise AssertionError("more points are listed than there are trials")

    monkeypatch.setattr(Space, "points", few)
    program = Program(lambda values: 1.0)
    search(open_in(None, {"x": "range(0,100000)", "y": "range(0,100000)"}, "grid", 5), program)
    assert [lines for _, lines in program.jobs] == [("x=0", f"y={y}") for y in range(5)]


PAIRS = {"kind": "a,b", "x": "1,2"}


@pytest.mark.parametrize(
    ("lines", "located"),
    [(("kind=z", "x=1"), {"x": "1"}), (("kind=a", "x=9"), {"kind": "a"}), (("kind=z", "x=9"), {})],
)
def test_brute_force_runs_every_point_beside_an_enqueued_config_outside_the_space(
    lines: tuple[str, ...], located: dict[str, str]
) -> None:
    program = Program(lambda values: float(values["x"]))
    search(open_in(None, PAIRS, "brute_force", 9, ((lines, located),)), program)
    assert program.jobs[0] == (0, lines)
    assert sorted(job for _, job in program.jobs[1:]) == [(f"kind={kind}", f"x={x}") for kind in "ab" for x in "12"]


def test_brute_force_draws_the_same_after_a_process_died_while_it_was_drawing(tmp_path: Path) -> None:
    whole, resumed = Program(lambda values: 1.0), Program(lambda values: 1.0)
    search(open_in(None, PAIRS, "brute_force", 9), whole)
    open_in(tmp_path, PAIRS, "brute_force", 9).optuna.ask().suggest_categorical("kind", ["a", "b"])
    search(open_in(tmp_path, PAIRS, "brute_force", 9), resumed)
    assert resumed.jobs == whole.jobs
