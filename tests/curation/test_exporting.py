"""What an export writes is what an import reads, for the fields that the format has; the others are counted."""

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsweep.core.errors import Faults
from ragsweep.core.types import Chunks, Corpus, Question, Spans
from ragsweep.golden.golden_format import read_question
from ragsweep.golden.reading import Row
from ragsweep.parts.datasets import Beir, Squad, Trec
from ragsweep_golden.exchange.benchmarks import export_beir, export_squad, export_trec, export_triplets
from ragsweep_golden.exchange.exporting import RECORDS, Exported, export_records, export_table
from ragsweep_golden.exchange.importing import import_file
from support.parts import Whole

TEXTS = {"alder/1": "The alder measures 10 metres. It grows beside water.", "a yew": "The yew\nis evergreen, and slow."}
CORPUS = Corpus(list(TEXTS), ["", ""], list(TEXTS.values()))
ANCHORS = {"alder/1": ["10 metres", "beside water"], "a yew": ["evergreen", "slow"]}

signs = st.characters(codec="utf-8", exclude_categories=("C", "Z"), include_characters=' ";,\n[{')
texts = st.text(signs, max_size=12)
filled = st.builds("{}x{}x".format, st.sampled_from(["", "", "=", "@", "'="]), texts)
words = st.text("abc;%2 ", min_size=1, max_size=5).map(lambda text: f"x{text}x")
labels = st.dictionaries(st.sampled_from(["team", "level"]), filled, max_size=2)
grades = st.sampled_from([1, 2, 0.5])
evidence = st.lists(
    st.sampled_from([(name, anchor) for name in TEXTS for anchor in [None, *ANCHORS[name]]]), unique=True, max_size=3
)


@st.composite
def entries(draw: st.DrawFn) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    has_weights = draw(st.booleans())
    for identifier in draw(st.lists(words, min_size=1, max_size=3, unique=True)):
        places = draw(evidence)
        answerable = bool(places) or draw(st.booleans())
        entry = {
            "id": identifier,
            "question": draw(filled),
            "reference": draw(filled),
            "references": draw(st.lists(filled, max_size=2)),
            "keywords": draw(st.lists(words, max_size=2)),
            "category": draw(filled) if answerable else "unanswerable",
            "notes": draw(texts),
            "labels": draw(labels),
            "language": draw(st.sampled_from(["", "en"])),
            "answerable": answerable,
            "weight": draw(st.integers(2, 5)) if has_weights else None,
            "evidence": [
                {"document": name, **({"anchor": anchor} if anchor else {}), "grade": draw(grades)}
                for name, anchor in places
            ],
            "classification": {"bloom": draw(st.sampled_from(["apply", ""]))},
        }  # fmt: skip
        found.append({name: value for name, value in entry.items() if value not in ("", [], {}, None, True)})
    return found


def read(entry: dict[str, Any]) -> Question:
    faults = Faults()
    question = read_question(Row("", entry, faults))
    assert faults.found == []
    return question


def write(folder: Path, exported: Exported, name: str = "set") -> Path:
    for path, text in exported.files.items():
        target = folder / path if path else folder / name
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="")
    return folder / name


@pytest.mark.parametrize("name", ["mlflow", "argilla", "labelstudio"])
@settings(max_examples=15, deadline=None)
@given(given=entries())
def test_records_with_metadata_lose_nothing(name: str, given: list[dict[str, Any]]) -> None:
    with TemporaryDirectory() as folder:
        exported = export_records(name, given, CORPUS, lines=False)
        records = json.loads(exported.files[""])
        for number, record in enumerate(records):  # the tool's own ids
            record |= {"dataset_record_id" if name == "mlflow" else "id": number}
        exported.files[""] = json.dumps(records)
        found = import_file(write(Path(folder), exported, "set.json"), "auto", CORPUS)
    assert exported.lost == {}
    assert found.format == name
    back = [
        {key: one for key, one in entry.items() if key not in ("audit", "schema_version")} for entry in found.entries
    ]
    assert back == given


