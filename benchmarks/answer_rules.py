"""Compare rules that count an answer as right with labels of a reader, on replies of a real model.

    RAGSWEEP_COLLECTIONS=... PYTHONPATH=src:benchmarks python benchmarks/answer_rules.py [--each]

``tests/fixtures/answer_labels.jsonl`` has the replies of SmolLM2-135M-Instruct (Q4_1) to questions of SQuAD 2.0 and
PIAF that have an answer, each with a label: right, partly (a part of the right answer is missing, or a wrong one is
added), wrong or refused.
Questions and right answers are read from the collections. A rule agrees where it counts what is labelled right, and
nothing else. ``--each`` also prints the replies on which the default rule and the label differ.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from doc_pages import fill
from ragsweep.core.types import Question
from ragsweep.parts.metrics.answer_words import SHORT, articles_of, contains, f1, is_right, normalise, recall
from ragsweep.stats.calibration import kappa

LABELS = Path(__file__).parents[1] / "tests/fixtures/answer_labels.jsonl"
COLLECTIONS = ("squad2_dev", "piaf_1_1")
THRESHOLDS = (0.4, 0.5, 0.6, 0.7, 0.8)


class Labelled(NamedTuple):
    """A reply to a question with a right answer, and its label."""

    collection: str
    question: Question
    answer: str
    label: str


def read(collections: Path, labels: Path = LABELS) -> list[Labelled]:
    """Read the labelled replies."""
    rows = [json.loads(line) for line in labels.read_text("utf-8").splitlines()]
    found = []
    for name in COLLECTIONS:
        golden = map(json.loads, (collections / name / "golden.jsonl").read_text("utf-8").splitlines())
        questions = {
            one["id"]: Question(one["id"], one["question"], references=tuple(one["answers"]),
                                answerable=one["answerable"], labels={"language": one["lang"]})
            for one in golden
        }  # fmt: skip
        mine = (row for row in rows if row["collection"] == name)
        found += [Labelled(name, questions[row["id"]], row["answer"], row["label"]) for row in mine]
    return found


Rule = Callable[[str, str, str], bool]
"""Whether a reply gives a right answer, in a language."""


def rules() -> dict[str, Rule]:
    """Return the rules by name."""
    return {
        "exact_match": lambda text, right, language: normalise(text, language) == normalise(right, language),
        "token_f1 from .5": lambda text, right, language: (
            f1(normalise(text, language), normalise(right, language)) >= 0.5
        ),
        "contains_answer": contains,
        "token_recall from .5": lambda text, right, language: recall(text, right, language) >= 0.5,
        **{f"success_rate, threshold {threshold}": _success(threshold) for threshold in THRESHOLDS},
    }


def _success(threshold: float) -> Rule:
    return lambda text, right, language: is_right(text, right, language, threshold)


def decide(rule: Rule, row: Labelled) -> bool:
    """Return whether a rule counts a reply as right."""
    language = articles_of(row.question, "label")
    return any(rule(row.answer, right, language) for right in row.question.references)


def agreement(rows: list[Labelled], rule: Rule) -> str:
    """Return agreement, kappa, and how many the rule counts wrongly as right and as wrong."""
    counted = np.array([decide(rule, row) for row in rows])
    right = np.array([row.label == "right" for row in rows])
    wrongly, missed = int((counted & ~right).sum()), int((~counted & right).sum())
    return f"{np.mean(counted == right):.2f} / {kappa(counted, right):.2f} / {wrongly} / {missed}"


def table(rows: list[Labelled]) -> Iterator[str]:
    """Yield the lines of the table: a row for each rule, a column for each collection and for long right answers."""
    long = [one for one in rows if all(len(text.split()) > SHORT for text in one.question.references)]
    parts = {name: [one for one in rows if one.collection == name] for name in COLLECTIONS}
    parts |= {"both": rows, f"of it, right answers of more than {SHORT} words": long}
    sizes = (f"{name} ({len(part)}, {sum(one.label == 'right' for one in part)} right)" for name, part in parts.items())
    yield f"| rule | {' | '.join(sizes)} |"
    yield f"| --- |{' --- |' * len(parts)}"
    for name, rule in rules().items():
        yield f"| {name} | {' | '.join(agreement(part, rule) for part in parts.values())} |"


def main() -> None:
    """Write the table, and print the replies that need a look."""
    rows = read(Path(os.environ["RAGSWEEP_COLLECTIONS"]))
    lines = list(table(rows))
    print(*lines, sep="\n")
    fill("measurements.md", "answer-rules", [*lines, ""])
    for row in rows if "--each" in sys.argv else ():
        if decide(_success(0.5), row) != (row.label == "right"):
            print(row.label, row.question.id, row.question.text, row.question.references, row.answer, sep=" | ")


if __name__ == "__main__":
    main()
