"""Judgements of a person: none is lost or doubled by a kill at any moment, and no other page can make one."""

import gzip
import http.client
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from ragsweep.core.errors import Faults, InputError
from ragsweep.core.types import Corpus
from ragsweep.golden.golden_format import read_questions
from ragsweep_golden.commands.review import open_review
from ragsweep_golden.review.server import ReviewServer
from ragsweep_golden.review.tasks import AROUND, Review, passage_tasks, question_tasks
from ragsweep_golden.sets.entries import incoherences, read_entries, value
from ragsweep_golden.sets.files import read_changes, write_rows
from support.inputs.tool_files import parquet_of

SENTENCE = "The alder measures ten metres"


def silver(n: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"q{n}", "question": f"How tall is alder {n}?", "reference": "ten metres",
        "evidence": [{"document": "alder", "anchor": SENTENCE}],
        "content": {"passage": f"{SENTENCE}."},
        "multiple_choice": {"question": f"How tall is alder {n}? Which is right?", "choices": ["one", "ten metres"],
                            "correct": 1, "answer": "ten metres"},
        "audit": {"status": "silver", "created_by": "build"}, **changes,
    }  # fmt: skip


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    write_rows(tmp_path / "set" / "golden.jsonl", [silver(n) for n in range(12)])
    return tmp_path / "set" / "golden.jsonl"


def read(golden: Path) -> dict[str, dict[str, Any]]:
    faults = Faults()
    entries = {one["id"]: one for one, _ in read_entries(golden, faults)}
    faults.raise_any()
    return entries


def judge(review: Review, n: int, action: str = "accept", **more: Any) -> None:
    review.judge({"id": f"{action}{n}", "task": review.tasks[n]["task"], "action": action, **more})


def reviewed(golden: Path, entry: Mapping[str, Any], action: str = "accept", **more: Any) -> dict[str, Any]:
    """Return the only entry of a golden file after the judgement of a person."""
    write_rows(golden, [entry])
    review = open_review(golden, None, "anna")
    judge(review, 0, action, **more)
    review.journal.finish()
    (found,) = read(golden).values()
    return found


def reviews_of(golden: Path) -> dict[str, list[Mapping[str, Any]]]:
    return {name: found for name, one in read(golden).items() if (found := value(one, "audit", "reviews"))}


def test_review_that_does_not_open_or_end_leaves_its_journal_to_the_next(golden: Path, tmp_path: Path) -> None:
    (tmp_path / "pool.jsonl").write_text("no JSON\n")
    with pytest.raises(InputError, match="pool"):  # and nothing open: the warning of it would fail the test
        open_review(golden, str(tmp_path / "pool.jsonl"), "anna")
    review = open_review(golden, None, "anna")
    judge(review, 0)
    write_rows(golden, [silver(n) for n in range(1, 12)])
    with pytest.raises(InputError, match='judgements of "q0", which is no longer in'):
        review.journal.finish()
    write_rows(golden, [silver(n) for n in range(12)])
    with closing(open_review(golden, None, "anna").journal):
        assert [*reviews_of(golden)] == ["q0"]


def test_a_judgement_during_a_merge_is_kept(tmp_path: Path) -> None:
    golden = tmp_path / "golden.jsonl"
    write_rows(golden, [silver(n) for n in range(300)])
    review = open_review(golden, None, "anna")

    def judge_many() -> None:
        for n in range(30):
            judge(review, n)

    thread = Thread(target=judge_many)
    thread.start()
    while thread.is_alive():
        review.journal.fold()
    thread.join()
    review.journal.finish()
    assert len(reviews_of(golden)) == 30


@pytest.fixture
def served(golden: Path) -> Iterator[ReviewServer]:
    server = ReviewServer(open_review(golden, None, "anna"), 0)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
    server.review.journal.close()


def ask(server: ReviewServer, path: str, body: Any = None, **headers: str) -> tuple[int, Any, bytes]:
    """Send a GET request, or a POST request with a body."""
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=10)  # type: ignore[arg-type]
    given = {"Content-Type": "application/json", **{key.replace("_", "-"): text for key, text in headers.items()}}
    connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), given)
    reply = connection.getresponse()
    with closing(connection):
        return reply.status, reply.headers, reply.read()


