"""What is printed can be read in a log, and leaves nothing out."""

import io
import math
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from ragsweep.commands.list import HEADER
from ragsweep.core.missing import NO_ANSWERS
from ragsweep.core.results import Failure, Result
from ragsweep.report.sweep_document import heading, result_document
from ragsweep.report.tables import evidence_note
from ragsweep.report.terminal import Terminal
from ragsweep.services.errors import CallFailed
from ragsweep.services.usage import UsageMeter
from ragsweep.stages.graph import Plan, StageCount
from support.results import changed, drawn, scored, summary
from test_ledger import result


def show_result(terminal: Terminal, result: Result, headline: list[str]) -> None:
    terminal.show(result_document(result, headline))


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def terminal(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.delenv("COLUMNS", raising=False)
    return Terminal(stream, bars=False)


def test_a_closed_pipe_ends_the_printing_and_nothing_else() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        terminal = Terminal(stream, bars=False)
        for _ in range(2):
            terminal.line("job", "1/2")
            stream.flush()  # as when Python ends, or another one prints
        assert os.path.samestat(os.fstat(stream.fileno()), Path(os.devnull).stat())


def test_texts_have_no_control_sequences_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    terminal, text = Terminal(stream, bars=True), "\x1b]52;c;eA==\x07 \x1b[2J \u202e"
    terminal.line("job", text)
    terminal.block("FIX", [text])
    terminal.table(["name", text], [["a", text]])
    terminal.aligned([[text]])
    assert set(re.findall(r"\x1b[^m]*", stream.getvalue())) <= {"\x1b[1", "\x1b[0"}
    assert "\u202e" not in stream.getvalue()
    assert stream.getvalue().count("\\u001b]52") == 5


def test_plan_says_configs_and_stage_runs(terminal: Terminal, stream: io.StringIO) -> None:
    stages: Mapping[str, StageCount] = {"chunk": StageCount(3, 1, 0), "context": StageCount(3, 3, 1)}
    terminal.plan(Plan(3, dict(stages)))
    assert stream.getvalue() == "plan      3 configs · 6 stages, 4 distinct, 1 stored · less than 1 s\n"


def test_plan_names_stages_of_unknown_duration_without_claiming_that_they_never_ran(
    terminal: Terminal, stream: io.StringIO
) -> None:
    stages = {"chunk": StageCount(1, 1, 0, 2.0), "generate": StageCount(1, 1, 0, None)}
    terminal.plan(Plan(1, stages))
    assert "about 2.0 s, plus stages without comparable work on this machine yet: generate" in stream.getvalue()


def test_a_config_is_shown_by_label_with_its_headline_metrics(terminal: Terminal, stream: io.StringIO) -> None:
    groups = {"category": {"how": {"mrr": summary("mrr", 0.25), "map": summary("map", 0.5, 0.4, 0.6)},
                           "why": {"mrr": summary("mrr", math.nan)}}}  # fmt: skip
    shown = changed(result("one"), groups=groups)
    show_result(terminal, shown, ["mrr", "map"])
    assert "category" not in stream.getvalue()
    show_result(terminal, changed(shown, settings={"by": "category"}), ["mrr", "map"])
    lines = [" ".join(line.split()) for line in stream.getvalue().splitlines()]
    place = lines.index("category questions mrr map")
    assert lines[place + 1 : place + 3] == ["how 4 .25 [.25, .75] .50 [.40, .60]", "why 4 - -"]


def test_a_config_is_shown_whole_with_what_it_was_measured_on(terminal: Terminal, stream: io.StringIO) -> None:
    name = " ".join(f"k{n}=1.25" for n in range(30))
    show_result(terminal, result(name), ["mrr"])
    printed = " ".join(stream.getvalue().split())
    assert name in printed
    assert "…" not in printed
    assert evidence_note(result(name).run.dataset) in printed
    assert "FIX Careful." in printed
    assert max(map(len, stream.getvalue().splitlines())) <= 120


def test_a_long_heading_has_its_questions_on_a_line_of_their_own(terminal: Terminal, stream: io.StringIO) -> None:
    terminal.show_block(heading("retriever = " + ", ".join(["bm25"] * 16), result("a").run.dataset))
    lines = stream.getvalue().splitlines()[1:]
    assert [line.endswith("·") for line in lines] == [False] * len(lines)
    assert lines[1].startswith(" " * 10)


def test_labels_of_lines_and_of_blocks_have_one_width(terminal: Terminal, stream: io.StringIO) -> None:
    terminal.line("job", "x")
    terminal.block("RESULT", ["x"])
    terminal.next_steps([("x", "")])
    assert [line.index("x") for line in stream.getvalue().splitlines()] == [10, 10, 10]


def test_columns_of_wide_characters_are_aligned(terminal: Terminal, stream: io.StringIO) -> None:
    terminal.aligned([["category=動物", "+.05"], ["category=food 🍞", "-.01"], ["all", ".00"]])
    terminal.next_steps([("ragsweep golden review 問題.jsonl", "x"), ("ragsweep list", "x")])
    columns = {cell_len(line.rpartition(" ")[0]) for line in stream.getvalue().splitlines()[:3]}
    steps = {cell_len(line.rpartition(" ")[0]) for line in stream.getvalue().splitlines()[3:]}
    assert (len(columns), len(steps)) == (1, 1)


def test_a_table_with_a_width_keeps_it_in_a_log(terminal: Terminal, stream: io.StringIO) -> None:
    rows = [["1", " ".join(f"parameter_{n}=1" for n in range(20))]]
    terminal.table([">#", "config"], rows, width=100)
    assert max(map(len, stream.getvalue().splitlines())) <= 100
    assert stream.getvalue().split()[3:] == rows[0][1].split()


@pytest.mark.parametrize("columns", [1, 80, 160])
def test_no_cell_of_a_table_is_cropped_on_a_narrow_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    stream, wide = io.StringIO(), [".97 [.92, 1.00]", "1,234", "17"] * 5
    terminal = Terminal(stream, bars=True)
    assert terminal.width == columns
    header, row = ["category", *(f">metric_{n}" for n in range(15))], ["unanswerable", *wide]
    terminal.table(header, [row])
    terminal.table(["id", "what", ">n"], [["427a8aba", "#4 bm25 top_k=3 late_interaction: context_ndcg .96", "18"]])
    lines = [line.split("   ") for line in re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()).splitlines()]
    assert [text.strip() for text in lines[0] if text.strip()] == [name.removeprefix(">") for name in header]
    assert [text.strip() for text in lines[1] if text.strip()] == row
    whole = "427a8aba   #4 bm25 top_k=3 late_interaction: context_ndcg .96   18"
    assert "   ".join(lines[3]) == whole


