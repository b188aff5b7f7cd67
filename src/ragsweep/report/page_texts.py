"""Content of a sweep's page that its records lack: texts, prompts, and other sweeps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ragsweep.core.results import Result, Summary
from ragsweep.core.secrets import Secrets

PromptReader = Callable[[str, Sequence[str]], Sequence[Mapping[str, str]]]
"""Takes a question's id and the names of the chunks in its context; returns the chat messages (role, content)."""


@dataclass(frozen=True)
class PageTexts:
    """Page content that records lack: texts of chunks, prompts and evidence; and the secrets to mask in the page."""

    secrets: Secrets = field(default_factory=Secrets)
    chunk: Callable[[str], str] | None = None  # text by name; None if the corpus is missing or has changed
    prompts: Callable[[Result], PromptReader | None] = lambda _: None
    evidence: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by question id


@dataclass(frozen=True)
class PastSweep:
    """The best config of one sweep by one metric, for charts and tables of several sweeps."""

    reference: str  # the name for commands
    title: str
    created: float  # seconds since the epoch
    configs: int  # number of measured configs
    best: str  # numbered name of the best config
    summary: Summary  # of the metric


@dataclass(frozen=True)
class RecordedSweep:
    """A sweep with its best config by the first objective."""

    past: PastSweep
    best: Result

    @property
    def questions(self) -> tuple[str, str, str]:
        """The golden set's digest, the partition, and the metric's name; comparable sweeps have the same three."""
        return self.best.run.dataset.undivided, self.best.run.dataset.partition, self.past.summary.name
