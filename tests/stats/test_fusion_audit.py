"""A hybrid against its legs: what is planted is found, slice by slice, and nothing where there is nothing."""

import json
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pytest

from ragsweep.core.question_texts import to_texts
from ragsweep.core.results import Result
from ragsweep.report.evidence_losses import audit_sentences, degraded_statements, loss_facts
from ragsweep.stats.audits import FusionAudit
from ragsweep.stats.fusion_audit import audited_metrics, better_leg, degraded_slices, fusion_audit
from support.results import changed, scored


def worse_slices(result: Result) -> list[str]:
    found = degraded_slices(result)
    return [one.value for one in found.slices] if found else []


def hybrid(
    fused: Sequence[float], legs: dict[str, Sequence[float]], labels: Sequence[str] = (), weights: Sequence[float] = ()
) -> Result:
    """Make a hybrid whose questions have one evidence each, in first place where the score is 1."""
    rows = [
        {"held": [1], "legs": {leg: [int(scores[n] == 1)] for leg, scores in legs.items() if leg},
         "ranked": [int(fused[n] == 1)], "scores": {leg: {"recall": scores[n]} for leg, scores in legs.items()}}
        for n in range(len(fused))
    ]  # fmt: skip
    result = scored({"recall": fused}, {"category": list(labels)} if labels else None, config={"top_k": 1}, name="#2 h")
    columns = {"weight": list(weights)} if weights else {}
    return changed(result, {**columns, "evidence_trace": list(map(json.dumps, rows))})


def audited(result: Result) -> FusionAudit:
    found = fusion_audit(result)
    assert found
    return found


def test_numbers_by_hand() -> None:
    found = audited(hybrid([1, 1, 0, 0, 0], {"a": [1, 0, 1, 0, 0], "b": [1, 0, 0, 1, 0]}))
    assert (found.hybrid, found.legs, found.best_leg) == (0.4, {"a": 0.4, "b": 0.4}, "a")
    assert (found.oracle, found.headroom) == pytest.approx((0.6, 0.2))
    assert [(one.wins, one.losses, one.difference) for one in found.differences] == [(1, 1, 0), (1, 1, 0)]
    unique = [(one.leg, one.evidences, one.share, one.kept) for one in found.unique]
    assert unique == [("a", 1, 0.2, 0), ("b", 1, 0.2, 0)]
    assert found.by_question["q2"] == {"": 0, "a": 1, "b": 0}


def test_weights_weigh() -> None:
    found = audited(hybrid([1, 0], {"a": [0, 1]}, weights=[3, 1]))
    assert (found.hybrid, found.legs["a"], found.headroom) == pytest.approx((0.75, 0.25, -0.5))
    assert (found.differences[0].hybrid, found.differences[0].alone) == pytest.approx((0.75, 0.25))


def test_a_slice_of_few_questions_is_named_after_one_that_loses_more_in_all() -> None:
    fused, leg = [0.0] * 12 + [0.5] * 2, [0.6] * 4 + [0.0] * 8 + [1.0] * 2
    found = audited(hybrid(fused, {"a": leg, "b": fused}, ["many"] * 12 + ["few"] * 2))
    assert [one.value for one in found.lost_slices] == ["many", "few"]
    assert all(one.notable for one in found.lost_slices)


def test_degradation_is_shown_where_it_is_and_not_where_it_is_chance() -> None:
    generator = np.random.default_rng(0)
    fused = generator.integers(0, 2, 120).astype(float)
    leg = fused.copy()
    leg[:40], fused[:40] = 1, 0  # of the category "bad"
    leg[45:48], fused[45:48] = 1, 0  # of the 12 questions "few"
    leg[48:57] = fused[48:57]
    labels = ["bad"] * 40 + ["good"] * 5 + ["few"] * 12 + ["good"] * 63
    result = hybrid(fused.tolist(), {"a": leg.tolist(), "b": fused.tolist()}, labels)
    found = audited(result)
    by_value = {(one.value, one.leg): one for one in found.slices}
    assert by_value["bad", "a"].worse
    assert by_value["bad", "a"].difference == -1
    assert by_value["bad", "a"].p_holm < 0.001
    few = by_value["few", "a"]
    assert (few.worse, few.notable, few.small, few.difference) == (False, True, True, pytest.approx(-0.25))
    assert not any(one.worse or one.better or one.notable for one in found.slices if one.leg == "b")
    assert [one.worse for one in found.differences] == [True, False]
    assert [(one.value, one.leg) for one in found.lost_slices if one.notable] == [("bad", "a"), ("few", "a")]
    (data,) = [one.data for one in degraded_statements(degraded_slices(result))]
    assert (data["value"], data["questions"], data["alone"], data["hybrid"], data["worse"]) == ("bad", 40, 1, 0, True)


def test_a_few_questions_are_named_as_few() -> None:
    fused, leg = [0.0] * 12 + [1.0] * 30, [1.0] * 3 + [0.0] * 9 + [1.0] * 30
    result = hybrid(fused, {"a": leg}, ["how_to"] * 12 + ["fact"] * 30)
    (statement,) = degraded_statements(degraded_slices(result))
    assert (statement.data["questions"], statement.data["alone"], statement.data["worse"]) == (12, 0.25, False)
    leg[2] = 0.0  # two questions are few, but all that the leg had
    assert worse_slices(hybrid(fused, {"a": leg}, ["how_to"] * 12 + ["fact"] * 30)) == ["how_to"]
    fused[2:5] = [0.1] * 3  # more questions won than lost, and still half of the mean
    assert worse_slices(hybrid(fused, {"a": leg}, ["how_to"] * 12 + ["fact"] * 30)) == ["how_to"]
    leg[5:8] = fused[5:8] = [1.0] * 3
    result = hybrid(fused, {"a": leg}, ["how_to"] * 12 + ["fact"] * 30)
    assert degraded_slices(result) is None
    assert any("how_to" in sentence for sentence in audit_sentences(audited(result)))


