"""The document behind the page: what each section states, and when it is left out."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ragsweep.core.results import PARTIAL, Failure, Result, TargetResult
from ragsweep.report.document import Table
from ragsweep.report.naming import own_settings, short
from ragsweep.report.page.charts import quality_against
from ragsweep.report.page.details import numbers_of_results, scores_of_context, scores_of_first
from ragsweep.report.page.effect_charts import UNSET, Cloud, ParameterMeans, _heights, effect, effects, swept_within
from ragsweep.report.page.view import PageView
from ragsweep.report.race import race_lines
from ragsweep.report.sweep_document import TOGETHER, description_document, sweep_document
from ragsweep.report.sweep_report import PastSweep, SweepReport
from ragsweep.report.tables import moment
from ragsweep.report.writers.markdown import as_markdown
from ragsweep.stats.compare_configs import compare_configs
from ragsweep.stats.conclude import conclude
from ragsweep.stats.conclusion import SweepConclusion
from ragsweep.stats.curves import curve_of_best
from support import pages
from support.pages import COUNT, HOSTILE, config, figures, grid, painted, section, section_of, source, titled
from support.results import changed, scored, summarised

GAINS = {"3": 0.0, "5": 0.2, "10": 0.2001}


def curve(page: SweepReport, name: str) -> ParameterMeans | Cloud:
    assert page.conclusion.compared
    found = effects(page.conclusion.compared, {one.name: own_settings(one) for one in page.results})
    return next(one for one in found if one.name == name)


def test_sections_stand_in_order_and_those_without_data_are_left_out() -> None:
    whole = [one["id"] for one in pages.page(source(grid(GAINS)))["sections"]]
    shown = "asked result configs differences quality effects slices questions details"
    assert " ".join(whole) == shown
    bare = pages.page(source([scored({"ndcg": [0.5] * COUNT}, name="b=1")], conclusion=SweepConclusion(), commands=()))
    assert [one["id"] for one in bare["sections"]] == ["asked", "configs", "questions", "details"]
    lost = pages.page(SweepReport("lost", [], [Failure("#1 b=1", (), {}, "it broke")]))
    assert [one["id"] for one in lost["sections"]] == ["details"]
    assert section(lost, "details")[0]["rows"] == [["#1 b=1", "it broke"]]


def test_a_cost_is_plotted_if_two_measured_configs_differ_in_it() -> None:
    unmeasured = [
        scored({"ndcg": [math.nan] * COUNT, "latency_p95_ms": [n] * COUNT}, name=f"#{n} k={n}") for n in (1.0, 2.0)
    ]
    found = [scored({"ndcg": [0.5] * COUNT}, name="#3 k=3"), *unmeasured]
    assert section_of(found, "quality") == []


def test_a_config_without_scores_of_some_questions_beats_no_other() -> None:
    """Its mean may be high because the hard questions failed; it is a point, but not on the line of the best."""
    base, best, part = config(0, 100, k="1"), config(0.1, 200, k="2"), config(0.2, 150, k="3")
    part = changed(part, state=PARTIAL, measured={"ndcg": {"coverage": 0.5}})
    line, *points = quality_against([base, best, part], "ndcg", "context_tokens", {})["data"]
    assert line["x"] == pytest.approx([100, 200])
    assert sorted(x for trace in points for x in trace["x"]) == pytest.approx([100, 150, 200])


def test_shortened_lists_say_how_much_of_the_whole_they_show() -> None:
    report = source([config(0.002 * n, 100, k=str(n)) for n in range(42)])
    document = pages.page(report)
    assert section(document, "differences")[1]["note"].endswith(" The best 40 of 42 configs are shown.")
    assert section(document, "slices")[0]["note"].endswith(" 20 of 42 configs are shown.")
    assert section(document, "questions")[0]["leftOut"].endswith(" 8 of 42 configs are shown.")
    (table,) = (one for one in description_document(report).sections[0].blocks if isinstance(one, Table))
    assert (len(table.rows), table.note) == (10, "10 of 42 configs are shown.")
    few = source(grid(GAINS))
    assert "shown." not in section(pages.page(few), "slices")[0]["note"]
    assert "shown." not in section(pages.page(few), "questions")[0]["leftOut"]
    assert as_markdown(description_document(few)).count("configs are shown") == 0


def test_every_figure_is_one_that_plotly_accepts() -> None:
    import plotly.graph_objects as go

    grids, search = source(grid(GAINS)), source(grid(GAINS), sampler="tpe")
    changes = source([config(0, 1, k="1", b="1"), config(0.1, 1, k="2", b="1"), config(-0.1, 2, k="1", b="2")])
    past = [PastSweep(str(n), "k", 1e9 + n, 6, HOSTILE, grids.results[0].summaries.metrics["ndcg"]) for n in range(2)]
    assert section(pages.page(replace(grids, history=past[:1])), "history") == []
    grids = replace(grids, history=past)
    embedders = source([embedded("small", 0.0, 0.0), embedded("large", 0.2, 300.0)])
    found = [figure for one in (grids, search, changes, embedders) for figure in figures(pages.page(one))]
    assert len(found) > 15
    for figure in found:
        go.Figure(painted(figure))
    json.dumps(found, allow_nan=False)


def test_the_digests_of_all_corpora_are_stated() -> None:
    first, second = (config(0, 1, k=k) for k in "12")
    other = changed(second, dataset=replace(second.run.dataset, corpus_digest="e" * 64))
    shown = [section_of(results, "details")[-1] for results in ([first, other], [first, second])]
    assert [one["rows"][0] for one in shown] == [["Corpus", f"{'c' * 64}, {'e' * 64}"], ["Corpus", "c" * 64]]


def test_a_target_that_the_baseline_lacks_has_a_row() -> None:
    names = (["mrr"], ["mrr", "ndcg"])
    configs = [
        changed(config(0, 1, k=str(n)), targets=tuple(TargetResult(name, "pass", 0.5, 0.25) for name in targets))
        for n, targets in enumerate(names)
    ]
    table = titled(section_of(configs, "details", baseline=1), "Targets")
    assert table["header"] == ["metric", "#1 k=0", "#2 k=1"]
    assert table["rows"][1:] == [["ndcg", "-", ".50 pass (target .25)"]]


def test_all_configs_are_in_the_table_and_sort_by_the_numbers_themselves() -> None:
    page = source(grid(GAINS))
    (table,) = section(pages.page(page), "configs")
    assert [keys[0] for keys in table["keys"]] == [int(row[0]) for row in table["rows"]]
    assert sorted(keys[0] for keys in table["keys"]) == list(range(1, 7))
    values = {int(one.name[1]): one.summaries.metrics["ndcg"].value for one in page.results}
    column = table["header"].index("ndcg")
    assert [keys[column] for keys in table["keys"]] == [values[keys[0]] for keys in table["keys"]]
    assert [keys[table["header"].index("k")] for keys in table["keys"]][:2] == [10, 10]  # numbers, and the best first
    marked = [f"#{row[0]}" for row, is_marked in zip(table["rows"], table["marked"], strict=True) if is_marked]
    assert page.conclusion.chosen
    assert marked == [page.conclusion.chosen[:2]]


def test_the_curve_of_a_crossed_number_averages_over_the_rest_and_says_where_it_is_flat() -> None:
    found = curve(source(grid(GAINS)), "k")
    assert isinstance(found, ParameterMeans)
    assert found.numbers == (3.0, 5.0, 10.0)  # as numbers, not as texts
    assert found.mean == pytest.approx([0.5, 0.7, 0.7001])
    assert (found.low < found.mean).all()
    assert (found.mean < found.high).all()
    noisy = [_shaken(one, n) for n, one in enumerate(grid(GAINS))]
    flat = curve(source(noisy), "k")
    assert isinstance(flat, ParameterMeans)
    assert flat.may_be_best.tolist() == [False, True, True]


def test_a_value_beyond_a_worse_one_may_be_the_best_in_a_curve_of_one_option_too() -> None:
    gains = {"0": 0.0, "0.5": -0.3, "1": 0.0}
    ranked = [_shaken(config(gain, 1, alpha=value), n) for n, (value, gain) in enumerate(gains.items())]
    (found,) = swept_within(ranked, "ndcg", ())
    assert found.may_be_best.tolist() == [True, False, True]


@pytest.mark.parametrize("seed", [2, 4])
def test_the_values_of_a_single_parameter_may_be_the_best_if_their_configs_may(seed: int) -> None:
    """The verdict also compares with the baseline, and divides the error between this comparison and all pairs."""
    draws = np.random.default_rng(seed)
    base = draws.normal(0.5, 0.1, 100)
    rows = {str(k): base + draws.normal(0.012 * k, 0.1, 100) for k in range(1, 6)}
    report = source([scored({"ndcg": row.tolist()}, name=f"k={k}", overrides=(f"k={k}",), parameters={"k": k})
                     for k, row in rows.items()], baseline=1)  # fmt: skip
    found, verdict = curve(report, "k"), report.conclusion.compared
    assert isinstance(found, ParameterMeans)
    assert verdict
    assert found.may_be_best.tolist() == verdict.may_be_best.tolist()
    (note,) = (one["note"] for one in section(pages.page(report), "effects")[0]["options"])
    first = next(k for k in range(5, 0, -1) if k == 1 or not found.may_be_best[k - 2])
    assert f"{first} to 5 are not shown to be worse" in note


def test_a_large_number_is_written_in_full_on_its_curve() -> None:
    sizes = {"1048576": 0.0, "2097152": 0.1, "4194304": 0.2}
    ranked = [_shaken(config(gain, 1, size=value), n) for n, (value, gain) in enumerate(sizes.items())]
    (found,) = swept_within(ranked, "ndcg", ())
    assert found.values == tuple(sizes)
    notes = [one["note"] for one in section_of(ranked, "effects")[0]["options"]]
    assert any("size 4194304" in note for note in notes)


def _shaken(result: Result, seed: int) -> Result:
    """Add noise of its own to the scores of a config."""
    noise = np.random.default_rng(seed).normal(0, 0.02, COUNT).tolist()
    scores = [one + more for one, more in zip(result.questions["ndcg"], noise, strict=True)]
    return changed(result, {"ndcg": scores},
                   metrics={**result.summaries.metrics, "ndcg": summarised("ndcg", scores)})  # fmt: skip


def test_long_values_of_the_same_short_form_have_their_own_rows() -> None:
    start, end = "You are a careful assistant. Answer ", " and cite the passages. Always give an answer."
    prompts = [f"{start}{how}{end}" for how in ("briefly in English", "at length in French")]
    assert short(prompts[0]) == short(prompts[1])
    ranked = [_shaken(config(n / 5, 1, prompt=value), n) for n, value in enumerate([*prompts, "none"])]
    figure = effect(curve(source(ranked), "prompt"), "ndcg", "")
    assert sorted(figure["data"][0]["y"]) == [f"{short(prompts[0])} (1)", f"{short(prompts[0])} (2)", "none"]


def test_a_number_that_is_not_crossed_with_the_rest_has_no_curve() -> None:
    """k=5 was run with b=2 only: a mean over its configs would be an effect of b as well."""
    found = curve(source([config(0, 1, k="3", b="1"), config(0.1, 1, k="3", b="2"), config(0.2, 1, k="5", b="2")]), "k")
    assert isinstance(found, Cloud)
    assert sorted(found.numbers) == [3.0, 3.0, 5.0]


def test_a_config_that_leaves_a_parameter_at_its_default_is_a_point_of_the_curve() -> None:
    first = changed(config(0, 1, k="3"), overrides=(), name="defaults")
    page = source([first, config(0.1, 1, k="5"), config(0.2, 1, k="10")])
    (shown,) = section(pages.page(page), "effects")
    assert shown["options"][0]["figure"]["data"][1]["x"] == [3.0, 5.0, 10.0]
    search = source([first, config(0.1, 1, k="5", b="1"), config(0.2, 1, k="10", b="2")], sampler="tpe")
    lines, _ = section(pages.page(search), "effects")
    ticks = [note["text"] for note in lines["options"][0]["figure"]["layout"]["annotations"]]
    assert ticks[:3] == ["3", "5", "10"]
    assert ticks.count("not set") == 1  # b, which the first config does not have


def test_options_with_parameters_of_their_own_are_compared_as_one_parameter() -> None:
    """k1 belongs to bm25 alone: it changes with the option, so it is not listed as a separate effect."""
    first, other = config(0, 1, retriever="bm25"), config(0.2, 1, retriever="vector")
    parameters = {"retriever": "bm25", "retriever.k1": "2"}
    first = changed(first, parameters=parameters, overrides=("retriever=bm25", "retriever.k1=2"))
    (shown,) = section_of([first, other], "effects")
    assert [one["label"] for one in shown["options"]] == ["retriever"]


def test_parallel_axes_are_to_scale_and_show_what_is_not_set() -> None:
    heights, ticks = _heights(["1", "", "5", "2"])
    assert heights == pytest.approx([0, UNSET, 1, 0.25])
    assert [text for text, _ in ticks] == ["1", "2", "5", "not set"]
    assert _heights(["a", "c", "b"])[0] == [0, 0.5, 1]


def test_an_ablation_is_a_tornado_and_a_search_has_parallel_coordinates() -> None:
    changes = [config(0, 1, k="1", b="1"), config(0.01, 1, k="2", b="1"), config(-0.3, 2, k="1", b="2")]
    (tornado,) = section_of(changes, "effects", baseline=1)
    trace = tornado["options"][0]["figure"]["data"][0]
    assert trace["type"] == "bar"
    assert trace["y"] == ["#3 b 1 -&gt; 2", "#2 k 1 -&gt; 2"]  # the largest change on top, no baseline
    assert trace["x"] == pytest.approx([-0.3, 0.01])
    lines, curves = section_of(grid(GAINS), "effects", sampler="tpe")
    assert "line" in lines["note"]
    assert [one["label"] for one in curves["options"]] == ["k", "b"]


def on_two_golden_sets() -> SweepReport:
    """Make a sweep over two golden sets with equal ids: the better one has a label of its own."""
    worse, better = config(0.0, 500, k="3"), config(0.2, 500, k="5")
    scores = better.questions["ndcg"]
    groups = {"topic": {"a": {"ndcg": summarised("ndcg", scores[:20])}, "b": {"ndcg": summarised("ndcg", scores[20:])}}}
    columns = {name: better.questions[name] for name in better.questions if name != "category"}
    columns |= {"question": ["other"] * COUNT, "topic": ["a"] * 20 + ["b"] * 20}
    other = replace(better.run.dataset, golden_digest="e" * 64)
    return source([worse, changed(better, groups=groups, questions=columns, dataset=other)])


def test_configs_on_other_questions_have_no_column_beside_the_questions_of_the_first() -> None:
    (found,) = section(pages.page(on_two_golden_sets()), "questions")
    assert (found["questions"][1], [one["name"] for one in found["configs"]]) == ("other", ["#2 k=5"])
    assert found["leftOut"].endswith("1 of 2 configs are shown. Configs with other questions are left out.")


def test_the_labels_of_every_golden_set_are_slices() -> None:
    charts = section(pages.page(on_two_golden_sets()), "slices")
    assert [[one["label"] for one in each["options"]] for each in charts] == [["topic", "category"]] * 2


def test_questions_without_a_label_are_counted_below_its_slices() -> None:
    whole = config(0.2, COUNT, k="5")
    labels = ["", "", *whole.questions["category"][2:]]
    for one, end in (
        (whole, "differences."),
        (changed(whole, {"category": labels}), f"differences. 2 of {COUNT} questions: no category, so not shown"),
    ):
        charts, boxes = section(pages.page(source([config(0.0, COUNT, k="3"), one])), "slices")
        assert [option["note"].endswith(end) for option in charts["options"]] == [True]
        lacks = f"2 of {COUNT} questions: no category, so not shown"
        assert [lacks in option["note"] for option in boxes["options"]] == [lacks in end]


def test_questions_have_the_baseline_first_and_few_configs_with_their_chunks() -> None:
    page = source(grid({str(n): n / 50 for n in range(1, 7)}), baseline=1)
    (found,) = section(pages.page(page), "questions")
    assert len(found["configs"]) == 8 < len(page.results)
    assert found["configs"][0]["role"] == "baseline"
    assert found["configs"][0]["name"].startswith("#1 ")
    chosen = found["configs"][3]
    assert [found["chunks"][n] for n in chosen["contexts"][7]] == ["a:7", "b:7"]
    own = next(one for one in page.results if one.name == chosen["name"])
    assert chosen["scores"]["ndcg"] == pytest.approx(own.questions["ndcg"], rel=1e-3)
    assert len(found["questions"]) == found["asked"] == COUNT


def test_scores_of_first_chunks_are_divided_by_where_the_evidence_is() -> None:
    result = config(0, 1, k="1")
    sizes = {trace["name"]: len(trace["x"]) for trace in scores_of_first(result)["data"]}
    ranks = result.questions["first_evidence_rank"][: COUNT - 4]
    assert sizes == {"evidence in the context": sum(rank > 0 for rank in ranks), "evidence missed": ranks.count(0),
                     "no evidence exists": 4}  # fmt: skip


def test_scores_of_all_chunks_and_numbers_of_results_are_on_the_page_where_they_vary() -> None:
    one, two = config(0, 1, k="1"), config(0.2, 1, k="2")
    context_scores = [[0.9, 0.5], [0.75], [], *([[1.0, 0.25]] * (COUNT - 3))]
    more = {"context_scores": context_scores, "retrieved": [math.nan, 0, 3, *([2] * (COUNT - 3))]}
    one, two = changed(one, more), changed(two, {"retrieved": [100] * COUNT})
    first, further = scores_of_context(one)["data"]
    assert sorted(first["x"]) == [0.75, 0.9, *([1.0] * (COUNT - 3))]
    assert sorted(further["x"]) == [*([0.25] * (COUNT - 3)), 0.5]
    (counts,) = numbers_of_results(one)["data"]
    assert sorted(counts["x"]) == [0, *([2] * (COUNT - 3)), 3]
    assert counts["xbins"] == {"start": -0.5, "end": 4, "size": 1}
    titles = {item["title"]: len(item["options"]) for item in section_of([one, two], "details")
              if item["kind"] == "charts"}  # fmt: skip
    assert titles == {"Scores of the first chunk": 2, "Scores of all chunks of the context": 1, "Numbers of results": 1}


def test_configs_that_differ_only_in_the_length_of_the_context_have_their_own_histograms() -> None:
    short, long = config(0, 1, k="1"), config(0, 1, k="2")
    long = changed(long, {"context": [[]] * COUNT})
    charts = titled(section_of([short, long, config(0, 1, k="3")], "details"), "Scores of the first chunk")
    assert len(charts["options"]) == 2


def test_a_question_that_failed_is_neither_found_nor_missed() -> None:
    given = config(0, 1, k="1")
    ranks = [math.nan, *map(float, given.questions["first_evidence_rank"][1:])]
    result = changed(given, {"first_evidence_rank": ranks})
    sizes = {trace["name"]: len(trace["x"]) for trace in scores_of_first(result)["data"]}
    assert sum(sizes.values()) == COUNT - 1
    (found,) = section_of([result], "questions")
    assert found["configs"][0]["ranks"] == [None, *ranks[1:]]


def test_every_number_has_a_curve_where_each_is_swept_within_its_own_option() -> None:
    """As in sweeps/fusion_grid.yaml: each config is a single change to the declared baseline."""
    pairs = [("rrf", "k", value) for value in ("20", "60", "80")]
    pairs += [("convex", "alpha", value) for value in ("0", "0.5", "1", "0.25")]
    results = [config(0.01 * n, 1, **{"retriever": option, f"retriever.{key}": value})
               for n, (option, key, value) in enumerate(pairs)]  # fmt: skip
    tornado, curves = section_of(results, "effects", baseline=2)
    assert len(tornado["options"]) == 1
    shown = {one["label"]: one["figure"]["data"][1]["x"] for one in curves["options"]}
    assert shown == {"k": [20.0, 60.0, 80.0], "alpha": [0.0, 0.25, 0.5, 1.0]}
    assert all(one["note"].startswith("Best in sample: ") for one in curves["options"])


def test_a_curve_over_few_documents_is_not_cross_validated() -> None:
    rows = [_shaken(config(0.01 * n, 1, top_k=f"{n}"), n) for n in (1, 2, 3)]
    few = [changed(one, {"source": [f"d{n % 3}" for n in range(COUNT)]}) for one in rows]
    (curves,) = section_of(few, "effects")
    assert "Too few independent questions for cross-validation. " in curves["options"][0]["note"]


def test_an_index_has_recall_search_time_and_build_time_over_each_of_its_numbers() -> None:
    results = [config(0, 1, **{"retriever.index.m": m, "retriever.index.ef": ef}) for m, ef in
               (("4", "10"), ("16", "10"), ("8", "10"), ("16", "40"), ("16", "20"))]  # fmt: skip
    found = [_shaken(changed(one, indexes={"index": {"seconds": n + 1.0, "bytes": 1}},
                             latency={"retrieve": {"p50_ms": 10.0 + n, "p95_ms": 20.0}}), n)
             for n, one in enumerate(results)]  # fmt: skip
    *_, costs = section_of(found, "effects")
    assert costs["title"] == "What an index costs"
    shown = {one["label"]: one["figure"]["data"] for one in costs["options"]}
    assert [panel["x"] for panel in shown["m"]] == [[4.0, 8.0, 16.0]] * 3
    assert [panel["y"] for panel in shown["m"][1:]] == [[10.0, 12.0, 11.0], [1.0, 3.0, 2.0]]
    assert [panel["y"] for panel in shown["ef"][1:]] == [[11.0, 14.0, 13.0], [2.0, 5.0, 4.0]]


def test_the_latency_of_answers_is_said_to_be_that_of_the_original_calls() -> None:
    def note(*stages: str) -> str:
        measured = changed(config(0, 1), latency={one: {"p50_ms": 1.0, "p95_ms": 2.0} for one in stages})
        return str(titled(section_of([measured], "details"), "Latency by stage")["note"])

    assert "Times of generate and query are from the original calls" in note("retrieve", "generate")
    assert note("retrieve") == "Milliseconds per question, one at a time, after a warm-up."


def embedded(embedder: str, gain: float, seconds: float, **settings: str) -> Result:
    """A config whose embedder took so many seconds for 600 chunks, 0 if unknown, and 4 ms for a question."""
    found = config(gain, 1, embedder=embedder, **settings)
    recall = {"context_recall": replace(found.summaries.metrics["ndcg"], value=0.5 + gain, low=0.4, high=0.9)}
    node = {"_target_": embedder}
    return changed(found, metrics=found.summaries.metrics | recall,
                   settings={"embedder": node, "retriever": {"embedder": node}},
                   parameters={**found.run.parameters, f"embedder.only_{embedder}": "1"},
                   stages={"embed": {"executed": 0, "seconds": 0.0, "first_seconds": seconds, "chunks": 600}},
                   latency={"embed_queries": {"p50_ms": 3.0, "p95_ms": 9.0},
                            "retrieve": {"p50_ms": 1.0, "p95_ms": 9.0}})  # fmt: skip


def costs_of_embedders(*results: Result) -> dict[str, Any]:
    *_, costs = section_of(results, "effects")
    assert costs["title"] == "What an embedder costs"
    (option,) = costs["options"]
    return option["figure"]


def test_an_embedder_has_recall_with_its_interval_time_of_a_question_and_time_to_build() -> None:
    other = embedded("other", 0.1, 9.0, top_k="3")
    figure = costs_of_embedders(embedded("small", 0.0, 0.2), embedded("large", 0.2, 300.0), other)
    recall, question, build = figure["data"]
    assert [panel["x"] for panel in figure["data"]] == [["small", "large"]] * 3  # those that differ in nothing else
    assert recall["y"] == pytest.approx([0.5, 0.7])
    assert recall["error_y"]["array"] == pytest.approx([0.4, 0.2])
    assert recall["error_y"]["arrayminus"] == pytest.approx([0.1, 0.3])
    assert question["y"] == [4.0, 4.0]  # of both stages
    assert build["y"] == [0.2, 300.0]  # when they were made, and not what this sweep spent
    assert [text.strip() for text in build["text"]] == ["0.20 s, 3,000 chunks/s", "5 min, 2.0 chunks/s"]
    assert figure["layout"]["yaxis3"]["type"] == "log"
    assert figure["layout"]["annotations"] == []


def test_a_time_to_build_that_is_unknown_is_said_to_be_so() -> None:
    figure = costs_of_embedders(embedded("small", 0.0, 0.0), embedded("large", 0.0, 300.0))  # of one quality, too
    assert figure["data"][2]["y"] == [None, 300.0]
    (note,) = figure["layout"]["annotations"]
    assert (note["x"], note["yref"], note["text"]) == ("small", "y3 domain", "unknown")


def test_a_number_of_an_embedder_is_a_curve() -> None:
    shortened = [changed(embedded("small", 0.0, size - 10), parameters={"embedder.dimensions": f"{size}"})
                 for size in (1000, 100, 10)]  # fmt: skip
    figure = costs_of_embedders(*shortened)
    assert [(panel["x"], panel["mode"]) for panel in figure["data"]] == [([10.0, 100.0, 1000.0], "lines+markers")] * 3
    assert figure["layout"]["xaxis"]["type"] == "log"
    assert [one["x"] for one in figure["layout"]["annotations"]] == [1.0]  # the logarithm of 10, of unknown time


def test_a_number_that_the_best_config_leaves_alone_has_a_curve_too() -> None:
    """As in a sweep of one number after the other: the best is on the curve of ef, m was swept elsewhere."""
    pairs = (("16", "10"), ("16", "20"), ("16", "40"), ("4", "99"), ("8", "99"), ("16", "99"))
    results = [config(0.3 - 0.01 * n, 1, m=m, ef=ef) for n, (m, ef) in enumerate(pairs)]
    found = {one.parameter: one.points for one in (curve_of_best(results, key, "ndcg") for key in ("m", "ef")) if one}
    values = {key: [point.value for point in points] for key, points in found.items()}
    assert values == {"m": [4.0, 8.0, 16.0], "ef": [10.0, 20.0, 40.0, 99.0]}


def test_a_sweep_that_is_continued_with_another_baseline_has_one_curve() -> None:
    """The baseline of a command is a parameter of its configs, but changes no score."""
    declared = {"1": "null", "2": "null", "3": "null", "4": "1", "5": "1", "6": "1"}
    results = [config(0.3 - 0.01 * int(k), 1, k=k, baseline=baseline) for k, baseline in declared.items()]
    found = curve_of_best(results, "k", "ndcg")
    assert found
    assert [point.value for point in found.points] == [1, 2, 3, 4, 5, 6]


def test_the_configs_that_may_be_the_best_are_counted() -> None:
    generator = np.random.default_rng(5)
    base = 0.4 + 0.05 * generator.random(50)
    rows = (base, base + generator.normal(0.2, 0.2, 50), base + generator.normal(0, 0.05, 50))
    results = [scored({"ndcg": row.tolist()}, name=f"b={n}", parameters={"b": str(n)}) for n, row in enumerate(rows)]
    text, picture = section_of(results, "differences")
    assert text["text"].startswith("1 of 3 ")
    assert "#2" in text["text"]
    assert picture["kind"] == "charts"
    told = [section_of(some, "differences")[0]["text"] for some in (grid(GAINS), results, results[::2])]
    assert ["a posterior probability compares only two" in text for text in told] == [True, False, False]


def test_on_the_page_the_config_with_the_best_mean_is_called_so() -> None:
    """The JSON key ``result.best`` has the config with the best expected mean instead."""
    view = PageView(source(grid(GAINS)))
    means = {one.name: one.summaries.metrics["ndcg"].value for one in view.results}
    assert [name for name in means if "best" in view.roles.get(name, "")] == [max(means, key=lambda name: means[name])]
    assert all(role.endswith("best mean") for role in view.roles.values() if "best" in role)


def test_the_page_does_not_state_that_an_objective_decided_that_another_metric_replaces() -> None:
    unmeasured = [changed(one, config={"objective": ["success_rate"], "headline": ["ndcg"]}) for one in grid(GAINS)]
    facts = dict(section_of(unmeasured, "asked")[0]["rows"])
    assert (facts.get("Decided by"), facts["Objective"]) == (None, "success_rate")


def test_what_was_swept_includes_the_configs_that_a_race_dropped() -> None:
    race = {"asked": 20, "of": 40, "ahead": 0.1, "rule": "r", "guarantee": "g"}
    dropped = [changed(one, state="DROPPED", race=race) for one in grid(GAINS)[1:]]
    report = source([grid(GAINS)[0], *dropped])
    assert dict(section(pages.page(report), "asked")[0]["rows"])["Swept"] == "k = 3, 5, 10 × b = 1, 2"
    assert sweep_document(report, 120).statements[0].text == "k = 3, 5, 10 × b = 1, 2"


@pytest.mark.parametrize("clusters", [40, 5])
def test_intervals_of_differences_are_explained_only_where_they_are_shown(clusters: int) -> None:
    """With few clusters there are none."""
    sources = [str(n % clusters) for n in range(COUNT)]
    report = source([changed(one, {"source": sources}) for one in grid(GAINS)])
    assert report.conclusion.compared
    notes = [table.note for table in sweep_document(report, 120).sections[0].blocks if isinstance(table, Table)]
    page_notes = [section(pages.page(report), "configs")[0]["note"]]
    assert [TOGETHER in note for note in notes] == [clusters == 40]
    assert ["hold for all configs together" in note for note in page_notes] == [clusters == 40]


@pytest.mark.parametrize("ends", [0.1, math.nan])
def test_brackets_are_explained_only_where_they_are_shown(ends: float) -> None:
    def with_ends(one: Result) -> Result:
        metrics = {name: replace(found, low=ends, high=ends) for name, found in one.summaries.metrics.items()}
        return replace(one, summaries=replace(one.summaries, metrics=metrics))

    report = source([with_ends(one) for one in grid(GAINS)[:1]])
    notes = [table.note for table in sweep_document(report, 120).sections[0].blocks if isinstance(table, Table)]
    notes.append(section(pages.page(report), "configs")[0]["note"])
    assert ["brackets" in note for note in notes] == [not math.isnan(ends)] * 2


def test_a_small_lead_in_a_race_is_not_zero() -> None:
    race = {"asked": 20, "of": 40, "ahead": 0.0004, "rule": "r", "guarantee": "g"}
    results = [*grid(GAINS)[:2], changed(grid(GAINS)[2], state="DROPPED", race=race)]
    text = f"{results[2].name}: after 20 of 40 questions; the best is ahead by at least .0004"
    assert next(race_lines(results)).text == text


def test_the_mean_in_a_box_plot_is_called_unweighted_if_questions_have_weights() -> None:
    """The heatmap next to it shows weighted means."""
    weights = [2.0, 1.0] * (COUNT // 2)

    def weighted(one: Result) -> Result:
        means = {
            name: {"value": float(np.average(one.questions[name], weights=weights))} for name in one.summaries.metrics
        }
        return changed(one, {"weight": weights}, measured=means)

    for configs, mean in ((grid(GAINS), "mean"), ([*map(weighted, grid(GAINS))], "unweighted mean")):
        *_, boxes = section_of(configs, "slices")
        assert boxes["note"].endswith(f"Dashed: the {mean}.")


def test_a_long_value_of_a_label_leaves_room_for_the_boxes() -> None:
    long = {"how": "how " * 40, "why": "why"}

    def labelled(one: Result) -> Result:
        groups = {"category": {long[value]: found for value, found in one.summaries.groups["category"].items()}}
        values = [long[value] for value in one.questions["category"]]
        return changed(one, {"category": values}, groups=groups)

    *_, boxes = section_of([*map(labelled, grid(GAINS))], "slices")
    figure = boxes["options"][0]["figure"]
    assert sorted(figure["layout"]["xaxis"]["categoryarray"]) == [short(long["how"]), "why"]
    assert all(set(trace["x"]) == {short(long["how"]), "why"} for trace in figure["data"])


def test_a_recorded_baseline_counts_neither_towards_the_start_nor_the_duration_of_the_sweep() -> None:
    own = [changed(one, started=1_700_000_000.0, ended=1_700_000_012.0) for one in grid(GAINS)]
    before = changed(config(-0.1, 400, k="1"), name="ffea9bd0#3 k=1", started=1_600_000_000.0, ended=1_700_009_999.0)
    document = pages.page(source(own, baselines=[before]))
    assert dict(section(document, "asked")[0]["rows"])["Run"] == moment(1_700_000_000.0)
    facts = titled(section(document, "details"), "Environment")
    assert dict(facts["rows"])["Sweep took"] == "12 s"


def test_the_night_before_a_sweep_was_continued_is_no_part_of_its_duration() -> None:
    times = [(0.0, 12.0), (5.0, 20.0), (6.0, 9.0), (86_400.0, 86_410.0), (86_405.0, 86_415.0), (86_415.0, 86_425.0)]
    own = [changed(one, started=a, ended=b) for one, (a, b) in zip(grid(GAINS), times, strict=True)]
    facts = titled(section_of(own, "details"), "Environment")
    assert dict(facts["rows"])["Sweep took"] == "45 s"


def test_a_recorded_baseline_is_on_the_page_but_was_not_swept() -> None:
    """Differences are against it, and its questions are shown beside the others'."""
    own, before = grid(GAINS), changed(config(-0.1, 400, k="1", b="1"), name="ffea9bd0#3 k=1 b=1")
    numbered = [changed(one, name=f"#{n} {one.name}") for n, one in enumerate(own, start=1)]
    verdict = compare_configs([*numbered, before], baseline=before.name)
    page = SweepReport("k × b", numbered, (), conclude(verdict), baselines=[before])
    document = pages.page(page)
    assert dict(section(document, "asked")[0]["rows"])["Swept"] == "k = 3, 5, 10 × b = 1, 2"
    assert dict(section(document, "asked")[0]["rows"])["Baseline"] == before.name
    (table,) = section(document, "configs")
    assert "ffea9bd0#3" in [row[0] for row in table["rows"]]
    (questions,) = section(document, "questions")
    assert questions["configs"][0]["name"] == before.name
    assert {"differences", "effects"} <= {one["id"] for one in document["sections"]}
