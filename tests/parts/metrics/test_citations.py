"""Citations after a sentence belong to this sentence, whose end is found by the rules of its language."""

import pytest

from ragsweep.parts.metrics.grounding import claims, sentences_of


@pytest.mark.parametrize("mark", ["", "*", "**", "***", "_", "~~", "**\u201d"])
@pytest.mark.parametrize("space", ["", " ", "\n"])
def test_citation_after_emphasis_belongs_to_the_sentence_before_it(mark: str, space: str) -> None:
    said = f"{mark[:3]}The cat sat.{mark}{space}[1] {mark[:3]}A dog barked!{mark}{space}[2, 3]"
    first, second = (claim for claim in claims(said) if claim.words or claim.cited)
    assert (first.words >= {"cat", "sat"}, first.cited) == (True, (1,))
    assert (second.words >= {"dog", "barked"}, second.cited) == (True, (2, 3))


@pytest.mark.parametrize(
    "said",
    [
        "Der Vertrag gilt nach Abs. 2 des Gesetzes und endet am 5. Mai 2024 [1].",
        "La directora, que no vive en el centro, es la Sra. Pérez [1].",
        "Договор истекает в 2024 \u0433. в мае [1].",
        "Le directeur est avec M. Dupont dans la salle [1].",
    ],
)
def test_abbreviation_or_date_ends_no_claim(said: str) -> None:
    assert [claim.cited for claim in claims(said)] == [(1,)]
    assert sentences_of(said) == [said]
