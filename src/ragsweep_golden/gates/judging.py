"""Judge a golden set by its quality gates, each of which compares a measured value with a threshold.

A failed gate either blocks the set or only warns. A gate whose value cannot be measured does not pass: its verdict is
NOT_MEASURED. Entries that the validation or a person rejected are not judged.
"""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ragsweep.core.errors import ConfigError, nearest
from ragsweep_golden.gates.built_measures import BUILT_GATES
from ragsweep_golden.gates.set_measures import SET_GATES
from ragsweep_golden.gates.subject import Fault, Gates, Measure, Measured, NotMeasured, Subject
from ragsweep_golden.sets.entries import Entry, value

PASSED, FAILED, WARNED, NOT_MEASURED = "passed", "failed", "warned", "not_measured"
AUTO, HAND, GENERATED, FULL = "auto", "hand", "generated", "full"
"""Names of profiles. AUTO selects GENERATED or HAND (see ``choose_profile``); FULL has all gates."""
PROFILES = (HAND, GENERATED, FULL)

GATES: Gates = dict(sorted({**BUILT_GATES, **SET_GATES}.items()))


class GateRule(NamedTuple):
    """The configuration of a gate: its threshold, and whether a failure blocks the set or only warns.

    For a gate with a range, ``threshold`` is the lower end, and ``highest`` is the upper end, where None means 1.
    """

    threshold: float
    blocking: bool
    highest: float | None = None


class GateResult(NamedTuple):
    """The value and the verdict of a gate, and the questions that fail the gate (``faults``).

    ``value`` is NaN if it was not measured. In this case, ``note`` is the reason; otherwise, ``note`` is a detail of
    the value.
    """

    gate: str
    title: str
    value: float
    rule: GateRule
    verdict: str
    note: str
    faults: tuple[Fault, ...]


class Profile(NamedTuple):
    """A named selection of gates, and the reason why it was chosen."""

    name: str
    gates: tuple[str, ...]
    reason: str


def choose_profile(name: str, profiles: Mapping[str, Sequence[str]], entries: Sequence[Entry]) -> Profile:
    """Return the profile ``name``; "auto" means "generated" if most entries name their generator, else "hand".

    ``profiles`` maps the names of profiles to gates. Raises ConfigError for an unknown profile, or for a profile with
    an unknown gate.
    """
    made = sum(value(one, "processing", "generator") is not None for one in entries)
    reason = f"profile={name}"
    if name == AUTO:
        name = GENERATED if 2 * made > len(entries) else HAND
        reason = f"{made:,} of {len(entries):,} entries with a generator"
    if name != FULL and name not in profiles:
        raise ConfigError(f"profile: no profile {name!r}{nearest(name, [AUTO, FULL, *profiles])}")
    gates = tuple(GATES if name == FULL else profiles[name])
    for gate in gates:
        if gate not in GATES:
            raise ConfigError(f'profiles.{name}: no gate "{gate}"{nearest(gate, GATES)}')
    return Profile(name, gates, reason)


def judge_gates(subject: Subject, rules: Mapping[str, GateRule]) -> list[GateResult]:
    """Return the result of each gate in ``rules``: its measured value, judged by the threshold or range of its rule.

    The verdict is NOT_MEASURED if there is no value, or if the value is a lower bound that does not meet the threshold.
    """
    results = []
    for gate, rule in rules.items():
        title, comparison, measure = GATES[gate]
        found = _measured(measure, subject)
        holds = _holds(found.value, comparison, rule)
        if math.isnan(found.value) or (found.is_least and not holds):
            found, verdict = replace(found, value=math.nan), NOT_MEASURED
        else:
            verdict = PASSED if holds else FAILED if rule.blocking else WARNED
        faults = found.faults or tuple(fault for size, fault in found.each if not _holds(size, comparison, rule))
        results.append(GateResult(gate, title, found.value, rule, verdict, found.note, faults))
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
"""Gates that single questions can fail; a build drops the questions that fail any of them (see ``find_faulty``)."""


def find_faulty(subject: Subject) -> dict[str, str]:
    """Map the id of each question that fails a gate in QUESTION_GATES to the first failed gate and the reason."""
    found: dict[str, str] = {}
    for gate in QUESTION_GATES:
        for fault in _measured(GATES[gate][2], subject).faults:
            found.setdefault(fault.id, f"{gate} ({fault.why})")
    return found


def exit_status(results: Sequence[GateResult]) -> int:
    """Return 1 if a blocking gate failed, 3 if a blocking gate was not measured, else 0."""
    verdicts = {one.verdict for one in results if one.rule.blocking}
    return 1 if FAILED in verdicts else 3 if NOT_MEASURED in verdicts else 0
