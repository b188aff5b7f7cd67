"""Metrics of repairs: each scores one output, an object with ``findings`` and ``config``.

What nothing can be said of has a defined value: 100 % of the findings where none is expected, 100 % optimisation where
no change is expected and none made, 0 % hallucination where there is no element.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import PartTraits, Question
from ragsweep.parts.metrics import TaskMetric

from haproxy_repair.changes import Changes, agreement, find_changes, precision
from haproxy_repair.findings import Finding, count_matches, pair_kinds
from haproxy_repair.grammar import elements
from haproxy_repair.validator import Verdict, check, find_haproxy

PERCENT = (0.0, 100.0)


def require_haproxy() -> None:
    """Raise ConfigError if HAProxy is not installed."""
    try:
        find_haproxy()
    except FileNotFoundError as fault:
        raise ConfigError(str(fault)) from None


class FindingsMetric(TaskMetric):
    """A metric of the findings that are stated, matched to the expected ones."""

    TRAITS = PartTraits(version="2")

    def score_output(self, question: Question, output: Any) -> float | str:
        """Match the findings and score the counts."""
        stated: Sequence[Finding] = output["findings"]
        expected: Sequence[Finding] = question.fields["findings"]
        return self._score(count_matches(stated, expected), len(stated), len(expected))

    @abstractmethod
    def _score(self, matched: int, stated: int, expected: int) -> float:
        """Score the numbers of findings."""


class FindingsRecall(FindingsMetric):
    """Proportion of the expected findings that are stated; 1 if none is expected."""

    name = "findings_recall"

    def _score(self, matched: int, stated: int, expected: int) -> float:
        return matched / expected if expected else 1.0


class Detection(FindingsMetric):
    """Percentage of the expected findings that are stated; 100 if none is expected."""

    name = "detection"
    unit = "%"
    bounds = PERCENT

    def _score(self, matched: int, stated: int, expected: int) -> float:
        return 100.0 * matched / expected if expected else 100.0


class FindingsPrecision(FindingsMetric):
    """Proportion of the stated findings that are expected; if none is stated: 1 if none is expected, else 0."""

    name = "findings_precision"

    def _score(self, matched: int, stated: int, expected: int) -> float:
        return matched / stated if stated else float(not expected)


class FindingsF1(FindingsMetric):
    """Harmonic mean of precision and recall of the findings; 1 if none is stated and none expected."""

    name = "findings_f1"

    def _score(self, matched: int, stated: int, expected: int) -> float:
        return 2.0 * matched / (stated + expected) if stated + expected else 1.0

    def pairs(self, question: Question, output: Any) -> list[tuple[str, str]]:
        """Pair the kinds that were expected with those that were stated."""
        return pair_kinds(output["findings"], question.fields["findings"])


class CheckedMetric(TaskMetric):
    """A metric of the verdict of ``haproxy -c`` on the repaired configuration."""

    TRAITS = PartTraits(version="2")

    def check(self) -> None:
        """Raise ConfigError if HAProxy is not installed."""
        require_haproxy()

    def score_output(self, question: Question, output: Any) -> float | str:
        """Check the configuration and score the verdict."""
        return self._score(check(output["config"]))

    @abstractmethod
    def _score(self, verdict: Verdict) -> float:
        """Score a verdict."""


class Compliance(CheckedMetric):
    """Compliance with HAProxy's syntax: 1 less .1 for each error and .02 for each warning, at least 0.

    What is refused before HAProxy starts (see ``validator.refuse``) has 0: nothing in it was checked.
    """

    name = "compliance"

    def _score(self, verdict: Verdict) -> float:
        if verdict.refused:
            return 0.0
        return max(0.0, 1.0 - (10 * verdict.error_count + 2 * verdict.warning_count) / 100)


class ErrorCount(CheckedMetric):
    """Number of alerts of ``haproxy -c`` that name a file and line; at least 1 if it rejects the config."""

    name = "error_count"
    higher_is_better = False
    bounds = (0.0, None)

    def _score(self, verdict: Verdict) -> float:
        return float(verdict.error_count)


class WarningCount(ErrorCount):
    """Number of warnings of ``haproxy -c`` that name a file and line."""

    name = "warning_count"

    def _score(self, verdict: Verdict) -> float:
        return float(verdict.warning_count)


class RefusedConfig(CheckedMetric):
    """Whether a configuration is refused before HAProxy starts, or does not end within its limits: 1 or 0."""

    name = "refused_config"
    higher_is_better = False

    def _score(self, verdict: Verdict) -> float:
        return float(bool(verdict.refused))


def _proposed_and_expected(question: Question, output: Any) -> tuple[Changes, Changes]:
    """Return the changes of a repair and those of the expected one."""
    before = question.fields["input"]
    return find_changes(before, output["config"]), find_changes(before, question.fields["expected"])


class Optimisation(TaskMetric):
    """Percentage of the changed lines that agree with the expected repair's; 100 if both change nothing.

    Removed and added lines are compared, one to one, by similarity (see ``changes.agreement``).
    """

    TRAITS = PartTraits(version="2")
    name = "optimisation"
    unit = "%"
    bounds = PERCENT

    def score_output(self, question: Question, output: Any) -> float | str:
        """Compare the changes of the output with those of the expected repair."""
        return 100.0 * agreement(*_proposed_and_expected(question, output))


class OptimisationPrecision(TaskMetric):
    """Percentage of the proposed changes of lines that are expected; if none is proposed: 100 if none is expected.

    Where some are expected and none is proposed, it is 0. A change is expected where it is paired with one of the
    expected repair (see ``changes.precision``): needless changes lower it, missing ones do not.
    """

    TRAITS = PartTraits(version="1")
    name = "optimisation_precision"
    unit = "%"
    bounds = PERCENT

    def score_output(self, question: Question, output: Any) -> float | str:
        """Compare the changes of the output with those of the expected repair."""
        return 100.0 * precision(*_proposed_and_expected(question, output))


class LineCount(TaskMetric):
    """Number of lines that the repair adds, removes or changes; a changed line is one of both."""

    TRAITS = PartTraits(version="2")
    unit = "lines"
    higher_is_better = None
    bounds = (0.0, None)

    def __init__(self, of: str) -> None:
        counts = {"added": lambda made: len(made.added), "removed": lambda made: len(made.removed),
                  "changed": lambda made: made.changed}  # fmt: skip
        if of not in counts:
            raise ConfigError(f"of: must be {', '.join(counts)}, got {of!r}")
        self.name = f"{of}_lines"
        self._count: Any = counts[of]

    def score_output(self, question: Question, output: Any) -> float | str:
        """Count the lines."""
        made: Changes = find_changes(question.fields["input"], output["config"])
        return float(self._count(made))


class Hallucination(TaskMetric):
    """Percentage of a configuration's elements that HAProxy does not know; 0 if there is no element.

    With ``of``, those of one type (``grammar.Element.kind``), still as a percentage of all elements, so that the four
    types add up to the rate of all.
    """

    TRAITS = PartTraits(version="2")
    unit = "%"
    higher_is_better = False
    bounds = PERCENT
    NAMES: Mapping[str | None, str] = {
        None: "hallucination_rate",
        "option": "hallucinated_options",
        "directive": "hallucinated_directives",
        "parameter": "hallucinated_parameters",
        "value": "hallucinated_values",
    }

    def __init__(self, of: str | None = None) -> None:
        if of not in self.NAMES:
            raise ConfigError(f"of: must be null, {', '.join(filter(None, self.NAMES))}, got {of!r}")
        self.of = of
        self.name = self.NAMES[of]

    def check(self) -> None:
        """Raise ConfigError if HAProxy is not installed."""
        require_haproxy()

    def score_output(self, question: Question, output: Any) -> float | str:
        """Count the unknown elements."""
        text = output["config"]
        found = elements(text)
        unknown = sum(not element.known and self.of in (None, element.kind) for element in found)
        return 100.0 * unknown / len(found) if found else 0.0
