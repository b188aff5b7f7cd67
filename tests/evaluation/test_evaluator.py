"""From rankings to numbers: nothing is averaged away, and what is shared is computed once."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragsweep.core.identity import BuiltPart, Spec
from ragsweep.core.question_texts import to_texts
from ragsweep.core.results import Result
from ragsweep.core.types import Chunks, Corpus, Dataset, Embeddings, Evidence, GoldenSet, PartTraits, Question, Spans
from ragsweep.evaluation.evaluator import Evaluator
from ragsweep.evaluation.evidence import cover, view
from ragsweep.evaluation.experiment import Experiment
from ragsweep.evaluation.pipeline import Parts, graph
from ragsweep.evaluation.question_table import ChunkNames, QuestionTable, tabulate
from ragsweep.evaluation.result_notes import cut_share
from ragsweep.evaluation.trec_texts import qrels_text, run_address
from ragsweep.parts.chunkers import FixedSize, ParentChild
from ragsweep.parts.metrics import ContextRecall, EmptyRate, Latency, Mrr, Recall
from ragsweep.parts.rerankers import NoReranker
from ragsweep.stages.executor import Executor
from ragsweep.stages.store import Store
from ragsweep.sweep.running.session import Session
from support.commands import evaluate
from support.inputs.trec_files import align, read_qrels, read_run
from support.parts import Whole, Words, built, corpus, fused, golden, vector

QUESTIONS = golden(
    ("cats in the yard", "d1"), ("source code compiler", "d2"), ("xylophone", "d4"), ("cat on mat price", None)
)


def experiment(questions: GoldenSet = QUESTIONS, top_k: int = 1, budget: int | None = None) -> Experiment:
    given_corpus = corpus()
    none = built(NoReranker())
    laid = graph(Parts(given_corpus, built(Whole()), built(Words()), none, 4, top_k, context_budget=budget))
    metrics = (Recall(cutoff=3), Mrr(), ContextRecall(), EmptyRate(), Latency(quantile=0.95))
    return Experiment("n", (), {}, {}, Dataset("toy", given_corpus, questions), laid, top_k, metrics, 0.5, "s")


def test_every_average_states_its_denominator_and_why_a_score_is_missing() -> None:
    summary = Evaluator().evaluate(experiment()).summaries.metrics["recall_at_3"]
    assert (summary.n_total, summary.n_scored, summary.n_skipped, summary.n_failed) == (4, 3, 1, 0)
    assert summary.reasons == {"unanswerable": 1}
    assert summary.value == pytest.approx(2 / 3)  # "xylophone" finds nothing: scored 0, not left out
    assert 0 <= summary.low <= summary.value <= summary.high <= 1


def test_interval_of_a_mean_takes_account_of_questions_about_the_same_document() -> None:
    """Eight questions about two documents: the scores of each document are equal, so there are two observations."""
    both = golden(*[(f"cats in the yard {n}", "d1") for n in range(4)], *[(f"xylophone {n}", "d4") for n in range(4)])
    summary = Evaluator().evaluate(experiment(both)).summaries.metrics["recall_at_3"]
    assert (summary.value, summary.low, summary.high) == (0.5, 0.0, 1.0)


def test_right_answers_are_a_column_where_the_golden_set_has_any() -> None:
    first, second, *_ = QUESTIONS.questions
    answered = QuestionTable((replace(first, references=("yes", "it is")), second))
    assert answered.columns["reference"] == ["yes\nit is", ""]
    assert "reference" not in QuestionTable((first, second)).columns


def test_labels_that_are_numbers_group_by_size() -> None:
    questions = [replace(QUESTIONS.questions[0], labels={"age": age}) for age in ("100", "9", "10")]
    assert list(QuestionTable(tuple(questions)).groups["age"]) == ["9", "10", "100"]


def test_outcomes_hold_a_row_a_question_with_the_reason_of_each_missing_score() -> None:
    table = Evaluator().evaluate(experiment()).questions
    assert table["question_id"] == ["q0", "q1", "q2", "q3"]
    assert table["context"] == [["d1"], ["d2"], [], ["d0"]]
    assert table["first_evidence_rank"] == [1, 1, 0, 0]
    assert math.isnan(table["mrr"][3])
    assert table.unscored[3]["mrr"] == "unanswerable"
    assert table.unscored[0] == {}


def test_groups_divide_the_questions() -> None:
    groups = Evaluator().evaluate(experiment()).summaries.groups["category"]
    assert {name: group["empty_rate"].n_total for name, group in groups.items()} == {"known": 3, "unknown": 1}
    assert math.isnan(groups["unknown"]["mrr"].value)


def test_label_that_groups_nothing_is_left_out() -> None:
    asked = [
        replace(question, labels={"language": "en", "number": str(n), "half": str(n % 2)})
        for n, question in enumerate(golden(*[(f"cats {n}", "d1") for n in range(50)]).questions)
    ]
    result = Evaluator().evaluate(experiment(GoldenSet(tuple(asked))))
    assert set(result.summaries.groups) == {"half"}  # one language, fifty numbers, one category
    assert result.questions["number"][49] == "49"


def test_conversation_is_kept_out_of_retrieval() -> None:
    chat = golden(("cats in the yard", "d1"), ("hello there cat", None))
    silent = GoldenSet((chat.questions[0], type(chat.questions[1])("q1", "hello there cat", needs_retrieval=False)))
    result = Evaluator().evaluate(experiment(silent))
    assert result.questions["retrieved"][1] == 0
    assert result.summaries.metrics["empty_rate"].n_scored == 1
    assert result.questions.unscored[1]["empty_rate"] == "conversational"


def test_latency_is_probed_and_said_by_stage_also_for_each_question() -> None:
    result = Evaluator().evaluate(experiment())
    assert result.summaries.latency["retrieve"]["n"] == 4
    assert 0 < result.summaries.latency["retrieve"]["p50_ms"] <= result.summaries.latency["retrieve"]["p95_ms"]
    assert result.summaries.metrics["latency_p95_ms"].value > 0
    rows = list(map(result.questions.steps_of, range(result.questions.rows)))
    assert all(row.keys() == {"retrieve"} and row["retrieve"]["ms"] > 0 for row in rows)


def test_nothing_is_cut_from_chunks_without_tokens() -> None:
    none, some = np.zeros(2, dtype=np.int64), np.array([10, 30])
    assert cut_share(Embeddings(np.eye(2, dtype=np.float32), none, none)) == 0
    assert cut_share(Embeddings(np.eye(2, dtype=np.float32), some, np.array([10, 20]))) == 0.25


def test_warning_says_how_much_the_embedder_never_read() -> None:
    given_corpus = corpus()
    laid = graph(Parts(given_corpus, built(Whole()), vector(), built(NoReranker()), 4, 2))
    cut = replace(experiment(), graph=laid, top_k=2)
    lengths = np.array([len(text) for text in given_corpus.texts])
    share = 1 - np.minimum(lengths, 30).sum() / lengths.sum()  # support.parts.Letters reads 30 letters
    result = Evaluator().evaluate(cut)
    assert result.run.stages["embed"]["tokens_cut_share"] == pytest.approx(share)
    assert result.run.stages["embed"]["chunks"] == len(lengths)
    (warning,) = result.run.warnings
    assert f"{100 * share:.0f} % of all tokens are not embedded" in warning
    assert warning.endswith("choose a chunker that has a size, such as chunker=recursive")
    laid = graph(Parts(given_corpus, built(FixedSize(36), size=36), vector(), built(NoReranker()), 4, 2))
    (warning,) = Evaluator().evaluate(replace(cut, graph=laid)).run.warnings
    assert warning.endswith("try chunker.size=30 instead of 36")
    nested = {"parent": built(FixedSize(72), size=72), "child": built(FixedSize(36), size=36)}
    part = ParentChild(**{name: one.value for name, one in nested.items()})
    chunker = BuiltPart(part, Spec("ParentChild", "1", {name: one.spec for name, one in nested.items()}))
    laid = graph(Parts(given_corpus, chunker, vector(), built(NoReranker()), 4, 2))
    (warning,) = Evaluator().evaluate(replace(cut, graph=laid)).run.warnings
    assert warning.endswith("try chunker.child.size=30 instead of 36")


class Reversed:
    """Score the candidates against their order."""

    TRAITS = PartTraits(version="1", reordering=frozenset({"candidates", "min_score", "mix"}))
    candidates, min_score = 4, None

    def __init__(self, mix: float) -> None:
        self.mix = mix

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Score a pair by how late it is asked for."""
        return np.arange(len(pairs), dtype=np.float32)


