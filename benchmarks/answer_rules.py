"""Compare rules that count an answer as right with a reader's labels, on replies of a real model.

    RAGSWEEP_COLLECTIONS=... PYTHONPATH=src:benchmarks python benchmarks/answer_rules.py [--each]

``tests/fixtures/answer_labels.jsonl`` has replies of SmolLM2-135M-Instruct (Q4_1) to questions of SQuAD 2.0 and PIAF,
each with the prompt that asked for it and a label: right, partly (a part of the right answer is missing, or a wrong one
is added), wrong, or refused, which is right where the question is unanswerable. ``differs`` names the kind of
difference where the default rule and the label disagree.
Questions and right answers are read from the collections. A rule agrees with a label if both count the reply as right,
or neither does. ``--each`` also prints the replies on which the default rule and the label differ.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.types import Answer, Answers, Metric, Question
from ragsweep.parts.metrics import ContainsAnswer, ExactMatch, SuccessRate, TokenF1, TokenRecall
from ragsweep.parts.metrics.answer_words import SHORT
from ragsweep.parts.prompts import begins_with_refusal
from ragsweep.stats.calibration import kappa
from ragsweep.testing.metrics import answered
from tables import keep_results

LABELS = Path(__file__).parents[1] / "tests/fixtures/answer_labels.jsonl"
COLLECTIONS = ("squad2_dev", "piaf_1_1")
REFUSALS = ("I don't know", "I do not know", "Je ne sais pas")
"""The refusals for which the prompts ask."""

RULES: dict[str, Metric] = {
    "exact_match": ExactMatch(),
    "token_f1 of at least .5": TokenF1(),
    "contains_answer": ContainsAnswer(),
    "token_recall of at least .5": TokenRecall(),
    **{f"success_rate, threshold {threshold}": SuccessRate(threshold) for threshold in (0.4, 0.5, 0.6, 0.7, 0.8)},
}
"""Name -> rule; a reply with a score of at least .5 counts as right."""


class Labelled(NamedTuple):
    """A reply to a question, its label, and why the default rule differs from it."""

    part: str
    question: Question
    answer: Answer
    label: str
    differs: str

    @property
    def right(self) -> bool:
        """Return whether the reader counts the reply as right."""
        return self.label == "right" or (self.label == "refused" and not self.question.answerable)


def read(collections: Path, labels: Path = LABELS) -> list[Labelled]:
    """Read the labelled replies."""
    questions = {}
    for name in COLLECTIONS:
        for one in map(json.loads, (collections / name / "golden.jsonl").read_text("utf-8").splitlines()):
            labelled = {"language": one["lang"]}
            questions[name, one["id"]] = Question(
                one["id"],
                one["question"],
                answerable=one["answerable"],
                references=tuple(one["answers"]),
                labels=labelled,
            )
    found = []
    for row in map(json.loads, labels.read_text("utf-8").splitlines()):
        question = questions[row["collection"], row["id"]]
        part = f"{row['collection']}, {row['prompt']}" + ("" if question.answerable else ", unanswerable")
        answer = Answer(row["answer"], begins_with_refusal(row["answer"], REFUSALS))
        found.append(Labelled(part, question, answer, row["label"], row.get("differs", "")))
    return found


def decide(rule: Metric, rows: list[Labelled]) -> NDArray[np.float64]:
    """Return 1 for each reply that a rule counts as right, else 0; NaN if it does not score the question."""
    answers = Answers([row.answer for row in rows], [()] * len(rows), np.arange(len(rows)))
    view = replace(answered([]), questions=tuple(row.question for row in rows), answers=answers)
    values = rule.score(view).values
    return np.where(np.isnan(values), np.nan, values >= 0.5)


def agreement(rows: list[Labelled], rule: Metric) -> str:
    """Return the agreement, kappa, and the numbers of replies wrongly counted as right and as wrong."""
    scored = decide(rule, rows)
    if np.isnan(scored).any():
        return "not scored"
    counted, right = scored == 1, np.array([row.right for row in rows])
    wrongly, missed = int((counted & ~right).sum()), int((~counted & right).sum())
    return f"{np.mean(counted == right):.2f} / {kappa(counted, right):.2f} / {wrongly} / {missed}"


def table(rows: list[Labelled]) -> Iterator[str]:
    """Yield the lines of the table: a row for each rule, a column for each part and for long right answers."""
    parts = {row.part: [one for one in rows if one.part == row.part] for row in rows}
    answerable = [row for row in rows if row.question.answerable]
    parts[f"right answers of more than {SHORT} words"] = [
        one for one in answerable if all(len(text.split()) > SHORT for text in one.question.references)
    ]
    sizes = (f"{name} ({len(part)}, {sum(one.right for one in part)} right)" for name, part in parts.items())
    yield f"| rule | {' | '.join(sizes)} |"
    yield f"| --- |{' --- |' * len(parts)}"
    for name, rule in RULES.items():
        yield f"| {name} | {' | '.join(agreement(part, rule) for part in parts.values())} |"


def differences(rows: list[Labelled]) -> Iterator[str]:
    """Yield the lines of the table of replies on which the default rule and the label differ, by kind."""
    counted = decide(SuccessRate(), rows)
    kinds = Counter((row.right, row.differs) for row, one in zip(rows, counted, strict=True) if one != row.right)
    yield "| labelled | kind | replies |"
    yield "| --- | --- | --- |"
    for (right, kind), count in sorted(kinds.items(), key=lambda item: (not item[0][0], -item[1])):
        yield f"| {'right, not counted' if right else 'not right, counted'} | {kind} | {count} |"


def main() -> None:
    """Write the tables, and print the replies to review."""
    rows = read(Path(os.environ["RAGSWEEP_COLLECTIONS"]))
    for name, lines in (("answer-rules", list(table(rows))), ("answer-differences", list(differences(rows)))):
        print(*lines, sep="\n")
        keep_results(name, [*lines, ""])
    for row, counted in zip(rows, decide(SuccessRate(), rows), strict=True) if "--each" in sys.argv else ():
        if counted != row.right:
            print(row.label, row.question.id, row.question.text, row.question.references, row.answer.text, sep=" | ")


if __name__ == "__main__":
    main()
