"""The metrics of conf/metrics, their scores as single values, and the score of one answer to one question."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ragsweep.core.types import Answer, Answers, Embedder, EvaluationView, JudgedMetric, Metric, Passage, Question
from ragsweep.parts import metrics
from ragsweep.parts.prices import Prices
from ragsweep.testing.metrics import answered, judgements

CONF = Path(__file__).parents[2] / "conf" / "metrics"
OPTIONS = sorted(path.stem for path in CONF.glob("*.yaml"))
NOTHING = answered([])
PRICES = Prices("2025-08-15", "USD", "made up", {"priced*": [1.0, 2.0]})


def shipped_metrics(*options: str, embedder: Embedder) -> dict[str, Any]:
    """Build the metrics of these options of conf/metrics from their YAML, except those that need a judge."""
    built, parts = {}, {"embedder": embedder, "prices": PRICES}
    for option in options:
        for name, entry in yaml.safe_load((CONF / f"{option}.yaml").read_text("utf-8")).items():
            if "_target_" in entry and "judge" not in entry:
                module, _, target = entry.pop("_target_").rpartition(".")
                assert module == "ragsweep.parts.metrics"
                built[name] = getattr(metrics, target)(**{key: parts.get(key, value) for key, value in entry.items()})
    return built


def rows(metric: Metric, view: EvaluationView) -> list[float | str]:
    """Return the value of each question, or the reason why there is none."""
    values, reasons = metric.score(view)
    return [reason or value for value, reason in zip(values.tolist(), reasons.tolist(), strict=True)]


def score_one(metric: Metric, question: Question, answer: Answer | str, *passages: str) -> float | str:
    """Return the score of an answer that was given these passages, or the reason why it has none."""
    given = Answer(answer) if isinstance(answer, str) else answer
    read = tuple(Passage(f"p{n}", text) for n, text in enumerate(passages))
    view = replace(NOTHING, questions=(question,), answers=Answers([given], [read], np.zeros(1, dtype=np.int64)))
    if isinstance(metric, JudgedMetric):
        view = replace(view, judgements=judgements(view, metric))
    return rows(metric, view)[0]