@pytest.mark.parametrize("name", ["mlflow", "argilla", "labelstudio", "ragas"])
def test_evidence_in_a_document_of_json_can_be_imported_again(name: str, tmp_path: Path) -> None:
    corpus = Corpus(["limits"], [""], ['{"limits": [10, 20]}'])
    entry = {"id": "q1", "question": "How many?", "evidence": [{"document": "limits"}]}
    path = write(tmp_path, export_records(name, [entry], corpus, lines=False), "set.json")
    (found,) = import_file(path, "auto", corpus).entries
    whole = {"anchor": corpus.texts[0]} if name == "ragas" else {}
    assert found["evidence"] == [{"document": "limits"} | whole]


@pytest.mark.parametrize("name", ["mlflow", "argilla", "labelstudio"])
def test_keywords_that_look_like_lists_can_be_imported_again(name: str, tmp_path: Path) -> None:
    entry = {"id": "q1", "question": "How many?", "keywords": ["[1, 2]", " and", "3"]}
    (found,) = import_file(write(tmp_path, export_records(name, [entry], None, lines=False)), "auto", None).entries
    assert found["keywords"] == entry["keywords"]


def test_formulas_of_a_table_are_texts_with_an_apostrophe() -> None:
    entry = {"id": "+1", "question": "=1+1", "labels": {"@team": "'=2"}, "weight": -2}
    assert export_table([entry]).files[""].splitlines() == ["id,question,weight,'@team", "+1,'=1+1,-2,''=2"]


@settings(max_examples=25, deadline=None)
@given(given=entries())
def test_a_table_keeps_its_columns(given: list[dict[str, Any]]) -> None:
    with TemporaryDirectory() as folder:
        exported = export_table(given)
        found = import_file(write(Path(folder), exported, "set.csv"), "csv", None)
    for entry, other in zip(map(read, given), map(read, found.entries), strict=True):
        assert (other.id, other.text, other.category, other.answerable) == (
            entry.id, entry.text, entry.category, entry.answerable,
        )  # fmt: skip
        assert (other.references, other.notes, other.weight) == (entry.references[:1], entry.notes, entry.weight)
        assert other.keywords == tuple(one for one in entry.keywords if ";" not in one)
        assert [(one.document, one.anchor) for one in other.evidence] == [
            (one.document, one.anchor) for one in entry.evidence
        ]
        assert without(other.labels, "status") == without(entry.labels, "bloom")
    assert exported.lost["references"] == sum("references" in entry for entry in given)


def test_a_table_in_which_all_starts_or_grades_are_0_keeps_them(tmp_path: Path) -> None:
    label = {"document": "a yew", "anchor": "The yew", "start": 0, "grade": 0}
    exported = export_table([{"id": "q1", "question": "How?", "evidence": [label]}])
    assert exported.files[""].splitlines() == ["id,question,document,anchor,start,grade", "q1,How?,a yew,The yew,0,0"]
    (entry,) = import_file(write(tmp_path, exported, "set.csv"), "csv", None).entries
    assert entry["evidence"] == [label]


@pytest.mark.parametrize(
    "fields", [{"notes": "[1, 2]"}, {"notes": '["a"]'}, {"keywords": ["[1, 2]"]}, {"labels": {"team": "{'a': 1}"}}]
)
def test_a_text_that_a_table_would_read_as_a_list_is_omitted_and_counted(
    fields: dict[str, Any], tmp_path: Path
) -> None:
    plain = {"id": "q1", "question": "How?", "reference": "so"}
    exported = export_table([plain | fields])
    (entry,) = import_file(write(tmp_path, exported, "set.csv"), "csv", None).entries
    assert not {*fields} & {*entry}
    assert exported.notes == {"texts that look like a list or an object are omitted": 1}


@pytest.mark.parametrize("name", ["auto", "csv"])
def test_a_table_of_questions_without_answers_is_imported_again(name: str, tmp_path: Path) -> None:
    given = [{"id": "q1", "question": "How?", "notes": "n"}, {"id": "q2", "question": "Why?"}]
    found = import_file(write(tmp_path, export_table(given), "set.csv"), name, None)
    assert (found.format, [read(entry).text for entry in found.entries]) == ("csv", ["How?", "Why?"])


