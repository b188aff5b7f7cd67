"""A race: in which order questions are asked, who is dropped and when, and that the best is not."""

import json
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.missing import UNREADABLE
from ragsweep.core.results import COMPLETE, DROPPED, RACING, Result
from ragsweep.core.types import Evidence, Question
from ragsweep.golden.clusters import clusters
from ragsweep.parts.metrics import ContextRecall
from ragsweep.report.race import saved
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.sweep.races import BettingRace
from ragsweep.sweep.racing import Betting
from ragsweep.sweep.running.rungs import QuestionOrder, order_questions
from ragsweep.sweep.running.sweep_race import SweepRace
from support.matrices import matrices
from support.results import a_result, changed, changed_table, scored


def question(number: int, category: str = "", document: str = "") -> Question:
    words = " ".join(f"{(number * 7919 + 31 * place) % 9973:04d}{place}" for place in range(6))
    about = (Evidence(document),) if document else ()
    return Question(id=f"q{number:03d}", text=words, category=category, evidence=about)


def asked(count: int = 120) -> list[Question]:
    """Three categories of 60, 40 and 20 in 120; every tenth question shares a document with the next one."""
    found = []
    for number in range(count):
        category = "aaabbc"[number % 6]
        document = f"d{number - number % 10}" if number % 10 in (0, 1) else f"d{number}"
        found.append(question(number, category, document))
    return found


def scores(values: np.ndarray) -> dict[str, list[float]]:
    return {f"c{row}": line.tolist() for row, line in enumerate(values)}


def raced(values: np.ndarray, rule: Betting, block: int = 16) -> dict[str, int]:
    """Race to the end: how many questions each config was asked."""
    configs, questions = values.shape
    lengths = dict.fromkeys(scores(values), questions)
    for known in range(block, questions, block):
        given_scores = {name: row[: min(known, lengths[name])] for name, row in scores(values).items()}
        for name in rule.decide(given_scores).dropped:
            lengths[name] = known
    assert max(lengths.values()) == questions or configs == 0
    return lengths


def planted(gain: float, seed: int, questions: int = 256) -> np.ndarray:
    """Four configs, standard deviation .4, correlation .8; the last is better by ``gain``. Differences below 1."""
    generator = np.random.default_rng([seed, round(gain * 1000)])
    own = generator.normal(0, 0.4 * math.sqrt(0.2), (4, questions)).clip(-0.45, 0.45)
    own[-1] += gain
    return generator.normal(0.5, 0.4 * math.sqrt(0.8), questions) + own


def test_every_question_is_asked_once_and_clusters_stay_together() -> None:
    questions = asked()
    found = order_questions(questions, 0)
    assert sorted(found.positions) == list(range(120))
    assert [clusters(questions)[position] for position in found.positions] == list(found.clusters)
    changes = sum(one != other for one, other in zip(found.clusters, found.clusters[1:], strict=False))
    assert changes + 1 == len(set(found.clusters)) == 108


def test_the_first_questions_end_where_a_cluster_ends() -> None:
    found = QuestionOrder((3, 1, 0, 2), ("a", "b", "b", "c"))
    assert [found.first(until) for until in range(6)] == [(), (3,), (3, 1, 0), (3, 1, 0), (3, 1, 0, 2), (3, 1, 0, 2)]


def test_any_first_part_holds_each_category_in_proportion() -> None:
    """Within one question of each category where nothing is shared: 60, 40 and 20 of 120."""
    questions = [question(number, "aaabbc"[number % 6]) for number in range(120)]
    categories = [questions[position].category for position in order_questions(questions, 0).positions]
    for length in range(1, 121):
        counted = Counter(categories[:length])
        for category, share in (("a", 3 / 6), ("b", 2 / 6), ("c", 1 / 6)):
            assert abs(counted[category] - share * length) < 2.5
        if length % 30 == 0:
            assert abs(counted["c"] - length / 6) <= 2


def test_the_order_is_random_and_the_seed_decides() -> None:
    questions = asked()
    positions = order_questions(questions, 0).positions
    assert positions == order_questions(asked(), 0).positions
    assert positions != order_questions(questions, 1).positions
    assert abs(np.corrcoef(positions, range(120))[0, 1]) < 0.3
    firsts = {order_questions(questions, seed).positions[0] for seed in range(60)}
    assert len(firsts) > 30


@given(st.randoms())
def test_the_order_in_which_questions_are_given_means_nothing(random: object) -> None:
    questions = asked(30)
    shuffled = questions.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    orders = [[given_[place].id for place in order_questions(given_, 0).positions] for given_ in (questions, shuffled)]
    assert orders[0] == orders[1]
    assert order_questions([], 0) == ((), ())


