"""A config that refuses every question, beside one that answers: by the golden set's shares and by those in use."""

from pathlib import Path

import pytest

from ragsweep.core.results import Result
from ragsweep.stats.context_effect import refuses_all
from ragsweep.sweep.running.session import Session
from support.commands import RUN, evaluate, printed, runs, write_files
from support.results import compared

UNANSWERABLE, ANSWERABLE = 6, 4
PLACES = ("Paris", "Rome", "Oslo", "Lima")


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Write more unanswerable questions than answerable ones, whose right answers stand within sentences."""
    folder = tmp_path_factory.mktemp("refusing")
    said = "A parcel from {0} needs {1}0 minutes from the depot until it has come to the door of the house in {0}."
    corpus = [{"id": f"d{n}", "text": said.format(place, n + 1)} for n, place in enumerate(PLACES)]
    golden = [
        {"id": f"q{n}", "question": f"How many minutes needs a parcel from {place} to the door?",
         "reference": f"{n + 1}0 minutes", "evidence": [{"document": f"d{n}"}]}
        for n, place in enumerate(PLACES)
    ] + [{"id": f"u{n}", "question": f"Xylophone {n}?", "answerable": False} for n in range(UNANSWERABLE)]  # fmt: skip
    data = write_files(folder, corpus, golden, f"{folder}/")
    return [*data, "chunker=none", "llm=extractive", "~metrics.semantic_similarity", "tracking=none"]


def both(lines: list[str], *more: str) -> tuple[Result, Result]:
    session = Session()
    mute, speaks = (evaluate(session, *lines, *more, f"retriever={name}", "top_k=1") for name in ("none", "bm25"))
    return mute, speaks


def test_right_answers_within_sentences_count_and_what_refuses_all_is_not_chosen(lines: list[str]) -> None:
    mute, speaks = both(lines)
    assert speaks.summaries.metrics["correct_answer"].value == speaks.summaries.metrics["contains_answer"].value == 1
    assert mute.summaries.metrics["success_rate"].value == pytest.approx(UNANSWERABLE / (UNANSWERABLE + ANSWERABLE))
    assert mute.summaries.metrics["contains_answer"].value == mute.summaries.metrics["token_recall"].value == 0
    assert (refuses_all(mute), refuses_all(speaks)) == (ANSWERABLE, 0)
    for order in ((mute, speaks), (speaks, mute)):
        assert compared(order).chosen is speaks


@pytest.mark.slow
def test_a_tracked_sweep_is_tagged_with_the_config_that_it_can_choose(lines: list[str], tmp_path: Path) -> None:
    printed(tmp_path, RUN, "-m", *lines[:-1], "retriever=none,bm25", "top_k=1", "objective=context_tokens")
    (sweep,) = runs(tmp_path, "sweep")
    assert sweep.data.tags["ragsweep.best"] == "#2 bm25"


@pytest.mark.nightly
def test_unanswerable_questions_count_as_often_as_they_are_asked(lines: list[str]) -> None:
    mute, speaks = both(lines, "success.unanswerable=0.1")
    assert mute.summaries.metrics["success_rate"].value == pytest.approx(0.1)
    assert mute.questions["weight"] == pytest.approx([1] * ANSWERABLE + [ANSWERABLE / 9 / UNANSWERABLE] * UNANSWERABLE)
    assert speaks.summaries.metrics["correct_answer"].value == 1
    assert any("with 10 % of the weight" in note for note in mute.run.dataset.notes)
    assert mute.run.config["success"]["unanswerable"] == 0.1
    mute, speaks = both(lines, "success.unanswerable=0")
    assert (mute.summaries.metrics["success_rate"].value, speaks.summaries.metrics["success_rate"].value) == (0, 1)
    assert mute.run.dataset.left_out == {"unanswerable questions (success.unanswerable=0)": UNANSWERABLE}