@pytest.mark.parametrize("name", ["csv", "ragas"])
def test_an_empty_question_is_imported_again(name: str, tmp_path: Path) -> None:
    given = [{"id": "q1", "question": "", "answerable": False}, {"id": "q2", "question": "Why?"}]
    exported = export_table(given) if name == "csv" else export_records(name, given, None, lines=True)
    found = import_file(write(tmp_path, exported, f"set.{'csv' if name == 'csv' else 'jsonl'}"), "auto", None)
    assert [read(entry).text for entry in found.entries] == ["", "Why?"]


def without(labels: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: label for name, label in labels.items() if name not in names}


@settings(max_examples=15, deadline=None)
@given(given=entries())
def test_beir_keeps_questions_labels_and_documents(given: list[dict[str, Any]]) -> None:
    usable = [entry for entry in given if entry.get("evidence") or "answerable" in entry]
    if not usable:
        return
    with TemporaryDirectory() as folder:
        exported = export_beir(given, CORPUS)
        write(Path(folder), exported)
        dataset = Beir(folder, "test", None, "error", None, 0).load()
    assert (dataset.corpus.ids, dataset.corpus.texts) == (CORPUS.ids, CORPUS.texts)
    for entry, other in zip(map(read, usable), dataset.golden.questions, strict=True):
        assert (other.id, other.text, other.answerable, other.weight, other.category) == (
            entry.id, entry.text, entry.answerable, entry.weight, entry.category,
        )  # fmt: skip
        assert {one.document: one.grade for one in other.evidence} == best_grades(entry)
        assert other.labels == without(entry.labels, "bloom")
    left = exported.notes["questions without evidence are not part of BEIR's split"]
    assert left == len(given) - len(usable)


def test_ids_of_beir_may_have_outer_spaces(tmp_path: Path) -> None:
    exported = export_beir([{"id": " q1", "question": "How?", "evidence": [{"document": "d "}]}],
                           Corpus(["d ", "a b"], ["", ""], ["one", "two"]))  # fmt: skip
    write(tmp_path, exported)
    dataset = Beir(str(tmp_path), "test", None, "error", None, 0).load()
    assert [(one.id, one.evidence[0].document) for one in dataset.golden.questions] == [("%20q1", "d%20")]
    assert dataset.corpus.ids == ["d%20", "a b"]
    assert exported.notes["ids with leading or trailing white space are percent-encoded"] == 2


def best_grades(entry: Question) -> dict[str, float]:
    best: dict[str, float] = {}
    for one in entry.evidence:
        best[one.document] = max(best.get(one.document, 0), one.grade, 1)
    return best


@settings(max_examples=15, deadline=None)
@given(given=entries())
def test_trec_keeps_topics_and_grades(given: list[dict[str, Any]]) -> None:
    usable = [entry for entry in given if entry.get("evidence")]
    if not usable:
        return
    with TemporaryDirectory() as place:
        folder = Path(place)
        write(folder, export_trec(given, CORPUS))
        files = [str(folder / name) for name in ("corpus.jsonl", "topics.tsv", "qrels.txt")]
        dataset = Trec(*files, ["title"], None, "error", None, 0).load()
    for entry, other in zip(map(read, usable), dataset.golden.questions, strict=True):
        assert other.text == " ".join(entry.text.split())
        wanted = {name.replace(" ", "%20"): grade for name, grade in best_grades(entry).items()}
        assert {one.document: one.grade for one in other.evidence} == wanted