def reranked(mix: float, budget: int | None = None, **changes: Any) -> Result:
    part = BuiltPart(
        Reversed(mix), Spec("support.parts.Reversed", "1", {"mix": mix, "candidates": 4, "min_score": None})
    )
    laid = graph(Parts(corpus(), built(Whole()), built(Words()), part, 4, 1, context_budget=budget))
    return Evaluator().evaluate(replace(experiment(), graph=laid, **changes))


def test_reranked_config_reports_the_ranking_before_and_what_was_moved() -> None:
    plain, found = Evaluator().evaluate(experiment()), reranked(0.0)
    told = {name: one for name, one in plain.summaries.metrics.items() if name in found.summaries.first_stage}
    assert set(told) == {"recall_at_3", "mrr", "context_recall"}
    assert found.summaries.first_stage == told
    assert found.summaries.reranking["evidences"] == 2
    assert found.summaries.reranking["lost"] == 0
    assert (
        found.summaries.reranking["score_p0"]
        <= found.summaries.reranking["score_p50"]
        <= found.summaries.reranking["score_p100"]
    )
    assert (plain.summaries.first_stage, plain.summaries.reranking) == ({}, {})


def test_scores_before_reranking_are_of_the_context_that_the_budget_allows() -> None:
    """Without a reranker, d1 (6 tokens) and d2 (7) rank first for their questions; nothing is found for d4."""
    for budget, recall in ((7, 2 / 3), (6, 1 / 3)):
        plain = Evaluator().evaluate(experiment(budget=budget)).summaries.metrics["context_recall"]
        assert plain.value == pytest.approx(recall)
        assert reranked(0.0, budget).summaries.first_stage["context_recall"] == plain