def post(server: ReviewServer, name: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    status, _, text = ask(server, f"/{server.token}/{name}", body or {}, **headers)
    return status, json.loads(text)


def test_confirmed_judgements_survive_a_kill_once_each(served: ReviewServer, golden: Path, tmp_path: Path) -> None:
    journal = served.review.journal.path
    for n in range(10):
        body = {"id": f"j{n}", "task": served.review.tasks[n]["task"], "action": "reject" if n == 3 else "accept"}
        assert post(served, "judge", body)[0] == 200
        assert post(served, "judge", body)[0] == 200  # the page did not get the reply, and asks again
        killed = tmp_path / f"killed{n}"
        shutil.copytree(golden.parent, killed)
        with (killed / journal.name).open("ab") as torn:
            torn.write(b'{"id": "half a li')
        again = open_review(killed / "golden.jsonl", None, "anna")
        assert again.recovered == n + 1
        assert {name: len(found) for name, found in reviews_of(killed / "golden.jsonl").items()} == {
            f"q{number}": 1 for number in range(n + 1)
        }
        assert len(again.tasks) == 12 - n - 1
        again.journal.close()
    before = journal.read_bytes()
    assert before.count(b"\n") == 10
    assert post(served, "done") == (200, {"folded": 10})
    folded = golden.read_bytes()
    journal.write_bytes(before)  # killed after the golden file was written, and before the journal was emptied
    assert served.review.journal.fold() == 10
    assert golden.read_bytes() == folded
    assert [(one["who"], one["changed"]) for one in read_changes(golden)] == [("anna", 10)]
    assert value(read(golden)["q3"], "validation", "status") == "rejected"


def test_a_review_says_who_when_and_what_changed_and_the_entry_stays_coherent(golden: Path) -> None:
    review = open_review(golden, None, "anna")
    judge(review, 0)
    judge(review, 1, "reject")
    judge(review, 2, "edit", question="How many metres has alder 2?", reference="ten metres, roughly")
    review.journal.finish()
    assert not review.journal.path.exists()
    found = read(golden)
    assert [value(found[f"q{n}"], "audit", "status") for n in range(4)] == ["gold", "silver", "gold", "silver"]
    assert [value(found[f"q{n}"], "validation", "status") for n in range(3)] == ["validated", "rejected", "validated"]
    (review_of_2,) = value(found["q2"], "audit", "reviews")
    assert (review_of_2["who"], review_of_2["what"], review_of_2["when"][:2]) == ("anna", "corrected", "20")
    assert review_of_2["changed"] == {
        "question": ["How tall is alder 2?", "How many metres has alder 2?"],
        "reference": ["ten metres", "ten metres, roughly"],
    }
    assert [value(found[name], "validation", "answer_in_evidence") for name in ("q0", "q2")] == [None, False]
    assert found["q2"]["multiple_choice"] == {
        "question": "How many metres has alder 2? Which is right?", "choices": ["one", "ten metres, roughly"],
        "correct": 1, "answer": "ten metres, roughly",
    }  # fmt: skip
    assert [list(incoherences(found[name])) for name in ("q0", "q2")] == [[], []]
    assert found["q3"] == silver(3)
    faults = Faults()
    assert [one.id for one in read_questions(golden, "", faults).questions][:2] == ["q0", "q2"]  # q1 is not asked
    assert faults.found == []


@pytest.mark.parametrize(
    ("wrong", "keywords", "right", "kept"),
    [
        ("ten metres", ["Metres", "ten", "height"], "twelve metres", ["Metres", "height"]),
        ("5 metres", ["5", "metres"], "15 metres", ["metres"]),  # a number is not a part of another number
    ],
)
def test_a_corrected_answer_loses_the_keywords_that_only_the_wrong_one_had(
    wrong: str, keywords: list[str], right: str, kept: list[str], golden: Path
) -> None:
    entry = silver(0, reference=wrong, keywords=keywords)
    assert reviewed(golden, entry, "edit", question=entry["question"], reference=right)["keywords"] == kept


def test_whether_the_passage_has_a_corrected_answer_is_unknown_without_a_passage(golden: Path) -> None:
    entry = silver(0, content=None, validation={"answer_in_evidence": True})
    found = reviewed(golden, entry, "edit", question=entry["question"], reference="ten metres at most")
    assert value(found, "validation", "answer_in_evidence") is None


def test_a_harvested_question_that_was_accepted_needs_no_review_any_more(golden: Path) -> None:
    write_rows(golden, [silver(n, notes="needs_review: asked 2 times") for n in range(2)])
    review = open_review(golden, None, "anna")
    judge(review, 0)
    review.journal.finish()
    assert [one["notes"] for one in read(golden).values()] == ["asked 2 times", "needs_review: asked 2 times"]


def test_what_was_taken_back_or_judged_again_counts_as_it_was_left(golden: Path) -> None:
    review = open_review(golden, None, "anna")
    judge(review, 0)
    judge(review, 1)
    assert review.undo() is not None
    review.judge({"id": "second", "task": review.tasks[0]["task"], "action": "reject"})
    judge(review, 2)
    judge(review, 2, "reject")
    assert (review.undo() or {})["id"] == "reject2"
    review.journal.finish()
    found = {name: [one["what"] for one in some] for name, some in reviews_of(golden).items()}
    assert found == {"q0": ["rejected"], "q2": ["accepted"]}


def pooled(golden: Path, *documents: str) -> tuple[Review, list[dict[str, Any]]]:
    """Open a review of passages, one a document."""
    row = {"id": "q0", "anchor": "a few words", "passage": "so, a few words.", "title": "", "sentence": "a few words."}
    pool = [{**row, "document": document, "impact": 0.5, "ranks": {"#1": 2}} for document in documents]
    path = golden.with_name("pool.jsonl")
    write_rows(path, pool)
    return open_review(golden, str(path), "anna"), pool


def test_a_judged_passage_is_evidence_with_its_grade_and_is_not_asked_again(golden: Path) -> None:
    review, pool = pooled(golden, "oak", "elm", "fir")
    for n, grade in enumerate((2, 0)):
        review.judge({"id": str(n), "task": review.tasks[n]["task"], "grade": grade})
    review.journal.finish()
    entry = read(golden)["q0"]
    judged = [{"document": name, "anchor": "a few words", "grade": grade} for name, grade in (("oak", 2), ("elm", 0))]
    assert entry["evidence"] == silver(0)["evidence"] + judged
    assert [one["what"] for one in value(entry, "audit", "reviews")] == [
        'grade 2 for "a few words" in oak',
        'grade 0 for "a few words" in elm',
    ]
    assert value(entry, "audit", "status") == "silver"
    assert [one["document"] for one in passage_tasks(pool, [entry])] == ["fir"]
    with pytest.raises(InputError, match='"q0", which is not in the golden file'):
        passage_tasks(pool, [silver(1)])


def test_a_file_that_is_no_pool_and_a_port_that_is_none_are_refused(golden: Path) -> None:
    with pytest.raises(InputError, match='has no "ranks"; pool= must be a file that ragsweep golden pool wrote'):
        open_review(golden, str(golden), "anna")
    review = open_review(golden, None, "anna")
    for port in ("x", 65536):
        with pytest.raises(InputError, match=f"port={port}: cannot be used: .*; use port=0 for a free port"):
            ReviewServer(review, port)
    review.journal.close()


def test_only_the_page_itself_can_judge(served: ReviewServer) -> None:
    assert served.server_address[0] == "127.0.0.1"
    body = {"id": "x", "task": served.review.tasks[0]["task"], "action": "accept"}
    own = f"127.0.0.1:{served.server_port}"
    for status, headers in {
        403: ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": f"evil.example:{served.server_port}"}),
        415: ({"Content_Type": "text/plain"},),
        413: ({"Content_Length": str(2**21)},),
    }.items():
        assert {post(served, "judge", body, **one)[0] for one in headers} == {status}
    token = served.token
    for path in ("/", "/guessed/", f"/{token[:-1]}/", f"/{token}/../", f"/{token}/judge"):
        assert ask(served, path)[0] == 404
    assert ask(served, "/guessed/judge", body)[0] == 404
    assert post(served, "judge", {**body, "task": "none"}) == (400, {"error": "there is no such task; reload the page"})
    assert served.review.judged() == {}
    assert post(served, "judge", body, Origin=f"http://{own}")[0] == 200
    status, headers, _ = ask(served, f"/{token}/")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert (status, headers["Referrer-Policy"]) == (200, "no-referrer")


def test_a_question_without_a_passage_is_shown_with_the_words_around_its_evidence() -> None:
    corpus = Corpus(["tree"], [""], [f"{'x' * 500} The alder grows to 10 metres. {'y' * 500}"])
    entry = {"id": "q", "question": "How tall?", "evidence": [{"document": "tree", "anchor": "10 metres"}],
             "audit": {"status": "silver"}}  # fmt: skip
    (task,) = question_tasks([entry], corpus)
    assert "The alder grows to 10 metres." in task["passage"]
    assert (len(task["passage"]), task["document"]) == (2 * AROUND + len("10 metres"), "tree")
    assert question_tasks([entry])[0]["passage"] == ""


def test_a_question_with_several_pieces_of_evidence_is_shown_with_all_that_are_relevant() -> None:
    far = "x" * 3 * AROUND
    corpus = Corpus(["oak", "yew", "elm"], [""] * 3, [f"Old at 900. {far} Tall at 30.", "Old at 4,000.", "Never old."])
    labels = [("oak", "at 900", 1), ("yew", "at 4,000", 2), ("oak", "at 30", 1), ("elm", "Never", 0)]
    evidence = [{"document": name, "anchor": anchor, "grade": grade} for name, anchor, grade in labels]
    entry = {"id": "q", "question": "How old?", "evidence": evidence, "audit": {"status": "silver"}}
    (task,) = question_tasks([entry], corpus)
    assert task["document"] == "oak, yew"
    assert [line.strip("x ") for line in task["passage"].split("\n")] == [
        "oak:", "Old at 900.", "[...]", "Tall at 30.", "", "yew:", "Old at 4,000.",
    ]  # fmt: skip


def test_a_question_whose_passage_has_only_its_first_evidence_is_shown_with_the_rest() -> None:
    corpus = Corpus(["oak", "yew"], [""] * 2, ["Some say: old at 900. Tall at 30.", "Old at 4,000."])
    evidence = [{"document": "oak", "anchor": "old at 900"}, {"document": "yew", "anchor": "at 4,000"}]
    entry = {"id": "q", "question": "How old?", "evidence": evidence, "audit": {"status": "silver"},
             "content": {"passage": "old at 900"}, "provenance": {"document": "oak"}}  # fmt: skip
    ((with_corpus,), (without,)) = (question_tasks([entry], given) for given in (corpus, None))
    assert with_corpus["document"] == without["document"] == "oak, yew"
    assert with_corpus["passage"] == f"oak:\n{corpus.texts[0]}\n\nyew:\nOld at 4,000."
    assert without["passage"] == "old at 900\n\nyew:\nat 4,000"
    (whole,) = question_tasks([{**entry, "content": {"passage": "Old at 900? old at 900; yews at 4,000"}}], corpus)
    assert whole["passage"] == "Old at 900? old at 900; yews at 4,000"


def test_a_question_of_a_conversation_is_shown_with_the_turns_before_it() -> None:
    turns = [{"role": "user", "text": "Where is the alder?"}, {"role": "assistant", "text": "By the pond."}]
    entry = {"id": "q", "question": "And how tall?", "history": turns, "audit": {"status": "silver"}}
    found = {"id": "q", "document": "tree", "anchor": "10 metres", "ranks": {"bm25": 1}, "passage": "", "sentence": ""}
    (task,), (passage,) = question_tasks([entry]), passage_tasks([found], [entry])
    assert task["history"] == passage["history"] == turns


GIVEN = {"id": "a", "task": "t", "entry": "q0", "action": "accept", "who": "anna", "when": "2026-01-01"}
GRADED = {**GIVEN, "evidence": {"document": "oak", "anchor": "a few"}, "grade": 1}
DAMAGES = [
    b"", b"[]", b"5", b"null", b"{", b"\xff", b"{}", b"[" * 100_000, b'{"undo": 5}', b'{"undo": ""}',
    *(json.dumps({**GIVEN, name: odd}).encode() for name in GIVEN for odd in (None, 5, ["a"], {}, "" )),
    *(json.dumps({key: one for key, one in GIVEN.items() if key != name}).encode() for name in GIVEN),
    json.dumps({**GIVEN, "action": "delete"}).encode(), json.dumps({**GIVEN, "action": "edit"}).encode(),
    json.dumps({**GIVEN, "action": "edit", "question": 5, "reference": ""}).encode(),
    *(json.dumps({**GRADED, "grade": odd}).encode() for odd in (True, 1.0, 4, -1, "1", None, [1])),
    *(json.dumps({**GRADED, "evidence": odd}).encode() for odd in (5, "oak", ["oak"], {}, {"document": 5},
                                                                 {"document": "oak"})),
    json.dumps({**GRADED, "note": "\u00e9"}, ensure_ascii=False).encode("latin-1"),
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=range(len(DAMAGES)))
def test_damaged_line_of_a_journal_is_refused_with_its_number(damage: bytes, golden: Path) -> None:
    journal, before = golden.with_name("golden.jsonl.reviews.jsonl"), golden.read_bytes()
    journal.write_bytes(json.dumps(GIVEN).encode() + b"\n" + damage + b"\n")
    content = journal.read_bytes()
    with pytest.raises(InputError, match=r"golden\.jsonl\.reviews\.jsonl:2"):
        open_review(golden, None, "anna")
    assert (golden.read_bytes(), journal.read_bytes()) == (before, content)


def test_a_link_to_a_golden_file_is_the_same_review_and_stays_a_link(golden: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.jsonl"
    link.symlink_to(golden)
    review = open_review(golden, None, "anna")
    for path in (golden, link):
        with pytest.raises(InputError, match="being reviewed by another process"):
            open_review(path, None, "berta")
    review.journal.finish()
    review = open_review(link, None, "berta")
    judge(review, 0)
    review.journal.finish()
    assert link.is_symlink()
    assert reviews_of(golden)["q0"][0]["who"] == "berta"
    assert [one["who"] for one in read_changes(link)] == ["berta"]
    assert [path.name for path in tmp_path.glob("*.jsonl*")] == ["link.jsonl"]


def test_a_gzipped_golden_file_stays_gzipped(tmp_path: Path) -> None:
    golden = tmp_path / "golden.jsonl.gz"
    assert value(reviewed(golden, silver(0)), "audit", "status") == "gold"
    assert json.loads(gzip.decompress(golden.read_bytes()))["id"] == "q0"


def test_a_golden_file_that_cannot_be_written_is_refused_before_it_is_judged(tmp_path: Path) -> None:
    golden = tmp_path / "golden.parquet"
    golden.write_bytes(parquet_of(silver(0)))
    with pytest.raises(InputError, match="Parquet files can be read, but not written"):
        open_review(golden, None, "anna")
    assert [path.name for path in tmp_path.iterdir()] == ["golden.parquet"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_golden_file_keeps_its_mode_and_its_journal_is_no_more_open(mode: int, golden: Path) -> None:
    golden.chmod(mode)
    review = open_review(golden, None, "anna")
    judge(review, 0)
    assert review.journal.path.stat().st_mode & 0o777 & ~mode == 0
    review.journal.finish()
    assert golden.stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("grade", [7, True, 1.0, "1", None])
def test_grade_of_another_type_is_refused_before_it_is_kept(grade: object, golden: Path) -> None:
    review, _ = pooled(golden, "oak")
    with pytest.raises(InputError, match="whole number from 0 to 3"):
        review.judge({"id": "x", "task": review.tasks[0]["task"], "grade": grade})
    assert review.journal.lines() == []
    review.journal.close()


def test_a_note_in_place_of_an_earlier_review_is_kept(golden: Path) -> None:
    entry = silver(0, audit={"status": "silver", "reviews": ["checked by Ann"]})
    note, added = value(reviewed(golden, entry), "audit", "reviews")
    assert (note, added["who"], added["what"]) == ("checked by Ann", "anna", "accepted")
