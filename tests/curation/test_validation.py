"""An answer counts where its passage has it: verbatim, else by its words or similarity. A phase is read as written."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ragsweep_golden.building.drafts import Draft
from ragsweep_golden.building.phases import PhaseFiles, validate
from ragsweep_golden.evidence.passages import keyword_coverage

PASSAGE = "The **old** press holds forty litres of juice, and the cellar keeps it cold until 15 March."


def vectors(cosine: float) -> object:
    """Embed so that an answer and its passage have a known cosine."""

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        sine = (1 - cosine**2) ** 0.5
        rows = [[1.0, 0.0] if text.startswith("The **old**") else [cosine, sine] for text in texts]
        return np.array(rows, dtype=np.float32)

    return embed


@pytest.mark.parametrize(
    ("answer", "cosine", "status", "method", "score"),
    [
        ("the cellar keeps it cold", 0.0, "validated", "verbatim", 1.0),
        ("The old press holds forty litres", 0.0, "validated", "verbatim", 1.0),  # as rendered
        ("forty litres of juice\nthe cellar keeps it cold", 0.0, "validated", "verbatim", 1.0),
        ("juice: forty litres, cold cellar, press, wine", 0.0, "validated", "keywords", 6 / 7),
        ("juice: forty litres, sweet, wine, press", 0.89, "rejected", "keywords", 4 / 6),
        ("juice: forty litres, sweet, wine, press", 0.91, "validated", "similarity", 0.91),
        ("juice: forty litres, sweet, wine, press", None, "rejected", "keywords", 4 / 6),  # without an embedder
        ("forty litres of juice until 16 March", 0.99, "rejected", "verbatim", 0.0),  # another number
    ],
)
def test_first_successful_method_is_kept(
    answer: str, cosine: float | None, status: str, method: str, score: float
) -> None:
    draft = Draft("What does the press hold?", "en", "model", "prompt", answer=answer)
    (found,) = validate([draft], [PASSAGE], None if cosine is None else vectors(cosine))  # type: ignore[arg-type]
    assert (found.status, found.method) == (status, method)
    assert found.score == pytest.approx(score, abs=1e-5)
    assert bool(found.reason) == (status == "rejected")


def test_words_below_four_characters_and_stop_words_do_not_count() -> None:
    assert keyword_coverage("it is not the jam with which press", "press", "en") == 1.0
    assert keyword_coverage("the jam", "press", "en") == 0.0


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85"])
def test_a_phase_with_unusual_line_separators_is_read_again(tmp_path: Path, mark: str) -> None:
    kept: list[bool] = []
    rows = [{"text": f"one{mark}two"}, {"text": "three"}]
    for _ in range(2):
        files = PhaseFiles(tmp_path, "x", lambda number, rows, cached, entries: kept.append(cached), lambda: True)
        assert files.run(0, lambda: rows, lambda rows: []) == rows
    assert kept == [False, True]
