"""What a golden entry expects of the context beside its evidence: no distractor, and the right section."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from configs import evaluate, prepare
from ragsweep.core.types import Chunks, Corpus, Evidence, GoldenSet, Question, Rankings, Scores, Spans
from ragsweep.evaluation.evidence import cover, view
from ragsweep.golden.sections import section
from ragsweep.parts import metrics
from ragsweep.parts.datasets import PythonReference
from ragsweep.sweep.session import Session

GUIDE = "Guide\n=====\n\nIntro.\n\nSet it up\n---------\n\nPip.\n\n### Deep\n\nMore.\n\nRun it\n------\n\nGo.\n"
NOTES = "# Notes\n\nText.\n\n```sh\n# Run it\n```\n\n## Run `it`!\n\nGo on.\n\n# Other\n\nEnd.\n"


@pytest.mark.parametrize(
    ("text", "name", "begins", "ends"),
    [
        (GUIDE, "Guide", "Guide\n", "Go.\n"),
        (GUIDE, "set it up", "Set it up\n---", "More.\n\n"),
        (GUIDE, "Run it", "Run it\n---", "Go.\n"),
        (NOTES, "Run it", "## Run `it`!", "Go on.\n\n"),  # what stands in code is no heading
        (NOTES, "Notes", "# Notes", "Go on.\n\n"),
        ("Plain\nOne\ntext\n# Two\n", "one", "One\n", "text\n"),  # a line of its own
    ],
)
def test_section_is_its_heading_and_all_below(text: str, name: str, begins: str, ends: str) -> None:
    found = section(text, name)
    assert found is not None
    assert text[slice(*found)].startswith(begins)
    assert text[slice(*found)].endswith(ends)


@pytest.mark.parametrize("name", ["Nowhere", "", "?!", "Intro Pip"])
def test_section_that_is_not_there_is_none(name: str) -> None:
    assert section(GUIDE, name) is None


CORPUS = Corpus(["guide", "notes", "blog"], ["", "", "Run it"], [GUIDE, NOTES, "Just run."])
CUTS = {0: [0, GUIDE.index("Set it"), GUIDE.index("Run it"), len(GUIDE)],
        1: [0, NOTES.index("## Run"), len(NOTES)], 2: [0, 9]}  # fmt: skip
ROWS = [(document, low, high) for document, cuts in CUTS.items() for low, high in pairwise(cuts)]
CHUNKS = Chunks(CORPUS, Spans(*(np.array(column) for column in zip(*ROWS, strict=True))))
"""Three chunks of the guide, two of the notes, one of the blog."""


def scores(metric: object, question: Question, *ranked: int) -> Scores:
    positions = np.array([[*ranked, *[-1] * (4 - len(ranked))]], dtype=np.int32)
    falling = np.where(positions >= 0, np.linspace(1, 0.1, 4), -np.inf).astype(np.float32)
    return metric.score(view(cover(CHUNKS, GoldenSet((question,))), Rankings(positions, falling), 3))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("ranked", "rate"), [((0, 3, 5), 2 / 3), ((0, 1, 2, 3), 0.0), ((3,), 1.0), ((), 0.0), ((0, 5), 0.5)]
)
def test_distractor_rate_is_the_share_of_the_context_that_comes_from_distractors(
    ranked: tuple[int, ...], rate: float
) -> None:
    question = Question("q", "?", answerable=False, distractors=("notes", "blog", "not in the corpus"))
    assert scores(metrics.DistractorRate(), question, *ranked).values.tolist() == [pytest.approx(rate)]


def expecting(name: str, *documents: str) -> Question:
    return Question("q", "?", section=name, evidence=tuple(Evidence(one) for one in documents))


@pytest.mark.parametrize(
    ("question", "ranked", "hit"),
    [
        (expecting("Run it", "guide"), (2,), 1.0),
        (expecting("Run it", "guide"), (0, 1, 3, 2), 0.0),  # the fourth is not handed on
        (expecting("Run it", "guide"), (4, 5), 0.0),  # the same heading in documents that are not meant
        (expecting("Run it", "guide", "notes"), (4,), 1.0),
        (expecting("Deep", "guide"), (1,), 1.0),  # the chunk holds the section
        (expecting("Guide", "guide"), (1,), 1.0),  # the section holds the chunk
        (expecting("Run it", "blog"), (5,), 1.0),  # by its title
        (expecting("Run it", "guide"), (), 0.0),
    ],
)
def test_section_is_hit_by_a_chunk_of_the_context_that_stands_in_it(
    question: Question, ranked: tuple[int, ...], hit: float
) -> None:
    assert scores(metrics.SectionHit(), question, *ranked).values.tolist() == [hit]


@pytest.mark.parametrize(
    ("metric", "question", "reason"),
    [
        (metrics.DistractorRate(), Question("q", "?"), "no distractors"),
        (metrics.DistractorRate(), Question("q", "?", distractors=("elsewhere",)), "no distractors"),
        (metrics.DistractorRate(), Question("q", "?", needs_retrieval=False), "conversational"),
        (metrics.SectionHit(), expecting("", "guide"), "no expected section"),
        (metrics.SectionHit(), expecting("?!", "guide"), "the expected section is not a heading of its documents"),
        (metrics.SectionHit(), expecting("Nowhere", "guide"), "the expected section is not a heading of its documents"),
    ],
)
def test_question_that_says_nothing_of_it_has_a_reason(metric: object, question: Question, reason: str) -> None:
    found = scores(metric, question, 0)
    assert np.isnan(found.values).all()
    assert found.reasons.tolist() == [reason]


def test_most_sections_of_the_built_in_set_are_found() -> None:
    loaded = PythonReference(limit=None, seed=0).load()
    named = [one for one in loaded.golden.questions if one.section]
    documents = {
        one.id: [loaded.corpus.texts[loaded.corpus.position[e.document]] for e in one.evidence] for one in named
    }
    found = [one for one in named if any(section(text, one.section) for text in documents[one.id])]
    assert len(named) == 120
    assert len(found) > 100


def test_golden_file_decides_and_an_edit_of_it_is_another_sweep(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": name, "text": f"{name} words"}) + "\n" for name in ("cat", "dog"))
    )
    signatures = []
    for wrong in ("cat", "dog"):
        asked = {"id": "q", "question": "cat", "evidence": [{"document": "cat"}], "distractors": [wrong]}
        (tmp_path / "golden.jsonl").write_text(json.dumps(asked) + "\n")
        paths = [
            "dataset=jsonl",
            f"dataset.corpus={tmp_path / 'corpus.jsonl'}",
            f"dataset.golden={tmp_path / 'golden.jsonl'}",
        ]
        typed = [*paths, "retriever=bm25", "chunker=none", "top_k=1"]
        signatures.append(prepare(Session(folder=tmp_path), *typed).signature)
        result = evaluate(Session(folder=tmp_path), *typed)
        assert result.summaries["distractor_rate"].value == float(wrong == "cat")
    assert signatures[0] != signatures[1]
