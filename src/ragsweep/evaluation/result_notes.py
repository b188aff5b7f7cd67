"""List the warnings about a result, and sum up the usage and cost of its calls to services."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ragsweep.core.identity import Node
from ragsweep.core.plurals import counted, percentage
from ragsweep.core.types import Answer, Embeddings, EvaluationView, Judgement, Usage
from ragsweep.evaluation.answering import QuestionKey
from ragsweep.evaluation.experiment import Experiment
from ragsweep.evaluation.question_table import QuestionTable
from ragsweep.evaluation.repetition import lost_warning
from ragsweep.parts.answer_outputs import read_outputs
from ragsweep.stages.executor import Executor

if TYPE_CHECKING:
    from ragsweep.evaluation.external_system import AlignedContext

CUT_WARNING = 0.01
"""Minimum share of tokens beyond the embedder's window for which a warning is given."""


def result_warnings(
    executor: Executor, experiment: Experiment, views: Sequence[EvaluationView], lost: Mapping[str, int]
) -> Iterator[str]:
    """Yield the warnings about a config's result.

    ``views`` has one view per repetition of the answers; ``lost`` is the result of `RepeatedScores.lost`.
    """
    if located := experiment.graph.located:
        aligned: AlignedContext = executor.get(located)
        if aligned.unknown:
            yield (
                f"{counted(aligned.unknown, 'context')} of the system could not be located: text that is not in the"
                " corpus covers no evidence; make the system return document ids (or document:start-end), or texts from"
                " the corpus"
            )
        if aligned.rising:
            yield (
                f"the scores of the system rise along its list for {counted(aligned.rising, 'question')}, as distances"
                " do; the order is kept, and all scores are replaced by 1, 1/2, 1/3 ...; make the system return scores"
                " that decrease along the list"
            )
    for node in experiment.graph.embeddings:
        embeddings: Embeddings = executor.get(node)
        if (share := cut_share(embeddings)) >= CUT_WARNING:
            cut = int((embeddings.tokens > embeddings.tokens_read).sum())
            yield (
                f"the embedder never read {percentage(share)} of the tokens: {cut} of {len(embeddings.tokens)} chunks"
                f" are longer than its window; {_smaller_chunks(embeddings, node.inputs[1])}"
            )
    read = any("output" in metric.needs for metric in experiment.metrics)
    outputs = [read_outputs(view.answers, view.output) for view in views if read and view.answers and view.output]
    if unread := sum(bool(one.unreadable) for some in outputs for one in some):
        yield (
            f"{unread} of {sum(map(len, outputs))} replies could not be read, and have no score in the metrics that"
            " read them; the column output_fault of outcomes.parquet names each fault"
        )
    yield from _answer_warnings(experiment, [one for view in views if view.answers for one in view.answers.answers])
    yield from lost_warning(lost, len(views[0].questions))


def _answer_warnings(experiment: Experiment, answers: Sequence[Answer]) -> Iterator[str]:
    is_measured = any({"answer", "judge"} & set(metric.needs) for metric in experiment.metrics)
    # A system without answers is scored by its contexts.
    if answers and not is_measured and not experiment.graph.located:
        yield (
            "the answers of this llm are not measured, because no metric needs them; add such metrics, for example with"
            " metrics=[retrieval,answers]"
        )
    models = sorted({answer.model for answer in answers if answer.model and not answer.failed})
    if len(models) > 1:  # although the config names only one
        yield (
            f"the answers come from several models ({', '.join(models)}): the service changed its model; set a fixed"
            " version of the model (for an llm: llm.model)"
        )


def _smaller_chunks(embeddings: Embeddings, chunks: Node) -> str:
    """Return a text that suggests a setting, if possible a size, with which chunks fit into the embedder's window."""
    where, parameters = "chunker.child" if len(chunks.inputs) > 1 else "chunker", chunks.spec.parameters
    key = next((key for key in ("size", "sentences") if key in parameters), None)
    if key is None:
        return f"choose a chunker that has a size, such as {where.replace('.', '@chunker.', 1)}=recursive"
    window, longest = int(embeddings.tokens_read.max()), float(np.quantile(embeddings.tokens, 0.99))
    if key != "size" or longest <= window:
        return f"choose a smaller {where}.{key}"
    return f"try {where}.size={max(math.floor(parameters['size'] * window / longest / 10) * 10, 1)}"


def cut_share(embeddings: Embeddings) -> float:
    """Return the share of the chunks' tokens that are beyond the embedder's window; 0 if there are no tokens."""
    return float((embeddings.tokens - embeddings.tokens_read).sum() / max(embeddings.tokens.sum(), 1))


def sum_up_usage(table: QuestionTable, views: Sequence[EvaluationView]) -> dict[str, dict[str, float]]:
    """Return the usage and the cost (``money``) of the original calls, summed by stage.

    A result that several questions share (by their keys in ``table``) counts once. ``money`` is absent for
    routes, and if there were no calls or a price is unknown.
    """
    view, items = views[0], list[tuple[str, Sequence[QuestionKey], Sequence[Any]]]()
    for n, one in enumerate(views):
        items += [("judge", table.judged, verdicts) for verdicts in _new_verdicts(views[:n], one)]
        items += [("generate", table.answered, one.answers.answers)] if one.answers else []
    items += [("route", table.wordings, view.routes)] if view.routes else []
    items += [("query", table.wordings, view.queries)] if view.queries else []
    usage: dict[str, dict[str, float]] = {}
    for stage, keys, rows in items:
        total = usage.setdefault(stage, dict.fromkeys(Usage._fields, 0.0))
        distinct = list(dict(zip(keys, rows, strict=True)).values())
        for one in distinct:
            for name, amount in one.usage._asdict().items():
                total[name] = max(total[name], float(amount)) if name == "estimated" else total[name] + amount
        if stage != "route":  # a Route has no price; the sum is NaN if the price of a model is unknown
            total["money"] = total.get("money", 0.0) + sum(one.money for one in distinct if one.usage.calls)
    for total in usage.values():
        if not total["calls"] or np.isnan(total.get("money", 0.0)):
            total.pop("money", None)
    return usage


def _new_verdicts(before: Sequence[EvaluationView], view: EvaluationView) -> Iterator[list[Judgement]]:
    """Yield each metric's verdicts in ``view``, with an empty Judgement for a verdict that was already paid for.

    A verdict counts as paid for if the question has the same answer in one of the views ``before``. Metrics that read
    no answers have the same verdicts in all views; such metrics are skipped after the first view.
    """
    earlier = [one.answers.answers for one in before if one.answers]
    for name, verdicts in view.judgements.items():
        if any(one.judgements[name] is verdicts for one in before):
            continue
        texts = [{answers[n].text for answers in earlier} for n in range(len(verdicts))]
        assert view.answers is not None or not before
        own = [one.text for one in view.answers.answers] if view.answers else [""] * len(verdicts)
        yield [Judgement() if text in seen else one for one, text, seen in zip(verdicts, own, texts, strict=True)]