@settings(max_examples=15, deadline=None)
@given(given=entries())
def test_squad_keeps_answers_that_stand_in_the_evidence(given: list[dict[str, Any]]) -> None:
    for entry in given:
        labels = [one for one in entry.get("evidence", ()) if "anchor" in one]
        labels = [one for one in labels if one["document"] == labels[0]["document"]]
        entry |= {"evidence": labels, "reference": None, "references": [one["anchor"] for one in labels]}
    with TemporaryDirectory() as folder:
        dataset = Squad(str(write(Path(folder), export_squad(given, CORPUS))), "error", None, 0).load()
    assert dataset.corpus.ids == ["alder/1", "a yew/1"]  # the first one's name is that of a paragraph
    assert dataset.corpus.texts == CORPUS.texts
    questions = {question.id: question for question in dataset.golden.questions}
    for entry in map(read, given):
        other = questions[entry.id]
        assert (other.text, other.answerable, other.weight) == (entry.text, entry.answerable, entry.weight)
        assert other.references == entry.references
        passages = {(one.document, one.anchor) for one in other.evidence}
        assert passages == {(f"{one.document.removesuffix('/1')}/1", one.anchor) for one in entry.evidence}


ANSWER = {"from_name": "reference", "type": "textarea", "value": {"text": ["11 metres"]}}


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("mlflow", {"expectations": {"expected_response": "11 metres"}}),
        ("argilla", {"responses": {"reference": [{"value": "11 metres", "user_id": "u"}]}}),
        ("labelstudio", {"annotations": [{"result": [ANSWER]}]}),
    ],
)
def test_what_was_edited_in_the_tool_wins(name: str, edit: dict[str, Any], tmp_path: Path) -> None:
    (record,) = json.loads(export_records(name, [HOW_TALL], CORPUS, lines=False).files[""])
    (tmp_path / "set.json").write_text(json.dumps([record | edit]))
    (entry,) = import_file(tmp_path / "set.json", "auto", CORPUS).entries
    assert entry["reference"] == "11 metres"
    assert entry["evidence"] == HOW_TALL["evidence"]


HOW_TALL = {
    "id": "q1", "question": "How tall?", "reference": "10 metres", "references": ["ten"], "category": "height",
    "labels": {"persona_name": "Ann", "team": "docs"}, "distractors": ["a yew"],
    "evidence": [{"document": "alder/1", "anchor": "10 metres", "grade": 2}, {"document": "a yew", "grade": 0}],
    "classification": {"bloom": "apply", "stratum": None},
}  # fmt: skip


def test_what_has_no_place_is_counted_field_by_field() -> None:
    exported = export_records("ragas", [HOW_TALL, {"id": "q2", "question": "x"}], CORPUS, lines=True)
    first, second = map(json.loads, exported.files[""].splitlines())
    assert first == {
        "user_input": "How tall?", "reference": "10 metres", "synthesizer_name": "height", "persona_name": "Ann",
        "reference_contexts": ["The alder measures 10 metres."], "reference_context_ids": ["alder/1"],
    }  # fmt: skip
    assert second == {"user_input": "x", "synthesizer_name": ""}
    assert exported.lost == {
        "id": 2, "references": 1, "labels.team": 1, "distractors": 1, "evidence.anchor": 1, "evidence.grade": 1,
        "classification.bloom": 1,
    }  # fmt: skip


def test_a_quote_longer_than_its_answer_is_cut_and_one_without_an_answer_becomes_one() -> None:
    quote = {"document": "alder/1", "anchor": "alder measures 10 metres"}
    given = [HOW_TALL | {"evidence": [quote, {"document": "a yew", "anchor": "slow"}]},
             HOW_TALL | {"id": "q2", "evidence": [quote | {"anchor": "beside water"}]}]  # fmt: skip
    exported = export_squad(given, CORPUS)
    paragraph = json.loads(exported.files[""])["data"][0]["paragraphs"][0]
    assert [question["answers"] for question in paragraph["qas"]] == [
        [{"text": "10 metres", "answer_start": 19}],
        [{"text": "beside water", "answer_start": 39}],
    ]
    assert exported.notes == {
        "pieces of evidence in a second document are omitted": 1, "quotes are cut to the answer in them": 1,
        "right answers that the evidence does not contain are omitted": 3, "quotes became answers": 1,
        "document ids get a number: guide.md/1": 1,
    }  # fmt: skip


def test_a_quote_with_several_answers_is_cut_once() -> None:
    quote = {"document": "alder/1", "anchor": "alder measures 10 metres"}
    entry = {"id": "q1", "question": "x", "reference": "10 metres", "references": ["10", "alder"], "evidence": [quote]}
    assert export_squad([entry], CORPUS).notes["quotes are cut to the answer in them"] == 1


