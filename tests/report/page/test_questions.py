"""The browser of questions, where there is an LLM: the prompt that was sent, the answer, what each step took."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragsweep.core.missing import ABSTAINED, UNANSWERABLE
from ragsweep.core.secrets import Secrets
from ragsweep.core.types import Passage, Request, Turn
from ragsweep.parts.prompts import Prompt
from ragsweep.report.page.questions import browse
from ragsweep.report.sweep_report import PageTexts
from ragsweep.sweep.running.session import Session
from support.pages import COUNT, HOSTILE, config, section_of
from support.results import FACTS, changed

PROMPT = Prompt("Answer between {fence}.", "Answer.", "{passages}\n\nQ: {question}", "[{number}] <{fence}>\n{text}",
                ["I don't know"], citations=False)  # fmt: skip
JUDGE = "judge/ragas_faithfulness"
STEPS = {"retrieve": {"ms": 1.5}, "generate": {"ms": 900.0, "tokens_in": 1200, "tokens_out": 80, "money": 0.0012},
         JUDGE: {"tokens_in": 2000, "tokens_out": 90, "words": "It says so. -> yes"}}  # fmt: skip


def request(name: str, context: Any) -> Request:
    passages = tuple(Passage(one, text(one)) for one in context)
    return Request(f"What is {name}?", passages, (Turn("user", HOSTILE),))


def text(name: str) -> str:
    return f"  text of {name}\n\n{HOSTILE} "


CHUNKS = {FACTS.corpus_digest: text}


def browser(**texts: Any) -> dict[str, Any]:
    results = [config(gain, 1, k=k) for k, gain in (("3", 0.0), ("5", 0.2))]
    more = {
        "steps": [json.dumps(STEPS)] + ["{}"] * (COUNT - 1),
        "abstained": [False, True] * (COUNT // 2),
        "answer_failed": ["timed out"] + [""] * (COUNT - 1),
        "answer_thoughts": ["", "Two or three?"] + [""] * (COUNT - 2),
    }
    results[1] = changed(results[1], more, config={"prices": {"currency": "EUR"}})
    (found,) = section_of(results, "questions", texts=PageTexts(**texts))
    return found


def test_the_prompt_is_the_one_that_was_sent_and_holds_no_text_twice() -> None:
    found = browser(chunks=CHUNKS, prompts=lambda _: lambda name, context: PROMPT.messages(request(name, context)))
    first = found["configs"][0]
    for name, context, messages in zip(found["ids"], first["contexts"], first["prompts"], strict=True):
        texts = ["".join(found["lines"][n] if n >= 0 else text(found["chunks"][~n]).strip() for n in pieces)
                 for _, pieces in messages]  # fmt: skip
        sent = PROMPT.messages(request(name, [found["chunks"][n] for n in context]))
        assert texts == [message["content"] for message in sent]
        assert [role for role, _ in messages] == ["system", "user", "user"]
        assert [~n for _, pieces in messages for n in pieces if n < 0] == context
    assert len(found["lines"]) == len(set(found["lines"]))
    assert not any("text of" in line for line in found["lines"])
    assert browser(chunks=CHUNKS)["configs"][0]["prompts"] == []


def test_chunks_with_one_name_have_the_texts_of_their_own_corpora() -> None:
    """Two editions of a corpus have the same documents, so their chunks have the same names."""
    edition = replace(FACTS, corpus_digest="e" * 64)
    results = [config(0.0, 1, k="3"), changed(config(0.2, 1, k="5"), dataset=edition)]
    readers = {FACTS.corpus_digest: "first {}".format, edition.corpus_digest: "second {}".format}

    def shown(**texts: Any) -> tuple[list[str], str]:
        given = PageTexts(prompts=lambda _: lambda name, context: PROMPT.messages(request(name, context)), **texts)
        found = browse(results, ["ndcg"], {}, {}, given)
        return [found["texts"][one["contexts"][0][0]] for one in found["configs"]], found["leftOut"]

    assert shown(chunks=readers) == (["first a:0", "second a:0"], "")
    del readers[edition.corpus_digest]
    assert shown(chunks=readers)[0] == ["first a:0", ""]
    assert shown(chunks=readers)[1].startswith("The texts of some configs' chunks are left out: the corpus is missing")


def test_texts_are_read_from_the_corpus_of_each_config(tmp_path: Path) -> None:
    (tmp_path / "golden.jsonl").write_text('{"id": "q", "question": "?", "evidence": [{"document": "d"}]}\n')
    results = []
    for name in ("first", "second"):
        (tmp_path / name).write_text(json.dumps({"id": "d", "text": f"text of the {name} edition"}) + "\n")
        node = {
            "_target_": "ragsweep.parts.datasets.Jsonl", "corpus": str(tmp_path / name), "limit": None, "seed": 0,
            "golden": str(tmp_path / "golden.jsonl"), "unknown": "error", "repeated_passages": False,
        }  # fmt: skip
        loaded = Session().builder.build(node, "dataset").value.load()
        dataset = replace(FACTS, corpus_digest=loaded.corpus.digest)
        results.append(changed(config(0.0, 1, k=name), dataset=dataset, config={"dataset": node}))
    texts = Session().page_texts(results, Secrets())
    readers = [texts.chunk(one) for one in results]
    assert [read and read("d") for read in readers] == ["text of the first edition", "text of the second edition"]
    (tmp_path / "first").write_text('{"id": "d", "text": "changed"}\n')
    assert [bool(Session().page_texts(results, Secrets()).chunk(one)) for one in results] == [False, True]


def test_evidence_and_prompts_are_of_the_golden_set_of_each_config(tmp_path: Path) -> None:
    (tmp_path / "corpus").write_text('{"id": "cat", "text": "a cat"}\n{"id": "dog", "text": "a dog"}\n')
    results = []
    for name in ("cat", "dog"):
        question = {"id": "q", "question": f"Where is the {name}?", "evidence": [{"document": name}]}
        (tmp_path / name).write_text(json.dumps(question) + "\n")
        node = {
            "_target_": "ragsweep.parts.datasets.Jsonl", "corpus": str(tmp_path / "corpus"), "limit": None, "seed": 0,
            "golden": str(tmp_path / name), "unknown": "error", "repeated_passages": False,
        }  # fmt: skip
        loaded = Session().builder.build(node, "dataset").value.load()
        facts = replace(FACTS, corpus_digest=loaded.corpus.digest, golden_digest=loaded.golden.digest)
        prompt = {
            "_target_": "ragsweep.parts.prompts.Prompt", "system": "", "system_alone": "", "passage": "{text}",
            "question": "{question}{passages}", "refusals": ["no"], "citations": False,
        }  # fmt: skip
        config_of = {"dataset": node, "llm": {"prompt": prompt}}
        one = config(0.0, 1, k=name)
        columns = {"question_id": ["q", *one.questions["question_id"][1:]],
                   "question": [question["question"], *one.questions["question"][1:]]}  # fmt: skip
        results.append(changed(one, columns, dataset=facts, config=config_of))
    texts = Session().page_texts(results, Secrets())
    asked = [read("q", [])[-1]["content"] for one in results if (read := texts.prompts(one))]
    assert asked == ["Where is the cat?", "Where is the dog?"]
    assert [texts.evidence[one.run.dataset.golden_digest] for one in results] == [{"q": ["cat"]}, {"q": ["dog"]}]
    edited = {"id": "q", "question": "Where is my cat?", "evidence": [{"document": "cat"}]}
    (tmp_path / "cat").write_text(json.dumps(edited) + "\n")
    read = Session().page_texts(results, Secrets()).prompts(results[0])
    assert read is not None
    assert read("q", []) == []  # the edited question was not sent
    (tmp_path / "dog").unlink()
    assert [bool(Session().page_texts(results, Secrets()).prompts(one)) for one in results] == [True, False]


def test_answers_have_what_became_of_them_and_what_each_step_took() -> None:
    retrieval, answers = (one["texts"] for one in sorted(browser()["configs"], key=lambda one: one["name"]))
    assert list(retrieval) == ["answer"]
    assert answers["thoughts"][:3] == ["", "Two or three?", ""]
    assert answers["no answer"][:3] == ["timed out", "declined", ""]
    assert answers["milliseconds"][0].split("\n") == ["retrieve 1.5", "generate 900"]
    assert answers["tokens read and written"][0].split("\n") == ["generate 1,200 + 80", f"{JUDGE} 2,000 + 90"]
    assert answers["cost, EUR"][:2] == ["generate 0.0012", ""]
    assert answers[JUDGE][0] == "It says so. -> yes"


def test_a_question_has_its_evidence_as_the_golden_set_labels_it() -> None:
    first = browser()["ids"][0]
    labels = {first: ["handbook: up to 120 euros", "policy"], "of another set": ["x"]}
    found = browser(evidence={FACTS.golden_digest: labels, "f" * 64: {first: ["label of another set"]}})
    assert found["expected"][:2] == [["handbook: up to 120 euros", "policy"], []]
    assert len(found["expected"]) == len(found["ids"])


def test_a_secret_is_masked_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", "question 17")
    monkeypatch.setenv("OTHER_TOKEN", "text of a:4")
    found = browser(chunks=CHUNKS, prompts=lambda _: lambda name, context: PROMPT.messages(request(name, context)))
    assert found["questions"][17] == "***"
    written = json.dumps(found)
    assert "question 17" not in written
    assert "text of a:4\\n" not in written
    assert "text of a:5\\n" in written


def test_a_declined_answer_is_worse_than_an_answer_as_in_comparisons() -> None:
    answers, declines = (config(gain, 1, k=k) for k, gain in (("3", 0.0), ("5", 0.2)))
    scores = [math.nan, math.nan, *declines.questions["ndcg"][2:]]
    unscored = [json.dumps({"ndcg": reason}) for reason in (ABSTAINED, UNANSWERABLE)] + ["{}"] * (COUNT - 2)
    declined = changed(declines, {"ndcg": scores, "unscored": unscored})
    found = browse([answers, declined], ["ndcg"], {}, {}, PageTexts())
    first, second = found["configs"]
    assert second["scores"]["ndcg"][:2] == [None, None]
    assert second["compared"] == [0, None, *second["scores"]["ndcg"][2:]]
    assert first["compared"] == first["scores"]["ndcg"]
