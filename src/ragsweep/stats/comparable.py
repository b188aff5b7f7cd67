"""Decide which results may be compared, and by which metrics; list the factors in which configs differ."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

import numpy as np

from ragsweep.core.errors import ConfigError, InputError, nearest
from ragsweep.core.missing import remedy
from ragsweep.core.plurals import counted
from ragsweep.core.results import COMPLETE, DROPPED, PARTIAL, Result, Run, below_coverage
from ragsweep.stats.inference.matrix import WEIGHT

_NO_SCORE = re.compile(
    r"(?:baseline|by|name|store|tracking|plan|progress|rerun|headline|objective|partition|questions\.until|judge\.labels"
    r"|targets|answer_headline|compute|constraints|coverage|finalists|max_failures|recommend|timeout)\b"
)
"""Matches the names of the parameters that cannot change the score of any question."""

RANKED_BY = ("chunker", "dataset", "depth", "embedder", "query", "reranker", "retriever", "router", "seed", "system")
"""Config keys that determine a ranking; the ranking's address also covers the fingerprints of the selected parts."""

REFERRED = ("embedder", "judge", "prompt")
"""Config keys of parts that have no effect of their own: other parts use them, as in ``embedder: ${embedder}``."""

HOW_MEASURED = ("evidence.threshold",)
"""Parameters that change the meaning of a score."""


@dataclass(frozen=True)
class Factor:
    """A difference between two configs in one parameter or one whole part; a value is "" if a config lacks it."""

    name: str
    before: str
    after: str

    def __str__(self) -> str:
        """Format the factor as a change: ``top_k 5 -> 10``."""
        return f"{self.name} {self.before or '-'} -> {self.after or '-'}"


COMPUTED = Factor("computed with", "one dtype, model, code or library version", "another")
"""The factor between configs whose rankings have equal settings and corpora but different addresses."""


def changes_scores(parameter: str) -> bool:
    """Return whether a parameter can change the score of a question."""
    return not _NO_SCORE.match(parameter)


def scoring_parameters(run: Run) -> dict[str, str]:
    """Return a run's parameters that can change a score, except those of `REFERRED` parts that no other part uses."""
    whole, kinds = str(run.config), {part: _kind(run.config, part) for part in REFERRED}
    unused = {part for part, kind in kinds.items() if kind and whole.count(kind) == str(run.config[part]).count(kind)}
    return {
        key: text for key, text in run.parameters.items() if changes_scores(key) and key.partition(".")[0] not in unused
    }


def factors(one: Result, other: Result) -> tuple[Factor, ...]:
    """List the factors in which two configs differ; a replaced part is one factor together with its parameters."""
    differing = differing_parameters(one.run, other.run)

    def exchanged(part: str) -> bool:
        return part in differing or _kind(one.run.config, part) != _kind(other.run.config, part)

    # the outermost replaced part around each parameter, else the parameter itself
    parts = dict.fromkeys(next(filter(exchanged, _parents(name)), name) for name in differing)
    changed = tuple(Factor(part, _factor_value(one.run, part), _factor_value(other.run, part)) for part in parts)
    return (*changed, COMPUTED) if computed_otherwise(one.run, other.run) else changed


def computed_otherwise(one: Run, other: Run) -> bool:
    """Return whether two runs' rankings have different addresses although settings and corpus are the same.

    The cause is a different dtype, model file, code or library version. Return False if either ranking has no address.
    """
    addresses = [run.addresses.get("ranking", "") for run in (one, other)]
    same = not any(name.partition(".")[0] in RANKED_BY for name in differing_parameters(one, other))
    alike = one.dataset.corpus_digest == other.dataset.corpus_digest
    return all(addresses) and addresses[0] != addresses[1] and same and alike


def differing_parameters(one: Run, other: Run) -> list[str]:
    """List the parameters that differ between two configs and could change a score."""
    names = sorted({*scoring_parameters(one), *scoring_parameters(other)})
    return [name for name in names if _differs((one, other), name)]


def _differs(runs: Sequence[Run], name: str) -> bool:
    """Return whether runs differ in a parameter; if only some runs have it, their config nodes are compared."""
    texts = {run.parameters.get(name) for run in runs}
    first, *others = (_node(run.config, name) for run in runs)
    same = first is not None and all(one == first for one in others)
    return len(texts - {None}) > 1 or (len(texts) > 1 and not same)


