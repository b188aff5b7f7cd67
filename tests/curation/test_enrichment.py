"""An entry says where its passage stands: pages and article, anchor, chunk; and how hard the question is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragsweep.core.errors import Faults
from ragsweep.core.types import Corpus, Question, Spans
from ragsweep.golden.corpora import read_folder
from ragsweep.parts.metrics import KeywordCoverage
from ragsweep_golden.building.drafts import Draft, Sources, Stratum
from ragsweep_golden.building.enrichment import difficulty, enrich
from ragsweep_golden.sets.entries import incoherences
from support.inputs.pdf_files import pdf
from support.metrics import score_one

TEXT = "# Book\n\n## 3.2 Presses\n\nThe press holds forty litres.\n\n## Cellars\n\nThe cellar stays cold all year."


def entry(corpus: Corpus, anchor: str, **strata: str) -> dict[str, Any]:
    start = corpus.texts[0].index(anchor)
    middle = len(corpus.texts[0]) // 2
    lengths = [middle, len(corpus.texts[0])]
    spans = Spans(np.zeros(2, dtype=np.int32), np.array([0, middle]), np.array(lengths))
    chunk = int(start >= middle)
    draft = Draft(
        "What does the press hold?", "en", "rule", "fact", answer=anchor, document=0, chunk=chunk,
        evidence=((0, start, start + len(anchor)),), explanation=anchor, question_type="factual", bloom="remember",
        reasoning_class="single_fact", status="validated", method="verbatim", score=1.0,
    )  # fmt: skip
    sources = Sources(corpus, spans, {corpus.ids[0]: "a", **strata}, {"a": Stratum("a", 1, 2)}, seed=0)
    (found,) = enrich([draft], sources)
    return found


def test_an_entry_names_section_article_chunk_and_anchor() -> None:
    found = entry(Corpus(["book"], ["The book"], [TEXT]), "The press holds forty litres")
    where = found["provenance"]
    assert (where["section"], where["article"], where["chunk_id"]) == ("3.2 Presses", "3.2", "book#0")
    assert where["anchor"] == found["evidence"][0]["anchor"] == "The press holds forty litres."
    assert "pages" not in where
    assert list(incoherences(found)) == []
    assert found["id"] == entry(Corpus(["book"], [""], [TEXT]), "The press holds forty litres")["id"]
    assert "article" not in entry(Corpus(["book"], [""], [TEXT]), "The cellar stays cold all year")["provenance"]


@pytest.mark.parametrize(
    ("answer", "keywords"),
    [
        ("The press costs 12,500 euros", ["press", "costs", "12,500", "euros"]),
        ("It works at -5 degrees since 2015", ["works", "-5", "degrees", "2015"]),
    ],
)
def test_right_answer_has_all_its_keywords(answer: str, keywords: list[str]) -> None:
    found = entry(Corpus(["book"], [""], [f"{answer}. {TEXT}"]), answer)["keywords"]
    assert set(found) >= set(keywords)
    asked = Question("", "", keywords=tuple(found))
    assert score_one(KeywordCoverage(), asked, answer) == 1


def test_where_no_other_document_resembles_the_right_one_those_of_its_stratum_are_the_distractors() -> None:
    corpus = Corpus(["book", "near", "far"], ["", "", ""], [TEXT, "Bees.", "Ducks."])
    found = entry(corpus, "The press holds forty litres", near="a")
    assert found["distractors"] == ["near"]


def test_pages_of_a_pdf_are_those_on_which_the_evidence_is_printed(tmp_path: Path) -> None:
    lines = ["First comes the orchard", "The press holds forty litres", "Last comes the cellar"]
    (tmp_path / "book.pdf").write_bytes(pdf(*lines))
    corpus, _ = read_folder(tmp_path, (), Faults())
    assert entry(corpus, "The press holds forty litres")["provenance"]["pages"] == [2]
    assert entry(corpus, "litres\n\nLast comes the")["provenance"]["pages"] == [2, 3]
    assert entry(corpus, "First comes the orchard")["provenance"]["pages"] == [1]


@pytest.mark.parametrize(
    ("overlap", "rank", "expected"), [(1.0, 0, 0.0), (0.0, 20, 1.0), (0.0, 99, 1.0), (0.5, 10, 0.5), (1.0, 20, 0.5)]
)
def test_difficulty_by_hand(overlap: float, rank: int, expected: float) -> None:
    assert difficulty(overlap, rank) == expected