def test_reranker_without_weight_moves_nothing() -> None:
    found = reranked(1.0)
    assert found.summaries.reranking["kept"] == 1
    assert {name: found.summaries.metrics[name] for name in found.summaries.first_stage} == found.summaries.first_stage


def test_second_config_of_a_session_reuses_what_it_shares() -> None:
    session = Session()
    first = evaluate(session, "retriever=bm25", "top_k=3")
    second = evaluate(session, "retriever=bm25", "top_k=5")
    assert first.run.stages["index"]["executed"] == 1
    assert second.run.stages["index"]["executed"] == second.run.stages["retrieve"]["executed"] == 0
    assert first.run.signature != second.run.signature
    assert first.summaries.metrics["ndcg_at_10"].value == second.summaries.metrics["ndcg_at_10"].value


def test_another_process_with_the_store_computes_nothing_and_finds_the_same(tmp_path: Path) -> None:
    laid = graph(Parts(corpus(), built(Whole()), vector(), built(NoReranker()), 4, 2))
    laid = replace(laid, latency={})  # that of a busy machine may be measured again
    asked = replace(experiment(), graph=laid, top_k=2)
    cold, warm = (Evaluator(Executor(Store(tmp_path, pytest.fail))).evaluate(asked) for _ in range(2))
    assert {stage for stage, work in cold.run.stages.items() if work["executed"]} >= {
        "chunk",
        "count",
        "embed",
        "retrieve",
    }
    assert {stage for stage, work in warm.run.stages.items() if work["executed"]} == {"context"}
    assert warm.run.stages["embed"]["tokens_cut_share"] == cold.run.stages["embed"]["tokens_cut_share"]
    assert warm.run.stages["embed"]["first_seconds"] == pytest.approx(cold.run.stages["embed"]["seconds"])
    assert str(warm.summaries.metrics) == str(cold.summaries.metrics)  # as text, since NaN is not NaN
    assert str(to_texts(warm.questions)) == str(to_texts(cold.questions))


@pytest.mark.parametrize("stored", [True, False])
def test_index_is_told_with_its_cost_and_size_cold_and_warm(stored: bool, tmp_path: Path) -> None:
    hybrid = fused({"vector": vector(), "words": built(Words())})
    asked = replace(experiment(), graph=graph(Parts(corpus(), built(Whole()), hybrid, built(NoReranker()), 4, 1)))
    executors = [Executor(Store(tmp_path, pytest.fail)) for _ in range(2)] if stored else [Executor()] * 2
    cold, warm = (Evaluator(executor).evaluate(asked).run.indexes for executor in executors)
    words = sum(len(array) for array in Words().build(corpus().texts).values())
    assert {name: index["bytes"] for name, index in cold.items()} == {"index/vector": 4, "index/words": words}
    assert all(0 < index["seconds"] < 60 for index in cold.values())
    assert warm == cold


