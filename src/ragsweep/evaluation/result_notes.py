"""List the warnings about a result."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.identity import Node
from ragsweep.core.missing import REPEATING, repeatable
from ragsweep.core.plurals import counted, percentage
from ragsweep.core.types import Answer, Embeddings, EvaluationView, Judgement
from ragsweep.evaluation.experiment import Experiment
from ragsweep.parts.answer_outputs import read_outputs
from ragsweep.stages.executor import Executor

if TYPE_CHECKING:
    from ragsweep.evaluation.external_system import AlignedContext

CUT_WARNING = 0.01
"""Minimum share of tokens beyond the embedder's window for which a warning is given."""

SMALLEST_WINDOW = 1024
"""Minimum length, in tokens, of prompts that count as cut by a service; shorter prompts are often equally long."""
FEWEST_EQUAL = 3
"""Minimum number of prompts of the greatest length for which a warning is given."""
EQUAL_SIZES = 0.04
"""Greatest difference in characters, per token of the prompt, of texts that may have equally many tokens."""


def result_warnings(
    executor: Executor,
    experiment: Experiment,
    views: Sequence[EvaluationView],
    lost: Mapping[str, NDArray[np.int64]],
    contextless: int = 0,
) -> Iterator[str]:
    """Yield the warnings about a config's result.

    ``views`` holds one view per repetition of the answers; ``lost`` is the result of `RepeatedScores.lost`;
    ``contextless`` is as in `Failures`.
    """
    if located := experiment.graph.located:
        yield from _context_warnings(executor.get(located), contextless)
    for node in experiment.graph.embeddings:
        embeddings: Embeddings = executor.get(node)
        if (share := cut_share(embeddings)) >= CUT_WARNING:
            cut = int((embeddings.tokens > embeddings.tokens_read).sum())
            yield (
                f"{cut} of {len(embeddings.tokens)} chunks are longer than the embedder's window, so"
                f" {percentage(share)} of all tokens are not embedded; {_smaller_chunks(embeddings, node.inputs[1])}"
            )
    reading = [metric for metric in experiment.metrics if "output" in metric.needs]
    outputs = [read_outputs(view.answers, view.output) for view in views if reading and view.answers and view.output]
    if unread := sum(bool(one.unreadable) for some in outputs for one in some):
        is_lost = any(isinstance(getattr(metric, "unread", None), str) for metric in reading)
        yield (
            f"{unread} of {sum(map(len, outputs))} replies could not be read"
            f"{' and have no score in the metrics that read them' if is_lost else ''}; the column output_fault of"
            " outcomes.parquet names each fault"
        )
    answers = [one for view in views if view.answers for one in view.answers.answers]
    yield from _answer_warnings(experiment, answers)
    if not experiment.graph.located:
        yield from _cut_warnings(views[0], experiment)
    if lost:
        listed = ", ".join(f"{name} ({some.sum()})" for name, some in lost.items())
        failed = {one.failed for one in answers}
        reasons = failed | {one.reason for view in views for some in view.judgements.values() for one in some}
        lasting = ", ".join(sorted(reasons & REPEATING))
        again = "; rerun=true repeats only the failed calls" if repeatable(reasons - REPEATING, failed) else ""
        yield (
            f"some repetitions failed for {np.any([*lost.values()], axis=0).sum():,} of"
            f" {counted(len(views[0].questions), 'question')}; only successful ones are scored (failures: {listed})"
            f"{again}{lasting and f'; an identical call would fail again ({lasting})'}"
        )


def _context_warnings(aligned: AlignedContext, contextless: int) -> Iterator[str]:
    if contextless:
        yield (
            f"the system returned no contexts for {counted(contextless, 'question')}, so metrics of retrieval have no"
            " scores; if it retrieves, set system.contexts or system.ids to the path of its contexts, or make its"
            " function return contexts or ids"
        )
    if aligned.unknown:
        yield (
            f"{counted(aligned.unknown, 'context')} of the system could not be located, and text that is not in"
            " the corpus covers no evidence; make the system return document ids (or document:start-end), or text"
            " from the corpus"
        )
    if aligned.rising:
        yield (
            f"the system's scores increase down its list for {counted(aligned.rising, 'question')}, as distances"
            " do; the order is kept, and all scores are replaced by 1, 1/2, 1/3 ...; make the system return scores"
            " that decrease down the list"
        )


