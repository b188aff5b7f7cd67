"""Count the calls that a race saves in a sweep over models with known shares of right answers.

A real server on this machine answers 180 questions for four models, and counts; the same sweep is run with and without
a race. --write puts the table into docs/measurements.md. From the clone::

    PYTHONPATH=tests .venv/bin/python benchmarks/races.py
"""

import argparse
import hashlib
import json
import os
import tempfile
from pathlib import Path

from llm_server import LlmServer, ModelRequest
from ragsweep.core.results import DROPPED, Result
from ragsweep.records.ledger import Ledger
from ragsweep.sweep import sweeping
from ragsweep.sweep.composing.command import read_command
from tables import keep_results

RULES = ("betting",)
LEADS = (0.05, 0.10, 0.20)
SHARE = 0.5
"""Share of the questions that all models except the best answer correctly."""
OWN = 0.2
"""Share of the questions on which models are independent; on the others, all are right or all are wrong."""


def chance(*what: object) -> float:
    """Draw a number from [0, 1)."""
    return int.from_bytes(hashlib.sha256(repr(what).encode()).digest()[:6], "big") / 2**48


class Planted:
    """Answer correctly as often as specified, and count the calls."""

    def __init__(self, lead: float, seed: int) -> None:
        self.lead, self.seed, self.calls = lead, seed, 0

    def __call__(self, asked: ModelRequest) -> str:
        """Answer yes to the questions that the model gets right."""
        self.calls += 1
        model, question = str(asked.body["model"]), asked.last
        alone = chance(self.seed, "alone", question) < OWN
        drawn = chance(self.seed, question, model if alone else "")
        return "yes" if drawn < SHARE + (self.lead if model == "best" else 0.0) else "no"


def golden(folder: Path) -> list[str]:
    """Write 180 questions with a passage each, whose right answer is yes; return the dataset's overrides."""
    corpus = [{"id": f"d{n}", "text": f"Amber{n} brick{n} candle{n} rest on shelf{n}."} for n in range(180)]
    rows = [
        {"id": f"q{n}", "question": f"brick{n} candle{n} shelf{n} amber{n} ?", "references": ["yes"],
         "category": f"c{n % 6}", "evidence": [{"document": f"d{n}"}]}
        for n in range(180)
    ]  # fmt: skip
    for name, lines in (("corpus", corpus), ("golden", rows)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return ["dataset=jsonl", f"dataset.corpus={folder}/corpus.jsonl", f"dataset.golden={folder}/golden.jsonl"]


def swept(data: list[str], lead: float, seed: int, race: str | None) -> tuple[int, bool]:
    """Run a sweep over four models; return the calls that the server got, and whether the best was dropped."""
    planted = Planted(lead, seed)
    with tempfile.TemporaryDirectory() as store, LlmServer(planted) as server:
        lines = [
            *data, "llm=openai", f"llm.base_url={server.base_url}", "llm.key_env=null", "retriever=bm25", "depth=4",
            "top_k=1", "~metrics.semantic_similarity", "objective=token_f1", "tracking=none", "targets=none",
            f"store.path={store}", "llm.model=one,two,best,three", *([f"hydra/sweeper/race={race}"] if race else []),
        ]  # fmt: skip
        sweeping.run(read_command(lines, multirun=True))
        ledger = Ledger(Path(store))
        found = [record.outcome for record in ledger.records(ledger.sweeps()[-1].id)]
        lost = any(
            isinstance(one, Result) and one.run.state == DROPPED and one.run.parameters["llm.model"] == "best"
            for one in found
        )
    return planted.calls, lost


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/ and docs/measurements.md")
    given = parser.parse_args()
    os.environ["NO_PROXY"] = "127.0.0.1"
    lines = [
        f"Four models, 180 questions, {given.seeds} sweeps each: the calls that the server got, and in how many sweeps"
        " the best was dropped.",
        "",
        "| the best is ahead by | no race | " + " | ".join(RULES) + " |",
        "| --- | --- | " + " | ".join("---" for _ in RULES) + " |",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        data = golden(Path(folder))
        for lead in LEADS:
            cells = [f"{lead:.2f}", str(swept(data, lead, 0, None)[0])]
            for rule in RULES:
                came = [swept(data, lead, seed, rule) for seed in range(given.seeds)]
                mean, lost = sum(calls for calls, _ in came) / len(came), sum(gone for _, gone in came)
                cells.append(f"{mean:.0f} ({1 - mean / 720:.0%} saved), lost in {lost}")
            lines.append("| " + " | ".join(cells) + " |")
    print("\n".join(lines))
    if given.write:
        keep_results("races", [*lines, "", ""])


if __name__ == "__main__":
    main()
