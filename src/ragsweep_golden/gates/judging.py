"""Quality gates of a golden set: each compares a measured value with a threshold; a failure blocks or warns.

A gate that could not be measured has a separate verdict, and never passes. Gates judge the kept entries; rejected
entries are counted separately.
"""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ragsweep.core.errors import ConfigError, nearest
from ragsweep_golden.gates.built_measures import BUILT_GATES
from ragsweep_golden.gates.set_measures import SET_GATES
from ragsweep_golden.gates.subject import Fault, Measure, Measured, NotMeasured, Subject
from ragsweep_golden.sets.entries import Entry, value

PASSED, FAILED, WARNED, NOT_MEASURED = "passed", "failed", "warned", "not_measured"
AUTO, HAND, GENERATED, FULL = "auto", "hand", "generated", "full"
"""Profiles: AUTO looks at the entries to choose HAND (for a hand-written set) or GENERATED; FULL has all gates."""
PROFILES = (HAND, GENERATED, FULL)

GATES: Mapping[str, tuple[str, str, Measure]] = dict(sorted({**BUILT_GATES, **SET_GATES}.items()))
"""Gate -> title, comparison of the value with the threshold, measure."""


class GateRule(NamedTuple):
    """The configured part of a gate. ``highest``: the upper end of a range, which begins at ``threshold``."""

    threshold: float
    blocking: bool
    highest: float | None = None


class GateResult(NamedTuple):
    """A gate's verdict. ``value`` is NaN if it was not measured; ``note`` then is the reason, else a detail."""

    gate: str
    title: str
    value: float
    rule: GateRule
    verdict: str
    note: str = ""
    faults: tuple[Fault, ...] = ()


class Profile(NamedTuple):
    """The gates that judge a set, and the reason for the selection."""

    name: str
    gates: tuple[str, ...]
    reason: str


def choose_profile(name: str, profiles: Mapping[str, Sequence[str]], entries: Sequence[Entry]) -> Profile:
    """Return the named profile; ``auto`` is ``generated`` if most entries name their generator, else ``hand``.

    Raises ConfigError for an unknown profile, and for a profile with an unknown gate.
    """
    made = sum(value(one, "processing", "generator") is not None for one in entries)
    reason = f"profile={name}"
    if name == AUTO:
        name = GENERATED if 2 * made > len(entries) else HAND
        reason = f"{made:,} of {len(entries):,} entries name a generator"
    if name != FULL and name not in profiles:
        raise ConfigError(f"profile: no profile {name!r}{nearest(name, [AUTO, FULL, *profiles])}")
    gates = tuple(GATES if name == FULL else profiles[name])
    for gate in gates:
        if gate not in GATES:
            raise ConfigError(f'profiles.{name}: no gate "{gate}"{nearest(gate, GATES)}')
    return Profile(name, gates, reason)


def judge_gates(subject: Subject, rules: Mapping[str, GateRule]) -> list[GateResult]:
    """Measure every gate that has a rule, and judge the value by the rule's threshold or range."""
    results = []
    for gate, rule in rules.items():
        title, comparison, measure = GATES[gate]
        found = _measured(measure, subject)
        holds = _holds(found.value, comparison, rule)
        if math.isnan(found.value) or (found.is_least and not holds):
            found, verdict = replace(found, value=math.nan), NOT_MEASURED
        else:
            verdict = PASSED if holds else FAILED if rule.blocking else WARNED
        results.append(GateResult(gate, title, found.value, rule, verdict, found.note, found.faults))
    return results


def _measured(measure: Measure, subject: Subject) -> Measured:
    try:
        return measure(subject)
    except NotMeasured as reason:
        return Measured(math.nan, str(reason))


def _holds(measured: float, comparison: str, rule: GateRule) -> bool:
    if comparison == "in":
        return rule.threshold <= measured <= (1.0 if rule.highest is None else rule.highest)
    return bool({">=": operator.ge, "<": operator.lt, "<=": operator.le}[comparison](measured, rule.threshold))


QUESTION_GATES = ("G1-1", "G1-2", "G1-4", "G1-5", "G1-6", "G2-1", "G3-2", "G3-3", "G6-2", "G6-3")
"""Gates by which a build drops single questions (see ``find_faulty``)."""


def find_faulty(subject: Subject) -> dict[str, str]:
    """Map the id of each question that fails one of QUESTION_GATES to the first such gate and the reason."""
    found: dict[str, str] = {}
    for gate in QUESTION_GATES:
        for fault in _measured(GATES[gate][2], subject).faults:
            found.setdefault(fault.id, f"{gate} ({fault.why})")
    return found


def exit_status(results: Sequence[GateResult]) -> int:
    """Return 1 if a blocking gate failed, 3 if a blocking gate was not measured, else 0."""
    verdicts = {one.verdict for one in results if one.rule.blocking}
    return 1 if FAILED in verdicts else 3 if NOT_MEASURED in verdicts else 0
