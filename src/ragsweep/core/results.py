"""The records of results that the evaluation creates and the ledger stores, and functions that read them."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ragsweep.core.errors import ConfigError
from ragsweep.core.question_results import QuestionResults


@dataclass(frozen=True)
class Summary:
    """One metric over all questions, or over a group of questions.

    ``value`` is NaN if no question could be scored. ``low`` and ``high`` are the ends of its 95 % interval. Of
    ``n_total`` questions, ``n_scored`` have a score, ``n_skipped`` lack a requirement of the metric (such as evidence),
    and ``n_failed`` could not be measured. ``reasons`` maps each reason to the number of questions that have no score
    for this reason.

    ``coverage`` is ``n_scored`` divided by the number of questions that would have a score if nothing had failed. The
    divisor is an estimate: the metric is assumed to apply to the same share of the unanswered questions as of the
    answered questions.

    ``low_bound`` and ``high_bound`` are the values that would result if every failed measurement had given the metric's
    lowest or highest value, respectively. If nothing failed, both equal ``value``. After a failure, a bound is NaN if
    the metric has no such value, and both are NaN if a quantile summarises the metric.
    """

    name: str
    value: float
    low: float
    high: float
    n_total: int
    n_scored: int
    n_skipped: int
    n_failed: int
    unit: str = ""
    higher_is_better: bool | None = True
    reasons: Mapping[str, int] = field(default_factory=dict)
    low_bound: float = math.nan
    high_bound: float = math.nan
    coverage: float = 1.0


COMPLETE, PARTIAL = "COMPLETE", "PARTIAL"
RACING, DROPPED = "RACING", "DROPPED"
"""States of a config in a race: RACING after the evaluation of only some questions, DROPPED if the race excluded it."""

TRACES = NO_TRACES, FAILURES, SAMPLE, EVERY = "none", "failures", "sample", "all"
"""The values of ``tracking.traces``; they select the questions with a trace in the tracker."""


@dataclass(frozen=True)
class TargetResult:
    """The result of comparing a metric with its target.

    ``verdict`` is "pass", "fail", "warn" (the value is beyond a threshold that causes only a warning) or "not judged".
    ``band`` is the name of the range that contains the value. ``action`` is a suggestion or, for "not judged", the
    reason. ``sure`` is false if the value's 95 % interval contains the threshold, so more questions could
    change the verdict.
    """

    metric: str
    verdict: str
    value: float = math.nan
    threshold: float = math.nan
    band: str = ""
    sure: bool = True
    action: str = ""
    ideal: float | None = None
    ideal_met: bool | None = None  # None if there is no ideal


@dataclass(frozen=True)
class DatasetFacts:
    """The identity of a corpus and of the questions evaluated on it.

    ``partition`` is "all", "tune" or "holdout". For "tune" and "holdout", ``partition_digest`` identifies the division
    of the golden set, and ``whole_digest`` is the digest of the undivided golden set. ``held`` has a short digest of
    each holdout question; the ledger stores these digests once for all records, and records that are read back have an
    empty ``held``.
    """

    name: str
    corpus_digest: str
    golden_digest: str
    documents: int
    questions: int
    with_evidence: int
    unanswerable: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    partition: str = "all"
    partition_digest: str = ""
    whole_digest: str = ""
    held: tuple[str, ...] = ()

    @property
    def undivided(self) -> str:
        """The digest of the whole golden set, that is, of the questions on both sides of the split."""
        return self.whole_digest or self.golden_digest


@dataclass(frozen=True)
class Run:
    """One evaluated config: its identity, its data, and facts about its evaluation."""

    signature: str
    name: str  # the parameters that differ between the configs of a sweep, such as "top_k=3"
    overrides: tuple[str, ...]
    config: Mapping[str, Any]  # composed and resolved, secrets masked
    parameters: Mapping[str, str]  # the same, flattened to overrides
    dataset: DatasetFacts
    stages: Mapping[str, Mapping[str, float]]  # stage -> executed, recalled, seconds and other counts
    indexes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # index -> seconds to build, bytes
    warnings: tuple[str, ...] = ()
    started: float = 0.0  # seconds since the epoch
    ended: float = 0.0
    addresses: Mapping[str, str] = field(default_factory=dict)  # name of a node, such as "answer" -> address
    state: str = COMPLETE  # PARTIAL: excluded from comparisons, because too many questions could not be scored
    metric_versions: Mapping[str, str] = field(default_factory=dict)  # metric -> the version of its part
    race: Mapping[str, Any] = field(default_factory=dict)
    """The state of the config in a race; {} outside a race. "asked" is the number of evaluated questions, and "of" is
    the number of all questions. If the race dropped the config, "rule" and "guarantee" describe the rule that dropped
    it, and "ahead" is a lower bound on the lead of the best config over this config (NaN if the rule gives none)."""


@dataclass(frozen=True)
class Summaries:
    """The scores and costs of one config over all questions.

    ``latency`` maps a stage to n, mean_ms, p50_ms, p95_ms and p99_ms and, if the stage was probed, to the state of the
    machine. ``usage`` maps "generate", "judge", "route" and "query" to calls, tokens_in, tokens_out, estimated (1 or 0)
    and, if known, money. For stored answers and judgements, ``usage`` has the costs of computing them the first time.
    """

    metrics: Mapping[str, Summary]
    groups: Mapping[str, Mapping[str, Mapping[str, Summary]]]  # label -> its value -> metric
    first_stage: Mapping[str, Summary] = field(default_factory=dict)  # before reranking; empty without a reranker
    reranking: Mapping[str, float] = field(default_factory=dict)  # see ``evaluation.scoring.compare``
    targets: tuple[TargetResult, ...] = ()
    latency: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    usage: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """One evaluated config: its run, its results by question, and its summaries."""

    run: Run
    questions: QuestionResults
    summaries: Summaries

    @property
    def name(self) -> str:
        """The name of the config; ``Failure`` has the same attribute."""
        return self.run.name

    def renamed(self, name: str) -> Result:
        """Return a copy in which the config is named ``name``."""
        return replace(self, run=replace(self.run, name=name))


@dataclass(frozen=True)
class Artifacts:
    """The data of one evaluation that only the tracker uses, not the ledger or a comparison.

    The keys of the four mappings are addresses of TREC runs. The values are strings in TREC formats, which may be
    generated lazily. ``rankings`` has the run files of chunks, and ``qrels`` the relevance labels of these chunks;
    ``evidence_runs`` and ``evidence_qrels`` are the equivalents for pieces of evidence (see ``trec_texts``). ``traces``
    has one trace per selected question (see ``question_traces``).
    """

    rankings: Mapping[str, str] = field(default_factory=dict)
    qrels: Mapping[str, str] = field(default_factory=dict)
    evidence_runs: Mapping[str, str] = field(default_factory=dict)
    evidence_qrels: Mapping[str, str] = field(default_factory=dict)
    traces: Sequence[Mapping[str, Any]] = ()


NO_ARTIFACTS = Artifacts()


class Evaluation(NamedTuple):
    """A result and its artifacts."""

    result: Result
    artifacts: Artifacts


@dataclass(frozen=True)
class Failure:
    """A config that could not be evaluated, with the reason."""

    name: str
    overrides: tuple[str, ...]
    parameters: Mapping[str, str]
    error: str  # one line
    traceback: str = ""
    started: float = 0.0
    ended: float = 0.0

    def renamed(self, name: str) -> Failure:
        """Return a copy in which the config is named ``name``."""
        return replace(self, name=name)


class HumanLabel(NamedTuple):
    """A person's score for one answer: on the metric's scale, or 1 for a right answer and 0 for a wrong one.

    ``run`` (an MLflow run id, its prefix, or the name of a config) and ``answer`` (the text of the answer) identify the
    labelled answer. Each is "" if the label file lacks it.
    """

    question: str
    metric: str
    value: float
    run: str = ""
    answer: str = ""
    where: str = ""  # "file:line", for messages


def judged_metrics(result: Result) -> tuple[str, ...]:
    """Return the names of the judged metrics, in the order of the config."""
    names = set(result.questions.judged)
    return tuple(name for name in result.summaries.metrics if name in names)


def objectives(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the metrics in the key ``objective``, in order of priority; () if the key is not set.

    Raises ConfigError if the value is neither a name nor a non-empty list of different names.
    """
    value = config.get("objective")
    if value is None:
        return ()
    names = [value] if isinstance(value, str) else list(value) if isinstance(value, Sequence) else []
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ConfigError(f"objective: must be a metric, or a list of different metrics, got {value!r}")
    return tuple(names)


