"""A judge as a user meets it: a sweep over real HTTP asks each distinct verdict once, and a second one nothing."""

from __future__ import annotations

import math
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ragsweep.ledger import Ledger
from ragsweep.results import Result
from ragsweep.testing.llm_server import Asked, LlmServer
from ragsweep.testing.llm_server.asked import default_answer
from test_cli import Ragsweep, environment, ragsweep, write_dataset

__all__ = ["environment", "ragsweep"]

METRICS = ("ragas_faithfulness", "ragas_context_precision_without_reference", "ragas_answer_relevancy")


def lines(server: LlmServer, tmp_path: Path, *more: str) -> list[str]:
    """Choose the judge, three of its metrics, and an llm that needs no service."""
    unwanted = ("answer_correctness", "factual_correctness", "semantic_similarity", "noise_sensitivity",
                "context_precision", "context_recall")  # fmt: skip
    data = write_dataset(tmp_path)
    return [
        *more, *data, "llm=extractive", "metrics=ragas", "judge=openai", f"judge.base_url={server.base_url}",
        "judge.key_env=JUDGE_KEY", "judge.retries=0", *(f"~metrics.ragas_{name}" for name in unwanted),
    ]  # fmt: skip


def results(tmp_path: Path) -> list[Result]:
    ledger = Ledger(tmp_path / ".ragsweep")
    found = [record.outcome for sweep in ledger.sweeps() for record in ledger.records(sweep.id)]
    return [outcome for outcome in found if isinstance(outcome, Result)]


def run(ragsweep: Ragsweep, *words: str) -> Any:
    return ragsweep(*words, OMP_NUM_THREADS="1", JUDGE_KEY="a-key-of-somebody")


def test_a_sweep_asks_each_distinct_verdict_once_and_the_next_asks_nothing(ragsweep: Ragsweep, tmp_path: Path) -> None:
    with LlmServer(key="a-key-of-somebody") as server:
        words = lines(server, tmp_path, "-m", "top_k=1,2", "tracking=none")
        done = run(ragsweep, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        asked = Counter(one.asked.digest for one in server.log)
        assert set(asked.values()) == {1}
        first = results(tmp_path)
        again = run(ragsweep, *words, "rerun=true")
        assert again.returncode == 0, again.stderr
        assert len(server.log) == sum(asked.values())
    second = results(tmp_path)[len(first) :]
    assert len(first) == len(second) == 2
    for one, other in zip(first, second, strict=True):
        for name in METRICS:
            assert one.summaries[name].n_scored > 0
            assert one.summaries[name].value == other.summaries[name].value
            assert one.summaries[name].n_failed == 0
    for folder, _, files in os.walk(tmp_path):
        for name in files:
            assert b"a-key-of-somebody" not in Path(folder, name).read_bytes(), name


def test_a_judge_that_fails_now_and_then_leaves_bounds_and_is_asked_again_for_the_rest(
    ragsweep: Ragsweep, tmp_path: Path
) -> None:
    asked: list[str] = []

    def once_wrong(asking: Asked) -> Any:
        asked.append(asking.digest)
        wrong = len(asked) <= 4 and "messages" in asking.body and "noncommittal" not in str(asking.schema)
        return "I would say 1" if wrong else default_answer(asking)

    with LlmServer(once_wrong, key="a-key-of-somebody") as server:
        words = lines(server, tmp_path, "-m", "top_k=1,2", "tracking=none", "judge.concurrency=1")
        first = run(ragsweep, *words)
        assert first.returncode == 1, first.stdout
        (told, _) = results(tmp_path)
        failed = [told.summaries[name] for name in METRICS if told.summaries[name].n_failed]
        assert failed
        for summary in failed:
            assert summary.reasons["malformed"] == summary.n_failed
            assert summary.n_scored + summary.n_skipped + summary.n_failed == summary.n_total
        answered = len(server.log)
        second = run(ragsweep, *words)
        assert second.returncode == 0, second.stdout + second.stderr
        assert 0 < len(server.log) - answered <= 8
    for one in results(tmp_path):
        for name in METRICS:
            assert one.summaries[name].n_failed == 0
            assert not math.isnan(one.summaries[name].value)


def test_a_wrong_key_is_one_line_and_costs_one_request(ragsweep: Ragsweep, tmp_path: Path) -> None:
    with LlmServer(key="another-key") as server:
        done = run(ragsweep, *lines(server, tmp_path, "tracking=none"))
        assert done.returncode == 1
        assert len(server.log) <= 3
    assert "401" in done.stdout + done.stderr
    assert "a-key-of-somebody" not in done.stdout + done.stderr


@pytest.mark.parametrize("word", ["judge.samples=0", "judge.model=null", "judge.temperature=9"])
def test_what_cannot_work_is_refused_before_anything_is_asked(word: str, ragsweep: Ragsweep, tmp_path: Path) -> None:
    with LlmServer() as server:
        done = run(ragsweep, *lines(server, tmp_path, "tracking=none", word))
        assert done.returncode == 2
        assert "judge." in done.stderr
        assert server.log == []