def test_when_the_worse_is_dropped_by_hand() -> None:
    """Against one who always wins by 1 the capital is (1.3^n + 1.6^n + 1.9^n) / 3: 13.0 after five, 22.9 after six."""
    rule = Betting()
    five = rule.decide(scores(np.array([np.zeros(5), np.ones(5)])))
    assert five.evidence["c0"] == pytest.approx((1.3**5 + 1.6**5 + 1.9**5) / 3)
    assert (five.leaders, five.dropped) == (("c1",), ())
    six = rule.decide(scores(np.array([np.zeros(6), np.ones(6)])))
    assert six.dropped == ("c0",)
    assert six.evidence["c1"] == 1
    assert 0 < six.deficit["c0"] < 0.1  # 22.9 is just above 20
    assert rule.decide(scores(np.array([np.zeros(60), np.ones(60)]))).deficit["c0"] > 0.7
    assert raced(np.array([np.zeros(20), np.ones(20)]), rule, 1) == {"c0": 6, "c1": 20}


def test_clusters_are_one_observation_each() -> None:
    """Six questions of one source are one bet, which wins nine tenths at most (or 1.8 where .3 of each is less)."""
    both = scores(np.array([np.zeros(6), np.ones(6)]))
    assert Betting().decide(both, groups="aaaaaa").evidence["c0"] == pytest.approx(1.9)
    assert Betting().decide(both, groups="abcdef").evidence == Betting().decide(both).evidence
    assert Betting().decide(both).dropped == ("c0",)
    assert Betting().decide(both, groups="aaabbb").dropped == ()


def test_less_is_better_where_the_rule_says() -> None:
    values = planted(0.1, 3)
    turned = raced(-values, Betting(higher_is_better=False))
    assert turned == raced(values, Betting())
    assert min(turned.values()) < 256


def test_within_the_margin_nobody_is_dropped() -> None:
    values = np.array([np.full(2000, 0.5), np.full(2000, 0.55)])
    assert Betting(margin=0.05).decide(scores(values)).evidence["c0"] == pytest.approx(1)
    assert Betting(margin=0.0495).decide(scores(values)).dropped == ()
    assert Betting(margin=0.04).decide(scores(values)).dropped == ("c0",)


@given(matrices(), st.integers(0, 99))
def test_the_order_of_configs_means_nothing(one: Matrix, seed: int) -> None:
    given_scores, rule = scores(np.tile(one.values, 4)), Betting(level=0.6)
    names = np.random.default_rng(seed).permutation(list(given_scores)).tolist()
    found, moved = rule.decide(given_scores), rule.decide({name: given_scores[name] for name in names})
    assert set(found.dropped) == set(moved.dropped)
    assert moved.evidence == pytest.approx(found.evidence)


@given(matrices(), st.sampled_from([0.05, 0.5, 0.95]))
def test_who_leads_is_never_dropped(one: Matrix, level: float) -> None:
    decision = Betting(level=level).decide(scores(np.tile(one.values, 3)))
    assert decision.leaders
    assert not set(decision.leaders) & set(decision.dropped)
    means = one.values.mean(axis=1)
    assert f"c{means.argmax()}" not in decision.dropped
    assert set(decision.deficit) == set(decision.dropped)


@given(matrices())
def test_identical_configs_stay_or_go_together(one: Matrix) -> None:
    rule = Betting(level=0.6)
    assert rule.decide(scores(np.repeat(one.values[:1], 4, axis=0))).dropped == ()
    dropped = rule.decide(scores(np.concatenate([np.tile(one.values, 3), np.tile(one.values[:1], 3)]))).dropped
    assert ("c0" in dropped) == (f"c{len(one.values)}" in dropped)


@pytest.mark.nightly
def test_equal_configs_are_dropped_only_by_chance_and_the_best_hardly_ever() -> None:
    """The last of four, 200 races each: lost in at most 5 % and three Monte Carlo errors (1.54 % each): 19."""
    for gain in (0.0, 0.02):
        lost = sum(raced(planted(gain, seed), Betting(), 32)["c3"] < 256 for seed in range(200))
        assert lost <= 19


def test_a_lead_of_a_tenth_saves_almost_half() -> None:
    spent = [sum(raced(planted(0.1, seed), Betting()).values()) / 1024 for seed in range(60)]
    assert 1 - np.mean(spent) > 0.45


def test_the_past_counts_as_it_was() -> None:
    """Who was dropped led when it led: what was known of the others does not change when it goes."""
    values = planted(0.1, 5)
    before = Betting().decide(scores(values[:, :128]))
    shorter = {name: row[:100] if name == "c0" else row for name, row in scores(values[:, :128]).items()}
    after = Betting().decide(shorter)
    assert "c0" not in after.evidence
    assert set(before.evidence) == {"c0", *after.evidence}
    cut = {name: row[:100] for name, row in shorter.items()}
    assert Betting().decide(cut) == Betting().decide(scores(values[:, :100]))