def _answer_warnings(experiment: Experiment, answers: Sequence[Answer]) -> Iterator[str]:
    is_measured = any({"answer", "judge"} & set(metric.needs) for metric in experiment.metrics)
    # A system without answers is scored by its contexts.
    if answers and not is_measured and not experiment.graph.located:
        yield (
            "the answers of this llm are not measured, because no metric needs them; add metrics of answers, for"
            " example with metrics=[retrieval,answers]"
        )
    is_timed = any("latency" in metric.needs for metric in experiment.metrics)
    if is_timed and (untimed := sum(not one.failed and math.isnan(one.seconds) for one in answers)):
        yield (
            f"the latency of {untimed} of {counted(len(answers), 'answer')} is unknown, because seconds are missing;"
            " set seconds in each Answer of your generator or system, and change the version in its TRAITS"
        )
    models = sorted({answer.model for answer in answers if answer.model and not answer.failed})
    if len(models) > 1:  # although the config names a single model
        yield (
            f"the answers come from several models ({', '.join(models)}), because the service changed its model; set a"
            " fixed version of the model (for an llm: llm.model)"
        )


def _cut_warnings(view: EvaluationView, experiment: Experiment) -> Iterator[str]:
    """Yield a warning for the llm and for each judged metric if its longest prompts all have the same length.

    Ollama, for example, cuts a prompt to its context length without an error and reports the tokens that remain.
    Prompts whose texts also have about the same length, such as a whole small corpus, are no evidence of a cut.
    """
    answers, passages = (view.answers.answers, view.answers.passages) if view.answers else ((), ())
    lengths = {  # in characters, one per question
        "question": [len(question.text) for question in view.questions],
        "answer": [len(answer.text) for answer in answers] or [0] * len(view.questions),
        "contexts": [sum(len(one.text) for one in some) for some in passages]
        or (4 * view.context_tokens.sum(1)).tolist(),
        "reference": [len(next(iter(question.expected), "")) for question in view.questions],
    }
    uses = {metric.name: getattr(metric, "uses", tuple(lengths)) for metric in experiment.metrics}
    asked: dict[str, Sequence[Answer | Judgement]] = {"the llm": answers, **view.judgements}
    for name, replies in asked.items():
        usages = [reply.usage for reply in replies]
        read = [one.tokens_in if one.calls == 1 and not one.estimated else 0 for one in usages]
        longest = max(read, default=0)
        equal = [n for n, tokens in enumerate(read) if tokens == longest]
        sizes = [sum(lengths[text][n] for text in uses.get(name, ("question", "contexts"))) for n in equal]
        differ = max(sizes, default=0) - min(sizes, default=0) > longest * EQUAL_SIZES
        if longest >= SMALLEST_WINDOW and len(equal) >= FEWEST_EQUAL and differ:
            yield (
                f"the service read exactly {longest:,} tokens of each of the {len(equal)} longest prompts of"
                f" {name}, so it probably cuts prompts to its context length without an error; increase this"
                " length (Ollama: OLLAMA_CONTEXT_LENGTH), lower top_k, or set context_budget"
            )


def _smaller_chunks(embeddings: Embeddings, chunks: Node) -> str:
    """Suggest a way to make chunks fit into the embedder's window; state a size if one can be computed."""
    where, parameters = "chunker.child" if len(chunks.inputs) > 1 else "chunker", chunks.spec.parameters
    key = next((key for key in ("size", "sentences") if key in parameters), None)
    if key is None:
        return f"choose a chunker that has a size, such as {where.replace('.', '@chunker.', 1)}=recursive"
    window, longest = int(embeddings.tokens_read.max()), float(np.quantile(embeddings.tokens, 0.99))
    if key != "size" or longest <= window:
        return f"choose a smaller {where}.{key}"
    size = max(math.floor(parameters["size"] * window / longest / 10) * 10, 1)
    return f"try {where}.size={size} instead of {parameters['size']}"


def cut_share(embeddings: Embeddings) -> float:
    """Return the share of the chunks' tokens that are beyond the embedder's window; 0 if there are no tokens."""
    return float((embeddings.tokens - embeddings.tokens_read).sum() / max(embeddings.tokens.sum(), 1))
