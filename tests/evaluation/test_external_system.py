"""A system that exists already is a config like any other; a router decides what is searched for."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import forked
from ragsweep.core.results import Result
from ragsweep.records.ledger import Ledger

ROOT = Path(__file__).parents[2]
CORPUS = [
    {"id": "cats", "title": "Cats", "text": "A cat purrs when it is content.\n\nA cat sleeps for many hours a day."},
    {"id": "dogs", "title": "", "text": "A dog barks at strangers. A dog likes long walks."},
]
GOLDEN = [
    {"id": "q1", "question": "What does a content cat do?", "reference": "It purrs.",
     "evidence": [{"document": "cats", "anchor": "cat purrs"}]},
    {"id": "q2", "question": "What does a dog like?", "reference": "long walks",
     "evidence": [{"document": "dogs", "anchor": "likes long walks"}]},
    {"id": "q3", "question": "What do fish eat?", "answerable": False},
    {"id": "q4", "question": "Hello!", "needs_retrieval": False},
]  # fmt: skip
MODULE = """
def ask(question):
    if "cat" in question:
        return {"answer": "It purrs.", "contexts": ["A cat purrs when it is content. A cat sleeps for many hours"]}
    if "dog" in question:
        return {"answer": "bones", "contexts": ["made up", "A dog barks at strangers."], "ids": ["dogs", "dogs"]}
    if "fish" in question:
        raise RuntimeError("no fish here")
    return "Hello to you."
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, rows in (("corpus", CORPUS), ("golden", GOLDEN)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "animals.py").write_text(MODULE)
    return tmp_path


JSONL = ("dataset=jsonl", "dataset.corpus=corpus.jsonl", "dataset.golden=golden.jsonl")


def run(folder: Path, *overrides: str, status: int = 0, dataset: Sequence[str] = JSONL) -> tuple[dict[str, Any], str]:
    """Run one config; return its results and what it printed."""
    told = {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
            "RAGSWEEP_TRUSTED_PACKAGES": "animals", "COLUMNS": "160"}  # fmt: skip
    done = forked.run(
        [sys.executable, "-m", "ragsweep", "run", *dataset, "tracking=none", "targets=none", "hydra.run.dir=out",
         "retriever=bm25", *overrides],
        cwd=folder, env={**os.environ, **told}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    found = folder / "out" / "results.json"
    return (json.loads(found.read_text()) if found.exists() else {}), done.stdout + done.stderr


def test_a_system_is_scored_like_a_config(folder: Path) -> None:
    _, shown = run(
        folder,
        "system=python",
        "system.function=animals.ask",
        "coverage=0",
        "~metrics.semantic_similarity",
        "chunker=none",
    )
    (kept,) = Ledger(folder / ".ragsweep").singles()
    record = kept.outcome
    assert isinstance(record, Result)
    table = record.outcomes
    assert list(table["answer"]) == ["It purrs.", "bones", "", "Hello to you."]
    assert list(table["context_recall"])[:2] == [1.0, 0.0]
    assert list(table["exact_match"])[:2] == [1.0, 0.0]
    retrieved, rank = table["retrieved"], table["first_evidence_rank"]
    assert [retrieved[n] for n in (0, 1, 3)] == [1, 2, 0]
    assert math.isnan(retrieved[2])  # it failed; the greeting has no context
    assert math.isnan(rank[2])
    assert table["context"][0] == ["cats:0-60"]
    assert record.summaries["exact_match"].n_failed == 1
    assert json.loads(table["unscored"][2])["refusal"] == "the system raised an error"
    assert record.warnings[0].startswith("1 contexts of the system were not found")
    assert "not found in the corpus" in shown


def test_the_document_of_a_query_is_taken_out_of_the_contexts_of_a_system(folder: Path) -> None:
    copied = {"_id": "cats", "text": GOLDEN[0]["question"]}
    corpus = [{"_id": one["id"], "text": one["text"]} for one in CORPUS]
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("cats\tdogs\t1\nq2\tdogs\t1\n")
    for name, rows in (("corpus", corpus), ("queries", [copied, {"_id": "q2", "text": GOLDEN[1]["question"]}])):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    lengths = {}
    for excluded in ("false", "true"):
        beir = ("dataset=beir", "dataset.path=.", f"dataset.exclude_self={excluded}")
        run(folder, "system=python", "system.function=animals.ask", "metrics=retrieval", dataset=beir)
        record = Ledger(folder / ".ragsweep").singles()[-1].outcome
        assert isinstance(record, Result)
        lengths[excluded] = list(record.outcomes["retrieved"])
    assert lengths == {"false": [1, 2], "true": [0, 2]}


def test_what_a_system_said_is_kept_and_asked_again_only_where_it_failed(folder: Path) -> None:
    command = ("system=python", "system.function=animals.ask", "coverage=0", "~metrics.semantic_similarity")
    (folder / "animals.py").write_text(
        MODULE.replace("def ask(question):", "def ask(question):\n    open('log', 'a').write(question[-5:])")
    )
    run(folder, *command)
    first = len((folder / "log").read_text())
    run(folder, *command)
    assert len((folder / "log").read_text()) == first + len("eat?") + 1


def test_a_system_answers_by_itself(folder: Path) -> None:
    _, shown = run(folder, "system=python", "system.function=animals.ask", "llm=extractive", status=2)
    assert "llm=none" in shown


def test_a_router_keeps_conversation_out_of_the_search(folder: Path) -> None:
    patterns = "router.conversation=['hello','what do fish']"
    run(folder, "router=rule", patterns)
    (kept,) = Ledger(folder / ".ragsweep").singles()
    record = kept.outcome
    assert isinstance(record, Result)
    table = record.outcomes
    assert list(table["router_accuracy"]) == [1.0, 1.0, 0.0, 1.0]
    assert list(table["retrieved"])[2:] == [0, 0]
    assert list(table["missed_search"])[:3] == [0.0, 0.0, 1.0]
    assert record.summaries["needless_search"].value == 0.0
    assert list(table["searched"]) == [True, True, False, False]
    assert record.summaries["search_rate"].value == 0.5


def test_without_a_router_the_golden_set_decides_and_the_address_differs(folder: Path) -> None:
    run(folder)
    run(folder, "router=rule")
    signatures = {record.signature for record in (kept.outcome for kept in Ledger(folder / ".ragsweep").singles())}
    assert len(signatures) == 2
