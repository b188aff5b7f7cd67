"""Answers scored by a biased judge, and human labels of some of them."""

from pathlib import Path

import numpy as np

from ragsweep.core.results import HumanLabel, Result
from support import write_rows
from support.results import changed, scored

M = "ragas_faithfulness"
COUNT = 300


def answered(name: str, answers: list[str], scores: list[float] | None = None, contexts: str = "") -> Result:
    result = scored({M: scores or [0.5] * len(answers)}, name=name, signature=name)
    context = [[f"{contexts}{n}"] for n in range(len(answers))]
    return changed(result, {"answer": answers, "context": context})


def label(question: int, value: float = 1.0, run: str = "", answer: str = "") -> HumanLabel:
    return HumanLabel(f"q{question}", M, value, run, answer)


def biased(seed: int, alike: float = 0.4, gain: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return labels of two configs, verdicts of a judge that favours the second, and which answers are equal."""
    generator = np.random.default_rng(seed)
    people = (generator.random((2, COUNT)) < [[0.5], [0.5 + gain]]).astype(float)
    passed = [np.where(people[0] == 1, generator.random(COUNT) < 0.9, generator.random(COUNT) < 0.2),
              generator.random(COUNT) < 0.9]  # fmt: skip
    judged = np.array(passed, dtype=float)
    same = generator.random(COUNT) < alike
    people[1, same], judged[1, same] = people[0, same], judged[0, same]
    return people, judged, same


def pair(seed: int = 1, gain: float = 0.0) -> tuple[list[Result], list[HumanLabel]]:
    people, judged, same = biased(seed, gain=gain)
    first = answered("a", [f"a{n}" for n in range(COUNT)], judged[0].tolist())
    texts = [f"a{n}" if one else f"b{n}" for n, one in enumerate(same.tolist())]
    second = answered("b", texts, judged[1].tolist())
    drawn = np.random.default_rng(2).permutation(COUNT)[:120].tolist()
    labels = [label(n, float(people[row, n]), run) for n in drawn for row, run in ((0, "a"), (1, "b"))]
    return [first, second], labels


def written(path: Path, labels: list[HumanLabel]) -> str:
    lines = [{"question_id": one.question, "metric": one.metric, "label": one.value, "run": one.run} for one in labels]
    return write_rows(path, lines)
