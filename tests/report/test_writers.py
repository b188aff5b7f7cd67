"""A document has the same content in each of its forms."""

import io
import json
import math
from argparse import Namespace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.commands.command_line import print_document, write_document
from ragsweep.core.errors import InputError
from ragsweep.core.secrets import Secrets
from ragsweep.report.document import (
    Charts,
    Document,
    Section,
    Statement,
    Statements,
    Table,
    Widget,
    lines,
    notes,
    paragraphs,
    texts,
)
from ragsweep.report.terminal import Terminal
from ragsweep.report.writers.html import as_html, page_data
from ragsweep.report.writers.markdown import as_markdown

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
NEXT = Statements([Statement("ragsweep show x", "its settings")], "commands", "Next")


def printed(document: Document) -> str:
    stream = io.StringIO()
    Terminal(stream, bars=False).show(document)
    return stream.getvalue()


def items(*blocks: object) -> list[dict[str, object]]:
    document = Document("t", [Section(list(blocks), "s", "k")], {"format": "f/1"})
    return [item for section in page_data(document, Secrets())["sections"] for item in section["items"]]


def test_terminal_and_markdown_have_every_statement_and_row_in_order() -> None:
    table = Table(("metric", ">value"), [("ndcg", ".61"), ("mrr", ".50")], note="legend", headed=False)
    document = Document(
        "gate: pass",
        [
            Section([lines(Statement("gate", "pass: b")), table, notes(Statement("note", "two of three"))]),
            Section([paragraphs("CHOICE", Statement("", "One."), [Statement("", "Two.")]), NEXT], "Result"),
        ],
    )
    order = ["pass: b", "ndcg", ".61", "mrr", "two of three", "One.", "Two.", "ragsweep show x"]
    for text in (printed(document), as_markdown(document)):
        places = [text.index(one) for one in order]
        assert places == sorted(places)
    written = as_markdown(document)
    assert written.startswith("### gate: pass\n")
    assert "- gate: pass: b\n" in written
    assert "| metric | value |\n| --- | --- |\n| ndcg | .61 |\n" in written
    assert "**Choice.** One. Two.\n" in written
    assert "#### Result\n" in written
    assert [one.label for one in document.statements] == ["gate", "note", "CHOICE", "CHOICE", "ragsweep show x"]


def test_tables_of_details_are_left_to_the_forms_that_are_read_at_leisure() -> None:
    document = Document("t", [Section([Table(("slice",), [("concept",)], detail=True)])])
    assert "concept" not in printed(document)
    assert "concept" in as_markdown(document)


def test_statements_repeated_below_one_label_are_written_once() -> None:
    document = Document("", [Section([paragraphs("FIX", [Statement("", "Again.")] * 2)])])
    assert printed(document).count("Again.") == as_markdown(document).count("Again.") == 1
    assert items(*document.sections[0].blocks) == [{"kind": "blocks", "rows": [["Fix", ["Again."]]]}]


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=4))
def test_no_text_breaks_out_of_its_line_or_cell_in_markdown(pairs: list[tuple[str, str]]) -> None:
    document = Document("", [Section([lines(Statement(*pair) for pair in pairs), Table(("a", "b"), pairs)])])
    bullets, _, table = as_markdown(document).partition("\n\n")
    assert len(bullets.splitlines()) == len(pairs)
    rows = table.splitlines()
    assert len(rows) == len(pairs) + 2
    assert {row.replace("\\|", "").count("|") for row in rows} == {3}


def test_json_has_the_facts_and_nothing_that_json_has_not(capsys: pytest.CaptureFixture[str]) -> None:
    document = Document("t", [Section([lines(Statement("a", "b"))])], {"x": math.nan, "y": (1, Path("p"))})
    print_document(document, Namespace(json=True))
    written = capsys.readouterr().out
    assert json.loads(written) == {"x": None, "y": [1, "p"]}
    assert written.endswith("}\n")


def test_page_sorts_by_the_numbers_behind_the_cells_or_else_by_their_text() -> None:
    rows = [("#1", ".61 [.5, .7]", "b"), ("#2", "-", "A"), ("#3", "x 1.5", "9 ms")]
    (plain,) = items(Table(("config", ">ndcg", "word"), rows))
    assert plain["keys"] == [["#1", 0.61, "b"], ["#2", None, "a"], ["#3", 1.5, 9.0]]
    assert (plain["header"], plain["right"]) == (["config", "ndcg", "word"], [False, True, False])
    values = [(1.0, None, None), (2.0, None, None), (3.0, 0.25, None)]
    (valued,) = items(Table(("config", ">ndcg", "word"), rows, values=values, marked=[True, False, False]))
    assert valued["keys"] == [[1.0, 0.61, "b"], [2.0, None, "a"], [3.0, 0.25, 9.0]]
    assert valued["marked"] == [True, False, False]


def test_page_sorts_dates_by_time_and_puts_p_values_below_a_bound_first() -> None:
    rows = [
        ("2026-11-29 09:35", "2026-W48", "p .500"),
        ("2026-02-01 23:59", "2026-W05", "p < .001"),
        ("2025-12-31 00:00", "2026-W01", "p 1.000"),
        ("-", "", "p -"),
    ]
    (table,) = items(Table(("when", "week", "Wilcoxon"), rows))
    when, week, p = (list(column) for column in zip(*table["keys"], strict=True))
    assert when == ["2026-11-29 09:35", "2026-02-01 23:59", "2025-12-31 00:00", None]
    assert week == ["2026-w48", "2026-w05", "2026-w01", None]
    assert p == [0.5, 0.0, 1.0, None]


def test_page_leaves_out_empty_blocks_and_sections_and_masks_secrets() -> None:
    assert items(lines(), notes([]), Charts([{"label": "", "figure": {}}]), Widget({"kind": "browser"})) == [
        {"kind": "charts", "title": "", "note": "", "options": [{"label": "", "figure": {}}]},
        {"kind": "browser"},
    ]
    assert items(lines()) == []
    secret = "sk-0123456789abcdef"
    document = Document("t", [Section([lines(Statement("key", f"api_key={secret}"))], "s", "k")])
    secrets = Secrets()
    secrets.add(secret, named=True)
    assert secret.encode() not in as_html(document, secrets)


def test_file_that_cannot_be_written_is_an_error_with_its_path(tmp_path: Path) -> None:
    write_document(tmp_path / "new" / "a.json", "{}")
    assert (tmp_path / "new" / "a.json").read_text() == "{}"
    with pytest.raises(InputError, match=r"a\.json.b: cannot be written"):
        write_document(tmp_path / "new" / "a.json" / "b", "{}")


def test_texts_of_statements() -> None:
    assert texts([Statement("a", "b", {"n": 1}), Statement("", "c")]) == ["b", "c"]
