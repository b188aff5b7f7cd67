"""``ragsweep golden pool`` as it is typed, on a sweep whose stages are stored, and on one of which only records are."""

import json
import math
import shutil
from pathlib import Path

import pytest

from ragsweep.commands.compare import compare
from ragsweep.core.errors import ConfigError, InputError
from ragsweep.parts.datasets import PythonReference
from ragsweep.parts.datasets.own_format import BUNDLED_QUESTIONS
from ragsweep.stages.store import open_store
from ragsweep.sweep.running.session import Session
from ragsweep_golden.commands import golden
from support import output, printed_json, read_rows, write_rows
from support.commands import CORPUS, GOLDEN, evaluate, write_dataset
from support.results import changed, changed_table, record_sweep

PARENT, TURNED = "feed" * 8, "dead" * 8


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Evaluate two configs that hand on two chunks each."""
    folder = tmp_path_factory.mktemp("sweep")
    words = [*write_dataset(folder), "tracking=none", "top_k=2", "retriever=vector", "embedder=hashing"]
    session = Session(folder=folder)
    session.evaluator.executor.store = open_store(folder / "stages", print)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        results = [evaluate(session, *words, *more) for more in ([], ["embedder.ngram=3"])]
    turned = [names[::-1] for names in results[0].questions["context"]]
    third = changed(results[0], signature="turned", questions=changed_table(results[0], {"context": turned}))
    record_sweep(folder, PARENT, *results)
    record_sweep(folder, TURNED, results[0], third)
    return folder


@pytest.fixture
def place(sweep: Path, cwd: Path) -> Path:
    shutil.copytree(sweep, cwd, dirs_exist_ok=True)
    return cwd


WORDS = ["pool", PARENT[:6], "golden=golden.jsonl", "out=pool.jsonl", "--path", "."]


def test_every_unjudged_chunk_of_every_ranking_is_in_the_pool(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert golden(WORDS) == 0
    found = read_rows(place / "pool.jsonl")
    assert {(one["id"], one["document"]) for one in found if one["ranks"].keys() == {"#1", "#2"}} == {
        (name, document) for name, own in (("q1", "cats"), ("q2", "dogs"), ("q3", "bread"))
        for document in ("cats", "dogs", "bread", "ships") if document != own
    }  # fmt: skip
    assert [one["impact"] for one in found] == sorted((one["impact"] for one in found), reverse=True)
    printed = capsys.readouterr().out
    assert "judged@10: 25 % of 24 chunks that 2 configs" in printed
    assert "9 unjudged passages of 3 questions" in printed


def test_without_stored_rankings_the_contexts_are_pooled(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(place / "stages")
    assert "only the contexts of #1, #2 are available" in output(capsys, golden, *WORDS)
    assert {rank for one in read_rows(place / "pool.jsonl") for rank in one["ranks"].values()} <= {1, 2}


def test_the_stored_rankings_of_a_later_corpus_are_not_those_of_the_sweep(place: Path) -> None:
    shutil.copy("corpus.jsonl", "copy.jsonl")
    words = [*write_dataset(place, corpus=[*CORPUS[::-1], {"id": "tea", "text": "Cats, dogs, bread."}]), "top_k=2"]
    session = Session(folder=place)
    session.evaluator.executor.store = open_store(place / "stages", print)
    for more in ([], ["embedder.ngram=3"]):
        evaluate(session, *words, "tracking=none", "retriever=vector", "embedder=hashing", *more)
    assert golden([*WORDS, "corpus=copy.jsonl"]) == 0
    found = read_rows(place / "pool.jsonl")
    shutil.copy("copy.jsonl", "corpus.jsonl")
    shutil.rmtree("stages")
    assert golden(WORDS) == 0
    assert found == read_rows(place / "pool.jsonl") != []


def test_another_corpus_is_refused(place: Path) -> None:
    (place / "corpus.jsonl").write_text(json.dumps({"id": "cats", "text": "Other words."}) + "\n")
    with pytest.raises(InputError, match="dataset of the sweep is missing, or its corpus has changed"):
        golden(WORDS)
    with pytest.raises(InputError, match="has another corpus"):
        golden([*WORDS, "corpus=corpus.jsonl"])


def test_a_depth_is_a_whole_number(place: Path) -> None:
    with pytest.raises(ConfigError, match="depth: must be a whole number of at least 1, got 'x'"):
        golden([*WORDS, "depth=x"])


def test_copies_that_the_evaluation_counts_are_judged(cwd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copies = [{**row, "id": f"{row['id']} (copy)"} for row in CORPUS]
    words = [*write_dataset(cwd, GOLDEN[:2], [*copies, *CORPUS]), "tracking=none", "top_k=2"]
    words.append("dataset.repeated_passages=true")
    session = Session(folder=cwd)
    session.evaluator.executor.store = open_store(cwd / "stages", print)
    record_sweep(cwd, PARENT, *(evaluate(session, *words, *more) for more in ([], ["retriever.b=.1"])))
    assert golden(WORDS) == 0
    assert read_rows(cwd / "pool.jsonl") == []
    printed = output(capsys, compare, f"{PARENT[:6]}#1", f"{PARENT[:6]}#2", "--path", ".", "--json")
    assert json.loads(printed[printed.index("{") :])["judged"]["share"] == 1


def test_a_given_corpus_of_the_bundled_set_counts_the_same_copies(cwd: Path) -> None:
    session = Session(folder=cwd)
    session.evaluator.executor.store = open_store(cwd / "stages", print)
    words = ["dataset=python_reference", "dataset.limit=40", "retriever=bm25", "tracking=none"]
    record_sweep(cwd, PARENT, *(evaluate(session, *words, *more) for more in ([], ["retriever.b=.1"])))
    corpus = PythonReference(None, 0).load().corpus
    rows = zip(corpus.ids, corpus.titles, corpus.texts, strict=True)
    write_rows(cwd / "corpus.jsonl", [{"id": name, "title": title, "text": text} for name, title, text in rows])
    pools = []
    for n, more in enumerate([[], ["corpus=corpus.jsonl"]]):
        assert golden(["pool", PARENT[:6], f"golden={BUNDLED_QUESTIONS}", f"out={n}.jsonl", "--path", ".", *more]) == 0
        pools.append(read_rows(cwd / f"{n}.jsonl"))
    assert pools[0] == pools[1]


def test_compare_bounds_what_unjudged_chunks_could_change(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [f"{TURNED[:6]}#{n}" for n in (1, 2)]  # the same chunks, in the other order
    found = printed_json(capsys, compare, *runs, "--path", ".")
    second = 1 / math.log2(3)  # the evidence is first of two, then second; the other chunk may be relevant, too
    assert found["judged"] == {"depth": 2, "share": 0.5, "low": pytest.approx(second - 1), "high": pytest.approx(0)}
    assert "judged@2: 50 % of both configs' chunks" in output(capsys, compare, *runs, "--path", ".")
    with (place / "golden.jsonl").open("a") as more:
        more.write(json.dumps({"id": "q9", "question": "one more", "evidence": [{"document": "cats"}]}) + "\n")
    found = printed_json(capsys, compare, *runs, "--path", ".")
    assert "judged" not in found  # other labels than those of the scores
