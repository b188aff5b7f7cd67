"""A judge as a user meets it: a sweep over real HTTP asks each distinct verdict once, and a second one nothing."""

import math
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from llm_server import LlmServer, ModelRequest
from llm_server.requests import default_answer
from ragsweep.core.results import Result
from ragsweep.records.ledger import Ledger
from support.commands import GOLDEN, Ragsweep, write_dataset

pytestmark = pytest.mark.slow

KEY = "a-key-of-somebody"
RAGAS = ("ragas_faithfulness", "ragas_context_precision_without_reference", "ragas_answer_relevancy")
SWAYED = ("judge_swayed",)
UNWANTED = ("answer_correctness", "factual_correctness", "semantic_similarity", "noise_sensitivity",
            "context_precision", "context_recall")  # fmt: skip
CHOSEN = {
    RAGAS: ["metrics=ragas", *(f"~metrics.ragas_{name}" for name in UNWANTED)],
    SWAYED: ["metrics=[retrieval,swayed]", "metrics.judge_swayed.share=1"],
}
ANSWERED = [{**row, "references": ["On the mat."]} for row in GOLDEN[:3]]


def lines(server: LlmServer, tmp_path: Path, metrics: tuple[str, ...], *more: str) -> list[str]:
    """Choose the judge and some of its metrics, and an llm at the same service: no model is loaded here."""
    data = write_dataset(tmp_path, ANSWERED)
    return [
        *more, *data, *CHOSEN[metrics], "tracking=none", "targets=none", "chunker=none", "llm=openai",
        f"llm.base_url={server.base_url}", "llm.model=m", "llm.key_env=LLM_KEY", "judge=openai",
        f"judge.base_url={server.base_url}", "judge.key_env=JUDGE_KEY", "judge.retries=0",
        "~metrics.semantic_similarity",
    ]  # fmt: skip


def to_judge(server: LlmServer) -> Counter[str]:
    """Count what the judge was asked, by the question: it alone has to keep to a schema, or embeds."""
    return Counter(
        one.request.digest for one in server.log if one.request.schema is not None or "input" in one.request.body
    )


def results(tmp_path: Path) -> list[Result]:
    ledger = Ledger(tmp_path / ".ragsweep")
    found = [record.outcome for sweep in ledger.sweeps() for record in ledger.records(sweep.id)]
    return [outcome for outcome in found if isinstance(outcome, Result)]


def run(ragsweep: Ragsweep, *words: str, llm_key: str = KEY) -> Any:
    return ragsweep(*words, OMP_NUM_THREADS="1", JUDGE_KEY=KEY, LLM_KEY=llm_key)


METRICS = [SWAYED, pytest.param(RAGAS, marks=pytest.mark.nightly)]  # ragas takes seconds to import


@pytest.mark.parametrize("metrics", METRICS, ids=["swayed", "ragas"])
def test_a_sweep_asks_each_distinct_verdict_once_and_the_next_asks_nothing(
    metrics: tuple[str, ...], ragsweep: Ragsweep, tmp_path: Path
) -> None:
    with LlmServer(key=KEY) as server:
        words = lines(server, tmp_path, metrics, "-m", "top_k=1,2")
        done = run(ragsweep, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        assert set(to_judge(server).values()) == {1}
        asked, first = len(server.log), results(tmp_path)
        again = run(ragsweep, *words, "rerun=true")
        assert again.returncode == 0, again.stderr
        assert len(server.log) == asked
    second = results(tmp_path)[len(first) :]
    assert len(first) == len(second) == 2
    for one, other in zip(first, second, strict=True):
        for name in metrics:
            assert one.summaries.metrics[name].n_scored > 0
            assert one.summaries.metrics[name].value == other.summaries.metrics[name].value
            assert one.summaries.metrics[name].n_failed == 0
    for folder, _, files in os.walk(tmp_path):
        for name in files:
            assert KEY.encode() not in Path(folder, name).read_bytes(), name


@pytest.mark.parametrize("metrics", METRICS, ids=["swayed", "ragas"])
def test_a_judge_that_fails_now_and_then_leaves_bounds_and_is_asked_again_for_the_rest(
    metrics: tuple[str, ...], ragsweep: Ragsweep, tmp_path: Path
) -> None:
    asked: list[str] = []

    def once_wrong(asking: ModelRequest) -> Any:
        if asking.schema is None or "noncommittal" in str(asking.schema):
            return default_answer(asking)
        asked.append(asking.digest)
        return "I would say 1" if len(asked) <= 4 else default_answer(asking)

    with LlmServer(once_wrong, key=KEY) as server:
        words = lines(server, tmp_path, metrics, "-m", "top_k=1", "judge.concurrency=1")
        first = run(ragsweep, *words)
        assert first.returncode == 1, first.stdout
        (told,) = results(tmp_path)
        failed = [told.summaries.metrics[name] for name in metrics if told.summaries.metrics[name].n_failed]
        assert failed
        for summary in failed:
            assert summary.reasons["malformed"] == summary.n_failed
            assert summary.n_scored + summary.n_skipped + summary.n_failed == summary.n_total
        answered = len(server.log)
        second = run(ragsweep, *words)
        assert second.returncode == 0, second.stdout + second.stderr
        assert 0 < len(server.log) - answered <= 8
    for one in results(tmp_path):
        for name in metrics:
            assert one.summaries.metrics[name].n_failed == 0
            assert not math.isnan(one.summaries.metrics[name].value)


def test_a_wrong_key_is_one_line_and_costs_one_request(ragsweep: Ragsweep, tmp_path: Path) -> None:
    with LlmServer(key="another-key") as server:
        done = run(ragsweep, *lines(server, tmp_path, SWAYED), llm_key="another-key")
        assert done.returncode == 1
        assert 1 <= to_judge(server).total() <= 3
    assert "401" in done.stdout + done.stderr
    assert KEY not in done.stdout + done.stderr


LATER = [pytest.param(word, marks=pytest.mark.nightly) for word in ("judge.samples=0", "judge.temperature=9")]


@pytest.mark.parametrize("word", ["judge.model=null", *LATER])
def test_what_cannot_work_is_refused_before_anything_is_asked(word: str, ragsweep: Ragsweep, tmp_path: Path) -> None:
    with LlmServer() as server:
        done = run(ragsweep, *lines(server, tmp_path, SWAYED, word))
        assert done.returncode == 2
        assert "judge." in done.stderr
        assert server.log == []