def test_index_that_is_no_longer_kept_is_not_built_to_tell_its_size(tmp_path: Path) -> None:
    Evaluator(Executor(Store(tmp_path, pytest.fail))).evaluate(experiment())
    (index,) = [node for node in experiment().nodes if node.stage == "index"]
    (tmp_path / "whole" / index.address).unlink()
    result = Evaluator(Executor(Store(tmp_path, pytest.fail))).evaluate(experiment())
    if "latency" not in result.run.stages:  # which a machine that was busy measures again, and that needs the index
        assert math.isnan(result.run.indexes["index"]["bytes"])
        assert "index" not in result.run.stages


def test_run_and_qrels_give_other_tools_our_numbers(tmp_path: Path) -> None:
    result, artifacts = Evaluator().evaluate_with_artifacts(experiment())
    (address,) = artifacts.qrels
    assert artifacts.qrels[address].splitlines() == ["q0 0 d1 1", "q1 0 d2 1", "q2 0 d4 1"]
    for name, text in (("run", artifacts.rankings[address]), ("qrels", artifacts.qrels[address])):
        (tmp_path / name).write_text(text)
    chunks, judged, rankings = align(read_run(tmp_path / "run"), read_qrels(tmp_path / "qrels"))
    looked = view(cover(chunks, judged), rankings, 3)
    for metric in (Recall(cutoff=3), Mrr()):
        assert np.nanmean(metric.score(looked).values) == pytest.approx(result.summaries.metrics[metric.name].value)


def test_files_with_other_labels_have_other_names() -> None:
    evaluator, asked = Evaluator(), experiment()
    fewer = replace(asked, dataset=replace(asked.dataset, golden=GoldenSet(QUESTIONS.questions[:2])))
    files = [evaluator.evaluate_with_artifacts(one).artifacts for one in (asked, fewer, replace(asked, threshold=0.2))]
    for kind in ("rankings", "qrels", "evidence_runs", "evidence_qrels"):
        assert len({name for one in files for name in getattr(one, kind)}) == 3
    again = Evaluator().evaluate_with_artifacts(experiment(top_k=2)).artifacts
    assert again.rankings.keys() == files[0].rankings.keys()
    routed = [tabulate(QUESTIONS.questions, flags) for flags in (b"", bytes([1, 1, 1, 1]), bytes([1, 0, 1, 1]))]
    assert len({run_address(table, "ranking", ("golden", 0.5), ()) for table in routed}) == 2


def test_qrels_name_the_chunks_that_cover_evidence_with_its_grade() -> None:
    text = "alpha beta gamma delta"
    chunks = Chunks(
        Corpus(["d"], [""], [text]), Spans(np.zeros(2, dtype=np.int32), np.array([0, 11]), np.array([10, 22]))
    )
    evidence = (Evidence("d", "alpha", grade=2.0), Evidence("d", "beta"), Evidence("d", "delta", grade=0.0))
    asked = GoldenSet((Question("q 1", "", evidence=evidence), Question("none", "")))
    assert qrels_text(cover(chunks, asked), ChunkNames(chunks)) == "q%201 0 d:0-10 2\n"


def test_every_result_has_its_own_table() -> None:
    evaluator, asked = Evaluator(), experiment()
    first = evaluator.evaluate(asked)
    before = {name: list(column) for name, column in first.questions.items()}
    for column in evaluator.evaluate(asked).questions.values():
        column.clear()
    assert evaluator.evaluate(asked).questions["question"] == before["question"]
    assert {name: len(column) for name, column in first.questions.items()} == dict.fromkeys(before, 4)


def test_names_of_chunks_say_the_span_unless_it_is_the_whole_document() -> None:
    cut = Chunks(corpus(["one two", "three"]), Spans(*map(np.array, ([0, 0, 1], [0, 4, 0], [3, 7, 5]))))
    names = ChunkNames(cut)
    for _ in range(2):  # made, and recalled
        assert names.of(np.array([[2, 0, -1], [-1, -1, -1], [1, 2, 0]])) == [
            ["d1", "d0:0-3"],
            [],
            ["d0:4-7", "d1", "d0:0-3"],
        ]