def test_an_answer_of_squad_does_not_begin_within_a_word() -> None:
    corpus = Corpus(["a"], [""], ["In 2010 it measured 10 metres."])
    entry = {"id": "q1", "question": "x", "reference": "10", "references": ["metre"], "evidence": [{"document": "a"}]}
    exported = export_squad([entry], corpus)
    (question,) = json.loads(exported.files[""])["data"][0]["paragraphs"][0]["qas"]
    assert question["answers"] == [{"text": "10", "answer_start": 20}]
    assert exported.notes["right answers that the evidence does not contain are omitted"] == 1


def test_squad_counts_documents_whose_names_change(tmp_path: Path) -> None:
    bodies = {"T/1": "alpha one", "T/2": " ", "T/3": "gamma one", "T/4": "alpha one", "T/5": "epsilon"}
    corpus = Corpus(list(bodies), [""] * 5, list(bodies.values()))
    given = [{"id": name, "question": "x", "evidence": [{"document": name, "anchor": bodies[name].split()[0]}]}
             for name in bodies if name != "T/2"]  # fmt: skip
    exported = export_squad(given, corpus)
    path = write(tmp_path, exported, "set.json")
    dataset = Squad(path=str(path), unknown="error", limit=None, seed=0).load()
    found = {question.id: question.evidence[0].document for question in dataset.golden.questions}
    assert found == {"T/1": "T/1", "T/3": "T/3/1", "T/4": "T/1", "T/5": "T/5/1"}
    assert exported.notes == {
        "document ids get a number: guide.md/1": 2, "documents with the text of an earlier document get its name": 1,
        "quotes became answers": 4,
    }  # fmt: skip


def test_questions_whose_document_squad_cannot_contain_are_counted() -> None:
    away = {"id": "q2", "question": "x", "answerable": False, "provenance": {"document": "no such document"}}
    exported = export_squad([HOW_TALL, away], CORPUS)
    kept = [row["id"] for one in json.loads(exported.files[""])["data"] for row in one["paragraphs"][0]["qas"]]
    assert kept == [HOW_TALL["id"]]
    assert exported.notes["questions about a blank or missing document are omitted"] == 1


def test_a_long_answer_that_occurs_once_stands_in_squad_wherever_the_quote_is() -> None:
    text = CORPUS.texts[0]
    answer = " ".join(text.split()[-5:])
    quote = {"document": CORPUS.ids[0], "anchor": text.split()[0]}
    entry = HOW_TALL | {"reference": answer, "references": [], "evidence": [quote]}
    paragraph = json.loads(export_squad([entry], CORPUS).files[""])["data"][0]["paragraphs"][0]
    assert paragraph["qas"][0]["answers"] == [{"text": answer, "answer_start": text.index(answer)}]


def test_a_triplet_has_a_distractor_before_the_best_chunk_that_does_not_answer() -> None:
    bodies = ["The alder is tall: 10 metres.", "How tall? 10 metres, it is said.", "How tall is the birch?", "A yew."]
    corpus = Corpus(["a", "b", "c", "d"], [""] * 4, bodies)
    entry = {"id": "q", "question": "How tall is the alder?", "reference": "10 metres",
             "evidence": [{"document": "a", "anchor": "10 metres"}]}  # fmt: skip
    other = {"id": "s", "question": "It was said of a birch, said?", "evidence": [{"document": "b"}]}
    given = [entry, entry | {"distractors": ["d"]}, {"id": "r", "question": "x"}, other]
    exported = export_triplets(given, [read(one) for one in given], Chunks(corpus, Whole().split(corpus)))
    rows = [json.loads(line) for line in exported.files[""].splitlines()]
    assert [list(row.values()) for row in rows] == [
        ["How tall is the alder?", bodies[0], bodies[2]],
        ["How tall is the alder?", bodies[0], bodies[3]],
        [other["question"], bodies[1], bodies[2]],
    ]
    assert exported.notes == {"questions without evidence are omitted": 1}


