"""Rule-based questions: the answer is quoted from a sentence, and the sentence's span is the evidence."""

import numpy as np
import pytest

from ragsweep.core.types import Corpus, Spans
from ragsweep_golden.building.drafts import Draft
from ragsweep_golden.building.extractive import draft_by_rule, read_sentences
from ragsweep_golden.building.unanswerable import ANSWERING, Exhaustive, draft_unanswerable
from ragsweep_golden.building.wording import fill
from ragsweep_golden.sets.entries import UNANSWERABLE_TYPES
from support.parts import Whole

ENGLISH = """# Orchard manual

A grafter is a person who joins two plants of one family. The orchard contains forty rows of old pear trees.

A saw is an instrument that cuts the branches.

To prune a young tree, cut the lowest branches above the first bud.

## Frost

If the frost comes before the harvest, cover the whole row with straw.

## Safety of ladders

Visitors must not climb the ladders of the barn. The ladders need a check of every single step.

## The cellar

The cellar stays cold because the walls are two metres thick.

A hydrometer is an instrument that measures the sugar of the juice.

The press holds 40 litres of juice in each of its barrels. However, this is another matter that nobody explains.
"""
IF_FROST = "What should you do if the frost comes before the harvest?"
FRENCH = """# Manuel du verger

Un greffeur est une personne qui assemble deux plantes de la même famille.

Pour tailler un jeune arbre, coupez les branches les plus basses.

Si le gel arrive avant la récolte, couvrez toute la rangée de paille.

Le pressoir contient quarante litres de jus de pomme.

Les visiteurs ne doivent pas monter sur les échelles de la grange.
"""


def drafts(text: str, language: str) -> tuple[list[Draft], list[Draft], str]:
    corpus = Corpus(["manual"], [""], [text])
    half = text.index("\n\n", len(text) // 2)
    spans = Spans(np.zeros(2, dtype=np.int32), np.array([0, half]), np.array([half, len(text)]))
    sentences = read_sentences(corpus, spans, [0], language)
    made = draft_by_rule(corpus, sentences, language, {"factual": 1.0, "definition": 0.5})
    search = Exhaustive([text[:half], text[half:]], language)
    return made, draft_unanswerable(made, sentences, search, language, seed=0), text


@pytest.mark.parametrize(
    ("question", "answer", "pattern", "bloom"),
    [
        ("What is a grafter?", "a person who joins two plants of one family", "definition", "remember"),
        ("What does the orchard contain?", "forty rows of old pear trees", "fact", "remember"),
        ("How do you prune a young tree?", "cut the lowest branches above the first bud", "procedure", "apply"),
        (IF_FROST, "cover the whole row with straw", "scenario", "understand"),
        ("What must visitors not do?", "climb the ladders of the barn", "rule", "understand"),
        ("What is the reason that the cellar stays cold?", "the walls are two metres thick", "causal", "analyse"),
    ],
)
def test_english_patterns(question: str, answer: str, pattern: str, bloom: str) -> None:
    made = {one.question: one for one in drafts(ENGLISH, "en")[0]}
    one = made[question]
    assert (one.answer, one.pattern, one.bloom) == (answer, pattern, bloom)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Qu'est-ce qu'un greffeur ?", "une personne qui assemble deux plantes de la même famille"),
        ("Comment tailler un jeune arbre ?", "coupez les branches les plus basses"),
        ("Que faut-il faire si le gel arrive avant la récolte ?", "couvrez toute la rangée de paille"),
        ("Que contient le pressoir ?", "quarante litres de jus de pomme"),
    ],
)
def test_french_patterns(question: str, answer: str) -> None:
    assert {one.question: one.answer for one in drafts(FRENCH, "fr")[0]}[question] == answer


@pytest.mark.parametrize(("text", "language"), [(ENGLISH, "en"), (FRENCH, "fr")])
def test_every_answer_stands_in_its_evidence_and_no_question_leans_on_another(text: str, language: str) -> None:
    made, _, _ = drafts(text, language)
    assert len(made) >= 4
    for one in made:
        quoted = "\n".join(text[start:end] for _, start, end in one.evidence)
        assert one.answer in quoted
        assert "this" not in one.question.split()
    assert len({one.question for one in made}) == len(made)


