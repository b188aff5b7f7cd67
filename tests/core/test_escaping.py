"""A text from outside has no effect on a terminal, in Markdown or in a spreadsheet, and no text is lost."""

import json
import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ragsweep.core.escaping import harmless_cell, markdown_text, original_cell, printable, visible

acting = st.text(st.sampled_from("=+-@\t\r'1x.e"), max_size=6)


@given(st.text())
def test_visible_text_has_no_control_character_and_is_the_same_in_json(text: str) -> None:
    assert {one for one in visible(text) if unicodedata.category(one) == "Cc"} <= {"\t", "\n"}
    assert json.loads(visible(json.dumps(text, ensure_ascii=False))) == text


def test_progress_may_return_to_the_start_of_its_line_without_styles() -> None:
    assert printable("\r\x1b[1;32m50 %\x1b[0m\x1b[2K") == "\r50 %\\u001b[2K"


@pytest.mark.parametrize(
    "text",
    [
        "![x](http://e.example/b.png)", "[click](http://e.example)", "\\[a](b)", "<img src=x>", "&lt;b>", "a | b",
        "`code`", "**loud**", "~~gone~~", "__init__.py (4)", "_x_ a_b_ (_c_)._d_ e__f",
        "[a][b] [b]: http://e.example", ".5 [.4, .6] ~/x", "$x$ and $$y$$",
    ],
)  # fmt: skip
def test_markdown_shows_the_text_itself(text: str) -> None:
    renderer = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    shown = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert renderer.render(f"x {markdown_text(text)}") == f"<p>x {shown}</p>\n"
    assert not re.search(r"(?<!\\)\$", markdown_text(text))  # which GitHub takes for a formula


def test_name_of_a_metric_stays_readable_in_markdown() -> None:
    assert markdown_text("context_ndcg of top_k=3") == "context_ndcg of top_k=3"


@given(st.text("_a. (é1", max_size=12))
@example("_a_")
def test_underscores_are_no_markup(text: str) -> None:
    assert MarkdownIt("commonmark").render(f"({markdown_text(text)})") == f"<p>({' '.join(text.split())})</p>\n"


def test_mention_of_an_account_is_none() -> None:
    assert markdown_text("@everyone, ndcg@10 [.4, .6] and @ c\nd") == "@&#8203;everyone, ndcg@10 [.4, .6] and @ c d"


@given(acting | st.text())
@example("'=1+1")
def test_cell_is_no_formula_and_is_read_back(text: str) -> None:
    written = harmless_cell(text)
    assert original_cell(written) == text
    if str(written).startswith(("=", "+", "-", "@", "\t", "\r")):
        float(written)


@pytest.mark.parametrize("value", [-5, "-5", "+1e3", 0.5, None, True, "plain", "'quoted'"])
def test_number_and_plain_text_stay(value: object) -> None:
    assert harmless_cell(value) == value
