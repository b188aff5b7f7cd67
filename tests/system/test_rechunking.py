"""Evidence survives re-chunking with every combination of a chunker option and a retriever option."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ragsweep.core.building import Builder
from ragsweep.core.identity import BuiltPart
from ragsweep.core.types import Chunks, Corpus, Evidence, GoldenSet, Question, Rankings
from ragsweep.evaluation.config_graph import chunks_of
from ragsweep.evaluation.corpus_language import resolve_language
from ragsweep.evaluation.evidence import Coverage, cover, view
from ragsweep.evaluation.pipeline import Parts, graph
from ragsweep.parts.metrics import ContextRecall, ContextTokens, Recall
from ragsweep.parts.rerankers import NoReranker
from ragsweep.stages.executor import Executor
from ragsweep.sweep.composing.command import compose_jobs, read_command
from ragsweep.sweep.composing.compose import config_folder
from support.commands import write_option
from support.parts import built

CODE = "```python\nwidths = sorted(width for width in range(9))\n```\n"
TEXTS = (
    "# Rivers\n\nThe Danube rises in the Black Forest. It flows east, e.g. through Vienna.\n\n"
    "## Lengths\n\nIts length is 2,850 km. Dr. Moser measured it twice! Was he right?\n\n" + CODE + "\n"
    "## Towns\n\n- Ulm has a tall spire\n- Passau lies where three rivers meet\n",
    "M. Dupont habite à Lyon. Le Rhône y coule vers le sud ; « la Saône » s'y jette.\n\n" + "Rien de plus. " * 30,
    "",
    "An unbroken" + "x" * 900 + " word 🙂 and \u2028 a half \ud800 character. Glaciers melt.",
)
CORPUS = Corpus(["rivers", "lyon", "blank", "odd"], ["Rivers of Europe", "", "An empty page", ""], TEXTS)
GOLDEN = GoldenSet((
    Question("code", "sorted widths range", evidence=(Evidence("rivers", "sorted(width for width in range(9))"),)),
    Question(
        "two", "Danube Forest measured Moser",
        evidence=(Evidence("rivers", "Danube rises"), Evidence("rivers", "Moser measured it twice! Was", grade=2.0)),
    ),
    Question("across", "Lyon Rhône coule", evidence=(Evidence("lyon", "à Lyon. Le Rhône y coule"),)),
    Question("whole", "empty page glaciers", evidence=(Evidence("blank"), Evidence("odd", "Glaciers melt"))),
    Question("nothing", "volcano"),
))  # fmt: skip
QUERIES = [question.text for question in GOLDEN.questions]
EVIDENCES = 6


def options(group: str) -> list[str]:
    return sorted(path.stem for path in (config_folder() / group).glob("*.yaml"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keep the option file of an embedder that needs no model."""
    path = tmp_path_factory.mktemp("conf")
    write_option(path, "embedder/letters", "_target_: support.parts.Letters\n")
    return path


@pytest.fixture(autouse=True)
def _trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGSWEEP_TRUSTED_PACKAGES", "support")


@cache
def part(group: str, option: str, folder: Path) -> BuiltPart:
    command = read_command(["embedder=letters", f"{group}={option}"], multirun=False, config_dir=str(folder))
    values = resolve_language(compose_jobs(command)[0].config.values, CORPUS)
    return Builder().build(values[group], group)


@cache
def found(chunker: str, retriever: str, folder: Path) -> tuple[Chunks, Rankings, Coverage]:
    """Rank every chunk for every question, and find what covers the evidence."""
    chosen = (part("chunker", chunker, folder), part("retriever", retriever, folder))
    laid, executor = graph(Parts(CORPUS, *chosen, built(NoReranker()), depth=2000, top_k=1000)), EXECUTOR
    chunks = chunks_of(laid, executor.get)
    return chunks, executor.get(laid.context, QUERIES), cover(chunks, GOLDEN)


EXECUTOR = Executor()
PAIRS = [
    pytest.param(
        chunker, retriever, marks=() if chunker == "recursive" or retriever == "hybrid_rrf" else pytest.mark.nightly
    )
    for chunker in options("chunker")
    for retriever in options("retriever")
]
"""By day every option once; each with each at night."""


@pytest.mark.parametrize(("chunker", "retriever"), PAIRS)
def test_denominators_are_the_labels_and_all_can_be_found(chunker: str, retriever: str, folder: Path) -> None:
    _, rankings, coverage = found(chunker, retriever, folder)
    assert len(coverage.grade) == EVIDENCES
    assert set(coverage.evidence.tolist()) == set(range(EVIDENCES))
    looked = view(coverage, rankings, 1000)
    for metric in (Recall(), ContextRecall()):
        values = metric.score(looked).values
        assert np.isnan(values).tolist() == [False] * 4 + [True]
        assert values[:4].tolist() == [0.0 if retriever == "none" else 1.0] * 4


@pytest.mark.parametrize(("chunker", "retriever"), PAIRS)
def test_what_is_handed_on_is_spans_of_documents_each_once(chunker: str, retriever: str, folder: Path) -> None:
    chunks, rankings, coverage = found(chunker, retriever, folder)
    assert rankings.chunks == chunks.address
    for positions in rankings.positions.tolist():
        handed = [position for position in positions if position >= 0]
        assert len(set(handed)) == len(handed)
        assert positions == handed + [-1] * (len(positions) - len(handed))
        assert all(position < len(chunks) for position in handed)
    for position, (document, start, end) in enumerate(zip(*chunks.spans, strict=True)):
        title, text = CORPUS.titles[document], TEXTS[document]
        assert chunks.text(position) == (f"{title} " if title else "") + text[start:end]
    assert ContextTokens().score(view(coverage, rankings, 1)).values.max() <= coverage.tokens.max()
