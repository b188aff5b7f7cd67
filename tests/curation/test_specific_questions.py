"""A rule-based question is kept only if a single place of the corpus answers it."""

from ragsweep.core.types import Corpus
from ragsweep_golden.building.drafts import Draft, Sources
from ragsweep_golden.building.phases import specific
from ragsweep_golden.building.unanswerable import Exhaustive
from support.parts import Whole

TEXTS = [
    "The copper valve of the cellar releases steam at noon.",
    "A wooden ladder leans against the barn.",
    "A wooden ladder leans against the mill.",
    "A wooden ladder leans against the shed.",
]


def kept(question: str, document: int) -> bool:
    corpus = Corpus([f"d{n}" for n in range(4)], [""] * 4, TEXTS)
    evidence = ((document, 0, len(TEXTS[document])),)
    draft = Draft(question, "en", "rule", "fact", document=document, chunk=document, evidence=evidence)
    return specific([draft], Sources(corpus, Whole().split(corpus), {}, {}, 0)) == [draft]


def test_a_question_is_kept_where_its_evidence_ranks_first_by_words_that_few_documents_have() -> None:
    assert kept("What does the copper valve release?", 0)
    assert not kept("What does the copper valve release?", 1)
    assert not kept("Against what does a wooden ladder lean?", 1)
    assert not kept("What is the valve?", 0)


def test_a_picture_of_a_subject_is_found_with_another_article() -> None:
    chunks = ["![Diagram of the relief valves](valve.png)", "A relief valve opens at 8 bar.", "A check valve closes."]
    search = Exhaustive(chunks, "en")
    assert [search.is_shown(one) for one in ("a relief valve", "a check valve")] == [True, False]
    assert Exhaustive(["Voici le schéma du filtre d'entrée."], "fr").is_shown("le filtre d'entrée")
