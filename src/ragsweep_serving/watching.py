"""Comparison of the traces of served requests with the reference of the evaluation."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ragsweep.core.words import words
from ragsweep.parts.languages import detect_language, fold, question_form
from ragsweep.parts.tracking.served_traces import ServedTrace
from ragsweep.stats import drift as drifts
from ragsweep.stats.drift import SHARE, ClusteredSample, Drift, Quantity, compare, mean_interval, share_interval
from ragsweep.stats.inference.cluster_errors import varying
from ragsweep.stats.intervals import quantile_interval
from ragsweep_serving.reference import TOTAL, Reference, unknown_share

EMPTY, FAILED, REFUSED, STALE = "empty_share", "failed_share", "refused_share", "stale_share"
UNKNOWN_WORDS, LANGUAGE, FORM = "unknown_words", "language", "form"
TOP_SCORE, GAP, LATENCY = "top_score", "gap", "latency"
TOKENS, MONEY = "tokens", "money"
UNKNOWN_MEAN = "unknown_words_mean"  # the mean share of a question's words that are not in the corpus
ONLY_MORE = (EMPTY, FAILED, STALE, LATENCY, TOKENS, MONEY)  # quantities whose decrease is not an alarm
WORTH_MS = 1.0  # a step is compared if its median time in requests or evaluation is at least this many ms
USUAL = 0.05  # a language is usual if at least this share of the evaluated questions is in this language
MANY = 0.95  # a question has many unknown words if its share of them exceeds this quantile of the evaluated questions
QUANTILES = (50, 95, 99)


class Measure(NamedTuple):
    """A statistic of the requests with its 95 % interval; ``before`` is the statistic's value in the evaluation.

    Missing numbers are NaN.
    """

    value: float
    low: float
    high: float
    before: float


class Lack(NamedTuple):
    """A language or question form of some requests that no evaluated question has.

    ``requests`` is the number of these requests, and ``measure`` is their share.
    """

    what: str  # LANGUAGE or FORM
    value: str
    requests: int
    measure: Measure


@dataclass(frozen=True)
class Requests:
    """The traces of requests, with columns that correspond to the columns of ``Reference``."""

    traces: Sequence[ServedTrace]
    known: frozenset[str]  # the words of the corpus

    @cached_property
    def cluster(self) -> list[str]:
        """The words of each question, as one string; questions with the same words in the same order form a cluster."""
        return [" ".join(words(fold(one.question))) for one in self.traces]

    @cached_property
    def language(self) -> list[str]:
        """The language of each question; "" if none is detected."""
        return [detect_language(one.question) for one in self.traces]

    @cached_property
    def form(self) -> list[str]:
        """The form of each question, such as a yes/no question (see `question_form`)."""
        return [question_form(one.question) for one in self.traces]

    @cached_property
    def numbers(self) -> dict[str, list[float]]:
        """The requests' numbers, named as in ``Reference``; missing numbers are NaN.

        A failed request without an answer and without steps has only ``failed`` and ``unknown``.
        """
        ended = [not one.failed or one.answer is not None or bool(one.steps) for one in self.traces]
        rows = [
            {
                "failed": float(bool(one.failed)),
                "unknown": unknown_share(one.question, self.known),
                **(_numbers(one) if whole else {}),
            }
            for one, whole in zip(self.traces, ended, strict=True)
        ]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name, math.nan) for row in rows] for name in names}

    @property
    def questions(self) -> int:
        """The number of distinct questions."""
        return len(set(self.cluster))


def _numbers(trace: ServedTrace) -> dict[str, float]:
    found: dict[str, float] = {f"ms/{TOTAL}": trace.milliseconds, "money": trace.money}
    found["results"] = trace.results if trace.query else math.nan
    if trace.abstained is not None:
        found |= {"abstained": float(trace.abstained), "tokens": trace.tokens_in + trace.tokens_out}
    for step in trace.steps:
        found[f"ms/{step.name}"] = step.milliseconds
        found |= {f"top_score/{step.name}": step.top_score, f"gap/{step.name}": step.gap}
    return found


@dataclass(frozen=True)
class RequestComparison:
    """Requests compared with a reference.

    ``stale`` is 1 for each request that changed documents affect (see `CorpusChanges.concerned`), else 0; None if the
    current documents are unknown. ``tolerance`` maps each kind of quantity to the largest difference that does not
    count as drift (see `stats.drift`).
    """

    requests: Requests
    reference: Reference
    tolerance: Mapping[str, float]
    stale: Sequence[float] | None = None

    def drifts(self, alpha: float) -> list[Drift]:
        """Return the drift of each quantity, with simultaneous intervals of level 1 - ``alpha`` (see `stats.drift`).

        There must be at least one request.
        """
        return compare(list(self._quantities()), alpha)

    def _quantities(self) -> Iterator[Quantity]:
        yield self._quantity(EMPTY, SHARE, *self._pair("results", lambda length: float(length == 0)))
        zeros = [0.0] * len(self.reference.cluster)
        failed = self.reference.numbers.get("failed", zeros)
        yield self._quantity(FAILED, SHARE, self._now(self.requests.numbers["failed"]), self._before(failed))
        if "abstained" in self.reference.numbers:
            yield self._quantity(REFUSED, SHARE, *self._pair("abstained"))
        if self.stale is not None:
            yield self._quantity(STALE, SHARE, self._now(self.stale), self._before(zeros))
        yield from self._shares()
        yield self._quantity(UNKNOWN_WORDS, SHARE, *self._unknown())
        for name in self.reference.numbers:
            what, _, step = name.partition("/")
            if what in (TOP_SCORE, GAP) or name in (TOKENS, MONEY):
                yield self._quantity(name, drifts.ORDER, *self._pair(name))
            elif what == "ms" and self._is_worth(name):
                yield self._quantity(f"{LATENCY}/{step}", drifts.RATIO, *self._pair(name, lambda ms: max(ms, 1e-3)))

    def _unknown(self) -> tuple[ClusteredSample, ClusteredSample]:
        """Return, for requests and for evaluated questions, whether the share of unknown words is unusually large.

        The limit is the quantile `MANY` of the evaluated questions. A request counts as unmeasured if the
        share of its language in the golden set is less than `USUAL`, because most words of such a language are unknown.
        """
        before, weights = np.array(self.reference.numbers["unknown"]), np.array(self.reference.weight)
        known = ~np.isnan(before)
        most, _, _ = quantile_interval(before[known], MANY, weights[known])
        languages = np.array(self.reference.language)  # "" (not detected) counts as a language
        usual = {str(one) for one in np.unique(languages) if weights[languages == one].sum() >= USUAL * weights.sum()}
        own = [one in usual for one in self.requests.language]
        now = np.where(own, self.requests.numbers["unknown"], math.nan)
        sides = [np.where(np.isnan(side), math.nan, side > most).tolist() for side in (now, before)]
        return self._now(sides[0]), self._before(sides[1])

    def _shares(self) -> Iterator[Quantity]:
        """Yield a quantity per language and form whose share exceeds the tolerance in requests or in the evaluation."""
        for what, (now, before) in self._kinds.items():
            for value in sorted({*now, *before} - {""}):
                ours = self._now([float(one == value) if one else math.nan for one in now])
                theirs = self._before([float(one == value) if one else math.nan for one in before])
                if max(float(one.weights @ one.values) for one in (ours, theirs)) > self.tolerance[SHARE]:
                    yield self._quantity(f"{what}/{value}", SHARE, ours, theirs)

    @property
    def _kinds(self) -> dict[str, tuple[Sequence[str], Sequence[str]]]:
        """The values of the requests and the values of the evaluated questions, by kind: LANGUAGE or FORM."""
        ours, theirs = self.requests, self.reference
        return {LANGUAGE: (ours.language, theirs.language), FORM: (ours.form, theirs.form)}

    def _is_worth(self, name: str) -> bool:
        medians = [_quantile(one, 0.5) for one in self._pair(name) if len(one.values)]
        return max(medians, default=0.0) >= WORTH_MS

    def _quantity(self, name: str, kind: str, now: ClusteredSample, before: ClusteredSample) -> Quantity:
        return Quantity(name, kind, now, before, self.tolerance[kind])

    def _pair(self, name: str, change: Callable[[float], float] = float) -> tuple[ClusteredSample, ClusteredSample]:
        now = self.requests.numbers.get(name, [math.nan] * len(self.requests.traces))
        before = self.reference.numbers.get(name, [math.nan] * len(self.reference.cluster))
        return self._now(_changed(now, change)), self._before(_changed(before, change))

    def _now(self, values: Sequence[float]) -> ClusteredSample:
        return ClusteredSample.of(values, self.requests.cluster)

    def _before(self, values: Sequence[float]) -> ClusteredSample:
        return ClusteredSample.of(values, self.reference.cluster, self.reference.weight)

    def lacks(self) -> list[Lack]:
        """Return the languages and forms of requests that no evaluated question has, the most frequent first."""
        found = []
        for what, (now, before) in self._kinds.items():
            for value in sorted(set(now) - set(before) - {""}):
                sample = self._now([float(one == value) for one in now])
                found.append(Lack(what, value, now.count(value), _share_measure(sample)))
        return sorted(found, key=lambda one: -one.requests)

    def measures(self) -> dict[str, Measure]:
        """Map names to the measures that at least one request has; thresholds refer to these names."""
        found: dict[str, Measure] = {}
        empty = (EMPTY, "results", lambda length: float(length == 0))
        for name, column, change in (empty, (FAILED, "failed", float), (REFUSED, "abstained", float)):
            now, before = self._pair(column, change)
            if len(now.values):
                found[name] = _share_measure(now, float(before.weights @ before.values))
        if self.stale is not None:
            found[STALE] = _share_measure(self._now(self.stale))
        for what, (asked, evaluated) in self._kinds.items():
            known = {*evaluated, ""}
            new = [float(one not in known) for one in asked]
            found[f"new_{what}_share"] = _share_measure(self._now(new))
        for name in self.requests.numbers:
            what, _, step = name.partition("/")
            now, before = self._pair(name)
            if not len(now.values):
                continue
            if what == "ms":
                suffix = "" if step == TOTAL else f"/{step}"
                found |= {f"{LATENCY}_p{p}_ms{suffix}": _quantile_measure(now, before, p) for p in QUANTILES}
            elif what in (TOP_SCORE, GAP):
                found[name] = _quantile_measure(now, before, 50)
            elif name in (TOKENS, MONEY, "unknown"):
                mean = float(before.weights @ before.values) if len(before.values) else math.nan
                found[UNKNOWN_MEAN if name == "unknown" else name] = Measure(*mean_interval(now, 0.05), mean)
        return found


def _changed(values: Sequence[float], change: Callable[[float], float]) -> list[float]:
    return [value if math.isnan(value) else change(value) for value in values]


def _share_measure(sample: ClusteredSample, before: float = 0.0) -> Measure:
    return Measure(*share_interval(sample, 0.05), before)


def _quantile_measure(now: ClusteredSample, before: ClusteredSample, percent: int) -> Measure:
    share = percent / 100
    return Measure(*quantile_interval(now.values, share), _quantile(before, share))


def _quantile(sample: ClusteredSample, share: float) -> float:
    """Return a quantile of a sample as in an evaluation: weighted only if the weights vary; NaN for an empty sample."""
    return quantile_interval(sample.values, share, varying(sample.weights))[0]


def is_alarm(drift: Drift) -> bool:
    """Return whether a drift is an alarm: any drift except a decrease of a quantity in `ONLY_MORE`, such as latency."""
    less = drift.compared.estimate < {SHARE: 0.0, drifts.ORDER: 0.5, drifts.RATIO: 1.0}[drift.kind]
    return drift.verdict == "drift" and not (less and drift.name.partition("/")[0] in ONLY_MORE)