def factor_values(results: Sequence[Result]) -> list[dict[str, str]]:
    """Return, for each config, a mapping from every factor of the sweep to its value in this config.

    If a part varies between configs, a parameter of this part counts only if it differs between configs with the same
    option of the part. The parameter is then a separate factor if every config has it; otherwise it is appended to
    the part's value, as in ``hybrid_rrf k=20``.
    """
    columns = {name: [_factor_value(result.run, name) for result in results] for name in _varying(results)}
    roots = {name: next((part for part in _parents(name) if part in columns), name) for name in columns}
    factors = {name: list(columns[name]) for name, root in roots.items() if name == root}
    for name, root in roots.items():
        if name == root:
            continue
        values = columns[name]
        distinct = Counter(option for option, _ in set(zip(columns[root], values, strict=True)))
        varied = {option for option, count in distinct.items() if count > 1}
        if varied and all(values):
            factors[name] = values
            continue
        for n, value in enumerate(values):
            if columns[root][n] in varied:
                factors[root][n] += f" {name.removeprefix(f'{root}.')}={value or 'none'}"
    return [{name: values[n] for name, values in factors.items()} for n in range(len(results))]


def _varying(results: Sequence[Result]) -> list[str]:
    """List the parameters and parts that differ between configs, each part before its own parameters."""
    names = dict.fromkeys(name for result in results for name in scoring_parameters(result.run))
    varying = {name for name in names if _differs([result.run for result in results], name)}
    parts = {part for name in varying for part in _parents(name)}
    varying |= {part for part in parts if len({_kind(result.run.config, part) for result in results}) > 1}
    order = {name: n for n, name in enumerate(names)}
    return sorted(varying, key=lambda name: (name.count("."), order.get(name, 0)))


def _parents(name: str) -> list[str]:
    """Return the parts that contain a parameter: ``a`` and ``a.b`` for ``a.b.c``."""
    return list(accumulate(name.split(".")[:-1], lambda path, word: f"{path}.{word}"))


def _kind(config: Mapping[str, Any], path: str) -> str | None:
    """Return the class that a config node names; "" if the node names none, None if it is absent or no mapping."""
    node = _node(config, path)
    return str(node.get("_target_", "")) if isinstance(node, Mapping) else None


def _node(config: Mapping[str, Any], path: str) -> Any:
    """Return the value of a config's key; None if the key is absent."""
    node: Any = config
    for word in path.split("."):
        node = node.get(word) if isinstance(node, Mapping) else None
    return node


def _factor_value(run: Run, part: str) -> str:
    """Return a factor's value in a config: the parameter's value, or the name of the option or class; "" if absent."""
    return run.parameters.get(part, (_kind(run.config, part) or "").rpartition(".")[2])


def check_same_questions(one: Result, other: Result, swept: bool = False) -> None:
    """Raise InputError if golden set, corpus or ``HOW_MEASURED`` differ; ``swept``: the results are of one sweep."""
    for what, field in (("golden set", "golden_digest"), ("corpus", "corpus_digest")):
        digests = [getattr(result.run.dataset, field) for result in (one, other)]
        if digests[0] != digests[1]:
            first, second = (
                f'{place if one.name == other.name else result.name} is "{result.run.dataset.name}" ({digest[:8]},'
                f" {counted(result.run.dataset.questions, 'question')})"
                for place, result, digest in zip(("the first", "the second"), (one, other), digests, strict=True)
            )
            way = f"sweep over one {what}" if swept else f"run the first config again on the {what} of the second"
            raise InputError(f"rebaseline: the {what} of {first}, and the {what} of {second}; {way}")
    for name in HOW_MEASURED:
        values = [result.run.parameters.get(name) for result in (one, other)]
        if values[0] != values[1]:
            fact = f"rebaseline: {name} is {values[0]} in {one.name} and {values[1]} in {other.name}"
            raise InputError(f"{fact}, so their scores mean different things; run both with the same value")


def check_whole(result: Result) -> None:
    """Raise InputError for a PARTIAL or DROPPED result, which has too few scores for a comparison."""
    if result.run.state == PARTIAL:
        below = below_coverage(result)
        reasons = chain.from_iterable(one.reasons for one in below)
        least = min((one.coverage for one in below), default=0.0)
        advice = remedy(reasons, result.questions.get("answer_failed", ()), least)
        raise InputError(f"{result.name} is PARTIAL: too many questions could not be scored; {advice}")
    if result.run.state == DROPPED:
        asked, of = result.run.race["asked"], result.run.race["of"]
        raise InputError(
            f"{result.name} was dropped by a race after {asked} of {of} questions; run this config alone, without -m"
        )


def redefined_metrics(one: Result, other: Result, metrics: Sequence[str]) -> list[str]:
    """List the ``metrics`` that ``one`` defines and ``other`` lacks, defines differently or computes differently."""
    before, after = (_meaning(result.run.config.get("metrics") or {}) for result in (one, other))
    redefined = {name for name, meaning in before.items() if meaning and meaning != after.get(name)}
    first, second = one.run.metric_versions, other.run.metric_versions
    redefined |= {name for name in first.keys() & second.keys() if first[name] != second[name]}
    return [name for name in metrics if name in redefined]


