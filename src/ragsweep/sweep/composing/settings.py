"""Check a config's settings other than its parts, and read the human labels that the config names."""

import math
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from optuna_sweeper.parameters import is_number, is_whole
from ragsweep.core.building import as_number
from ragsweep.core.errors import ConfigError, Faults, InputError, nearest
from ragsweep.core.identity import BuiltPart
from ragsweep.core.results import HumanLabel, objectives
from ragsweep.core.secrets import mask_text
from ragsweep.core.types import METRIC_NAME, Dataset, Metric
from ragsweep.evaluation.question_table import check_labels
from ragsweep.golden.human_labels import check_scale, read_labels
from ragsweep.records.names import check_name
from ragsweep.stats.choice import COSTS

BASELINE = "baseline"
"""The config key of the declared baseline."""

_NULLABLE = ("answer_headline", "budget", "constraints", "recommend", "success")
"""Mappings and lists of the main config that may be null."""


def read_number(declared: object) -> int | None:
    """Return the job number, counted from 1, of a baseline such as ``3`` or ``#3``; None for any other declaration."""
    text = str(declared).removeprefix("#")
    return int(text) if text.isdecimal() and not isinstance(declared, bool) else None


def check_form(values: Mapping[str, Any], main: Mapping[str, Any]) -> None:
    """Raise ConfigError for a missing or misspelt key of the ``main`` config, and for a value of the wrong form.

    Files may add top-level keys, but none that resembles a key of ``main``, because a misspelt key would have no
    effect.
    """
    if isinstance(values.get("experiment"), Mapping):
        raise ConfigError('experiment: its keys have no effect; begin the file with the line "# @package _global_"')
    for key in values.keys() - main.keys():
        if "." in key:
            raise ConfigError(f"{key}: a key in a file must not contain dots; nest it under {key.partition('.')[0]}")
        if similar := get_close_matches(key, main, 1, 0.8):
            raise ConfigError(f'{key}: no such key; did you mean "{similar[0]}"? If it is your own key, rename it')
    for key, shipped in main.items():
        if key not in values:
            raise ConfigError(f"{key}: requires a value; " + (f"omit ~{key}" if shipped != "" else f"set {key}=..."))
        value = values[key]
        if not isinstance(shipped, dict | list) or (value is None and key in _NULLABLE):
            continue
        if not isinstance(value, type(shipped)):
            form = f"mapping ({', '.join(shipped)})" if isinstance(shipped, dict) else "list of metrics, [NAME, ...]"
            raise ConfigError(f"{key}: must be a {form}, got {value!r}; correct or omit the key")
        missing = sorted({*shipped} - {*value}) if isinstance(shipped, dict) and key not in _NULLABLE else []
        if missing:
            raise ConfigError(f"{key}.{missing[0]}: requires a value; omit ~{key}.{missing[0]}")
        if isinstance(shipped, dict) and (added := sorted({*map(str, value)} - {*shipped})):
            raise ConfigError(f"{key}.{added[0]}: no such key{nearest(added[0], shipped)}")


def check_command(values: Mapping[str, Any]) -> None:
    """Raise ConfigError for an invalid setting that controls how a command runs, such as ``plan`` or ``timeout``."""
    if not is_whole(values["finalists"]) or values["finalists"] < 0:
        raise ConfigError(f"finalists: must be a whole number of at least 0, got {values['finalists']!r}")
    if values.get("progress") not in (None, "questions"):
        raise ConfigError(f'progress: must be "questions" or null, got {values["progress"]!r}')
    if values["plan"] not in (True, False, "json"):
        raise ConfigError(f"plan: must be true, false or json, got {values['plan']!r}")
    if not isinstance(values["rerun"], bool):
        raise ConfigError(f"rerun: must be true or false, got {values['rerun']!r}")
    if values["questions"]["until"] is not None:
        raise ConfigError(
            "questions.until: is set by a race, rung by rung (hydra/sweeper/race=betting); omit it, or set"
            " dataset.limit to evaluate a sample"
        )
    for key in ("path", "worker_path"):
        if (folder := str(values["store"][key])).startswith("~/"):
            raise ConfigError(f"store.{key}: ~ is not expanded, got {folder!r}; write {Path(folder).expanduser()}")
    for key in ("timeout", "max_failures"):
        value = values[key]
        if value is not None and not (is_number(value) and value > 0):
            raise ConfigError(f"{key}: must be a number above 0, or null, got {value!r}")


def check_shown(configs: Sequence[Mapping[str, Any]], labels: Collection[str]) -> None:
    """Raise ConfigError if ``name`` or ``by`` is invalid or differs within a sweep; ``by`` must be in ``labels``."""
    for key in ("name", "by"):
        if any(config[key] != configs[0][key] for config in configs):
            raise ConfigError(f"{key}: cannot differ within a sweep; give it one value")
    if configs[0]["name"] is not None:
        check_name(configs[0]["name"])
    if (by := configs[0]["by"]) is not None and by not in labels:
        known = f"; known: {', '.join(labels)}" if labels else ": no label has 2 to 40 values; omit the key by"
        raise ConfigError(f'by: no label "{by}" divides these questions{known}')


def read_sweep_labels(configs: Sequence[Mapping[str, Any]]) -> list[HumanLabel]:
    """Read the human labels of ``judge.labels``; [] if no config sets it.

    Raises ConfigError if configs name different files, and InputError for a faulty file.
    """
    paths = dict.fromkeys((config.get("judge") or {}).get("labels") for config in configs)
    given = [path for path in paths if path is not None]
    if len(given) > 1:
        raise ConfigError("judge.labels: cannot differ within a sweep; put all labels into one file")
    try:
        return read_labels(Path(given[0])) if given else []
    except InputError as fault:
        raise InputError(f"judge.labels: {fault}") from None


