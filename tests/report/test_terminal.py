"""What is printed can be read in a log, and leaves nothing out."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace

import pytest

from ragsweep.core.identity import Node, Rows, Spec, StageContext
from ragsweep.core.results import Failure
from ragsweep.report.terminal import Terminal
from ragsweep.services.usage import UsageMeter
from ragsweep.stages.executor import Executor
from ragsweep.stages.graph import Plan, StageCount
from test_ledger import result


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def terminal(stream: io.StringIO) -> Terminal:
    return Terminal(stream, bars=False)


def test_plan_says_configs_and_stage_runs(terminal: Terminal, stream: io.StringIO) -> None:
    stages: Mapping[str, StageCount] = {"chunk": StageCount(3, 1, 0), "context": StageCount(3, 3, 1)}
    terminal.plan(Plan(3, dict(stages)))
    assert stream.getvalue() == "plan     3 configs · 6 stage runs asked for, 4 distinct, 1 stored · less than 1 s\n"


def test_comparison_is_never_cut_however_long_the_names(terminal: Terminal, stream: io.StringIO) -> None:
    name = " ".join(f"retriever.legs.bm25.k{n}=1.25" for n in range(8))
    terminal.comparison([result(name)], ["mrr"])
    assert name in stream.getvalue()
    assert "…" not in stream.getvalue()
    assert "3 of 4 questions have evidence; 2 left out: not in split" in stream.getvalue()
    assert "warning  careful" in stream.getvalue()


def test_comparison_says_what_the_user_should_know_of_the_dataset(terminal: Terminal, stream: io.StringIO) -> None:
    measured = result("a")
    noted = replace(measured, dataset=replace(measured.dataset, notes=("4 links not followed", "3 stand-ins")))
    terminal.comparison([noted, noted], ["mrr"])
    printed = [line.split() for line in stream.getvalue().splitlines() if line.startswith("note")]
    assert printed == [["note", "4", "links", "not", "followed"], ["note", "3", "stand-ins"]]


def test_number_that_a_search_or_arithmetic_has_made_is_shown_with_six_digits(
    terminal: Terminal, stream: io.StringIO
) -> None:
    drawn = result("alpha=0.30000000000000004 k1=1.2945842851323215")
    terminal.finished(drawn, 0, 2, ["mrr"])
    terminal.failed(Failure(drawn.name, (), {}, "no luck"), 1, 2)
    terminal.comparison([drawn], ["mrr"])
    assert stream.getvalue().count("alpha=0.3 k1=1.29458 ") == 3
    assert "0000000" not in stream.getvalue()


def test_job_lines_say_which_of_how_many(terminal: Terminal, stream: io.StringIO) -> None:
    terminal.finished(result("top_k=3"), 0, 2, ["mrr"])
    terminal.failed(Failure("top_k=5", (), {}, "no luck [really]"), 1, 2)
    assert stream.getvalue().splitlines() == [
        "job      1/2 · top_k=3 · mrr .50 · 1.0 s",
        "failed   2/2 · top_k=5 · no luck [really]",
    ]


def test_stage_that_takes_long_leaves_a_line_with_its_rate(
    terminal: Terminal, stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragsweep.report.terminal.WORTH_A_LINE", 0.0)

    def compute(work: StageContext, rows: Rows) -> int:
        work.progress(0, 1412)
        work.progress(1412, 1412)
        return 0

    executor = Executor()
    with terminal.listening(executor, UsageMeter()):
        executor.get(Node("embed", Spec("x", "1"), (), compute))
    assert stream.getvalue().startswith("embed    1,412 chunks · 0.0 s · ")
    executor.get(Node("embed", Spec("y", "1"), (), compute))  # nobody listens any more
    assert len(stream.getvalue().splitlines()) == 1
