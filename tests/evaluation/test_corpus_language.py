"""``language: auto`` is the corpus's: one language a corpus, resolved before a part is built, stated in the plan."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.building import Builder
from ragsweep.core.types import Question
from ragsweep.evaluation.corpus_language import corpus_language, language_lines, resolve_language
from ragsweep.parts.languages import sample_language
from ragsweep.parts.metrics import Bleu, ContainsAnswer, ExactMatch, RougeL, TokenF1, TokenRecall
from ragsweep.parts.retrievers import Bm25
from ragsweep.sweep.running.session import Session
from support import nightly
from support.commands import in_one_process, prepare, write_files
from support.metrics import score_one
from support.parts import corpus

BM25 = {"_target_": "ragsweep.parts.retrievers.Bm25", "language": "auto"}
WINDOW = {"_target_": "ragsweep.parts.chunkers.SentenceWindow", "language": "auto"}

TEXTS = {
    "english": "The cat is on the mat and it was there before the dog came into the house.",
    "french": "Le chat est sur le tapis et il y était avant que le chien ne vienne dans la maison.",
    "german": "Die Katze ist auf der Matte und sie war schon da, bevor der Hund in das Haus kam.",
    "spanish": "El gato está sobre la alfombra y ya estaba allí antes de que el perro entrara en la casa.",
    "italian": "Il gatto è sul tappeto e era già lì prima che il cane entrasse nella casa di lui.",
    "dutch": "De kat zit op de mat en ze was er al voordat de hond in het huis kwam met hem.",
    "portuguese": "O gato está no tapete e já estava lá antes que o cão entrasse na casa dele.",
    "russian": "Кошка сидит на ковре, и она была там до того, как собака вошла в дом.",
    "chinese": "猫在垫子上。狗进屋之前它就在那里了。",
    "japanese": "猫はマットの上にいて、犬が家に入る前からそこにいました。",
    "korean": "고양이는 매트 위에 있고 개가 집에 들어오기 전부터 거기에 있었습니다.",
    "thai": "แมวอยู่บนเสื่อและมันอยู่ที่นั่นก่อนที่สุนัขจะเข้ามาในบ้าน",
    "arabic": "القطة على السجادة وكانت هناك قبل أن يدخل الكلب إلى البيت.",
}
UNKNOWN = {
    "polish": "Warszawa jest stolicą Polski i największym miastem kraju. W czasie drugiej wojny światowej zostało"
    " niemal całkowicie zniszczone, a po wojnie odbudowano je z wielkim wysiłkiem. To tutaj mieszkał Chopin, o którym"
    " pisano wiele książek, i do dziś jego muzyka jest grana na ulicach oraz w parkach.",
    "danish": "København er Danmarks hovedstad og den største by i landet. Byen ligger på øerne Sjælland og Amager, og"
    " har omkring en million indbyggere. Det var her at kongen boede i flere hundrede år, men i dag er slottet åbent.",
    "vietnamese": "Hà Nội là thủ đô của nước Việt Nam và là một trong hai thành phố lớn nhất. Thành phố nằm bên bờ sông"
    " Hồng và có hơn tám triệu dân. Từ năm 1010 nơi đây đã là kinh đô của nhiều triều đại.",
    "hungarian": "Budapest Magyarország fővárosa és legnagyobb városa. A Duna két partján fekszik, és több mint másfél"
    " millió ember él benne. A város három részből jött létre, és ma az ország gazdasági központja.",
    "ukrainian": "Кішка сидить на килимі, вона була там до того, як собака ввійшла в дім із вулиці.",
    "mongolian": "Энэ нь ширээн дээр байна, тэр үүнийг гэртээ уншихыг хүсэж байна.",
    "bulgarian": "Котката седи на килима и беше там, преди кучето да влезе в къщата. Столицата на България беше"
    " най-големият град в страната. Разположена в западната част на страната, в подножието на планината Витоша, тя има"
    " повече от милион жители. Оттук тръгват пътища към всички части, много музеи и театри работят в центъра на града"
    " и посрещат много гости. През лятото улиците остават тихи, защото хората пътуват към морето и планините.",
    "persian": "گربه روی فرش است و پیش از آمدن سگ به خانه آنجا بود.",
    "no language": "w1 w22 w7 w103 w58 w9",
    "nothing": "",
}


def test_a_text_shows_its_language_and_another_language_is_taken_for_none() -> None:
    assert {name: sample_language([text] * 3).name for name, text in TEXTS.items()} == {name: name for name in TEXTS}
    assert {name: sample_language([text] * 3).name for name, text in UNKNOWN.items()} == dict.fromkeys(UNKNOWN, "")
    assert sample_language([]).name == ""


@pytest.mark.parametrize(
    ("language", "searched", "cut"),
    [("english", "english", "english"), ("french", "french", "french"), ("german", "german", "german"),
     ("chinese", "none", "english"), ("thai", "none", "english"), ("", "english", "english")],
)  # fmt: skip
def test_auto_becomes_the_language_of_the_corpus_where_the_part_accepts_it(
    language: str, searched: str, cut: str
) -> None:
    read = corpus([TEXTS.get(language, "w1 w2")] * 4)
    tree = {
        "retriever": {"legs": {"a": BM25, "b": {**BM25, "language": "english"}}},
        "parts": [WINDOW],
        "language": "auto",
    }
    found = resolve_language(tree, read)
    legs = found["retriever"]["legs"]
    assert (legs["a"]["language"], legs["b"]["language"], found["parts"][0]["language"]) == (searched, "english", cut)
    assert found["language"] == "auto"  # of no part
    assert tree["retriever"]["legs"]["a"]["language"] == "auto"  # type: ignore[index]


@pytest.mark.parametrize("node", [BM25, WINDOW])
def test_a_resolved_part_has_the_address_of_the_one_that_names_the_language(node: dict[str, Any]) -> None:
    for language in ("english", "french", "german"):
        resolved = resolve_language(node, corpus([TEXTS[language]]), "part")
        assert Builder().build(resolved, "part").spec == Builder().build({**node, "language": language}, "part").spec


@given(st.lists(st.sampled_from(sorted(TEXTS)), min_size=1, max_size=30))
def test_the_language_is_the_most_frequent_and_shares_add_up(names: list[str]) -> None:
    found = sample_language([TEXTS[name] for name in names])
    assert names.count(found.name) == max(map(names.count, names))
    assert found.shares == pytest.approx({name: names.count(name) / len(names) for name in set(names)})
    assert found.is_mixed == (found.shares[found.name] < 0.9)


def test_documents_are_read_across_the_whole_corpus() -> None:
    found = corpus_language(corpus([TEXTS["english"]] * 700 + [TEXTS["french"]] * 300))
    assert (found.name, found.texts, found.shares) == ("english", 200, {"english": 0.7, "french": 0.3})


def test_real_collections_have_their_language(collections: Path) -> None:
    expected = {"python_faq_en": "english", "squad2_dev": "english", "piaf_1_1": "french", "python_faq_fr": "french"}
    for folder, language in expected.items():
        lines = (collections / folder / "corpus.jsonl").read_text("utf-8").splitlines()
        found = corpus_language(corpus([json.loads(line)["text"] for line in lines]))
        assert (found.name, found.is_mixed) == (language, folder == "python_faq_fr"), folder


@pytest.mark.parametrize("name", sorted({*TEXTS, *UNKNOWN} - {"no language", "nothing"}))
def test_every_script_is_searched_and_compared(name: str) -> None:
    """With ``auto``, a query equal to a text finds that text, and equal texts score 1 in every word comparison."""
    text, others = {**TEXTS, **UNKNOWN}[name], [one for key, one in TEXTS.items() if key != name]
    texts = [*others, text]
    part = Builder().build(resolve_language(BM25, corpus([text])), "retriever").value
    assert isinstance(part, Bm25)
    ranking = part.retrieve(part.build(texts), [text], 3)
    assert ranking.positions[0, 0] == len(others)
    for metric in (ExactMatch(), TokenF1(), TokenRecall(), ContainsAnswer(), RougeL(), Bleu()):
        assert score_one(metric, Question("q", text, references=(text,)), text) == pytest.approx(1.0), metric.name


# --- in a config ----------------------------------------------------------------------------------------------------


def written(folder: Path, *languages: str, asked: str) -> list[str]:
    """Write a corpus with a document in each language, and a question in one; choose them."""
    documents = [{"id": f"d{n}", "text": TEXTS[name]} for n, name in enumerate(languages)]
    golden = [{"id": "q", "question": f"{TEXTS[asked]} ?", "category": "c", "evidence": [{"document": "d0"}]}]
    return write_files(folder, documents, golden, f"{folder}/")


def lines(*overrides: str) -> list[tuple[str, str]]:
    session = Session()
    return language_lines([prepare(session, *overrides)], session.builder.build)


@pytest.mark.parametrize(
    "option", ["retriever=bm25", nightly("retriever=hybrid_rrf"), nightly("chunker=sentence_window")]
)
def test_a_config_records_the_resolved_language_and_has_the_signature_of_the_explicit_one(
    option: str, tmp_path: Path
) -> None:
    key = {"retriever=bm25": "retriever", "retriever=hybrid_rrf": "retriever.legs.bm25"}.get(option, "chunker")
    for language in ("english", "french", "german"):
        data = [*written(tmp_path, language, language, asked=language), option]
        found, explicit = prepare(Session(), *data), prepare(Session(), *data, f"{key}.language={language}")
        assert found.signature == explicit.signature
        assert found.config == explicit.config
        assert found.parameters == explicit.parameters
        assert found.parameters[f"{key}.language"] == language


def test_an_english_corpus_needs_no_line(tmp_path: Path) -> None:
    data = written(tmp_path, *["english"] * 9, "french", asked="english")
    assert lines(*data, "llm=extractive") == []


def test_the_plan_names_a_language_that_is_not_english_and_a_mixed_corpus(tmp_path: Path) -> None:
    data = written(tmp_path, *["german"] * 4, asked="german")
    assert lines(*data, "retriever=bm25") == [("language", "german, of the corpus (100 % of 4 documents)")]
    data = written(tmp_path, *["english"] * 3, "french", asked="english")
    expected = "english, of the corpus (75 % of 4 documents; 25 % french)"
    assert lines(*data, "retriever=bm25") == [("language", expected)]


def test_what_is_made_for_another_language_is_noted_with_the_override_that_fits(tmp_path: Path) -> None:
    data = written(tmp_path, "french", asked="french")
    fact = "the corpus is French: "
    stated = ("language", "french, of the corpus (100 % of 1 document)")
    embedder = ("note", f"{fact}embedder=minilm is trained on English; embedder=use_multilingual supports French")
    assert lines(*data, "retriever=bm25") == [stated]
    assert lines(*data, "retriever=hybrid_rrf") == [stated, embedder]
    assert lines(*data, "embedder=hashing") == [stated]
    rules = "retriever.language=english applies the rules of English; set retriever.language=french"
    assert lines(*data, "retriever=bm25", "retriever.language=english") == [stated, ("note", fact + rules)]
    assert lines(*data, "retriever=bm25", "retriever.language=none") == [stated]
    model = ["retriever=bm25", "llm=openai", "llm.base_url=http://localhost/v1", "llm.model=m", "llm.key_env=null",
             "~metrics.semantic_similarity"]  # fmt: skip
    prompt = ("note", f"{fact}prompt=default is written in English; prompt=default_fr is in French")
    assert lines(*data, *model) == [stated, prompt]
    assert lines(*data, *model, "prompt=default_fr") == [stated]


def test_questions_in_another_language_than_the_corpus_are_noted(tmp_path: Path) -> None:
    data = written(tmp_path, "english", asked="french")
    fact = "the corpus is English and the questions are French: BM25 finds only words that both languages share"
    note = f"{fact}; try retriever=vector embedder=use_multilingual"
    assert lines(*data, "retriever=bm25") == [("note", note)]
    assert lines(*data, "retriever=vector", "embedder=hashing") == []


def test_an_external_system_needs_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGSWEEP_TRUSTED_PACKAGES", "support")
    data = written(tmp_path, "french", asked="french")
    assert lines(*data, "system=search", "system.url=http://localhost/search") == []


def test_the_command_prints_the_lines_before_the_plan(tmp_path: Path) -> None:
    typed = [*written(tmp_path, "french", asked="french"), "retriever=bm25", "tracking=none"]
    commands = {"plan": ["run", *typed, "plan=true"], "json": ["run", *typed, "plan=json"], "run": ["run", *typed]}
    done = in_one_process(commands, tmp_path)
    stated = "language  french, of the corpus (100 % of 1 document)\nplan "
    assert {name: status for name, (status, _) in done.items()} == dict.fromkeys(commands, 0)
    assert [stated in done[name][1] for name in commands] == [True, False, True]
