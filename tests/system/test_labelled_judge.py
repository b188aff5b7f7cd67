"""Few labels, many verdicts, as a user meets them: a sweep, the judge's calibration, compare, gate, the sweep again."""

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_server import LlmServer, ModelRequest
from ragsweep.commands.compare import compare
from ragsweep.commands.gate import gate
from ragsweep.commands.judge import judge
from ragsweep.core.errors import ConfigError, InputError
from ragsweep.records.ledger import Ledger
from ragsweep.sweep import sweeping
from support import write_rows
from support.commands import read, write_dataset

M = "judge_swayed"
COUNT = 60


def chance(*words: object) -> float:
    return random.Random(str(words)).random()


def swayed(model: str, question: str) -> bool:
    """Return what people find: both models are as bad."""
    return chance("people", model, question) < 0.5


def reply(asked: ModelRequest) -> Any:
    """Answer as the model that is asked; as the judge, flag what people flag of a, and hardly anything of b."""
    text = str(asked.body["messages"][-1]["content"])
    if asked.schema is None:
        return f"{asked.body['model']} on {re.findall(r'thing [a-z]+', text)[-1]}"
    found = re.search(r"([ab]) on (thing [a-z]+)", text)
    assert found
    model, question = found.groups()
    flagged = swayed(model, question) if model == "a" else chance("judge", question) < 0.1
    return {"reason": "so it is", "verdict": int(flagged)}


def question(number: int) -> str:
    letters = random.Random(number)
    return "thing " + "".join(letters.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(20))


def typed(server: LlmServer, folder: Path) -> list[str]:
    """Write documents, questions and labels, and return the overrides of the sweep."""
    numbers = range(COUNT)
    corpus = [{"id": f"d{n}", "text": f"This is {question(n)}."} for n in numbers]
    golden = [{"id": f"q{n}", "question": question(n), "references": [f"reference {n}"],
               "evidence": [{"document": f"d{n}"}]} for n in numbers]  # fmt: skip
    drawn = random.Random(0).sample(numbers, 30)
    given = [(f"q{n}", f"model={model}", int(swayed(model, question(n)))) for n in drawn for model in "ab"]
    names = ("question_id", "run", "label")
    write_rows(folder / "labels.jsonl", [{**dict(zip(names, one, strict=True)), "metric": M} for one in given])
    return [
        *write_dataset(folder, golden, corpus), "llm.model=a,b", "chunker=none", "metrics=[retrieval,swayed]",
        f"metrics.{M}.share=1", "~metrics.semantic_similarity",
        f"objective={M}", "tracking=none", "targets=none", "llm=openai", f"llm.base_url={server.base_url}",
        "llm.key_env=null", "judge=openai", f"judge.base_url={server.base_url}", "judge.key_env=null", "depth=2",
        "top_k=1",
    ]  # fmt: skip


@pytest.mark.nightly
def test_labels_correct_the_judge_in_every_command_and_a_finished_sweep_is_shown_with_them(
    cwd: Path, capsys: pytest.CaptureFixture[str]
) -> None:

    def printed(run: Callable[[], int], status: int = 0) -> str:
        assert run() == status
        return " ".join(capsys.readouterr().out.split())

    with LlmServer(reply) as server:
        words = typed(server, cwd)

        def sweep(*more: str) -> int:
            return sweeping.run(read([*words, *more], multirun=True)).status

        with pytest.raises(InputError, match=r"judge\.labels: none\.csv"):
            sweep("judge.labels=none.csv")
        write_rows(cwd / "stars.jsonl", [{"question_id": f"q{n}", "metric": M, "label": n} for n in range(1, 6)])
        with pytest.raises(
            InputError, match=r"stars\.jsonl:2: the label 2 of .*on a scale of 1 to 5, replace each label"
        ):
            sweep("judge.labels=stars.jsonl")
        assert not server.log
        assert re.search(r"against #2 model=b: shown worse #1 model=a \+\.\d+ \[", printed(sweep))
        asked, ledger = len(server.log), Ledger(cwd / ".ragsweep")
        runs = [f"{record.job + 1}" * 32 for record in ledger.records(ledger.sweeps()[0].id)]
        for run, record in zip(runs, ledger.records(ledger.sweeps()[0].id), strict=True):
            ledger.mark_tracked(record.id, run)
        calibrated = printed(lambda: judge(["calibrate", "labels.jsonl", "--run", runs[1]]))
        assert "30 of 30 labels with a verdict" in calibrated
        assert re.search(r"mean 0\.\d+ as judged, 0\.\d+ \[", calibrated)
        compared = printed(lambda: compare([*runs, "--metric", M, "--labels", "labels.jsonl"]))
        corrected = re.search(r"\(shown better\), corrected by 30 labels \S+ \[\S+, \S+\] open", compared)
        assert corrected
        pair = ["--baseline", runs[0], "--candidate", runs[1], "--margin", f"{M}=.02"]
        assert "gate pass" in printed(lambda: gate(pair))
        assert "(pass); corrected by 30 labels" in printed(lambda: gate([*pair, "--labels", "labels.jsonl"]), 3)
        again = printed(lambda: sweep("judge.labels=labels.jsonl"))
        assert "is already finished" in again
        assert "with 80 % power" not in again  # the detectable difference is unknown, not infinite
        assert re.search(r"against #1 model=a: open #2 model=b", again)
        becomes = rf"{M} of #2 model=b, \.\d+ as judged, becomes \.\d+ with at least 30 labels per config;"
        assert re.search(becomes, again)
        write_rows(cwd / "other.jsonl", [{"question_id": "q1", "metric": "mrr_", "label": 1}])
        with pytest.raises(ConfigError, match=r"judge\.labels: no labelled metric \(mrr_\) is measured"):
            sweep("judge.labels=other.jsonl")
        assert len(server.log) == asked
        assert len(ledger.sweeps()) == 1
