"""Citations after a sentence in Markdown emphasis belong to this sentence."""

import pytest

from ragsweep.parts.metrics.citations import claims


@pytest.mark.parametrize("mark", ["", "*", "**", "***", "_", "~~", "**\u201d"])
@pytest.mark.parametrize("space", ["", " ", "\n"])
def test_citation_after_emphasis_belongs_to_the_sentence_before_it(mark: str, space: str) -> None:
    said = f"{mark[:3]}The cat sat.{mark}{space}[1] {mark[:3]}A dog barked!{mark}{space}[2, 3]"
    first, second = (claim for claim in claims(said) if claim.words or claim.cited)
    assert (first.words >= {"cat", "sat"}, first.cited) == (True, (1,))
    assert (second.words >= {"dog", "barked"}, second.cited) == (True, (2, 3))
