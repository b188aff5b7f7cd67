"""One config, prepared for evaluation: its parts as a graph of stages, its questions and its metrics."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ragsweep.core.identity import Node
from ragsweep.core.types import Answer, Dataset, Judgement, Metric, OutputReader, Question
from ragsweep.evaluation.answering import configured_model
from ragsweep.evaluation.config_graph import ConfigGraph
from ragsweep.evaluation.question_table import QuestionTable, tabulate
from ragsweep.parts.targets import TargetRule
from ragsweep.services.usage import NoPrices, Pricing
from ragsweep.stages.graph import Wanted, walk

Item = TypeVar("Item", Answer, Judgement)


@dataclass(frozen=True)
class Experiment:
    """One config whose parts are built and checked, but whose stages have not been computed."""

    name: str
    overrides: tuple[str, ...]
    config: Mapping[str, Any]
    parameters: Mapping[str, str]
    dataset: Dataset
    graph: ConfigGraph
    top_k: int
    metrics: tuple[Metric, ...]
    threshold: float  # minimum share of a passage's characters in a chunk that covers it
    signature: str
    coverage: float = 0.0  # minimum share of scored questions for each metric
    targets: Mapping[str, TargetRule] = field(default_factory=dict)  # metric -> the rule that its value must meet
    prices: Pricing = field(default_factory=NoPrices)
    output: OutputReader | None = None
    metric_versions: Mapping[str, str] = field(default_factory=dict)  # metric -> the version of its part

    def with_costs(self, items: Sequence[Item], node: Node | None = None) -> list[Item]:
        """Return answers or judgements with ``money`` set to the price of their usage.

        If the model named in the reply has no price (its name may end with a date), the price of the configured model,
        or of the external system's URL, is used. The model or URL is read from ``node``, the node of the answers or
        queries.
        """
        configured = configured_model(node) if node else ""
        return [item._replace(money=self.prices.money(item.model, item.usage, configured)) for item in items]

    @property
    def table(self) -> QuestionTable:
        """The table of questions; for an external system, the search texts are conversations."""
        questions = self.dataset.golden.questions
        return tabulate_conversations(questions) if self.graph.located else tabulate(questions)

    @property
    def wanted(self) -> list[Wanted]:
        """The nodes that the evaluation needs, with the rows of each."""
        table, graph = self.table, self.graph
        wanted = [Wanted(graph.context, table.queries)]
        wanted += [Wanted(node, ()) for node in (graph.chunks, graph.counts, *graph.embeddings)]
        wanted += [Wanted(leg.exact, table.queries) for leg in graph.approximate.values()]
        if graph.route:
            wanted.append(Wanted(graph.route, table.wordings))
        if graph.query:
            wanted.append(Wanted(graph.query, [table.wordings[n] for n in table.conversations]))
        for one in graph.repetitions:
            if one.answer:
                wanted.append(Wanted(one.answer, table.answered))
            wanted += [Wanted(node, table.judged) for node in one.verdicts.values()]
        return wanted + [Wanted(node, table.probed) for node in graph.latency.values()]

    @property
    def nodes(self) -> Iterator[Node]:
        """Every distinct node that the evaluation needs, inputs first."""
        return walk(one.node for one in self.wanted)


def tabulate_conversations(questions: Sequence[Question]) -> QuestionTable:
    """Return the table of questions, with the whole conversation as the search text: all turns, one per line.

    The golden set's queries are not used, because an external system does not receive them. Therefore, questions with
    the same query may have different contexts, as may equal questions in different conversations.
    """
    texts = ["\n".join([*(turn.text for turn in question.history), question.text]) for question in questions]
    return tabulate(questions, b"", "" if texts == tabulate(questions).texts else json.dumps(texts))


def dtype_lines(experiments: Sequence[Experiment]) -> list[tuple[str, str]]:
    """Return the lines (label, text) that a plan shows for embedders that do not compute in float32.

    With ``dtype=auto``, the dtype depends on the processor; vectors in different dtypes differ.
    """
    lines = (
        ("embedder", f"{one.parameters.get('embedder', node.spec.target)} in {dtype}")
        for one in experiments
        for node in one.graph.embeddings
        if (dtype := node.spec.files.get("dtype", "float32")) != "float32"
    )
    return list(dict.fromkeys(lines))


def repeated_lines(experiments: Sequence[Experiment]) -> list[tuple[str, str]]:
    """Return a line (label, text) on the configs that repeat the results of an earlier config; [] if there are none."""
    seen, repeated = set[object](), []
    for one in experiments:
        # A budget is no part of a signature, but determines which calls are made.
        key = one.signature, str(one.config.get("budget")), *(node.address for node in one.graph.latency.values())
        if key in seen:
            repeated.append(one.name)
        seen.add(key)
    names = ", ".join([*repeated[:3], *["..."] * (len(repeated) > 3)])
    verb = "repeats" if len(repeated) == 1 else "repeat"
    fact = f"{len(repeated)} of {len(experiments)} configs ({names}) {verb} the results of an earlier config"
    return [("note", f"{fact}: the settings in which they differ have no effect on results")] if repeated else []
