"""A secret of any kind, in any place where one may be written, is masked wherever it would be shown, or refused.

What is scanned: every file below the folder of the commands, the names of files and folders, what is printed, and the
command lines of all processes that a command starts.
"""

import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from support.commands import GOLDEN, ROOT, write_dataset, write_option
from support.servers import forked
from test_canaries import found_in

CANARY = "cAnAry7f3a91c2e4d8b5"
"""In a form that any name could have."""

KINDS: dict[str, tuple[Mapping[str, str], str]] = {
    "variable": ({"MY_API_KEY": CANARY}, "${oc.env:MY_API_KEY}"),
    "variable of another name": ({"ODDLY_NAMED": CANARY}, "${oc.env:ODDLY_NAMED}"),
    "value of a variable": ({"MY_API_KEY": CANARY}, CANARY),
    "URL with a password": ({}, f"https://me:{CANARY}@example.org/x"),
    "URL with a key": ({}, f"https://example.org/x?a=b&key={CANARY}"),
}
"""Variables of the environment, and the text that is written."""


class Place(NamedTuple):
    """Where a text is written, as ``TEXT`` or quoted as ``"TEXT"``.

    ``fates``: of each of KINDS: m, masked; r, refused; a blank, cannot be written there, or is shown as documented.
    """

    fates: str
    overrides: tuple[str, ...] = ()
    file: str = ""  # of a config
    label: tuple[str, ...] = ()  # of a question
    metric: str = ""  # a class


RUN, SWEEP = ("top_k=2",), ("-m", "top_k=1,2")
NAMED = """
class Mine:
    name, unit, higher_is_better, bounds, quantile, needs = "TEXT", "", True, (0.0, 1.0), None, ()
    def score(self, view):
        raise ValueError("none")
"""
RAISING = """
class Mine:
    name, unit, higher_is_better, bounds, quantile, needs = "mine", "TEXT", True, (0.0, 1.0), None, ()
    def __init__(self, note=None):
        self.note = note
    def score(self, view):
        raise ValueError("TEXT and " + str(self.note))
"""
PLACES = {
    "override": Place("rmmrr", (*RUN, '+my.note="TEXT"')),
    "override under a secret's name": Place("mmrrr", (*RUN, '+my.api_key="TEXT"')),
    "values of a sweep": Place("rmm  ", ("-m", '+my.note="TEXT",b', "top_k=2")),
    "config file": Place("rmmmm", SWEEP, 'my: {note: ["TEXT"]}'),
    "config file, under a secret's name": Place("mmmmm", SWEEP, 'my: {credentials: {user: "TEXT"}}'),
    "key of a config file": Place("  mmm", RUN, 'my: {"TEXT": 1}'),
    "name": Place("rrrrr", (*RUN, 'name="TEXT"')),
    "name in a file": Place("rrrrr", RUN, 'name: "TEXT"'),
    "name from another key": Place("rrrrr", RUN, 'my: {note: "TEXT"}\nname: "${my.note}"'),
    "experiment": Place("r rrr", (*RUN, 'tracking.experiment="TEXT"')),
    "database of MLflow": Place("    m", RUN, 'tracking: {uri: "sqlite:///mlflow.db?key=CANARY"}'),
    "folder of a store": Place("r r  ", (*RUN, 'store.path="x/TEXT"')),
    "folder of a run": Place("r r  ", (*RUN, 'hydra.run.dir="x/TEXT-${now:%Y}"')),
    "folder of a sweep": Place("r r  ", (*SWEEP, 'hydra.sweep.dir="x/TEXT"')),
    "folder of a job": Place("r r  ", (*SWEEP, 'hydra.sweep.subdir="TEXT-${hydra:job.num}"')),
    "name of a job": Place("r r  ", (*RUN, 'hydra.job.name="TEXT"')),
    "name of a study": Place(
        "r r  ", (*SWEEP, "hydra/sweeper=optuna", "hydra.sweeper.n_trials=1", 'hydra.sweeper.study_name="TEXT"')
    ),
    "label": Place("  mmm", (*SWEEP, "by=who"), label=("labels", "who")),
    "category": Place("  mmm", SWEEP, label=("category",)),
    "name of a metric": Place("  rrr", RUN, metric=NAMED),
    "unit and exception of a metric": Place("  mmm", SWEEP, metric=RAISING),
    "exception with a setting": Place("rmmmm", SWEEP, 'metrics: {mine: {note: "TEXT"}}', metric=RAISING),
}
QUICK = {("name from another key", 0), ("folder of a job", 0), ("experiment", 2), ("name of a metric", 2)}
CASES = [
    pytest.param(place, kind, marks=() if (place, number) in QUICK else pytest.mark.nightly)
    for place, given in PLACES.items()
    for number, (kind, fate) in enumerate(zip(KINDS, given.fates, strict=True))
    if fate != " "
]


