"""What a change of the corpus does to labels: exactly those that it hurts are named, and the sure ones repaired."""

import json
import random
import re
from pathlib import Path

import pytest

from ragsweep.core.types import Corpus, Evidence, Question
from ragsweep.golden.anchors import Span, resolve
from ragsweep_golden.evidence.quotes import shortest_anchor
from ragsweep_golden.labels.changes import AMBIGUOUS, DELETED, EDITED, MOVED, Verification, repair, verify_labels
from ragsweep_golden.sets.entries import as_label
from support.inputs.mutated_documents import Mutated, mutate

TEXT = "# Trees\n\nThe alder measures 10 metres. It grows beside water.\n\nThe birch measures 20 metres, and is pale.\n"
OTHER = "The yew is evergreen. It lives for two thousand years.\n"


def corpus(**texts: str) -> Corpus:
    return Corpus(list(texts), [""] * len(texts), list(texts.values()))


def changes(found: Verification) -> list[tuple[str, Evidence | None]]:
    return [(change.kind, change.new) for change in found.changes]


def verify(label: Evidence, new: Corpus, old: Corpus | None = None) -> list[tuple[str, Evidence | None]]:
    return changes(verify_labels([Question("q", "?", evidence=(label,))], new, old))


AT = TEXT.index("birch measures")
GROWS, BIRCH = Evidence("trees", "It grows beside water"), Evidence("trees", "measures", AT + 6)


@pytest.mark.parametrize(
    ("label", "new", "without_old", "with_old"),
    [
        # it holds
        (GROWS, corpus(trees="More. " + TEXT), [], []),
        (GROWS, corpus(trees=TEXT.replace("10", "12")), [], []),
        (GROWS, corpus(trees=TEXT.replace(" ", "\r\n")), [], []),
        (BIRCH, corpus(trees=TEXT.replace("\n", "\r\n")), [], []),
        (BIRCH, corpus(trees=TEXT.replace("pale", "white")), [], []),
        (Evidence("trees"), corpus(trees="Something else."), [], []),
        # moved: in the document, or with a document that is renamed or split
        (BIRCH, corpus(trees="More. " + TEXT), [(AMBIGUOUS, None)], [(MOVED, Evidence("trees", "measures", AT + 12))]),
        (
            Evidence("trees", "birch measures", AT),
            corpus(trees="More. " + TEXT),
            [(MOVED, Evidence("trees", "birch measures", AT + 6))],
            [(MOVED, Evidence("trees", "birch measures", AT + 6))],
        ),
        (GROWS, corpus(b=TEXT), *[[(MOVED, Evidence("b", GROWS.anchor))]] * 2),
        (GROWS, corpus(b=TEXT[:40], c=TEXT[39:]), *[[(MOVED, Evidence("c", GROWS.anchor))]] * 2),
        (Evidence("trees"), corpus(b=TEXT + "\n"), [(DELETED, None)], [(MOVED, Evidence("b"))]),
        # edited, deleted
        (GROWS, corpus(trees=TEXT.replace("beside", "near")), *[[(EDITED, None)]] * 2),
        (GROWS, corpus(trees=TEXT.replace("It grows beside water.", "")), *[[(DELETED, None)]] * 2),
        (GROWS, corpus(yew=OTHER), *[[(DELETED, None)]] * 2),
        (Evidence("trees"), corpus(yew=OTHER), *[[(DELETED, None)]] * 2),
        # ambiguous; the words around it tell them apart, where the old corpus is given
        (
            GROWS,
            corpus(trees=TEXT + "A willow? It grows beside water. "),
            [(AMBIGUOUS, None)],
            [(AMBIGUOUS, Evidence("trees", GROWS.anchor, TEXT.index("It grows")))],
        ),
        (GROWS, corpus(trees=TEXT + TEXT), [(AMBIGUOUS, None)], [(AMBIGUOUS, None)]),
        (GROWS, corpus(b=TEXT, c=TEXT), [(AMBIGUOUS, None)], [(AMBIGUOUS, None)]),
    ],
)
def test_a_label_has_one_fate(label: Evidence, new: Corpus, without_old: object, with_old: object) -> None:
    assert verify(label, new) == without_old
    assert verify(label, new, corpus(trees=TEXT)) == with_old


@pytest.mark.parametrize("grade", [0.0, 1.0, 2.0])
def test_a_label_is_not_moved_to_the_place_of_another_label_of_its_question(grade: float) -> None:
    there = Evidence("b", "The alder measures 10 metres", grade=grade)
    labels, new = (Evidence("trees", there.anchor), there), corpus(b=TEXT)
    found = verify_labels([Question("q", "?", evidence=labels)], new)
    assert changes(found) == [(MOVED, None)]
    assert found.changes[0].note.endswith(", where the question has another label; keep only one of the two")
    apart = [Question(name, "?", evidence=(label,)) for name, label in zip("qr", labels, strict=True)]
    assert changes(verify_labels(apart, new)) == [(MOVED, Evidence("b", there.anchor))]


