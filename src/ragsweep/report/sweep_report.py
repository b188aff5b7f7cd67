"""The content of a sweep's documents."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ragsweep.core.results import DROPPED, Failure, Result
from ragsweep.report.document import Statement
from ragsweep.report.page_texts import PageTexts, PastSweep
from ragsweep.stats.conclusion import SweepConclusion


@dataclass(frozen=True)
class SweepReport:
    """The content of a sweep's documents.

    ``notes`` describe a race, a search and its finalists; ``commands`` are next steps.
    """

    title: str
    results: Sequence[Result]
    failures: Sequence[Failure] = ()
    conclusion: SweepConclusion = field(default_factory=SweepConclusion)
    notes: Sequence[Statement] = ()
    commands: Sequence[Statement] = ()
    reference: str = ""  # the sweep's reference in commands
    sampler: str = ""  # the sampler of a search
    texts: PageTexts = field(default_factory=PageTexts)
    history: Sequence[PastSweep] = ()  # oldest first, this sweep last
    baselines: Sequence[Result] = ()  # the declared baseline, if it is not a config of the sweep

    @property
    def shown(self) -> list[Result]:
        """The results, except those of configs that a race dropped."""
        return [result for result in self.results if result.run.state != DROPPED]
