"""Metrics of answers, by hand: on the example's answers of every kind, and one rule at a time."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import SKIPPED
from ragsweep.core.types import Answer, Case, Embeddings, Judgement, Metric, Question, Usage
from ragsweep.parts import metrics
from ragsweep.parts.metrics.decisions import FATES
from ragsweep.parts.metrics.right_answers import embed_texts
from ragsweep.testing.contract import collect
from ragsweep.testing.metrics import ROWS, answered
from support.metrics import rows, score_one
from support.parts import Letters

NAMES = [row[0] for row in ROWS]


def scores(metric: Metric) -> dict[str, float | str]:
    return dict(zip(NAMES, rows(metric, answered(metric=metric)), strict=True))


ASKED = Question("", "Where is it?", references=("here",), keywords=("here",))


# --- what no generator was asked --------------------------------------------------------------------------------


def test_without_generator_nothing_is_scored_and_nothing_failed() -> None:
    view = replace(answered(), answers=None)
    for metric in (metrics.TokenF1(), metrics.Refusal(), metrics.SemanticSimilarity(Letters()), metrics.RougeL()):
        assert set(metric.score(view).reasons) == {"no answers asked for"}
    assert "no answers asked for" in SKIPPED


# --- keywords -----------------------------------------------------------------------------------------------------


GRATIS = "Les entrées sont gratuites."


@pytest.mark.parametrize(
    ("match", "language", "keywords", "said", "share"),
    [
        ("word", "label", ("Mat",), "on the MAT.", 1),
        ("word", "label", ("mat",), "a matter of taste", 0),
        ("word", "label", ("élève",), "l'ELEVE dort", 1),
        ("word", "label", ("cœur",), "coeur", 1),
        ("word", "label", ("red  mat",), "the red\nmat", 1),  # phrases, with any white space
        ("word", "label", ("red mat",), "red and mat", 0),
        ("word", "label", ("Newton's law", "1994-1998", "-5"), "Newton\u2019s law, 1994\u20131998: \u22125", 1),
        ("word", "label", ("thirty-day", 'a "cap"'), "a thirty\u2011day limit, a \u201ccap\u201d", 1),
        ("stem", "english", ("Newton's laws",), "Newton\u2019s law", 1),
        ("word", "label", ("-(x+1)", "**"), "~x is -(x+1)", 1 / 2),
        ("word", "label", ("__exit__",), "__exit__() returns", 1),
        ("word", "label", ("here", "there", "everywhere"), "here and there", 2 / 3),
        ("word", "label", ("gratuit",), GRATIS, 0),
        ("substring", "label", ("gratuit", "mat"), GRATIS, 1 / 2),
        ("stem", "french", ("gratuit",), GRATIS, 1),
        ("stem", "fr", ("Gratuites",), "C'est gratuit !", 1),
        ("stem", "french", ("élèves",), "l'\u00c9le\u0300ve dort", 1),
        ("stem", "english", ("running test",), "it runs tests", 1),
        ("stem", "english", ("mat",), "a matter of taste", 0),
        ("stem", "english", ("-(x+1)",), "~x is -(x+1).", 1),
    ],
)
def test_keywords_match_by_word_part_or_stem_without_case_and_accents(
    match: Any, language: str, keywords: tuple[str, ...], said: str, share: float
) -> None:
    question = replace(ASKED, keywords=keywords)
    assert score_one(metrics.KeywordCoverage(match, language), question, said) == pytest.approx(share)


def test_stems_are_those_of_the_language_that_the_question_is_labelled_with_or_written_in() -> None:
    labelled = replace(ASKED, text="Prix ?", keywords=("g\u00e9n\u00e9rale",), labels={"language": "fr"})
    written = replace(labelled, text="Quels sont les prix de la visite et du repas ?", labels={})
    for question in (labelled, written):
        assert score_one(metrics.KeywordCoverage("stem"), question, "les r\u00e8gles g\u00e9n\u00e9raux") == 1


def test_answer_with_all_keywords_is_right_by_the_same_match() -> None:
    question = replace(ASKED, references=("red mat",), keywords=("walk",))
    said = "she walked off"
    assert [score_one(metrics.SuccessRate(match=match), question, said) for match in ("word", "stem")] == [0, 1]
    assert score_one(metrics.AnswerFate("correct_answer", match="substring"), question, said) == 1


def test_unknown_match_and_language_are_refused() -> None:
    for part in ("KeywordCoverage", "SuccessRate"):
        with pytest.raises(ConfigError, match=r"m\.match: must be 'word' or 'substring' or 'stem', got 'stm'"):
            Builder().build({"_target_": f"ragsweep.parts.metrics.{part}", "match": "stm"}, "m")
    with pytest.raises(ConfigError, match=r"keyword_coverage\.language is 'klingon'"):
        metrics.KeywordCoverage("stem", "klingon")


def test_refusal_covers_nothing_and_an_unanswerable_question_has_no_keywords() -> None:
    found = scores(metrics.KeywordCoverage())
    assert (found["abstained"], found["blank"], found["without context"]) == (0, 0, 1 / 2)
    assert found["invented"] == found["failed, unanswerable"] == "unanswerable"
    assert (found["no keywords"], found["conversational"]) == ("no keywords", "conversational")


# --- answered, refused, invented -------------------------------------------------------------------------------


def test_fates_of_the_example() -> None:
    found = {fate: scores(metrics.AnswerFate(fate)) for fate in FATES}
    assert {fate: [name for name in NAMES if found[fate][name] == 1] for fate in FATES} == {
        "correct_answer": ["right", "right, in a sentence", "invented citation", "wrong citation", "without context",
                           "in French", "no reference", "no keywords"],
        "wrong_answer": ["wrong", "only signs", "in another language"],
        "false_refusal": ["abstained", "blank", "abstained without context"],
        "correct_refusal": ["refused"],
        "hallucinated_answer": ["invented"],
    }  # fmt: skip


def test_cells_of_a_row_add_up_and_success_is_the_welcome_ones() -> None:
    values = {fate: metrics.AnswerFate(fate).score(answered()).values for fate in FATES}  # type: ignore[arg-type]
    success = metrics.SuccessRate().score(answered()).values
    for row in (FATES[:3], FATES[3:]):
        total = sum(values[fate] for fate in row)
        scored = ~np.isnan(total)
        assert (total[scored] == 1).all()
        welcome = values["correct_answer" if row == FATES[:3] else "correct_refusal"]
        np.testing.assert_array_equal(success[scored], welcome[scored])
    assert np.isnan(success).sum() == 4  # two that failed, two without anything to compare with


def test_answer_is_right_by_its_words_or_by_all_its_keywords() -> None:
    metric = metrics.AnswerFate("correct_answer", threshold=0.5)
    question = replace(ASKED, references=("red mat",), keywords=())
    assert score_one(metric, question, "it lies on the red mat on the floor") == 1
    assert score_one(metric, question, "on red floor") == 0
    longer = replace(question, references=("on a red mat that lies on the floor",))
    assert score_one(metric, longer, "on the red floor, on it") == 1  # 4 of 8 words, for articles are none
    assert score_one(metrics.AnswerFate("correct_answer", threshold=0.6), longer, "on the red floor, on it") == 0
    assert score_one(metric, replace(question, keywords=("floor",)), "on some red floor") == 1
    assert score_one(metric, replace(question, keywords=("floor", "mat")), "on some red floor") == 0


@pytest.mark.parametrize(("keywords", "found"), [(7, 4), (8, 4), (6, 5), (3, 2)])
def test_without_reference_answers_only_all_keywords_make_an_answer_right(keywords: int, found: int) -> None:
    names = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")[:keywords]
    question = replace(ASKED, references=(), keywords=names)
    for metric in (metrics.SuccessRate(), metrics.AnswerFate("correct_answer")):
        assert score_one(metric, question, " ".join(names[:found])) == 0
        assert score_one(metric, question, " and ".join(reversed(names))) == 1


def test_threshold_out_of_range_is_an_error() -> None:
    for threshold in (0, 1.1, -1):
        with pytest.raises(ConfigError, match=r"metrics\.success_rate\.threshold must be above 0 and at most 1, got"):
            metrics.SuccessRate(threshold)


# --- grounding ------------------------------------------------------------------------------------------------------


def test_grounding_counts_distinct_content_words() -> None:
    metric = metrics.GroundingLexical()
    assert score_one(metric, ASKED, "The cat, a cat and the dog [1].", "A CAT sleeps.") == 1 / 2
    assert score_one(metric, ASKED, "Le chat est dans l'école.", "Les chats de l'ÉCOLE") == 1 / 2  # no stem is taken
    assert score_one(metric, ASKED, "It is what it is.", "other") == "nothing said"
    assert score_one(metric, ASKED, "In 1984.", "x", "since 1984") == 1
    assert score_one(metric, ASKED, "In 1984.") == 0  # without passages nothing supports it
    assert score_one(metric, ASKED, Answer("no idea", abstained=True)) == "abstained"


def test_semantic_grounding_counts_sentences_that_the_context_says() -> None:
    metric = metrics.GroundingSemantic(Letters(), threshold=0.999)
    cases = [
        Case(answer="Abc. Xyz. [1]", contexts=("cab bac! Something else.",)),  # the same letters in each share
        Case(answer="?!", contexts=("abc",)),
        Case(answer="Abc.", contexts=("...",)),
    ]
    first, second, third = collect(metric.judge, cases)
    assert (first.value, second.reason, third.value) == (1 / 2, "nothing said", 0)


def test_judged_in_many_batches_as_in_one() -> None:
    cases = [Case(answer=f"cat {n}{'ab' * n}", reference="a cat", contexts=("the cat",)) for n in range(70)]
    for metric in (metrics.SemanticSimilarity(Letters()), metrics.GroundingSemantic(Letters(), 0.9)):
        whole, (alone,) = collect(metric.judge, cases), collect(metric.judge, cases[66:67])
        assert alone.value == pytest.approx(whole[66].value, abs=1e-6)


# --- similarity ---------------------------------------------------------------------------------------------------


class Fixed:
    """Embed words by a table."""

    def __init__(self, **table: Sequence[float]) -> None:
        self.table = table
        self.asked: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> Embeddings:
        self.asked += texts
        counts = np.ones(len(texts), dtype=np.int32)
        return Embeddings(np.array([self.table[text] for text in texts], dtype=np.float32), counts, counts)


def test_similarity_is_the_cosine_and_each_text_is_embedded_once() -> None:
    embedder = Fixed(a=(3, 4), b=(4, 3), c=(-6, -8), nothing=(0, 0))
    metric = metrics.SemanticSimilarity(embedder)  # type: ignore[arg-type]
    cases = [Case(answer=x, reference=y) for x, y in ("aa", "ab", "ac")] + [Case(answer="nothing", reference="a")]
    assert [judgement.value for judgement in collect(metric.judge, cases)] == pytest.approx([1, 0.96, -1, 0], abs=1e-6)
    assert sorted(embedder.asked) == ["a", "b", "c", "nothing"]
    assert embed_texts(embedder, []) == {}  # type: ignore[arg-type]


def test_similarity_of_a_refusal_is_none_and_rounding_stays_within_bounds() -> None:
    found = scores(metrics.SemanticSimilarity(Letters()))
    assert (found["abstained"], found["blank"]) == (0, 0)
    assert (found["refused"], found["nothing to compare with"]) == ("unanswerable", "no reference answer")
    metric = metrics.SemanticSimilarity(Letters())
    view = replace(answered([0]), judgements={metric.name: [Judgement(1.0000001)]})
    assert metric.score(view).values[0] == 1.0


def test_verdict_that_is_missing_is_no_score() -> None:
    metric = metrics.SemanticSimilarity(Letters())
    assert metric.score(answered([0])).reasons.tolist() == ["not judged"]
    assert "not judged" not in SKIPPED
    view = replace(answered([0]), judgements={metric.name: [Judgement(reason="rate limited")]})
    assert metric.score(view).reasons.tolist() == ["rate limited"]


# --- citations --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "correct", "recall"),
    [
        ("The cat sat on the mat [1].", 1, 1),
        ("The cat sat on the mat.[1]", 1, 1),  # behind the full stop it belongs to the same sentence
        ("The cat sat. [1] Stars shine. [2]", 1, 1),
        ("The cat sat [2]. Stars shine [1].", 0, 0),
        ("The cat sat [1, 2].", 1 / 2, 1),  # one of the two citations holds it, and together they do
        ("The cat sat [1; 2].", 1 / 2, 1),
        ("The cat sat [1, and 2].", 1 / 2, 1),
        ("The cat sat [1\u20132].", 1 / 2, 1),
        ("The cat saw stars [1-2].", 0, 1),
        ("The cat sat.[1-1] Stars shine.[2-2]", 1, 1),
        ("The cat sat\u30101\u3011.", 1, 1),
        ("The cat sat. \u30101\u2020L1-L3\u3011 Stars shine. \uff3b2\uff3d", 1, 1),
        ("The pattern [0-9].", "no citations", 0),
        ("The pages [1-200].", "no citations", 0),
        ("The cat saw stars [1][2].", 0, 1),  # each holds one word of three, together they hold two
        ("The cat sat [3].", 0, 0),  # there is no third passage
        ("The cat sat [0].", 0, 0),
        ("The cat sat[^1].", 1, 1),
        ("The cat sat[^1]. Stars shine.[^2^]\n\n[^1]: mats.md, Birds fly.\n[^2]: stars.md", 1, 1),
        ("The pattern [^1-3] or [^0-9].", "no citations", 0),
        ("The cat sat [Passage 1]. Stars shine [document 2].", 1, 1),
        ("The cat saw stars [Sources 1, 2] [Source 2; Source 3].", 0, 1),
        ("The cat sat [citation:1].", 1, 1),
        ("The cat argv[0] sat [1].", 1, 1),  # no passage has the number 0, but the first item of a list has
        ("The cat sat [1]. Birds fly.", 1, 1 / 2),
        ("The cat sat.", "no citations", 0),
        ("Use `x[1]` for the cat.", "no citations", 0),
        ("```\nx = y[1]\n```", "no citations", 0),
        ("The cat sat [1][2], [1]", 1 / 2, 1),
        ("See [1]: the cat sat.", 1, 1),  # what follows the last citation goes with it
        ("Cats sat [2] stars shine [2]", 1 / 2, 1 / 2),  # no full stop between them
        ("The cat `x[2]` sat [1].", 1, 1),
        ("It is so [1].", 1, "nothing said"),  # small words only: any passage will do
    ],
)
def test_citations(said: str, correct: float | str, recall: float | str) -> None:
    passages = ("A cat sat on a mat.", "Stars shine at night.")
    assert score_one(metrics.CitationsCorrect(), ASKED, said, *passages) == correct
    assert score_one(metrics.CitationRecall(), ASKED, said, *passages) == recall


@pytest.mark.parametrize(
    "said", ["1. The cat sat [1]\n2. Stars shine [2]", "**3) Cats:** sat [1]\n\n  12. Stars shine [2]"]
)
def test_numbers_of_list_items_are_no_words_of_the_answer(said: str) -> None:
    passages = ("The cat sat. Cats sat.", "Stars shine.")
    for metric in (metrics.GroundingLexical(), metrics.CitationsCorrect(1), metrics.CitationRecall(1)):
        assert score_one(metric, ASKED, said, *passages) == 1
    assert score_one(metrics.GroundingRougeL(), ASKED, said.replace("Cats:", "the cat"), *passages) == 1
    assert score_one(metrics.GroundingLexical(), ASKED, "Cats sat\n5.", *passages) == 2 / 3


def test_threshold_is_the_share_of_a_claims_words() -> None:
    said = "The cat slept [1]."
    assert [score_one(metrics.CitationsCorrect(threshold), ASKED, said, "A cat") for threshold in (0.5, 0.6)] == [1, 0]


# --- language and amounts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "label", "said", "value"),
    [
        ("Where is the cat?", "", "The cat is on the mat.", 1),
        ("Where is the cat?", "", "Le chat est sur la table.", 0),
        ("cat", "fr", "Le chat est sur la table.", 1),
        ("cat", "French", "Die Katze ist nicht auf dem Tisch.", 0),
        ("cat", "", "The cat is on the mat.", "unknown language"),
        ("Where is the cat?", "", "Paris", "unknown language"),
        ("Where is the cat?", "ja", "The cat is on the mat.", "unknown language"),
    ],
)
def test_answer_language(question: str, label: str, said: str, value: float | str) -> None:
    asked = Question("", question, labels={"language": label} if label else {})
    assert score_one(metrics.AnswerLanguage(), asked, said) == value


def test_amounts_of_the_example() -> None:
    length, tokens, support = (
        scores(metric) for metric in (metrics.AnswerLength(), metrics.AnswerTokensIn(), metrics.AnswerSupport())
    )
    assert length["right, in a sentence"] == 8  # The cat sat on the red mat .
    assert length["abstained"] == length["blank"] == "abstained"
    assert (tokens["right"], tokens["invented citation"]) == (120, "not told")
    assert scores(metrics.AnswerTokensOut())["abstained"] == 9
    assert (support["abstained"], support["blank"], support["failed"]) == (pytest.approx(0.1), "not told", "timed out")
    assert scores(metrics.Refusal())["abstained without context"] == 1


@pytest.mark.parametrize(
    ("usage", "read", "written"), [(Usage(1, 5, 0), 5, "not told"), (Usage(1, 0, 5), "not told", 5)]
)
def test_number_of_tokens_that_a_system_does_not_report_is_not_0(usage: Usage, read: object, written: object) -> None:
    answer = Answer("Here.", usage=usage, seconds=1.0)
    assert score_one(metrics.AnswerTokensIn(), ASKED, answer) == read
    for metric in (metrics.AnswerTokensOut(), metrics.AnswerSpeed()):
        assert score_one(metric, ASKED, answer) == written
