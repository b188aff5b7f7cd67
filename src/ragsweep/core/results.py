"""Results: the records that the evaluation creates and the ledger stores, and functions that read them."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ragsweep.core.errors import ConfigError
from ragsweep.core.question_results import QuestionResults


@dataclass(frozen=True)
class Summary:
    """One metric over all questions, or over a group of them.

    ``value`` is NaN if no question could be scored. ``low`` and ``high`` are the ends of its 95 % interval. Of
    ``n_total`` questions, ``n_scored`` have a score, ``n_skipped`` lack a requirement of the metric (evidence, say) and
    ``n_failed`` could not be measured; ``reasons`` counts the questions without a score by reason. ``coverage`` is
    ``n_scored`` divided by the number of questions that would have a score if nothing had failed; that number assumes
    that the metric applies to the same share of the unanswered questions as of the others. ``low_bound`` and
    ``high_bound`` are the value if every failed measurement had given the metric's lowest, or highest, value; NaN if
    something failed and the metric has no such value, or is summarised by a quantile.
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
"""States of a config in a race: only some questions evaluated so far, or dropped from the race."""

TRACES = NO_TRACES, FAILURES, SAMPLE, EVERY = "none", "failures", "sample", "all"
"""The possible choices of the questions whose traces the tracker receives."""


@dataclass(frozen=True)
class TargetResult:
    """The outcome of one metric's target.

    ``verdict``: "pass", "fail", "warn" (beyond a threshold that only warns) or "not judged" (see ``action``).
    ``band`` names the range that contains the value; ``action`` is a suggestion, or the reason for "not judged".
    ``sure`` is false where the value's 95 % interval contains the threshold: more questions could reverse the outcome.
    """

    metric: str
    verdict: str
    value: float = math.nan
    threshold: float = math.nan
    band: str = ""
    sure: bool = True
    action: str = ""
    ideal: float | None = None
    ideal_met: bool | None = None  # None without an ideal


@dataclass(frozen=True)
class DatasetFacts:
    """The identity of a corpus and of the questions evaluated on it.

    ``partition`` is "all", "tune" or "holdout"; for the last two, ``partition_digest`` identifies the division, and
    ``whole_digest`` is the golden digest of the undivided set. ``held`` has a short digest of each holdout question;
    the ledger stores it once for all records, and it is empty in records that are read back.
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
        """The golden digest of all questions, including those on the other side of the partition."""
        return self.whole_digest or self.golden_digest


@dataclass(frozen=True)
class Run:
    """One evaluated config: its identity, its data, and facts about its evaluation."""

    signature: str
    name: str  # the parameters that differ from its siblings', such as "top_k=3"
    overrides: tuple[str, ...]
    config: Mapping[str, Any]  # composed and resolved, secrets masked
    parameters: Mapping[str, str]  # the same, flattened to overrides
    dataset: DatasetFacts
    stages: Mapping[str, Mapping[str, float]]  # stage -> executed, recalled, seconds and further counts
    indexes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # index -> seconds to build, bytes
    warnings: tuple[str, ...] = ()
    started: float = 0.0  # seconds since the epoch
    ended: float = 0.0
    addresses: Mapping[str, str] = field(default_factory=dict)  # of the nodes that produce an answer, by name
    state: str = COMPLETE  # PARTIAL: excluded from comparisons, because too many questions could not be scored
    race: Mapping[str, Any] = field(default_factory=dict)
    """Empty without a race, else "asked" and "of": the number of questions evaluated, and of all questions. If the race
    dropped the config, also "rule", its "guarantee", and "ahead", the least lead of the best config (NaN if the rule
    gives none)."""


@dataclass(frozen=True)
class Summaries:
    """The scores and costs of one config over all questions.

    ``latency`` maps a stage to n, mean_ms, p50_ms, p95_ms and p99_ms and, if probed, to the machine's state;
    ``usage`` maps "generate", "judge", "route" and "query" to calls, tokens_in, tokens_out, estimated (1 or 0) and, if
    known, money; these are the costs of the first computation.
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
        """The config's name; a Failure has a field of the same name."""
        return self.run.name

    def renamed(self, name: str) -> Result:
        """Return a copy with another name."""
        return replace(self, run=replace(self.run, name=name))