def test_a_reranked_config_is_compared_after_its_reranker() -> None:
    """Ten questions that fusion loses to a leg, and the reranker finds again."""
    result = hybrid([1] * 10, {"a": [1] * 10, "": [0] * 10}, ["bad"] * 10)
    assert audited(result).hybrid == 0
    assert degraded_slices(result) is None
    assert worse_slices(hybrid([0] * 10, {"a": [1] * 10, "": [0] * 10}, ["bad"] * 10)) == ["bad"]


def test_facts_are_plain_and_configs_without_legs_have_no_audit() -> None:
    facts = loss_facts(hybrid([1, 0], {"a": [0, 1]}))
    assert json.loads(json.dumps(facts))["audits"]["recall"]["legs"] == {"a": 0.5}
    assert json.dumps(asdict(audited(hybrid([1, 0], {"a": [0, 1]}))))
    single = scored({"recall": [1.0, 0.0]})
    assert (fusion_audit(single), audited_metrics(single), better_leg(single)) == (None, (), None)
    assert loss_facts(single) == {"funnel": None, "audits": {}}


def planted_legs(helped: int, hurt: int, alike: int) -> Result:
    """Make a hybrid whose leg vector solves some questions that it loses, and loses some that it solves."""
    fused = [0.0] * helped + [1.0] * hurt + [1.0, 0.0] * (alike // 2)
    vector = [1.0] * helped + [0.0] * hurt + fused[helped + hurt :]
    return hybrid(fused, {"bm25": [0.0] * len(fused), "vector": vector})


def legs_of(result: Result) -> dict[str, list[float]]:
    rows = [json.loads(row)["scores"] for row in to_texts(result.questions)["evidence_trace"]]
    return {leg: [row[leg]["recall"] for row in rows] for leg in rows[0]}


def test_a_leg_that_is_better_than_its_hybrid_is_named_with_the_override_that_runs_it() -> None:
    """The fused config has .73 of 100 questions, its vector leg .84."""
    fused, vector = [1.0] * 73 + [0.0] * 27, [0.0] * 5 + [1.0] * 84 + [0.0] * 11
    found = better_leg(hybrid(fused, {"bm25": [0.0] * 100, "vector": vector}))
    assert (found.leg, found.metric, found.questions) == ("vector", "recall", 100)
    assert found.overrides == ("retriever=vector",)
    assert (found.alone, found.hybrid, found.difference) == pytest.approx((0.84, 0.73, 0.11))
    assert 0 < found.low < 0.11 < found.high
    assert found.shown


@pytest.mark.parametrize(
    ("counts", "shown"), [((20, 0, 80), True), ((6, 2, 20), False), ((3, 2, 80), None), ((2, 9, 80), None)]
)
def test_a_leg_better_beyond_chance_or_by_much_is_named(counts: tuple[int, int, int], shown: bool | None) -> None:
    found = better_leg(planted_legs(*counts))
    assert (found.shown if found else None) is shown


def test_a_leg_alone_keeps_the_settings_that_it_has_as_a_leg() -> None:
    typed = ("retriever=hybrid_rrf", "retriever.k=20", "retriever.legs.vector.min_score=0.2", "top_k=3")
    found = better_leg(changed(planted_legs(20, 0, 20), overrides=typed, reranking={"moved": 1.0}))
    assert found.overrides == ("retriever=vector", "retriever.min_score=0.2", "reranker=none")
    exchanged = (*typed[:2], "retriever@retriever.legs.vector=other")
    other = better_leg(changed(planted_legs(20, 0, 20), overrides=exchanged))
    assert other.overrides == ("retriever=other",)
    placed = ("retriever/index@retriever.legs.vector.index=hnsw", "~retriever.legs.vector.index.m")
    other = better_leg(changed(planted_legs(20, 0, 20), overrides=placed))
    assert other.overrides == ("retriever=vector", "retriever/index=hnsw", "~retriever.index.m")


@pytest.mark.parametrize("counts", [(20, 0, 80), (6, 2, 20), (3, 2, 80), (2, 9, 80)])
def test_where_less_is_better_a_leg_leads_by_its_errors_as_by_its_scores(counts: tuple[int, int, int]) -> None:
    more = planted_legs(*counts)
    scores = {leg: [1 - value for value in scores] for leg, scores in legs_of(more).items()}
    lost = hybrid([1 - score for score in more.questions["recall"]], scores, ["all"] * len(scores["bm25"]))
    less = changed(lost, measured={"recall": {"higher_is_better": False}})
    by_score, by_error = better_leg(more), better_leg(less)
    assert (by_score is None) == (by_error is None) == (counts[0] <= counts[1] + 2)
    if by_score and by_error:
        assert (by_error.leg, by_error.shown) == (by_score.leg, by_score.shown)
        assert by_error.difference == pytest.approx(-by_score.difference)
    audit = audited(less)
    assert {one.leg for one in audit.lost_slices} == ({"vector"} if counts[0] > counts[1] else set())
