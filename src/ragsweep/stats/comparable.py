"""Decide whether results may be compared, by which metrics, and list the factors in which configs differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ragsweep.core.errors import ConfigError, InputError, nearest
from ragsweep.core.results import DROPPED, PARTIAL, Result

OF_NO_MATTER = ("store.", "tracking.", "plan", "rerun", "headline", "objective", "partition", "questions.until")
"""Parameters that can change no score of a question."""

HOW_MEASURED = ("evidence.threshold",)
"""Parameters that change what a score means, whatever the config."""


@dataclass(frozen=True)
class Factor:
    """Something that two configs have in different ways: one parameter, or a whole part."""

    name: str
    before: str
    after: str

    def __str__(self) -> str:
        """Write it as a change: ``top_k 5 -> 10``."""
        return f"{self.name} {self.before or '-'} -> {self.after or '-'}"


def factors(one: Result, other: Result) -> tuple[Factor, ...]:
    """List in what two configs differ; a part that was exchanged is one factor, whatever parameters it has."""
    found = differing_parameters(one, other)
    parts = dict.fromkeys(_exchanged(name, found, one.config, other.config) for name in found)
    return tuple(Factor(part, _factor_value(one, part), _factor_value(other, part)) for part in parts)


def differing_parameters(one: Result, other: Result) -> list[str]:
    """Name the parameters in which two configs differ, and that could make a difference to a score."""
    names = sorted({*one.parameters, *other.parameters})
    apart = [name for name in names if one.parameters.get(name) != other.parameters.get(name)]
    return [name for name in apart if not name.startswith(OF_NO_MATTER)]


def factor_values(results: Sequence[Result]) -> list[dict[str, str]]:
    """Return each config's value of every factor of a sweep.

    Where a part is exchanged, what all of its options have in common stays a factor; what only some of them have, and
    what varies there, is a part of the value: ``hybrid_rrf k=20``, ``hybrid_convex alpha=0.5``.
    """
    columns = {name: [_factor_value(result, name) for result in results] for name in _varying(results)}
    roots = {name: next((part for part in _around(name) if part in columns), name) for name in columns}
    found = {name: list(columns[name]) for name, root in roots.items() if name == root}
    for name, values in columns.items():
        root = roots[name]
        if name == root or not (options := _varied(columns[root], values)):
            continue
        if all(values):
            found[name] = values
            continue
        for n, value in enumerate(values):
            if columns[root][n] in options:
                found[root][n] += f" {name.removeprefix(f'{root}.')}={value or 'none'}"
    return [{name: values[n] for name, values in found.items()} for n in range(len(results))]


def _varying(results: Sequence[Result]) -> list[str]:
    """Name the parameters and parts that differ between configs, a part before its own parameters."""
    names = dict.fromkeys(name for result in results for name in result.parameters if not name.startswith(OF_NO_MATTER))
    found = {name for name in names if len({result.parameters.get(name) for result in results}) > 1}
    parts = {part for name in found for part in _around(name)}
    found |= {part for part in parts if len({_kind(result.config, part) for result in results}) > 1}
    order = {name: n for n, name in enumerate(names)}
    return sorted(found, key=lambda name: (name.count("."), order.get(name, 0)))


def _varied(options: Sequence[str], values: Sequence[str]) -> set[str]:
    """Return the options within which a value varies."""
    seen: dict[str, set[str]] = {}
    for option, value in zip(options, values, strict=True):
        seen.setdefault(option, set()).add(value)
    return {option for option, found in seen.items() if len(found) > 1}


def _exchanged(name: str, differing: Sequence[str], one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Name the outermost part around a parameter that is another in the two configs; else the parameter itself."""
    for part in _around(name):
        kinds = [_kind(config, part) for config in (one, other)]
        if part in differing or kinds[0] != kinds[1]:
            return part
    return name


def _around(name: str) -> Iterator[str]:
    """Yield ``a``, ``a.b`` for ``a.b.c``."""
    words = name.split(".")
    for n in range(1, len(words)):
        yield ".".join(words[:n])


def _kind(config: Mapping[str, Any], path: str) -> str | None:
    """Name the class of a node; "" of a node without one, None where there is no node."""
    node: Any = config
    for word in path.split("."):
        node = node.get(word) if isinstance(node, Mapping) else None
    return str(node.get("_target_", "")) if isinstance(node, Mapping) else None


def _factor_value(result: Result, part: str) -> str:
    """Return a factor's value in a config: a parameter, an option, or the name of a class."""
    if part in result.parameters:
        return result.parameters[part]
    return (_kind(result.config, part) or "").rpartition(".")[2]


