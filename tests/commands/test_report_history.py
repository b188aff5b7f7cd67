"""`ragsweep report`: the newest sweep, or with --history all sweeps of a ledger on one page."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragsweep.commands.list import list as list_runs
from ragsweep.commands.report import report
from ragsweep.core.errors import InputError
from ragsweep.core.results import PARTIAL, Result
from ragsweep.records.ledger import Ledger
from support import output
from support.pages import HOSTILE, config, figures, painted
from support.results import changed, record_sweep, refuse


def asked(result: Result, golden: str, corpus: str = "c" * 64, **changes: Any) -> Result:
    return changed(
        result, dataset=replace(result.run.dataset, golden_digest=golden * 64, corpus_digest=corpus, **changes)
    )


def page(folder: Path) -> dict[str, Any]:
    assert report(["--history", "--path", str(folder), "-o", str(folder / "history.html")]) == 0
    found = re.search('id="data">(.*?)</script>', (folder / "history.html").read_text(), re.DOTALL)
    return json.loads(found[1])  # type: ignore[no-any-return]


def test_sweeps_are_grouped_by_their_questions_with_the_best_config_of_each_and_what_changed(tmp_path: Path) -> None:
    record_sweep(tmp_path, "a" * 32, *(asked(config(gain, 1, k=k), "1") for k, gain in (("3", 0.1), ("5", 0.2))))
    record_sweep(tmp_path, "b" * 32, asked(config(0.0, 1, k="3"), "2", questions=41))
    halves = [changed(asked(config(0.3, 1, k="9"), "1"), state=PARTIAL), asked(config(-0.1, 1, k="7"), "1", "d" * 64)]
    record_sweep(tmp_path, "c" * 32, *halves)
    document = page(tmp_path)
    golden, first, second = document["sections"]
    (table,) = golden["items"]
    rows = [(row[1], row[3], row[5], row[-1]) for row in table["rows"]]
    assert rows == [("1" * 8, "40", "2", "2"), ("2" * 8, "41", "1", "1")]
    _, sweeps = first["items"]
    assert [(row[0], row[4], row[5], row[7]) for row in sweeps["rows"]] == [
        ("c" * 8, "2", "#2 k=7", "other documents; k 5 -> 7"),
        ("a" * 8, "2", "#2 k=5", ""),
    ]
    assert [row[6].partition(" ")[0] for row in sweeps["rows"]] == [".40", ".70"]
    assert [row[5] for row in second["items"][0]["rows"]] == ["#1 k=3"]  # a single point is not drawn


def test_a_sweep_over_two_golden_sets_has_a_best_config_on_each_and_none_on_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = [("3", "1", 0.1), ("5", "1", 0.0), ("3", "2", 0.3), ("5", "2", 0.4), ("9", "2", 0.2)]
    record_sweep(tmp_path, "a" * 32, *(asked(config(gain, 1, k=k), golden) for k, golden, gain in sweep))
    _, *sections = page(tmp_path)["sections"]
    found = {section["title"][-14:-6]: section["items"][-1]["rows"] for section in sections}
    assert {golden: [row[4:6] for row in rows] for golden, rows in found.items()} == {
        "1" * 8: [["2", "#1 k=3"]],
        "2" * 8: [["3", "#4 k=5"]],
    }
    capsys.readouterr()
    assert "#" not in output(capsys, list_runs, "--path", str(tmp_path))


def test_figures_are_those_that_plotly_accepts_and_no_text_is_markup(tmp_path: Path) -> None:
    import plotly.graph_objects as go

    for parent in "ab":
        record_sweep(tmp_path, parent * 32, asked(changed(config(0.1, 1, k="3"), name=HOSTILE), "1", name=HOSTILE))
    for figure in figures(page(tmp_path)):
        go.Figure(painted(figure))
    assert "<img" not in (tmp_path / "history.html").read_text().partition("<script>")[0]


def test_history_needs_a_sweep_that_was_measured_and_no_name_of_one(tmp_path: Path) -> None:
    Ledger(tmp_path).sweeps()
    path = ["--path", str(tmp_path)]
    with pytest.raises(InputError, match="no sweep has a fully measured config"):
        report(["--history", *path])
    markdown = ["--history", "--format", "markdown"]
    cases = {"not allowed with argument": ["--history", "abc"], "only HTML": markdown, "no sweep has been run": []}
    refuse(report, cases, *path)


def test_the_newest_sweep_is_reported_where_none_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for parent, gain in (("b", 0.1), ("a", 0.2)):
        record_sweep(tmp_path, parent * 32, asked(config(gain, 1, k="3"), "1"))
    written = []
    for named in ([], ["a" * 8], ["b" * 8]):
        assert report([*named, "--format", "markdown", "--path", str(tmp_path)]) == 0
        written.append(capsys.readouterr().out)
    assert written[0] == written[1] != written[2]
