"""The sections on lost evidence and on fusion: they state what ``stats`` found, in every part of the page."""

import json
from dataclasses import replace
from typing import Any

import plotly.graph_objects as go
import pytest

from ragsweep.core.results import Result
from ragsweep.report.page import losses
from ragsweep.report.sweep_report import PageTexts
from ragsweep.stats.fusion_audit import fusion_audit
from support import pages
from support.pages import COUNT, config, figures, painted, section, section_of, source
from support.results import FACTS, changed

RANKS = [(1, 0, 1), (0, 2, 0), (3, 0, 3), (0, 0, 0)]
"""Of each fourth question: the rank in the leg a, in the leg b, and in the fused ranking; top_k is 2."""


def traced(result: Result) -> Result:
    """Give a config the paths of one evidence a question, through two legs and a reranker that changes nothing."""
    rows: list[dict[str, Any]] = []
    for n in range(COUNT - 4):
        a, b, fused = RANKS[n % 4]
        scores = {leg: {"ndcg": result.questions["ndcg"][n] + better} for leg, better in (("a", -0.1), ("b", 0.2))}
        rows.append({"held": [1], "legs": {"a": [a], "b": [b]}, "first": [fused], "ranked": [fused], "top": n % 3,
                     "scores": {"": {"ndcg": result.questions["ndcg"][n]}, **scores}})  # fmt: skip
    texts = [*map(json.dumps, rows), *["{}"] * 4]
    return changed(result, {"evidence_trace": texts}, settings={"top_k": 2, "reranker": {"candidates": 3}})


def document() -> dict[str, Any]:
    return pages.page(source([traced(config(gain, 1, k=k)) for k, gain in (("3", 0.0), ("5", 0.2))]))


def test_each_evidence_is_counted_once_at_the_stage_that_lost_it() -> None:
    bars, table, *_ = section(document(), "losses")
    figure = bars["options"][0]["figure"]
    assert {trace["name"]: trace["x"][0] for trace in figure["data"]} == {
        "in the context": 9, "not among the candidates": 9, "demoted by fusion": 9, "below top_k": 9,
    }  # fmt: skip
    assert [name[:2] for name in figure["data"][0]["y"]] == ["#2", "#1"]  # the best on top
    row = dict(zip(table["header"], table["rows"][0], strict=True))
    assert (row["among the candidates"], row["in the first top_k"]) == ("27 (-9)", "9 (-9)")


def test_changes_of_stages_and_phantom_hits_are_named() -> None:
    _, _, changes, phantoms = section(document(), "losses")
    assert "Fusion demoted 9 pieces of evidence that b had in its first 2" in changes["rows"][0][1]
    assert {row[0][:2] for row in phantoms["rows"]} == {"#1", "#2"}
    assert {row[3] for row in phantoms["rows"]} == {"2.0"}  # above the usual score of relevant first chunks


def test_a_hybrid_stands_beside_its_legs() -> None:
    picture, table, unique = section(document(), "fusion")
    assert [one["label"][:2] for one in picture["options"]] == ["#2", "#1"]
    names = [trace["name"] for trace in picture["options"][0]["figure"]["data"]]
    assert names[:3] == ["a alone", "b alone", "fused"]
    assert names[3].startswith("best leg of each question")
    rows = {(row[0][:2], row[1], row[2]): row for row in table["rows"]}
    assert rows["#2", "all", "b"][-1] == "shown worse"
    assert rows["#2", "all", "a"][-1] == "shown better"
    assert rows["#2", "all", "b"][6].startswith("-.200")
    assert [row[1:] for row in unique["rows"]][:2] == [["a", "9", "9"], ["b", "9", "0"]]


def test_every_leg_of_a_hybrid_is_shown() -> None:
    audit = fusion_audit(traced(config(0.0, 1)))
    assert audit is not None
    each = tuple(replace(audit.differences[0], leg=leg) for leg in "abcde")
    figure = losses.legs(replace(audit, legs=dict.fromkeys("abcde", 0.5), differences=each, slices=()))
    assert [trace["name"][:1] for trace in figure["data"][:5]] == list("abcde")


def test_hybrids_with_the_same_fused_ranking_stand_together() -> None:
    page = pages.page(source([traced(config(0.0, 1, k=k)) for k in ("3", "5")]))
    picture, table, unique = section(page, "fusion")
    assert [one["label"] for one in picture["options"]] == [table["rows"][0][0]]
    assert {name[:2] for name in table["rows"][0][0].split(", ")} == {"#1", "#2"}
    assert len({tuple(row[1:3]) for row in table["rows"]}) == len(table["rows"])
    assert len(unique["rows"]) == 2


def test_their_figures_are_ones_that_plotly_accepts() -> None:
    for figure in figures(document()):
        go.Figure(painted(figure))


def test_questions_have_the_path_of_their_evidence_and_what_lost_it() -> None:
    (found,) = section(document(), "questions")
    assert found["configs"][0]["lost"][:4] == ["", "fusion", "top_k", "retrieval"]
    assert found["configs"][0]["paths"][:2] == [
        ["a 1, b -, before reranking 1, final 1: in the context"],
        ["a -, b 2, before reranking -, final -: lost by fusion"],
    ]
    assert found["configs"][0]["paths"][-1] == []  # no evidence


def test_texts_of_chunks_are_on_the_page_once_and_cut_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    results = [config(gain, 1, k=k) for k, gain in (("3", 0.0), ("5", 0.2))]
    texts = PageTexts(chunks={FACTS.corpus_digest: lambda name: f"text of {name}"})
    page = pages.page(source(results, texts=texts))
    (found,) = section(page, "questions")
    assert found["texts"] == [f"text of {name}" for name in found["chunks"]]
    assert len(found["texts"]) == len(set(found["texts"])) == 2 * COUNT
    assert found["leftOut"] == ""
    monkeypatch.setattr("ragsweep.report.page.questions.MOST_TEXT", len("text of a:0") * 3)
    (cut,) = section_of(results, "questions", texts=texts)
    assert (len(cut["texts"]), cut["leftOut"][:27]) == (3, "The texts of 77 chunks are ")
    (without,) = section_of(results, "questions")
    assert (without["texts"], "corpus is missing" in without["leftOut"]) == ([], True)
