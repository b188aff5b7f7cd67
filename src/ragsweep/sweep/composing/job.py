"""A job: one config of a command, from its composition (of a trial: from its draw) to its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ragsweep.golden.partition import HOLDOUT
from ragsweep.sweep.composing.trees import spell

if TYPE_CHECKING:
    from ragsweep.evaluation.experiment import Experiment
    from ragsweep.sweep.composing.template import JobConfig, PlainConfig

RUNG = "questions.until"
"""The config key with the end of a rung; set only for Hydra's launchers, which start jobs by overrides alone."""

SUFFIX = f" partition={HOLDOUT}"
"""Suffix of the names of a search's finalists, which are evaluated on the holdout."""


@dataclass
class Job:
    """One config of a command: its overrides, its composed config and, once prepared, its experiment."""

    config: JobConfig | PlainConfig
    name: str
    overrides: tuple[str, ...]
    number: int = 0
    searching: bool = False  # its result decides the next configs
    experiment: Experiment | None = None  # set by preparation
    rung: int | None = None  # in a race: the number of questions, in race order; None: all

    @property
    def lines(self) -> list[str]:
        """The overrides for Hydra's launchers and files; in a race, with the end of the rung."""
        return [*self.overrides, *([] if self.rung is None else [f"{RUNG}={self.rung}"])]

    @property
    def parameters(self) -> dict[str, str]:
        """The config's settings as a user would type them, including the options of its groups.

        Once the job is prepared, ``language: auto`` has been replaced with a language chosen for the corpus.
        """
        return dict(self.experiment.parameters) if self.experiment else self.spelled(self.config.values)

    def spelled(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Return the config's settings as `parameters` does, but take their values from the plain config ``values``."""
        return {**self.chosen, **spell(self.config.written, values)}

    @property
    def chosen(self) -> dict[str, str]:
        """The options of the config's groups, as parameters."""
        groups = self.config.written
        return {group: str(option) for group, option in self.config.choices.items() if group in groups and option}