def check_same_questions(one: Result, other: Result) -> None:
    """Raise InputError where two results answer different questions, search different texts, or count otherwise."""
    for what, known in (("golden set", "golden_digest"), ("corpus", "corpus_digest")):
        digests = [getattr(result.dataset, known) for result in (one, other)]
        if digests[0] != digests[1]:
            raise InputError(
                f"rebaseline: the {what} of {one.name} is {_set(one, digests[0])}, that of {other.name} is"
                f" {_set(other, digests[1])}; run the baseline again on the same {what}"
            )
    for name in HOW_MEASURED:
        given = [result.parameters.get(name) for result in (one, other)]
        if given[0] != given[1]:
            raise InputError(
                f"rebaseline: {name} is {given[0]} in {one.name} and {given[1]} in {other.name}, so that their scores"
                " mean different things"
            )


def _set(result: Result, digest: str) -> str:
    return f'"{result.dataset.name}" ({digest[:8]}, {result.dataset.questions:,} questions)'


def check_whole(result: Result) -> None:
    """Raise InputError for a result that is PARTIAL or DROPPED: too much of it is missing to be compared."""
    if result.state == PARTIAL:
        raise InputError(f"{result.name}: is PARTIAL, too many questions could not be scored; run it again")
    if result.state == DROPPED:
        asked, of = result.race["asked"], result.race["of"]
        raise InputError(f"{result.name}: a race dropped it after {asked} of {of} questions; run it by itself")


def redefined_metrics(one: Result, other: Result, metrics: Sequence[str]) -> list[str]:
    """Name the metrics that two configs define differently."""
    definitions = [_definitions(result) for result in (one, other)]
    return [
        name for name in metrics if definitions[0].get(name) and definitions[0].get(name) != definitions[1].get(name)
    ]


def _definitions(result: Result) -> Mapping[str, Any]:
    named = result.config.get("metrics")
    return {str(name): _without_replicate(node) for name, node in (named or {}).items()}


def _without_replicate(node: Any) -> Any:
    """Leave out which judging of the same things it is: another one measures the same."""
    if not isinstance(node, Mapping):
        return node
    return {key: _without_replicate(value) for key, value in node.items() if key != "replicate"}


def shared_metrics(results: Sequence[Result], wanted: Sequence[str] | None, usual: Sequence[str]) -> list[str]:
    """Return the metrics to compare by: those that are wanted, else those of the usual ones that can be compared.

    Raises:
        ConfigError: A wanted metric was not measured in all results, or configs cannot be compared by it.
    """
    shared = [name for name in results[0].summaries if all(name in other.summaries for other in results)]
    for name in wanted or ():
        if name not in shared:
            raise ConfigError(f'no metric "{name}" was measured in all of them{nearest(name, shared)}')
        if reason := reason_incomparable(results, name):
            raise ConfigError(f"{name}: {reason}")
    chosen = wanted or [name for name in usual if name in shared and not reason_incomparable(results, name)]
    if not chosen:
        raise InputError(f"none of the usual metrics can be compared; name one with --metric{nearest('', shared)}")
    return list(dict.fromkeys(chosen))


def reason_incomparable(results: Sequence[Result], metric: str) -> str:
    """Return why configs cannot be compared by a metric that all of them have; "" where they can."""
    summaries = [result.summaries[metric] for result in results]
    if summaries[0].higher_is_better is None:
        return "neither more nor less of it is better, so that no config is better by it"
    for result, summary in zip(results, summaries, strict=True):
        if not summary.n_scored:
            return f"no question of {result.name} could be scored"
        if not is_mean(result, metric):
            return "is a quantile, no mean over questions: its differences are not those of questions"
    return ""


def is_mean(result: Result, metric: str) -> bool:
    """Return whether a metric's value is the mean of its column; a quantile is not."""
    column = np.array(result.outcomes.get(metric, ()), dtype=np.float64)
    scored, value = column[~np.isnan(column)], result.summaries[metric].value
    return math.isnan(value) or (len(scored) > 0 and math.isclose(scored.mean(), value, rel_tol=1e-6, abs_tol=1e-9))


def labels_of(result: Result, questions: Sequence[str]) -> dict[str, list[str]]:
    """Return the labels of some questions: label -> its value for each of them, "" where there is none."""
    rows = {name: n for n, name in enumerate(result.outcomes["question_id"])}
    places = [rows[name] for name in questions]
    return {
        label: [str(column[place] or "") for place in places]
        for label in result.groups
        if (column := result.outcomes.get(label))
    }