def test_the_list_of_sweeps_fits_on_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    stream = io.StringIO()
    row = ["427a8aba", "2026-11-30 05:46", "quarterly-baseline: retriever=bm25,hybrid top_k=3,5,10", "10 of 12",
           "1,234", "#4 bm25 top_k=3: context_ndcg .96", "finished"]  # fmt: skip
    Terminal(stream, bars=True).table(HEADER, [row])
    lines = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()).splitlines()
    assert max(map(len, lines)) <= 80
    assert sorted("".join(lines[1:]).replace(" ", "")) == sorted("".join(row).replace(" ", ""))


@pytest.mark.parametrize("columns", ["abc", "0", "-5", "²", ""])
@pytest.mark.parametrize("bars", [True, False])
def test_a_width_that_is_no_number_above_0_is_the_usual_one(
    columns: str, bars: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    usual = Terminal(io.StringIO(), bars=bars).width
    monkeypatch.setenv("COLUMNS", columns)
    assert Terminal(io.StringIO(), bars=bars).width == usual > 0


def test_notes_on_the_dataset_stand_below_it(terminal: Terminal, stream: io.StringIO) -> None:
    measured = result("a")
    dataset = replace(measured.run.dataset, notes=("4 links not followed", "3 stand-ins"))
    show_result(terminal, changed(measured, dataset=dataset), [])
    lines = [line.strip() for line in stream.getvalue().splitlines()]
    assert lines.index("3 stand-ins") == lines.index("4 links not followed") + 1


def test_long_sentences_are_wrapped_and_repeated_ones_shown_once(
    terminal: Terminal, stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    terminal.block("LIMITS", ["word " * 50, "word " * 50, "short"])
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("LIMITS    word")
    assert all(line.startswith(" " * 10) for line in lines[1:])
    assert len(lines) == 5
    assert sum(line.count("word") for line in lines) == 50


def test_drawn_and_computed_numbers_have_three_digits(terminal: Terminal, stream: io.StringIO) -> None:
    drawn = result("alpha=0.30000000000000004 k1=1.2945842851323215")
    terminal.finished(drawn, 0, 2, ["mrr"])
    terminal.failed(Failure(drawn.name, (), {}, "no luck"), 1, 2)
    show_result(terminal, drawn, ["mrr"])
    assert stream.getvalue().count("alpha=0.3 k1=1.29") == 3
    assert "0000000" not in stream.getvalue()
    assert "1.294" not in stream.getvalue()


def test_job_lines_say_which_of_how_many(terminal: Terminal, stream: io.StringIO) -> None:
    terminal.finished(result("top_k=3"), 0, 2, ["mrr"])
    terminal.failed(Failure("top_k=5", (), {}, "no luck [really]"), 1, 2)
    assert stream.getvalue().splitlines() == [
        "job       1/2 · top_k=3 · mrr .50 · 1.0 s",
        "failed    2/2 · top_k=5 · no luck [really]",
    ]


def test_failed_calls_are_shown_with_what_the_service_said(terminal: Terminal, stream: io.StringIO) -> None:
    meter = UsageMeter()
    for _ in range(2):
        meter.note_failure(CallFailed("http://host/chat failed: status 400: max_tokens is not supported", "refused"))
    terminal.spent(meter)
    assert stream.getvalue().startswith("failed    2 calls refused; the last: http://host/chat failed: status 400")


def test_a_single_config_has_no_column_of_a_metric_that_applies_to_no_question(
    stream: io.StringIO, terminal: Terminal
) -> None:
    one = scored({"ndcg": drawn(0.5), "token_f1": [math.nan] * 40}, {"category": ["a", "b"] * 20})
    for skipped, columns in ((40, 0), (39, 2)):  # the last question failed
        counts = {"n_skipped": skipped, "n_failed": 40 - skipped, "reasons": {NO_ANSWERS: skipped}}
        searched = changed(one, measured={"token_f1": counts}, settings={"by": "category"})
        show_result(terminal, searched, ["ndcg", "token_f1"])
        assert stream.getvalue().count("token_f1") == columns
