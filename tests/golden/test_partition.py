"""The questions of a search, and those that are kept for the end."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.results import DatasetFacts, Failure, Result
from ragsweep.core.types import Dataset, Evidence, GoldenSet, Question
from ragsweep.evaluation.evaluator import facts
from ragsweep.evaluation.experiment import Experiment
from ragsweep.golden.clusters import clusters
from ragsweep.golden.partition import ALL, HOLDOUT, SHARE, TUNE, check, choose, digest, holdout, select_partition
from ragsweep.parts.datasets import Beir, PythonReference
from ragsweep.records.ledger import Ledger
from ragsweep.sweep.composing.job import Job
from ragsweep.sweep.composing.search_settings import searches
from ragsweep.sweep.running.session import Session
from support.commands import composed, read
from support.parts import corpus
from support.results import a_result, changed

DEMO = PythonReference(None, 0).load()


def questions(count: int, categories: int = 1, documents: int = 10**6) -> tuple[Question, ...]:
    """Make questions of several categories; those of one document follow each other in the categories."""
    return tuple(
        Question(f"q{n}", f"{n**5 + 7:x}", f"c{n % categories}", evidence=(Evidence(f"d{n % documents}"),))
        for n in range(count)
    )


def test_three_of_ten_questions_of_each_category_are_kept_for_the_end() -> None:
    everything = questions(100, categories=4)
    held = set(holdout(everything))
    assert len(held) in range(28, 33)
    assert [sum(q.id in held for q in everything if q.category == category) for category in ("c0", "c1")] == [8, 8]
    assert len(holdout(questions(100, categories=100))) == 30  # small categories are divided together


@given(st.integers(1, 60), st.integers(1, 5), st.integers(1, 20))
def test_clusters_stay_whole_and_the_share_is_nearly_kept(count: int, categories: int, documents: int) -> None:
    everything = questions(count, categories, documents)
    held, names = set(holdout(everything)), clusters(everything)
    sides: dict[str, set[bool]] = {}
    for question, name in zip(everything, names, strict=True):
        sides.setdefault(name, set()).add(question.id in held)
    assert all(len(side) == 1 for side in sides.values())
    strata = categories + 1
    assert abs(len(held) - SHARE * count) <= strata * max(Counter(names).values())


@given(st.permutations(range(30)))
def test_order_of_the_questions_changes_nothing(order: list[int]) -> None:
    ordered = questions(30, 3, 12)
    mixed = tuple(ordered[n] for n in order)
    assert (holdout(mixed), digest(mixed)) == (holdout(ordered), digest(ordered))


def test_more_questions_move_few_from_side_to_side() -> None:
    """Another draw would move about 84 of 200."""
    few, many = questions(200, 2), questions(220, 2)
    before, after = set(holdout(few)), set(holdout(many))
    assert len(before - after) + len([name for name in after - before if int(name[1:]) < 200]) <= 6


def test_division_is_the_same_in_every_process_and_version() -> None:
    """Another one would show a search what was kept from it before."""
    assert holdout(questions(20, 2)) == ("q1", "q12", "q13", "q17", "q18", "q6")


def test_division_and_the_number_of_other_questions_are_recorded() -> None:
    tune = select_partition(DEMO, TUNE, DEMO, DEMO)
    assert tune.golden.left_out == {"in partition=holdout": len(holdout(DEMO.golden.questions))}
    division = digest(DEMO.golden.questions)
    recorded = facts(tune)
    assert (recorded.partition, recorded.undivided, recorded.partition_digest) == (TUNE, DEMO.golden.digest, division)
    note = f"partition=tune: {len(tune.golden.questions)} of 180 questions (division {division[:12]})"
    assert note in recorded.notes
    assert (facts(DEMO).partition, facts(DEMO).undivided) == (ALL, DEMO.golden.digest)


def test_side_without_a_question_is_an_error() -> None:
    lone = Dataset("lone", corpus(), GoldenSet(questions(1)))
    with pytest.raises(InputError, match=r"partition=holdout: contains none of the chosen questions \(1 in all\); use"):
        select_partition(lone, HOLDOUT, lone, lone)


def test_config_and_plain_sweep_use_all_and_a_search_uses_tune_or_all_of_few() -> None:
    assert choose(None, 1000, searching=False).name == ALL
    assert choose(None, 300, searching=True).name == TUNE
    assert choose(TUNE, 100, searching=False).name == choose(TUNE, 100, searching=True).name == TUNE
    assert choose(HOLDOUT, 1000, searching=False).name == HOLDOUT
    assert choose(None, 299, searching=True).name == ALL
    assert "a holdout needs 300 questions, but the set has 299" in choose(None, 299, searching=True).note
    few = "a holdout needs 300 questions, but the set has 299; no finalists are evaluated after the search"
    assert choose(TUNE, 299, searching=True).note == few
    assert choose(TUNE, 300, searching=True).note == choose(TUNE, 299, searching=False).note == ""


def test_search_on_the_holdout_and_an_unknown_partition_are_errors() -> None:
    with pytest.raises(ConfigError, match="a search must not use the holdout"):
        choose(HOLDOUT, 1000, searching=True)
    with pytest.raises(ConfigError, match=r"partition: must be all, tune, holdout or null, got 'holdot'$"):
        check("holdot", searching=False)


def seen(session: Session, *overrides: str, searching: bool = False) -> Experiment:
    config = composed(*overrides)
    return session.prepare(Job(config, "", overrides, searching=searching))


def ids(experiment: Experiment) -> set[str]:
    return {question.id for question in experiment.dataset.golden.questions}


def test_key_chooses_the_side_and_changes_the_signature() -> None:
    session = Session()
    every, tune, kept = (seen(session, f"partition={name}") for name in ("null", TUNE, HOLDOUT))
    assert ids(kept) == set(holdout(DEMO.golden.questions)) == ids(every) - ids(tune)
    assert len({every.signature, tune.signature, kept.signature}) == 3


@pytest.mark.parametrize("more", [(), ("dataset.limit=60",)])
@pytest.mark.parametrize("side", [TUNE, HOLDOUT])
def test_unanswerable_questions_have_their_share_of_the_weight_of_each_side(side: str, more: Sequence[str]) -> None:
    dataset = seen(Session(), f"partition={side}", "success.unanswerable=0.3", *more).dataset
    weights = {one.id: one.weight or 0.0 for one in dataset.golden.questions}
    declined = sum(weights[one.id] for one in dataset.golden.questions if not one.answerable)
    assert declined / sum(weights.values()) == pytest.approx(0.3)
    count = sum(not one.answerable for one in dataset.golden.questions)
    notes = [note for note in dataset.notes if note.startswith("success.unanswerable=")]
    assert notes == [f"success.unanswerable=0.3: {count} unanswerable questions with 30 % of the weight"]


@pytest.mark.parametrize("more", [(), ("dataset.limit=60",)])
def test_leaving_out_the_unanswerable_questions_moves_no_other(more: Sequence[str]) -> None:
    session = Session()
    some = [ids(seen(session, f"partition={side}", "success.unanswerable=0", *more)) for side in (TUNE, HOLDOUT)]
    every = [ids(seen(session, f"partition={side}", *more)) for side in (TUNE, HOLDOUT)]
    assert all(some)
    assert [one - other for one, other in zip(some, every, strict=True)] == [set(), set()]


def test_neither_seed_nor_limit_moves_a_question_to_the_other_side() -> None:
    """Else a quick search on a sample would see what is kept from a search on all."""
    held = set(holdout(DEMO.golden.questions))
    for seed in (0, 1):
        drawn = PythonReference(60, seed).load()
        every, tune, kept = (
            {question.id for question in dataset.golden.questions}
            for dataset in (drawn, *(select_partition(DEMO, side, drawn, DEMO) for side in (TUNE, HOLDOUT)))
        )
        assert not tune & held
        assert kept <= held
        assert tune | kept == every


def test_search_of_the_bundled_questions_sees_all_and_says_so() -> None:
    searched = seen(Session(), searching=True)
    assert len(ids(searched)) == 180
    assert any("a holdout needs" in note for note in searched.dataset.notes)


@pytest.mark.nightly
def test_search_of_a_large_set_sees_its_tune_questions(collections: Path) -> None:
    overrides = ["dataset=beir", f"dataset.path={collections / 'scifact'}", "retriever=bm25"]
    session = Session()
    every, searched = seen(session, *overrides), seen(session, *overrides, searching=True)
    loaded = Beir(str(collections / "scifact"), "test", None, "error", None, 0).load()
    assert ids(every) - ids(searched) == set(holdout(loaded.golden.questions))
    assert any("partition=tune: " in note for note in searched.dataset.notes)
    with pytest.raises(ConfigError, match="must not use the holdout"):
        seen(session, *overrides, "partition=holdout", searching=True)


def evaluated_on(partition: str = HOLDOUT, whole: str = "w") -> Result:
    result = a_result()
    return changed(result, dataset=replace(result.run.dataset, partition=partition, whole_digest=whole))


def test_each_sweep_and_each_config_by_itself_uses_the_holdout_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for partition in (ALL, TUNE):
        ledger.write(None, 0, evaluated_on(partition))
    ledger.write(None, 0, evaluated_on(whole="another"))
    ledger.write(None, 0, Failure("failed", (), {}, "error"))
    assert ledger.holdout_views("w") == 0
    for job in (0, 1, 1):  # the last is run again
        ledger.write("sweep-1", job, evaluated_on())
    assert ledger.holdout_views("w") == 1
    ledger.write("sweep-2", 0, evaluated_on())
    ledger.write(None, 0, evaluated_on())
    ledger.write(None, 0, evaluated_on())
    assert ledger.holdout_views("w") == Ledger(tmp_path).holdout_views("w") == 4


def held_of(count: int, first: int = 0) -> DatasetFacts:
    """Keep the holdout of a golden set of so many questions."""
    whole = Dataset("d", corpus("text"), GoldenSet(questions(first + count)[first:]))
    return facts(select_partition(whole, HOLDOUT, whole, whole))


@pytest.mark.parametrize(("first", "expected"), [(0, 4), (100, 1)])
def test_questions_that_are_added_reset_no_count(first: int, expected: int, tmp_path: Path) -> None:
    """Three looks at the holdout of 100 questions; then one at that of 101, most of which were seen, or of others."""
    ledger, plain = Ledger(tmp_path), a_result()
    before, now = held_of(100), held_of(101, first)
    for one in (before, before, before, now):
        ledger.write(None, 0, changed(plain, dataset=one))
    assert now.undivided != before.undivided
    assert Ledger(tmp_path).holdout_views(now.undivided) == expected


def test_sweep_over_tune_questions_says_how_often_their_holdout_was_looked_at(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.write(None, 0, changed(a_result(), dataset=held_of(100)))
    more = replace(held_of(101), partition=TUNE)
    ledger.write(None, 0, changed(a_result(), dataset=more))
    assert ledger.holdout_views(more.undivided) == 1


def test_sweeper_that_decides_by_results_is_a_search() -> None:
    for sweeper in ("grid", "basic"):
        assert not read(["top_k=1,2", f"hydra/sweeper={sweeper}"], multirun=True).searching
    assert searches("hydra_plugins.ragsweep_optuna.sweeper.OptunaSweeper")
