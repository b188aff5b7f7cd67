"""The content of a sweep's documents: results, page content that the records lack, and earlier sweeps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ragsweep.core.results import DROPPED, Failure, Result, Summary
from ragsweep.core.secrets import Secrets
from ragsweep.report.document import Statement
from ragsweep.stats.conclusion import SweepConclusion

PromptReader = Callable[[str, Sequence[str]], Sequence[Mapping[str, str]]]
"""Takes a question's id and the names of the chunks in its context; returns the chat messages (role, content)."""
ChunkReader = Callable[[str], str]
"""Takes the name of a chunk; returns its text."""


@dataclass(frozen=True)
class PageTexts:
    """Page content that is not in the records (chunks, prompts and evidence), and the secrets to mask in it."""

    secrets: Secrets = field(default_factory=Secrets)
    chunks: Mapping[str, ChunkReader] = field(default_factory=dict)  # by digest of the corpus, if it is unchanged
    prompts: Callable[[Result], PromptReader | None] = lambda _: None  # for configs with unchanged data
    evidence: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)  # golden digest -> question id

    def chunk(self, result: Result) -> ChunkReader | None:
        """Return the reader of a config's chunks; None if its corpus is missing or has changed."""
        return self.chunks.get(result.run.dataset.corpus_digest)


@dataclass(frozen=True)
class PastSweep:
    """The best config of one sweep by one metric, for charts and tables of several sweeps."""

    reference: str  # the sweep's reference in commands
    title: str
    created: float  # seconds since the epoch
    configs: int  # number of measured configs
    best: str  # numbered name of the best config
    summary: Summary  # the metric's summary


@dataclass(frozen=True)
class SweepReport:
    """The content of a sweep's documents.

    ``notes`` describe a race, the Pareto front, and a search and its finalists; ``commands`` are next steps.
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
    finalists: Sequence[Result] = ()  # a search's finalists, on the holdout
    baselines: Sequence[Result] = ()  # the declared baseline, if it is not a config of the sweep

    @property
    def shown(self) -> list[Result]:
        """The results, except those that a race dropped."""
        return [result for result in self.results if result.run.state != DROPPED]