def shown_metrics(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the distinct names of the objectives and of the metrics in ``headline`` and ``answer_headline``.

    Raises ConfigError as ``objectives`` does.
    """
    names = (*objectives(config), *config.get("headline", ()), *config.get("answer_headline", ()))
    return tuple(dict.fromkeys(names))


def incomplete(
    summaries: Mapping[str, Summary], config: Mapping[str, Any], further: Iterable[str], least: float
) -> list[Summary]:
    """Return the summaries of the important metrics whose coverage is below ``least``.

    The important metrics are the ``shown_metrics``, the metrics in ``constraints``, and the ``further`` metrics, which
    have a target or are judged. If ``summaries`` has none of these metrics, all of its metrics are checked.
    """
    names = dict.fromkeys((*shown_metrics(config), *further, *(config.get("constraints") or {})))
    known = [summaries[name] for name in names if name in summaries] or list(summaries.values())
    return [one for one in known if one.coverage < least]


def below_coverage(result: Result) -> list[Summary]:
    """Return the summaries whose coverage is so low that the result is PARTIAL.

    The config's key ``coverage`` sets the required coverage (1 if it is not set). If all important metrics have this
    coverage (see ``incomplete``), return the summaries of other metrics with less: in results of older releases, low
    coverage of any metric makes a result PARTIAL.
    """
    least = float(result.run.config.get("coverage", 1.0))
    further = [*(one.metric for one in result.summaries.targets), *judged_metrics(result)]
    below = incomplete(result.summaries.metrics, result.run.config, further, least)
    return below or [one for one in result.summaries.metrics.values() if one.coverage < least]


def pareto_front(results: Sequence[Result], metrics: Sequence[str], lower: Collection[str] = ()) -> list[Result]:
    """Return the Pareto front: the results that no other result dominates, in the order given.

    A result that lacks a value for any metric is not on the front and dominates no other result. Results with equal
    values do not dominate each other. For a metric without a direction, higher values are better, unless the metric
    is in ``lower``.
    """
    points: list[tuple[Result, tuple[float, ...]]] = []  # values, negated where lower is better
    for result in results:
        summaries = [result.summaries.metrics[name] for name in metrics if name in result.summaries.metrics]
        signs = (-1 if one.higher_is_better is False or one.name in lower else 1 for one in summaries)
        point = tuple(sign * one.value for sign, one in zip(signs, summaries, strict=True))
        if len(point) == len(metrics) and not any(map(math.isnan, point)):
            points.append((result, point))

    def dominated(point: tuple[float, ...]) -> bool:
        return any(rival != point and all(map(operator.ge, rival, point)) for _, rival in points)

    return [result for result, point in points if not dominated(point)]