def test_a_label_is_not_moved_to_the_new_place_of_a_re_encoded_label() -> None:
    quote, old = "The alder measures 10 metres", "\u00e9\u00e9\u00e9 " + TEXT
    labels = (Evidence("trees", quote, old.index(quote)), Evidence("gone", quote, 5))
    found = verify_labels([Question("q", "?", evidence=labels)], corpus(trees="e\u0301e\u0301e\u0301 " + TEXT))
    assert (len(found.renumbered), changes(found)) == (1, [(MOVED, None)])


def test_a_label_is_not_moved_to_the_place_that_a_label_without_a_repair_still_names() -> None:
    quote, mine, other = "It lives for years", "The old yew. {}, say some.", "The big oak. {} beside water and stones."
    labels = tuple(Evidence(name, quote, len("The old yew. ")) for name in ("trees", "gone"))
    old, new = corpus(trees=mine.format(quote), gone=other.format(quote)), corpus(trees=other.format(quote))
    found = verify_labels([Question("q", "?", evidence=labels)], new, old)
    assert [change.new for change in found.changes] == [None, None]
    assert verify(labels[1], new, old) == [(MOVED, labels[0])]


def test_of_two_labels_with_one_new_place_only_one_is_moved_there() -> None:
    labels, old = (Evidence("trees"), Evidence("copy", grade=2)), corpus(trees=TEXT, copy=TEXT)
    found = verify_labels([Question("q", "?", evidence=labels)], corpus(b=TEXT), old)
    assert changes(found) == [(MOVED, Evidence("b")), (MOVED, None)]


def test_few_words_that_other_documents_have_too_are_not_moved_without_the_old_corpus() -> None:
    label, new = Evidence("yew", "measures", 76), corpus(yew="It measures 9 metres.", trees=TEXT)
    assert verify(label, new) == [(MOVED, None)]
    assert verify(label, corpus(yew="It measures 9 metres.")) == [(MOVED, Evidence("yew", "measures", 3))]


def test_few_words_in_a_document_that_other_labels_name_are_another_passage() -> None:
    gone, there = Evidence("oak", "evergreen"), Evidence("yew", "two thousand years")
    new = corpus(yew=OTHER)
    found = verify_labels([Question("q", "?", evidence=(gone,)), Question("r", "?", evidence=(there,))], new)
    assert changes(found) == [(DELETED, None)]
    assert 'in document "yew" at 11' in found.changes[0].note
    assert verify(gone, new) == [(MOVED, Evidence("yew", "evergreen"))]  # a new name, as far as is known


def test_an_edited_passage_is_not_moved_to_a_document_that_repeats_its_earlier_words() -> None:
    label = Evidence("returns", "be confirmed within 59 days.")
    text = "A webhook must be confirmed within 59 days."
    new = corpus(returns="A return must be confirmed within 64 days.", api=text)
    assert verify(label, new) == [(EDITED, None)]


def test_an_edited_passage_is_found_in_the_renamed_document() -> None:
    new = corpus(yew=OTHER, b=TEXT.replace("beside", "near"))
    (change,) = verify_labels([Question("q", "?", evidence=(GROWS,))], new, corpus(trees=TEXT)).changes
    assert change.kind == EDITED
    assert 'most similar passage in document "b" at 39: "It grows near water' in change.note


def test_a_passage_that_was_there_before_is_not_where_another_moved() -> None:
    old = corpus(trees=TEXT, yew=OTHER + "It grows beside water.")
    new = corpus(trees=TEXT.replace("It grows beside water.", ""), yew_tree=OTHER + "It grows beside water.")
    assert verify(GROWS, new, old) == [(DELETED, None)]


def test_another_encoding_only_renumbers_starts() -> None:
    before, after = (
        corpus(a="Café au lait. The café is open."),
        corpus(a="Cafe\u0301  au lait.\r\nThe cafe\u0301 is open.\n"),
    )
    label = Evidence("a", "café is", before.texts[0].index("café is"))
    for old in (before, None):
        found = verify_labels([Question("q", "?", evidence=(label,))], after, old)
        assert changes(found) == []
        new = found.renumbered.get(label)
        if old:
            assert resolve(after.texts[0], "café is", new.start)