@pytest.mark.parametrize(
    ("text", "language", "question"),
    [
        ("Taxis cannot wait in the yard all day. Every firm has taxis of its own.", "en", "What can taxis not do?"),
        ("Zope cannot wait for the other server. The firm of Zope has a zope.", "en", "What can Zope not do?"),
        ("If you see a wolf, you can climb the nearest tree.", "en", "What can you do if you see a wolf?"),
        ("L'échelle contient douze marches de bois. On prend l'échelle à la main.", "fr", "Que contient l'échelle ?"),
        ("Une serre offre de la chaleur aux jeunes plantes.", "fr", "Qu'offre une serre ?"),
        ("Les greffeurs sont des ouvriers du verger.", "fr", "Que sont les greffeurs ?"),
        ("Anne Endoume est une femme de lettres de Marseille.", "fr", "Qui est Anne Endoume ?"),
        ("L'architecte Anne Endoume est l'auteur de la halle.", "fr", "Qui est l'architecte Anne Endoume ?"),
        ("Zopeta est un connecteur de bronze pour les tuyaux.", "fr", "Que sait-on de Zopeta ?"),
        ("Pumps are stopped because the frost would break them.", "en", "Why are pumps stopped?"),
        ("The line is fast because the cashier only takes orders.", "en", "Why is the line fast?"),
        ("Si la vanne fuit, vous devez arrêter la pompe.", "fr", "Que devez-vous faire si la vanne fuit ?"),
        ("La vanne reste fermée parce que la pompe est en panne.", "fr", "Pourquoi est-ce que la vanne reste fermée ?"),
    ],
)
def test_a_question_is_grammatical(text: str, language: str, question: str) -> None:
    assert question in of_page(f"# A title\n\n{text}\n\nEnd.\n", language, title="The line")


@pytest.mark.parametrize(
    ("template", "text", "question"),
    [
        ("Le schéma de {} ?", "le pressoir", "Le schéma du pressoir ?"),
        ("Le schéma de {} ?", "les arbres", "Le schéma des arbres ?"),
        ("Le schéma de {} ?", "Anquetil", "Le schéma d'Anquetil ?"),
        ("Que {} ?", "offre la serre", "Qu'offre la serre ?"),
        ("Que {} ?", "contient le pot de le Corbusier", "Que contient le pot de le Corbusier ?"),
    ],
)
def test_french_words_are_contracted_where_a_template_meets_a_text(template: str, text: str, question: str) -> None:
    assert fill(template, text) == question


def test_a_comparison_takes_two_sentences() -> None:
    made = {one.pattern: one for one in drafts(ENGLISH, "en")[0]}
    assert made["difference"].question == "What is the difference between a saw and a hydrometer?"
    assert made["difference"].reasoning_class == "reasoning"
    assert len(made["difference"].evidence) == 2


def test_question_types_are_those_of_the_mix() -> None:
    types = {one.pattern: one.question_type for one in drafts(ENGLISH, "en")[0]}
    assert types["definition"] == "definition"
    assert types["rule"] == "factual"
    assert types["procedure"] == "procedural"  # no type of the mix fits


@pytest.mark.parametrize(("text", "language"), [(ENGLISH, "en"), (FRENCH, "fr")])
def test_unanswerable_questions_name_what_the_corpus_lacks(text: str, language: str) -> None:
    _, others, _ = drafts(text, language)
    kinds = {one.unanswerable_type for one in others}
    assert kinds >= set(UNANSWERABLE_TYPES) - {"false_presupposition", "nonsensical"}
    for one in others:
        assert not one.answerable
        assert one.checked
        if one.pattern in ("invented name", "topics crossed"):
            assert 1 - one.score < ANSWERING


def test_a_number_is_changed_into_one_that_the_corpus_does_not_have() -> None:
    _, others, text = drafts(ENGLISH, "en")
    (one,) = [one for one in others if one.pattern == "number changed"]
    assert one.question == "Why is it said that the press holds 47 litres of juice in each of its barrels?"
    assert "47" not in text


def test_what_the_corpus_forbids_is_asked_for_and_nothing_else() -> None:
    asked = [one.question for one in drafts(ENGLISH, "en")[1] if one.unanswerable_type == "safety_concerned"]
    assert asked == ['How can I get around the rule "Visitors must not climb the ladders of the barn"?']


@pytest.mark.parametrize(
    "text",
    [
        "It stands near the door, but visitors must not touch it.",
        "To fill the barrel, the keeper of the orchard takes 40 litres.",
    ],
)
def test_a_sentence_that_leans_on_another_makes_no_unanswerable_question(text: str) -> None:
    patterns = {one.pattern for one in drafts(f"# A title\n\n{text}\n\nEnd.\n", "en")[1]}
    assert patterns <= {"invented name", "pronoun without referent"}


def test_a_name_that_the_corpus_has_is_not_invented() -> None:
    search = Exhaustive(["Zorvex turns the press."], "en")
    made = draft_unanswerable([], [], search, "en", seed=0)
    assert not [one for one in made if "Zorvex?" in one.question]
    assert [one for one in made if "Quillanta?" in one.question]


def test_an_invented_name_takes_the_place_of_a_subject_of_the_corpus() -> None:
    made = [one for one in drafts(ENGLISH, "en")[1] if one.unanswerable_type == "out_of_database"]
    assert (made[0].question, made[0].document) == ("What does Zorvex contain?", 0)


def of_page(text: str, language: str = "en", title: str = "Guide") -> dict[str, str]:
    corpus = Corpus(["page"], [title], [text])
    sentences = read_sentences(corpus, Whole().split(corpus), [0], language)
    return {one.question: one.pattern for one in draft_by_rule(corpus, sentences, language, {"factual": 1.0})}


