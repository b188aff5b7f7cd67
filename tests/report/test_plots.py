"""Pictures show every config and group, and say what they rest on. Their looks were judged by eye."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import matplotlib.figure
import pytest

from ragsweep.core.question_results import QuestionResults
from ragsweep.core.results import DatasetFacts, Result, Run, Summaries, Summary
from ragsweep.report import plots
from ragsweep.stats.answer_outcomes import CoveragePoint
from support.results import changed, compared, one_metric

FACTS = DatasetFacts("python", "c", "g", 79, 150, 110, 40)


def summary(name: str, value: float = 0.5, n: int = 110, unit: str = "", better: bool | None = True) -> Summary:
    return Summary(name, value, value - 0.125, value + 0.125, 150, n, 150 - n, 0, unit, better)


def a_result(name: str, value: float = 0.5, values: tuple[str, ...] = ("factual", "how-to")) -> Result:
    known = {"recall": summary("recall", value), "p95": summary("p95", 9.0, 50, "ms", False)}
    groups = {
        "category": {group: {"recall": summary("recall", value - n / 16, n + 1)} for n, group in enumerate(values)}
    }
    return Result(Run("s", name, (), {}, {}, FACTS, {}), QuestionResults({}), Summaries(known, groups))


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[matplotlib.figure.Figure]:
    """The figures that were drawn, in order."""
    figures: list[matplotlib.figure.Figure] = []
    draw: Callable[..., None] = matplotlib.figure.Figure.draw

    def keep(figure: matplotlib.figure.Figure, renderer: object) -> None:
        if figure not in figures:  # drawn once as PNG, once as SVG
            figures.append(figure)
        draw(figure, renderer)

    monkeypatch.setattr(matplotlib.figure.Figure, "draw", keep)
    return figures


def points(axes: object) -> list[tuple[float, float]]:
    (line,) = [line for line in axes.lines if line.get_marker() == "o"]
    return [(float(x), float(y)) for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]


def test_metric_by_config_has_a_panel_a_metric_and_a_line_a_config(drawn: list[matplotlib.figure.Figure]) -> None:
    picture = plots.metric_by_config([a_result("top_k=3", 0.25), a_result("top_k=5", 0.75)], ["recall", "p95"])
    assert picture.png.startswith(b"\x89PNG")
    assert [f">{text}</text>" in picture.svg.decode() for text in (".75", ".25", "top_k=5")] == [True] * 3
    first, second = drawn[0].axes
    assert (first.get_title(), second.get_title()) == ("recall", "p95")
    assert points(first) == [(0.75, 0), (0.25, 1)]  # the best on top
    assert [text.get_text() for text in first.texts] == [".75", ".25"]
    (bars,) = first.collections
    assert [segment.tolist() for segment in bars.get_segments()] == [[[0.625, 0], [0.875, 0]], [[0.125, 1], [0.375, 1]]]
    assert [label.get_text() for label in first.get_yticklabels()] == ["top_k=5", "top_k=3"]
    assert first.get_xlabel() == "higher is better\nn = 110 of 150"
    assert second.get_xlabel() == "ms, lower is better\nn = 50 of 150"
    assert "95 % interval" in drawn[0].get_supxlabel()


def test_config_that_was_not_measured_says_so(drawn: list[matplotlib.figure.Figure]) -> None:
    plots.metric_by_config([a_result("a"), a_result("b", math.nan), a_result("c")], ["recall"])
    (axes,) = drawn[0].axes
    assert [text.get_text() for text in axes.texts] == [".50", ".50", "not measured"]
    assert float(axes.texts[-1].xy[1]) == 2.0
    assert [y for _, y in points(axes)] == [0, 1]


def test_metric_by_label_has_a_panel_a_group_on_one_scale(drawn: list[matplotlib.figure.Figure]) -> None:
    plots.metric_by_label([a_result("a", 0.25), a_result("b", 0.75)], "recall")
    first, second = drawn[0].axes
    assert (first.get_title(), second.get_title()) == ("factual", "how-to")
    assert first.get_xlim() == second.get_xlim()
    assert first.get_xlabel() == "recall, higher is better\nn = 1 of 150"
    assert drawn[0].get_suptitle() == "recall by category"


def test_groups_that_are_numbers_stand_in_their_order(drawn: list[matplotlib.figure.Figure]) -> None:
    plots.metric_by_label([a_result("a", values=("10", "9", "100"))], "recall")
    assert [axes.get_title() for axes in drawn[0].axes] == ["9", "10", "100"]


def test_groups_beyond_twelve_are_counted_and_the_largest_shown(drawn: list[matplotlib.figure.Figure]) -> None:
    plots.metric_by_label([a_result("a", values=tuple(f"g{n:02}" for n in range(15)))], "recall")
    shown = [axes.get_title() for axes in drawn[0].axes]
    assert shown == [f"g{n:02}" for n in range(3, 15)]
    assert "12 of 15 groups are shown" in drawn[0].get_supxlabel().replace("\n", " ")


def test_group_without_a_score_is_named(drawn: list[matplotlib.figure.Figure]) -> None:
    result = a_result("a")
    empty = {"chat": {"recall": summary("recall", math.nan, 0)}}
    both = {"category": {**result.summaries.groups["category"], **empty}}
    plots.metric_by_label([changed(result, groups=both)], "recall")
    assert [axes.get_title() for axes in drawn[0].axes] == ["factual", "how-to"]
    assert "No question could be scored in: chat" in drawn[0].get_supxlabel().replace("\n", " ")


def test_questions_without_a_label_are_counted(drawn: list[matplotlib.figure.Figure]) -> None:
    result = a_result("a")
    plots.metric_by_label([replace(result, questions=QuestionResults({"category": ["factual", "", None]}))], "recall")
    assert "2 of 3 questions: no category, so not shown." in drawn[0].get_supxlabel().replace("\n", " ")


def test_many_configs_with_long_names_are_all_labelled(drawn: list[matplotlib.figure.Figure]) -> None:
    names = [f"retriever=hybrid_convex,reranker=late_interaction,chunker.size=256,top_k={n}" for n in range(20)]
    plots.metric_by_config([a_result(name) for name in names], ["recall", "p95"])
    labels = [label.get_text() for label in drawn[0].axes[0].get_yticklabels()]
    assert [label.replace("\n", "") for label in labels] == names
    assert max(len(line) for label in labels for line in label.split("\n")) <= 56
    plots.metric_by_config([a_result("x=" + "y" * 400)], ["recall"])
    assert len(drawn[1].axes[0].get_yticklabels()[0].get_text()) < 170


def test_nothing_to_show_is_still_a_picture() -> None:
    assert plots.metric_by_config([], ["recall"]).png.startswith(b"\x89PNG")
    assert plots.metric_by_label([a_result("a")], "recall", "language").png.startswith(b"\x89PNG")


def test_name_with_dollars_is_no_formula(drawn: list[matplotlib.figure.Figure]) -> None:
    plots.metric_by_label([a_result("prompt=$x_{$", values=("$a^{$",))], "recall", "category")
    assert drawn[0].axes[0].get_yticklabels()[0].get_text() == r"prompt=\$x_{\$"


def test_differences_of_an_amount_are_drawn_as_ratios(drawn: list[matplotlib.figure.Figure]) -> None:
    """Right is better: of a latency the smaller ratio, by a reversed axis, with ticks that people read."""
    slow = [100.0 * (1 + n % 7) for n in range(60)]
    rows = {"a": slow, "b": [one / (1.5 + n % 3 / 10) for n, one in enumerate(slow)], "c": [one * 1.2 for one in slow]}
    results = [one_metric(name, row, direction=False, unit="ms") for name, row in rows.items()]
    plots.differences(compared(results, baseline="a"))
    (axes,) = drawn[0].axes
    texts = [label.get_text() for label in axes.get_xticklabels()]
    assert axes.get_xlabel() == "ratio for a typical question over 60 questions; right is better"
    assert texts == ["0.64x", "0.8x", "1x", "1.25x"]
    assert axes.xaxis.get_inverted()
    assert [text.get_text().partition(" [")[0] for text in axes.texts] == ["x 0.63", "x 1.20"]
    assert axes.get_xticks().tolist() == pytest.approx([math.log(float(text[:-1])) for text in texts])


def test_dollar_signs_of_a_prompt_are_no_formula_in_the_legend() -> None:
    half = [CoveragePoint(math.inf, 0, 0.0, math.nan, 0.1, 0.0), CoveragePoint(0.5, 3, 0.6, 0.5, 0.4, 0.0)]
    picture = plots.abstention({"#1 prompt=$\\foo$": half})
    assert ">#1 prompt=$\\foo$: .40</text>" in picture.svg.decode()


@pytest.mark.filterwarnings("error")
def test_letters_that_the_font_lacks_cause_no_warnings() -> None:
    picture = plots.metric_by_config([a_result("prompt=简短地回答")], ["recall"])
    assert ">prompt=简短地回答</text>" in picture.svg.decode()


@pytest.mark.parametrize("family", ["STIXGeneral", "Not Installed"])
def test_letters_that_the_font_lacks_have_another_font_or_a_note(monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    monkeypatch.setattr(plots, "CJK_FONTS", (family,))
    half = [CoveragePoint(math.inf, 0, 0.0, math.nan, 0.1, 0.0), CoveragePoint(0.5, 3, 0.6, 0.5, 0.4, 0.0)]
    for picture in (plots.metric_by_config([a_result("回答")], ["recall"]), plots.abstention({"回答": half})):
        shown = family in (text := picture.svg.decode()), f">{plots.NO_FONT}</text>" in text
        assert shown == ((True, False) if family == "STIXGeneral" else (False, True))
    assert plots.NO_FONT not in plots.metric_by_config([a_result("answer")], ["recall"]).svg.decode()


def test_long_names_of_groups_do_not_overlap(drawn: list[matplotlib.figure.Figure]) -> None:
    groups = ("questions about travel to other countries", "questions about hotels, meals and tips " * 3, "short")
    plots.metric_by_label([a_result("a", values=groups)], "recall", "category")
    boxes = [axes.title.get_window_extent() for axes in drawn[0].axes]
    assert all(one.x1 < other.x0 for one, other in itertools.pairwise(boxes))
