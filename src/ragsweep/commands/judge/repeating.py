"""``ragsweep judge noise``: a judge against itself."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping

from ragsweep.commands.command_line import find_run
from ragsweep.commands.judge.labels import Scores, scores_of
from ragsweep.core.errors import InputError, nearest
from ragsweep.core.results import Result
from ragsweep.report.changes import null
from ragsweep.report.terminal import Terminal
from ragsweep.stats.calibration import Noise, noise
from ragsweep.stats.comparable import differing_parameters

_REPLICATE = "judge.replicate"
_JUDGED = "ragas_"


def compare(given: argparse.Namespace, terminal: Terminal) -> int:
    """Print the noise floor of every metric that both runs have."""
    one, other = (find_run(given.path, run) for run in given.runs)
    told = measure(scores_of(one), scores_of(other), given.metric)
    apart = differences(one, other)
    if given.json:
        plain = {name: {key: null(value) for key, value in found._asdict().items()} for name, found in told.items()}
        print(json.dumps({"differing": apart, "metrics": plain}, indent=2, allow_nan=False))
        return 0
    if apart:
        terminal.line("warning", f"the runs differ in more than chance: {', '.join(apart)}")
    elif one.parameters.get(_REPLICATE) == other.parameters.get(_REPLICATE):
        terminal.line("warning", "both have the same judge.replicate: stored verdicts are the same ones, not new ones")
    for name, found in told.items():
        terminal.line("noise", f"{name}: {line(found)}")
    return 0


def measure(one: Scores, other: Scores, wanted: list[str] | None) -> dict[str, Noise]:
    """Measure the noise of the metrics that are wanted, else of all that are judged and that both have."""
    shared = [name for name in one if name in other]
    for name in wanted or ():
        if name not in shared:
            raise InputError(f'not both runs have the metric "{name}"{nearest(name, shared)}')
    chosen = wanted or [name for name in shared if name.startswith(_JUDGED)]
    if not chosen:
        raise InputError(f"both runs have no metric {_JUDGED}*; name others with --metric{nearest(_JUDGED, shared)}")
    return {name: noise(*_paired(one[name], other[name])) for name in chosen}


def _paired(one: Mapping[str, float], other: Mapping[str, float]) -> tuple[list[float], list[float]]:
    both = [question for question in one if question in other]
    return [one[question] for question in both], [other[question] for question in both]


def differences(one: Result, other: Result) -> list[str]:
    """Name what two runs differ in beside the replicate, and that could make a difference to a score."""
    found = [name for name in differing_parameters(one, other) if name != _REPLICATE]
    facts = (one.dataset.golden_digest, one.dataset.corpus_digest)
    return found + (["dataset"] if facts != (other.dataset.golden_digest, other.dataset.corpus_digest) else [])


def line(found: Noise) -> str:
    """Return a line for people."""
    if math.isnan(found.spread):
        return f"{found.n} questions that both judged; two are needed"
    return (
        f"{found.spread:.3f} a question (standard deviation of the difference), {found.changed:.0%} of {found.n}"
        f" questions changed; means that differ by less than {found.of_the_mean:.3f} cannot be told apart"
    )