def test_the_negative_of_a_triplet_has_no_part_of_the_evidence() -> None:
    text = "The alder has stood by the mill for a century and measures ten metres. The alder by the mill is green."
    cuts = [0, text.index("measures"), text.index("The alder by"), len(text)]
    spans = Spans(np.zeros(3, dtype=np.int64), np.array(cuts[:-1]), np.array(cuts[1:]))
    entry = {"id": "q", "question": "What measures ten metres by the mill?",
             "evidence": [{"document": "a", "anchor": text[: cuts[2] - 2]}]}  # fmt: skip
    exported = export_triplets([entry], [read(entry)], Chunks(Corpus(["a"], [""], [text]), spans))
    row = json.loads(exported.files[""])
    assert (row["positive"], row["negative"]) == (text[: cuts[1]], text[cuts[2] :])


def test_ragas_has_whole_documents_as_ids_or_as_passages(tmp_path: Path) -> None:
    whole, quote = {"document": "a yew"}, {"document": "alder/1", "anchor": "The alder measures 10 metres"}
    given = [{"id": f"q{n}", "question": "x", "evidence": one} for n, one in enumerate(([whole], [whole, quote]))]
    exported = export_records("ragas", given, None, lines=True)
    assert exported.notes == {"whole documents without text are omitted beside quotes": 1}
    entries = import_file(write(tmp_path, exported, "set.jsonl"), "auto", None).entries
    assert [entry["evidence"] for entry in entries] == [[whole], [quote]]
    exported = export_records("ragas", given, CORPUS, lines=True)
    assert exported.notes == {"whole documents became passages": 2}
    first, second = map(json.loads, exported.files[""].removesuffix("\n").split("\n"))
    assert first["reference_contexts"] == second["reference_contexts"][:1] == [TEXTS["a yew"]]


def test_every_record_format_is_recognised(tmp_path: Path) -> None:
    for name in RECORDS:
        path = write(tmp_path, export_records(name, [HOW_TALL], CORPUS, lines=False), "set.json")
        assert import_file(path, "auto", CORPUS).format == name


@pytest.mark.nightly
@pytest.mark.usefixtures("restored_uri")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore:The ``noload``")
def test_mlflow_itself_takes_and_gives_what_is_exported(tmp_path: Path) -> None:
    import mlflow
    from mlflow.genai.datasets import create_dataset, get_dataset

    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    experiment = mlflow.create_experiment("golden", artifact_location=(tmp_path / "files").as_uri())
    given = [HOW_TALL, {"id": "q2", "question": "Who?", "answerable": False}]
    dataset = create_dataset(name="golden", experiment_id=experiment)
    dataset.merge_records(json.loads(export_records("mlflow", given, CORPUS, lines=False).files[""]))
    records = get_dataset(dataset_id=dataset.dataset_id).to_df()
    records.to_json(tmp_path / "back.json", orient="records")
    records.to_csv(tmp_path / "back.csv", index=False)
    for name in ("back.json", "back.csv"):
        found = {entry["id"]: entry for entry in import_file(tmp_path / name, "auto", None).entries}
        for entry in given:
            assert {key: found[entry["id"]][key] for key in entry} == entry


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_ragas_itself_takes_and_gives_what_is_exported(tmp_path: Path) -> None:
    from ragas.testset.synthesizers.testset_schema import Testset

    records = json.loads(export_records("ragas", [HOW_TALL], CORPUS, lines=False).files[""])
    testset = Testset.from_list(records)
    testset.to_jsonl(tmp_path / "back.jsonl")
    testset.to_pandas().to_csv(tmp_path / "back.csv", index=False)
    for name in ("back.jsonl", "back.csv"):
        (entry,) = import_file(tmp_path / name, "auto", CORPUS).entries
        assert (entry["question"], entry["reference"], entry["category"]) == ("How tall?", "10 metres", "height")
        assert entry["labels"] == {"persona_name": "Ann"}
        assert entry["evidence"] == [{"document": "alder/1", "anchor": "The alder measures 10 metres."}]