@pytest.mark.parametrize("before", [TEXT.replace("\n", "\r\n"), f"A line that is gone.\n{TEXT}"])
@pytest.mark.parametrize("with_old", [True, False])
def test_the_provenance_of_an_unchanged_label_follows_its_passage(before: str, with_old: bool) -> None:
    passage, question = "The alder measures 10 metres. It grows beside water.", Question("q", "?", evidence=(GROWS,))
    spans = [(text.index(passage), text.index(passage) + len(passage)) for text in (before, TEXT)]
    stated, wanted = ({"document": "trees", "start": start, "end": end} for start, end in spans)
    entry = {"evidence": [as_label(GROWS)], "content": {"passage": passage}, "provenance": stated}
    old, new = corpus(trees=before) if with_old else None, corpus(trees=TEXT)
    found = verify_labels([question], new, old)
    repair([entry], [question], found, new, old)
    assert (found.changes, entry["provenance"]) == ([], wanted)


def test_the_span_of_one_chunk_of_a_joined_passage_is_kept() -> None:
    passage, question = "The alder measures 10 metres. It grows beside water.", Question("q", "?", evidence=(GROWS,))
    first = {"document": "trees", "start": TEXT.index(passage), "end": TEXT.index(passage) + 29}
    entry = {"evidence": [as_label(GROWS)], "content": {"passage": passage}, "provenance": first}
    found = verify_labels([question], corpus(trees=TEXT), corpus(trees=TEXT))
    repair([entry], [question], found, corpus(trees=TEXT), None)
    assert entry["provenance"] == first


WORDS = [f"{a}{b}" for a in ("stone", "river", "cloud", "ember", "fern") for b in ("ing", "ed", "ful", "ly", "é", "s")]


@pytest.mark.parametrize("seed", range(10))
def test_exactly_the_hurt_labels_are_named(seed: int) -> None:
    draw = random.Random(seed)
    old = corpus(**{f"d{n}": " ".join(" ".join(draw.choices(WORDS, k=12)) + "." for _ in range(6)) for n in range(12)})
    labels = {}
    for name, text in zip(old.ids, old.texts, strict=True):
        for match in draw.sample(list(re.finditer(r"\w+ \w+ \w+", text)), 4):
            labels[Evidence(name, match[0], match.start())] = match.span()
    assert_exact(labels, old, seed, 0.8)


def assert_exact(labels: dict[Evidence, Span], old: Corpus, seed: int, share: float) -> Mutated:
    questions = [Question(f"q{n}", "?", evidence=(label,)) for n, label in enumerate(labels)]
    mutated = mutate(old, list(labels.items()), seed, share)
    found = verify_labels(questions, mutated.corpus, old)
    assert {change.old: (change.kind, change.new) for change in found.changes} == mutated.fates
    for label, new in found.renumbered.items():
        text = mutated.corpus.texts[mutated.corpus.position[new.document]]
        assert resolve(text, label.anchor or "", new.start)
    return mutated


@pytest.fixture(scope="module")
def squad(collections: Path) -> tuple[Corpus, list[tuple[str, Span]]]:
    """SQuAD's documents, and the places of all answers."""
    folder = collections / "squad2_dev"
    rows = [json.loads(line) for line in (folder / "corpus.jsonl").read_text(encoding="utf-8").split("\n") if line]
    answers = [json.loads(line) for line in (folder / "golden.jsonl").read_text(encoding="utf-8").split("\n") if line]
    places = {
        (row["context_id"], (span["start"], span["start"] + len(span["text"])))
        for row in answers
        for span in row["answer_spans"][:1]
    }
    return Corpus([row["_id"] for row in rows], [""] * len(rows), [row["text"] for row in rows]), sorted(places)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("quoted", [False, True])
def test_hurt_labels_of_squad_are_named(squad: tuple[Corpus, list[tuple[str, Span]]], seed: int, quoted: bool) -> None:
    old, places = squad
    labels: dict[Evidence, Span] = {}
    for name, (begin, end) in places:
        text = old.texts[old.position[name]]
        anchor, start = shortest_anchor(text, begin, end) if quoted else (text[begin:end], begin)
        (labels[Evidence(name, anchor, start)],) = resolve(text, anchor, start)
    mutated = assert_exact(labels, old, seed, 0.5)
    assert {kind for kind, _ in mutated.fates.values()} == {MOVED, EDITED, DELETED}
    assert mutated.re_encoded
    if quoted:  # without the old corpus the same labels are named; some that moved as ambiguous
        questions = [Question(f"q{n}", "?", evidence=(label,)) for n, label in enumerate(labels)]
        found = verify_labels(questions, mutated.corpus)
        assert {change.old for change in found.changes} == set(mutated.fates)
        repaired = [(change.new, mutated.fates[change.old][1]) for change in found.changes if change.new]
        assert sum(new != true for new, true in repaired) <= 0.005 * len(repaired)