def check_labels_measured(labels: Sequence[HumanLabel], metrics: Mapping[str, Metric]) -> None:
    """Raise ConfigError if there are labels but none of their metrics is measured; check the labels' values.

    Raises InputError unless the labels of each metric are in the metric's range, or are all 0 or 1 (see `check_scale`).
    """
    named = list(dict.fromkeys(label.metric for label in labels))
    if named and not set(named) & set(metrics):
        raise ConfigError(
            f"judge.labels: no labelled metric ({', '.join(named)}) is measured; add one, for example"
            f" with metrics=ragas, or omit judge.labels{nearest(named[0], metrics)}"
        )
    scales = {
        name: (-math.inf if low is None else low, math.inf if high is None else high)
        for name, (low, high) in ((name, metrics[name].bounds) for name in named if name in metrics)
    }
    check_scale(labels, scales)


def check_config(plain: Mapping[str, Any]) -> None:
    """Raise ConfigError for an invalid number among the settings of one config, and for a ``top_k`` above ``depth``."""
    for key, least in (("top_k", 1), ("depth", 1), ("seed", 0)):
        if not is_whole(plain[key]) or plain[key] < least:
            hint = "; in a search write int(interval(...))" if isinstance(plain[key], float) else as_number(plain[key])
            raise ConfigError(f"{key}: must be a whole number of at least {least}, got {plain[key]!r}{hint}")
    top_k, depth, threshold = plain["top_k"], plain["depth"], plain["evidence"]["threshold"]
    if top_k > depth:
        raise ConfigError(f"top_k={top_k} exceeds depth={depth}; raise depth, or lower top_k")
    if not (is_number(threshold) and 0 < threshold <= 1):
        raise ConfigError(f"evidence.threshold: must be above 0 and at most 1, got {threshold!r}")
    share, budget = plain["coverage"], plain["context_budget"]
    if not (is_number(share) and 0 <= share <= 1):
        raise ConfigError(f"coverage: must be a share from 0 to 1, got {share!r}")
    if budget is not None and not (is_whole(budget) and budget >= 1):
        raise ConfigError(f"context_budget: must be a whole number of at least 1, or null, got {budget!r}")
    for key in ("margin", "loss"):
        value = (plain["recommend"] or {}).get(key)
        if value is not None and not (is_number(value) and 0 <= value < math.inf):
            raise ConfigError(f"recommend.{key}: must be a finite number of at least 0, or null, got {value!r}")


def checked_metrics(built: Sequence[BuiltPart], plain: Mapping[str, Any], dataset: Dataset) -> tuple[Metric, ...]:
    """Return a config's metrics, after checking that they are consistent with its other settings and the dataset.

    Raises ConfigError otherwise: for example, for two metrics with the same name, for an objective that is not
    measured, or for a metric that needs evidence if no question has evidence. Raises InputError for a label with the
    name of a metric or of a fixed column.
    """
    metrics: dict[str, Metric] = {}
    for part in built:
        if part.value.name in metrics:
            raise ConfigError(f'metrics: "{part.value.name}" is defined twice; remove one with ~metrics.KEY')
        if not METRIC_NAME.fullmatch(part.value.name):
            raise ConfigError(
                f'metrics: MLflow may reject "{part.value.name}" as the name of a metric; use letters, digits and _'
            )
        metrics[part.value.name] = part.value
    if mask_text(names := "\n".join(metrics)) != names:
        raise ConfigError("metrics: the name of a metric contains a secret, and names are stored; rename the metric")
    for name, metric in metrics.items():
        if any(bound is not None and not math.isfinite(bound) for bound in metric.bounds):
            raise ConfigError(f'metrics: the bounds of "{name}" must be finite or null (None), got {metric.bounds}')
    for key, chosen in (("objective", objectives(plain)), ("headline", plain["headline"])):
        for name in chosen:
            if name not in metrics:
                raise ConfigError(f'{key}: no metric "{name}"{nearest(str(name), metrics)}')
    check_constraints(plain["constraints"] or {}, metrics)
    faults = Faults()
    check_labels(dataset.golden.questions, metrics, faults)
    faults.raise_any()
    lacking = [metric.name for metric in metrics.values() if "evidence" in metric.needs]
    if lacking and not any(question.relevant for question in dataset.golden.questions):
        raise ConfigError(
            f'no question of "{dataset.name}" has evidence, which some metrics need'
            f" ({', '.join([*lacking[:3], *['...'] * (len(lacking) > 3)])}); label evidence, or choose"
            " metrics=unlabelled" + "".join(f"\n{note}" for note in dataset.notes)
        )
    return tuple(metrics.values())


def check_constraints(limits: Mapping[str, Any], metrics: Mapping[str, Metric]) -> None:
    """Raise ConfigError for an unknown cost, an invalid limit, or a limit on a cost that is not measured."""
    for name, limit in limits.items():
        if name not in COSTS:
            raise ConfigError(f"constraints.{name}: unknown cost{nearest(str(name), COSTS)}")
        if limit is not None and not (is_number(limit) and limit > 0):
            raise ConfigError(f"constraints.{name}: must be a number above 0, or null, got {limit!r}")
        if limit is not None and name not in metrics:
            way = "choose an llm, which adds this metric" if name == "cost_per_1000" else f"set constraints.{name}=null"
            raise ConfigError(f'constraints.{name}: no metric "{name}" is measured; {way}')
