"""A model's questions are validated like any other: what it invents is rejected, and no call is made twice."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_server import LlmServer, ModelRequest
from ragsweep.core.errors import InputError
from ragsweep_golden.commands import golden
from support import read_rows

pytestmark = pytest.mark.slow

SENTENCE = "The {0} number {1} of the old orchard holds {2} litres of apple juice in winter and in summer alike."
INVENTED = "It was painted by Queen Mathilda during the siege of the northern harbour."


def answer(request: ModelRequest) -> str:
    """Write one question that the passage answers, one that is invented, and an object without an answer."""
    passage = request.last.partition("\n")[2].partition("</passage")[0]
    found = re.search(r"The (\w+) number (\d+)[^.]*holds (\d+) litres[^.]*\.", passage)
    assert found is not None, request.last
    if "of the type" in request.last:
        kind = request.last.rpartition("type ")[2].partition(":")[0]
        wrong = {"question": f"How many litres does the {found[1]} hold?", "missing": found[1]}
        missing = {"question": f"Who is the keeper Zebulon of {found[1]} {found[2]} ({kind})?", "missing": "Zebulon"}
        return json.dumps([missing, wrong])
    right = {
        "question": f"How much does {found[1]} {found[2]} hold?", "answer": f"{found[3]} litres of apple juice",
        "quote": found[0], "type": "procedural", "bloom": "apply", "reasoning": "single_fact",
    }  # fmt: skip
    false = [
        {**right, "question": f"Who painted {found[1]} {found[2]}?", "answer": INVENTED, "quote": INVENTED},
        {**right, "question": f"What holds {found[1]} {found[2]}?", "answer": f"{int(found[3]) + 1} litres of juice"},
    ]
    return "Here they are:\n" + json.dumps([right, *false, {"question": "?"}])


@pytest.fixture
def place(cwd: Path) -> Path:
    for n in range(6):
        page = cwd / "pages" / f"part{n}" / "page.md"
        page.parent.mkdir(parents=True)
        page.write_text("".join(f"{SENTENCE.format(('press', 'barrel')[k % 2], 10 * n + k, 100 + 10 * n + k)}\n\n"
                                for k in range(4)))  # fmt: skip
    return cwd


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with LlmServer(answer=answer) as one:
        yield one


def build(server: LlmServer) -> int:
    model = [f"llm.base_url={server.base_url}", "llm.model=writer", "llm.key_env=null", "llm.retries=0"]
    set_ = ["corpus=pages", "out=set", "language=en", "questions=12", "embedder=null", "chunker.size=300"]
    return golden(["build", *set_, "llm=openai", *model])


def test_what_a_model_invents_is_rejected_and_counted(place: Path, server: LlmServer) -> None:
    build(server)
    kept, rejected = read_rows(place / "set" / "golden.jsonl"), read_rows(place / "set" / "rejected.jsonl")
    written = [one for one in kept if one["processing"]["generator"] == "writer"]
    right = [one for one in written if one["answerable"]]
    assert len(right) >= 4
    for one in right:
        assert one["validation"]["method"] == "verbatim"
        assert one["reference"] in one["content"]["passage"]
        assert (one["classification"]["question_type"], one["classification"]["bloom"]) == ("procedural", "apply")
    for one in written:
        assert one["answerable"] or "Zebulon" in one["question"]
        assert one["processing"]["pattern"] == ("prompt" if one["answerable"] else "unanswerable_prompt")
    invented = [one for one in rejected if one.get("reference") == INVENTED]
    numbers = [one for one in rejected if one["question"].startswith("What holds")]
    assert len(invented) == len(numbers) >= 4
    assert all("the quoted evidence does not have" in one["notes"] for one in numbers)
    assert not any("Who painted" in one["question"] or "What holds" in one["question"] for one in kept)
    assert [one for one in rejected if one["question"].startswith("How many litres does the")]


def test_the_evidence_of_an_inexact_quote_is_the_sentence_that_it_resembles(place: Path) -> None:
    def reworded(request: ModelRequest) -> str:
        if "of the type" in request.last:
            return "[]"
        number, litres = re.findall(r"number (\d+)[^.]*holds (\d+) litres", request.last)[-1]  # in the last sentence
        item = {"question": f"What does number {number} hold?", "answer": f"{litres} litres\nin winter and in summer"}
        return json.dumps([{**item, "quote": f"The vessel number {number} holds {litres} litres of juice."}])

    with LlmServer(answer=reworded) as server:
        build(server)
    written = [one for one in read_rows(place / "set" / "golden.jsonl") if one["processing"]["generator"] == "writer"]
    assert written
    for one in written:
        assert one["question"].split()[3] in one["content"]["explanation"].partition(".")[0]
        assert one["evidence"][0]["anchor"] in one["content"]["explanation"]


def test_a_call_is_made_once_and_one_that_failed_is_made_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LlmServer(answer=answer, faults={"server_error": 0.5}, seed=3) as flaky:
        build(flaky)
        first = capsys.readouterr().out
        failed = [one for one in flaky.log if one.fault]
        assert failed
        assert "To repeat the failed calls, run the same command again." in first
        calls, flaky.faults = len(flaky.log), {}
        build(flaky)
        assert len(flaky.log) == calls + len(failed)
        assert "repeats" not in capsys.readouterr().out
    built = (place / "set" / "golden.jsonl").read_bytes()
    build(flaky)  # which has ended: all is there
    assert (place / "set" / "golden.jsonl").read_bytes() == built


def test_a_build_that_fails_states_what_its_calls_cost(
    place: Path, server: LlmServer, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "set" / "rejected.jsonl").mkdir(parents=True)  # written after the calls
    with pytest.raises(InputError, match=r"rejected\.jsonl"):
        build(server)
    assert f"{len(server.log)} calls" in capsys.readouterr().out