@dataclass(frozen=True)
class Artifacts:
    """The data of one evaluation that only the tracker uses, not the ledger or a comparison.

    Each of the four mappings leads from a ranking's address to a TREC text, which may be generated lazily. The run
    files in ``rankings`` rank chunks, and ``qrels`` has their relevance labels; ``evidence_runs`` and
    ``evidence_qrels`` have the same for pieces of evidence (see ``trec_texts``). ``traces`` has one trace per selected
    question (see ``question_traces``).
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
    """One config that could not be evaluated, and the reason."""

    name: str
    overrides: tuple[str, ...]
    parameters: Mapping[str, str]
    error: str  # one line
    traceback: str = ""
    started: float = 0.0
    ended: float = 0.0

    def renamed(self, name: str) -> Failure:
        """Return a copy with another name."""
        return replace(self, name=name)


class HumanLabel(NamedTuple):
    """A person's score of one answer: on the metric's scale, or 1 for right and 0 for wrong.

    ``run`` (an MLflow run id, a prefix of it, or a config's name) and ``answer`` (the text) identify the labelled
    answer; each is "" where the file has none.
    """

    question: str
    metric: str
    value: float
    run: str = ""
    answer: str = ""
    where: str = ""  # "file:line", for messages


def judged_metrics(result: Result) -> tuple[str, ...]:
    """List the metrics decided by a judge, in the order of the config."""
    names = set(result.questions.judged)
    return tuple(name for name in result.summaries.metrics if name in names)


def objectives(config: Mapping[str, Any]) -> tuple[str, ...]:
    """List the metrics of the key ``objective``, by priority; empty without this key.

    Raises ConfigError for a value that is neither a name nor a non-empty list of different names.
    """
    value = config.get("objective")
    if value is None:
        return ()
    names = [value] if isinstance(value, str) else list(value) if isinstance(value, Sequence) else []
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ConfigError(f"objective: must be a metric, or a list of different metrics, got {value!r}")
    return tuple(names)


def shown_metrics(config: Mapping[str, Any]) -> tuple[str, ...]:
    """List the headline metrics: the objectives, then those of ``headline`` and ``answer_headline``."""
    names = (*objectives(config), *config.get("headline", ()), *config.get("answer_headline", ()))
    return tuple(dict.fromkeys(names))


def incomplete(
    summaries: Mapping[str, Summary], config: Mapping[str, Any], further: Iterable[str], least: float
) -> list[Summary]:
    """List the summaries with a coverage below ``least``, among those of metrics that decide or are shown.

    These are ``shown_metrics``, the ``further`` ones (with a target, or judged), and those in ``constraints``. If
    ``summaries`` has none of them, all of its metrics count.
    """
    names = dict.fromkeys((*shown_metrics(config), *further, *(config.get("constraints") or {})))
    known = [summaries[name] for name in names if name in summaries] or list(summaries.values())
    return [one for one in known if one.coverage < least]


def below_coverage(result: Result) -> list[Summary]:
    """List the summaries whose coverage makes a result PARTIAL.

    If ``incomplete`` lists none, all summaries below ``coverage`` are listed, because every metric counted in former
    releases.
    """
    least = float(result.run.config.get("coverage", 1.0))
    further = [*(one.metric for one in result.summaries.targets), *judged_metrics(result)]
    below = incomplete(result.summaries.metrics, result.run.config, further, least)
    return below or [one for one in result.summaries.metrics.values() if one.coverage < least]


def pareto_front(results: Sequence[Result], metrics: Sequence[str]) -> list[Result]:
    """Return the Pareto front: the configs that no other config dominates.

    A config without a value for every metric is not on the front and dominates no other. Configs with equal values are
    all kept.
    """
    points: list[tuple[Result, tuple[float, ...]]] = []  # values, negated where lower is better
    for result in results:
        summaries = [result.summaries.metrics[name] for name in metrics if name in result.summaries.metrics]
        point = tuple(-summary.value if summary.higher_is_better is False else summary.value for summary in summaries)
        if len(point) == len(metrics) and not any(map(math.isnan, point)):
            points.append((result, point))

    def dominated(point: tuple[float, ...]) -> bool:
        return any(rival != point and all(map(operator.ge, rival, point)) for _, rival in points)

    return [result for result, point in points if not dominated(point)]
