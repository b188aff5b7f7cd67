"""The effect of context: answers to the same questions with and without context, compared by question.

Each question with a score under both configs has one of five ``KINDS`` (see ``compare``). The test uses only "helped"
and "hurt" questions, which exactly one of the two configs solves.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.results import Result, objectives
from ragsweep.core.types import Metric
from ragsweep.stats.inference.matrix import WEIGHT

HELPED, HURT, KNOWN, NEVER, ABSTAINED = "helped", "hurt", "known already", "never solved", "abstained"
KINDS = (HELPED, HURT, KNOWN, NEVER, ABSTAINED)
METRIC = "success_rate"
KEYS = ("metric", "threshold", "unanswerable")

WITHOUT_CONTEXT = frozenset({"evidence", "retrieval", "latency", "exact", "passages", "router", "judge"})
"""Requirements that exclude a metric from being the default for comparing answers with and without context."""

Columns = Mapping[str, Sequence[Any]]
"""The results of one config by question (see ``QuestionResults``)."""


@dataclass(frozen=True)
class ContextEffect:
    """A comparison of answers with and without context.

    ``kinds`` maps the ids of the questions scored under both configs to their kinds; ``left_out`` counts the other
    questions. ``always_abstains`` is true if the config without context refused all questions (apart from failed
    answers): then a question can be "known already" only if a refusal solves it.
    """

    kinds: Mapping[str, str]
    left_out: int
    always_abstains: bool
    weights: Mapping[str, float]  # of the compared questions; empty if all are equal

    @cached_property
    def counts(self) -> dict[str, int]:
        """The number of questions of each kind; their sum is the number of compared questions."""
        counts = Counter(self.kinds.values())
        return {kind: counts[kind] for kind in KINDS}

    @property
    def gain(self) -> float:
        """The (weighted) share of questions that context helps, minus the share that it hurts; 0 without questions."""
        signs = {HELPED: 1, HURT: -1}
        total = sum(self.weights.get(name, 1.0) for name in self.kinds)
        return sum(signs.get(kind, 0) * self.weights.get(name, 1.0) for name, kind in self.kinds.items()) / (total or 1)

    @property
    def p_value(self) -> float:
        """The p-value of the exact two-sided McNemar test of "helped" against "hurt", without weights."""
        return exact_mcnemar(self.counts[HELPED], self.counts[HURT])


class Success(NamedTuple):
    """The rule for solved questions: the score is at least (if lower is better, at most) the threshold."""

    metric: str = METRIC
    threshold: float = 0.5
    higher_is_better: bool = True

    def solves(self, score: float) -> bool:
        """Return whether a score solves its question, with a tolerance for rounding errors."""
        lead = score - self.threshold if self.higher_is_better else self.threshold - score
        return lead >= -1e-9 * max(1, abs(self.threshold))


SERVED = Success()
"""The default rule: a question is solved if it is answered correctly, or refused if it is unanswerable."""


def resolve_success(config: Mapping[str, Any], metrics: Mapping[str, Metric]) -> dict[str, Any]:
    """Return the settings under the key ``success`` of a config: metric, threshold and ``unanswerable``, with defaults.

    ``metrics`` has the config's metrics by name. The default metric is the first objective, if it has a direction, no
    unit and none of the requirements in ``WITHOUT_CONTEXT``, and does not read the context; else ``METRIC``.

    Raises:
        ConfigError: A key is unknown, the threshold is not a finite number, the metric is not a name or has no
        direction, or no metric has this name although the config has metrics of answers.
    """
    settings = dict(config.get("success") or {})
    for key in settings:
        if key not in KEYS:
            raise ConfigError(f"success.{key}: unknown key{nearest(str(key), KEYS)}")
    name, threshold = settings.get("metric"), settings.get("threshold", SERVED.threshold)
    known = {"threshold": threshold, "unanswerable": settings.get("unanswerable")}
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not math.isfinite(threshold):
        raise ConfigError(f"success.threshold: must be a finite number, got {threshold!r}")
    if not isinstance(name, str | None):
        raise ConfigError(f"success.metric: must be the name of a metric, or null, got {name!r}")
    if name is None:
        objective = metrics.get(next(iter(objectives(config)), ""))
        usable = objective is not None and not (
            objective.unit
            or objective.higher_is_better is None
            or WITHOUT_CONTEXT & set(objective.needs)
            or "contexts" in getattr(objective, "uses", ())
        )
        return {"metric": objective.name if objective and usable else METRIC, **known}
    if name not in metrics and any("answer" in metric.needs for metric in metrics.values()):
        raise ConfigError(f'success.metric: no metric "{name}"{nearest(str(name), metrics)}')
    if name in metrics and metrics[name].higher_is_better is None:
        raise ConfigError(f"success.metric: neither higher nor lower values of {name} are better; name another metric")
    return {"metric": name, **known}


def compare(without: Columns, with_context: Columns, success: Success = SERVED) -> ContextEffect:
    """Compare the results of a config without context and of one with context, question by question.

    ``success`` defines when a question is solved. A question is "known already" if both configs solve it, "helped" if
    only the config with context solves it, and "hurt" if only the other config solves it. A question that neither
    config solves is "abstained" if the config with context refused to answer it, else "never solved". Both tables must
    have answers and the metric.
    """
    base, other = (
        dict(zip(table["question_id"], map(float, table[success.metric]), strict=True))
        for table in (without, with_context)
    )
    refused = dict(zip(with_context["question_id"], with_context["abstained"], strict=True))
    kinds = {}
    for name, score in base.items():
        if not math.isnan(score) and not math.isnan(other.get(name, math.nan)):
            known, solved = success.solves(score), success.solves(other[name])
            neither = ABSTAINED if refused[name] else NEVER
            kinds[name] = {(True, True): KNOWN, (False, True): HELPED, (True, False): HURT}.get(
                (known, solved), neither
            )
    failed = without.get("answer_failed") or [""] * len(without["abstained"])
    refusals = [bool(refusal) for refusal, reason in zip(without["abstained"], failed, strict=True) if not reason]
    weighed = zip(without["question_id"], without.get(WEIGHT, ()), strict=False)
    weights = {name: weight for name, weight in weighed if name in kinds}
    left_out = len(base.keys() | other.keys()) - len(kinds)
    return ContextEffect(kinds, left_out, bool(refusals) and all(refusals), weights)


def refuses_all(result: Result) -> int:
    """Return the number of answerable questions if a config refuses all of them; 0 if it answers any or has no answers.

    Failed and unrequested answers do not count. A blank answer is a refusal.
    """
    table = result.questions
    if not {"answer", "abstained", "answer_failed", "answerable"} <= table.keys():
        return 0
    rows = zip(table["answerable"], table["answer"], table["abstained"], table["answer_failed"], strict=True)
    refused = [bool(gone) or not text.strip() for answerable, text, gone, failed in rows if answerable and not failed]
    return len(refused) if all(refused) else 0


def exact_mcnemar(helped: int, hurt: int) -> float:
    """Return the two-sided p-value of the difference between two paired shares, from the counts of pairs that differ.

    By chance, half of the pairs that differ would favour each side. The p-value is therefore twice the smaller tail of
    the binomial distribution with p = 1/2, capped at 1; it is 1 if no pair differs. This is the exact form of McNemar's
    test ("Note on the sampling error of the difference between correlated proportions", 1947).
    """
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(helped, hurt), helped + hurt, 0.5)))