def test_a_question_without_a_score_is_no_evidence() -> None:
    values = planted(0.1, 6)
    values[:, 10] = math.nan
    without = np.delete(values, 10, axis=1)
    found, expected = Betting().decide(scores(values)), Betting().decide(scores(without))
    assert found.evidence == pytest.approx(expected.evidence)
    broken = np.concatenate([values, np.full((1, 256), math.nan)])
    assert "c4" not in Betting().decide(scores(broken)).dropped


def test_nobody_is_dropped_where_nothing_is_asked_or_every_config_failed() -> None:
    assert Betting().decide({}).dropped == ()
    assert Betting().decide({"a": [], "b": []}).evidence == {"a": 1.0, "b": 1.0}
    assert Betting().decide({"a": [0.1, 0.2]}).dropped == ()
    assert Betting().decide({}, groups=["x", "x", "y"]).dropped == ()
    assert Betting().decide({"a": []}, groups=["x", "x", "y"]).leaders == ("a",)


def test_scores_beyond_the_bounds_are_refused() -> None:
    with pytest.raises(
        InputError,
        match=r"differ by 1.5, but the metric's range is only 1 wide \(spread\); correct the",
    ):
        Betting().decide({"a": [0.0, 1.5], "b": [0.0, 0.0]})
    assert Betting(spread=2).decide({"a": [0.0, 1.5], "b": [0.0, 0.0]}).dropped == ()
    with pytest.raises(InputError, match="clusters of 1 questions"):
        Betting().decide({"a": [0.0, 1.0], "b": [0.0, 0.0]}, groups=["x"])


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"margin": -0.1}, "margin"), ({"margin": 1}, "margin"), ({"level": 1}, "level"), ({"level": 0}, "level"),
     ({"margin": math.nan}, "margin")],
)  # fmt: skip
def test_settings_that_mean_nothing_are_refused(settings: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError, match=rf"^hydra\.sweeper\.race\.{said}: must"):
        BettingRace(**settings).betting(ContextRecall())  # type: ignore[arg-type]


@pytest.mark.parametrize("configs", [2, pytest.param(6, marks=pytest.mark.nightly)])
def test_the_best_by_traffic_is_kept_though_others_know_more_questions(configs: int) -> None:
    """Equal by traffic, worse by questions: dropped in at most 5 of 100 races (9, three Monte Carlo errors)."""
    lost = 0
    for seed in range(100):
        generator = np.random.default_rng([seed, configs])
        frequent = generator.random(160) < 0.2
        weights = np.where(frequent, 4.0, 1.0) / 1.6  # half of the traffic
        chance = np.where(frequent, 0.65, 0.35)
        chances = np.stack([chance, *[1 - chance] * (configs - 1)])
        values = (generator.random(chances.shape) < chances) * weights
        lost += raced(values, Betting(spread=2.5))["c0"] < 160
    assert lost <= (9 if configs == 2 else 11)


@pytest.mark.parametrize(("system", "calls", "money"), [("pipeline", 40, 20), ("http", 8, 4)])
def test_a_race_saves_no_call_to_an_external_system(system: str, calls: float, money: float) -> None:
    """After 2 of 10 questions: 8 answers (4 calls, 2 money each) and 8 verdicts (1 call, 0.5 money each) are left."""
    usage = {"generate": {"calls": 8.0, "money": 4.0}, "judge": {"calls": 2.0, "money": 1.0}}
    race = {"asked": 2, "of": 10}
    gone = a_result(parameters={"system": system}, state=DROPPED, race=race, usage=usage)
    found = saved([gone])
    assert (found.questions, found.calls, found.needed, found.money) == (8, calls, 50, money)


def test_unreadable_answers_race_with_the_worst_score_as_the_configs_are_compared_by_it() -> None:
    """Otherwise a config with few but right answers would drop a better one that answers every question."""

    def config(name: str, column: list[float], state: str) -> Result:
        made = scored({"solved": column}, name=name)
        reasons = [json.dumps({"solved": UNREADABLE} if math.isnan(one) else {}) for one in column]
        made = changed(made, questions=changed_table(made, {"unscored": reasons}))
        return changed(made, state=state)

    nan, ids = math.nan, tuple(f"q{n}" for n in range(4))
    known = {
        1: config("often wrong", [1.0, 0.0, nan, 1.0], COMPLETE), 2: config("unreadable", [1.0, nan, nan], RACING),
        3: config("never read", [nan] * 4, RACING),
    }  # fmt: skip
    race = SweepRace(ids, QuestionOrder(tuple(range(4)), ids), (), "solved", Betting(), 2, has_cost=True)
    expected = {"1": [1.0, 0.0, nan, 1.0], "2": [1.0, 0.0, nan], "3": [nan] * 4}
    assert {job: pytest.approx(row, nan_ok=True) for job, row in expected.items()} == race._scores(known, 4)
    weighted = replace(race, weights=(0.5, 1.5, 1.0, 1.0))._scores(known, 2)
    assert {job: row[:1] for job, row in weighted.items() if job != "3"} == {"1": [0.5], "2": [0.5]}