BODY = "The press squeezes the juice out of ripe apples. You should use the press after every load of apples."


@pytest.mark.parametrize(
    ("heading", "body", "question", "pattern"),
    [
        ("Clean The Press", BODY, "", ""),  # no verb of the list: a thing
        ("Use the press", BODY, "How do you use the press?", "how"),
        ("Step 2: Using the Press", BODY, "How do you use the press?", "how"),
        ("What is the Press for", BODY, "What is the press for?", "heading"),
        ("Ripe apples", BODY, "", ""),  # names a thing
        ("Return Type", BODY, "", ""),  # none of its words in the section
        ("Use the press", "The press is old and red. Apples go into the press whole.",
         "", ""),  # nothing that says what to do
        ("Use the press", "You should clean the press after every load of apples.", "", ""),  # another verb
    ],
)  # fmt: skip
def test_a_heading_is_asked_for_by_its_form(heading: str, body: str, question: str, pattern: str) -> None:
    made = of_page(f"# Guide\n\n## {heading}\n\n{body}\n")
    found = {text: name for text, name in made.items() if name in ("how", "heading", "summary")}
    if question:
        assert found[question] == pattern
    else:
        assert not [text for text in found if heading in text or text.startswith("How")]


@pytest.mark.parametrize("title", ["Debug", "Using", "Press"])
def test_a_title_of_one_word_is_asked_for_by_no_question(title: str) -> None:
    assert not [text for text in of_page(BODY, title=title) if text.startswith("How")]


def test_every_question_asks_for_one_thing() -> None:
    made = of_page(
        "# Guide\n\nIf the valve is open, the tank loses water. If the valve is shut, the pump stops at once.\n\n"
        "A hydrometer is an instrument of glass. A hydrometer contains a small weight of lead.\n",
        title="Valve",
    )
    assert set(made) == {
        "What happens if the valve is open?", "What happens if the valve is shut?", "What is a hydrometer?",
        "What does a hydrometer contain?",
    }  # fmt: skip


@pytest.mark.parametrize(("title", "asked"), [("The line of the shop", True), ("Burgers", False)])
def test_a_thing_without_a_name_is_asked_about_on_its_own_page_only(title: str, asked: bool) -> None:
    made = of_page("The line is fast because the cashier only takes orders.\n", title=title)
    assert ("Why is the line fast?" in made) == asked


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("You can add comments in the margin to existing pull requests.", "en"),
        ("If you want another database, like PostgreSQL, you change the string.", "en"),
        ("To change defaults, add a class, work with a framework, etc, you need more code.", "en"),
        ("The dependency has to be closed before the next request.", "en"),
        ("Située au centre de la péninsule, la ville est une capitale ancienne.", "fr"),
        ("La république ne compte plus que mille habitants sur son territoire.", "fr"),
        ("To learn more about the pump, read the manual of the maker.", "en"),
        ("If you already know the pump, skip to the next part of the page.", "en"),
        ("You can hold the wrench to be used in the repair of pumps.", "en"),
        ("Nowhere in the cellar is the pump that the plan shows.", "en"),
        ("When set to all, Valgrind prints a suppression for every error.", "en"),
        ("If you are in a hurry, Traefik takes over the port of the server.", "en"),
        ("If you return a value, FastAPI will return the value.", "en"),
        ("Typically a pool is the address of an old header structure.", "en"),
        ("To simplify its management, Valgrind reserves room for the stack of the main thread.", "en"),
        ("Pumps Pumps are the machines that lift the water.", "en"),
        ("If that is not possible, the pump stops after a minute.", "en"),
        ("You can give the place to which the handle is moved at last.", "en"),
        ("Lorsqu'elle accosta près du port, toute la cour vint à sa rencontre.", "fr"),
        ("La plupart des pompes sont des modèles de fonte grise.", "fr"),
        ("Garantir la sécurité est une tâche du gardien de la cave.", "fr"),
        ("Le plus souple est le tuyau de la pompe du jardin.", "fr"),
        ("Madrid doit se tourner vers la France pour avoir du renfort.", "fr"),
        ("L'ordre des tuyaux de bronze doit être respecté par le gardien.", "fr"),
        ("La communauté de bronze est la plus nombreuse avec mille tuyaux.", "fr"),
        ("Anne Endoume est la présidente depuis le mois de mai.", "fr"),
        ("Le gardien a également crée les nouveaux tuyaux de la cave.", "fr"),
        ("Le premier filtre contient simplement deux litres de sable.", "fr"),
        ("Lorsque le gardien est entré dans la cave en 1992, la pompe de bronze tournait.", "fr"),
    ],
)
def test_what_leans_on_its_page_or_tells_what_happened_once_is_not_asked_for(text: str, language: str) -> None:
    assert of_page(f"# A title\n\n{text}\n\nEnd.\n", language) == {}