def _meaning(node: Any) -> Any:
    """Return a config node without ``replicate`` and ``labels``: these settings do not change what a judge measures."""
    if not isinstance(node, Mapping):
        return node
    return {key: _meaning(value) for key, value in node.items() if key not in ("replicate", "labels")}


def shared_metrics(results: Sequence[Result], wanted: Sequence[str] | None, usual: Sequence[str]) -> list[str]:
    """Return the metrics of a comparison: ``wanted`` if any are named, else the comparable metrics among ``usual``.

    Raises:
        ConfigError: A wanted metric is missing from a result or is not comparable.
        InputError: No metric is wanted, and none of the usual ones is comparable.
    """
    measured = [one.summaries.metrics for one in results]
    shared = [name for name in measured[0] if all(name in other for other in measured)]
    comparable = [name for name in shared if not reason_incomparable(results, name)]
    for name in wanted or ():
        if name not in shared:
            way = nearest(name, shared) or "; run all configs again with the same metrics"
            raise ConfigError(f'no metric "{name}" was measured in all compared runs{way}')
        if reason := reason_incomparable(results, name):
            way = f"choose one of {', '.join(comparable)}" if comparable else "run these configs with another metric"
            raise ConfigError(f"{name}: {reason}; {way}")
    chosen = wanted or [name for name in usual if name in comparable]
    if not chosen:
        way = f"no objective or headline metric can be compared; choose another with --metric{nearest('', comparable)}"
        none = (
            "the compared runs share no comparable metric (a mean of scores for which either higher or lower is better)"
        )
        raise InputError(way if comparable else f"{none}; run all configs again with such a metric")
    return list(dict.fromkeys(chosen))


def reason_incomparable(results: Sequence[Result], metric: str) -> str:
    """Return why configs cannot be compared by a metric that was measured for all of them; "" if they can."""
    summaries = [result.summaries.metrics[metric] for result in results]
    if summaries[0].higher_is_better is None:
        return "cannot rank configs, because neither higher nor lower values are better"
    for result in results:
        if reason := _unscored(result, metric):
            return reason
        if not is_mean(result, metric):
            return "is a quantile, not a mean over questions"
    return ""


def check_scored(result: Result, metrics: Iterable[str]) -> None:
    """Raise InputError if one of the metrics was measured but has no score on any question."""
    for metric in metrics:
        if metric in result.summaries.metrics and (reason := _unscored(result, metric)):
            usable = [name for name in result.summaries.metrics if not reason_incomparable([result], name)]
            way = f"choose a metric with scores{nearest('', usable)}" if usable else "run again with another metric"
            raise InputError(f"{metric}: {reason}; {way}")


def _unscored(result: Result, metric: str) -> str:
    """Return why no question has a score of a metric, with the count of each reason; "" if any question has one."""
    summary = result.summaries.metrics[metric]
    reasons = ", ".join(f"{count} {reason}" for reason, count in summary.reasons.items())
    return "" if summary.n_scored else f"no question of {result.name} could be scored: {reasons or 'none evaluated'}"


def is_mean(result: Result, metric: str) -> bool:
    """Return whether a metric's value is the (weighted) mean of its column rather than a quantile.

    Return True for a value of NaN; return False for any other value if the column has no scores.
    """
    column = np.array(result.questions.get(metric, ()), dtype=np.float64)
    known, value = ~np.isnan(column), result.summaries.metrics[metric].value
    if math.isnan(value) or not known.any():
        return math.isnan(value)
    weights = result.questions.get(WEIGHT)
    mean = np.average(column[known], weights=None if weights is None else np.array(weights)[known])
    return math.isclose(mean, value, rel_tol=1e-6, abs_tol=1e-9)


def labels_of(result: Result, questions: Sequence[str]) -> dict[str, list[str]]:
    """Map each label (a column by which results are grouped) to its values, one per question; "" where missing."""
    rows = [result.questions.row_of[name] for name in questions]
    columns = {label: result.questions.get(label) for label in result.summaries.groups}
    return {label: [str(column[row] or "") for row in rows] for label, column in columns.items() if column}


def is_scored(result: Result, metric: str) -> bool:
    """Return whether a config was evaluated and reaches ``coverage`` in ``metric``, with at least one score."""
    measured = result.run.state in (COMPLETE, PARTIAL) and metric in result.summaries.metrics
    return measured and is_complete(result, metric) and result.summaries.metrics[metric].n_scored > 0


def is_complete(result: Result, metric: str) -> bool:
    """Return whether a metric reaches ``coverage``; for an unmeasured metric, whether the config is not PARTIAL."""
    summary, least = result.summaries.metrics.get(metric), float(result.run.config.get("coverage", 1.0))
    return summary.coverage >= least if summary else result.run.state != PARTIAL