def prepare(folder: Path, place: Place, text: str) -> list[str]:
    """Write all files; the arguments of a command."""
    golden = [dict(one) for one in GOLDEN]
    for number, one in enumerate(golden if place.label else ()):
        value = text if number % 2 else "other"
        one.update({"labels": {"who": value}} if len(place.label) > 1 else {"category": value} if number < 3 else {})
    overrides = write_dataset(folder, golden)
    file = place.file
    if place.metric:
        (folder / "mine.py").write_text(place.metric.replace("TEXT", text))
        file = file.replace("mine: {", "mine: {_target_: mine.Mine, ") or "metrics: {mine: {_target_: mine.Mine}}"
    file = file.replace("TEXT", text).replace("CANARY", CANARY)
    write_option(folder / "own", "more/mine", f"# @package _global_\n{file}")
    given = [one.replace("TEXT", text) for one in place.overrides]
    return [
        "--config-dir",
        str(folder / "own"),
        *overrides,
        "headline=[context_ndcg]",  # a chart of each metric takes as long as the sweep
        *(["+more=mine"] if file else []),
        *given,
    ]


def command_lines(process: int) -> Iterator[bytes]:
    """Yield the command lines of the processes that a process started, as others on the machine see them."""
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        for child in listed.read_text().split():
            yield Path(f"/proc/{child}/cmdline").read_bytes()
            yield from command_lines(int(child))


def finish(folder: Path, environment: Mapping[str, str], *arguments: str) -> tuple[int, str]:
    """Run a command; its exit status, what it printed, and the command lines of its processes."""
    seen = set[bytes]()
    with (folder / "printed").open("wb") as printed:
        child = forked.Popen(
            [sys.executable, "-m", "ragsweep", *arguments], cwd=folder, env=environment, stdout=printed, stderr=printed
        )
        while child.poll() is None:
            with suppress(OSError):  # it ended meanwhile
                seen.update(command_lines(child.pid))
            time.sleep(0.05)
    return child.returncode, (folder / "printed").read_text() + "\n".join(map(repr, seen))


def run_and_report(folder: Path, environment: Mapping[str, str], *arguments: str) -> tuple[int, str]:
    """Run a command, and make the page of its result, if it has one; its exit status, and what both printed."""
    path = os.pathsep.join([str(folder), str(ROOT / "src"), environment.get("PYTHONPATH", "")])
    own = {**environment, "PYTHONPATH": path, "RAGSWEEP_TRUSTED_PACKAGES": "mine"}
    status, said = finish(folder, own, "run", *arguments)
    if page := re.search(r"ragsweep report (\S+)", said):
        reported, more = finish(folder, own, "report", page[1])
        assert reported == 0, more
        said += more
    return status, said


@pytest.mark.parametrize(("place", "kind"), CASES)
def test_secret_is_masked_or_refused(place: str, kind: str, tmp_path: Path, environment: dict[str, str]) -> None:
    (variables, text), fate = KINDS[kind], PLACES[place].fates[list(KINDS).index(kind)]
    arguments = prepare(tmp_path, PLACES[place], text)
    prepared = {one for one in tmp_path.rglob("*") if one.is_file()}
    status, said = run_and_report(tmp_path, environment | variables, *arguments)
    if fate == "r":
        assert status == 2, said
        reasons = ("secret", "in a URL on the command line", "as the name of a metric")
        assert any(reason in said for reason in reasons), said
        assert not [*tmp_path.rglob("ledger.db")]
    else:
        assert status in (0, 1), said
        assert "-m" not in arguments or "ragsweep report" in said, said
    assert found_in(tmp_path, said, prepared, CANARY) == []
    assert not list(tmp_path.rglob(f"*{CANARY}*"))
