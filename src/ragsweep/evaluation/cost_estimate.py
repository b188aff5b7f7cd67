"""Estimate the cost of a plan's calls: from the usage measured for the same part, else from the part's own estimate."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ragsweep.core.identity import Rows
from ragsweep.core.types import CostEstimate, CostEstimator, Question, RequestSize, Usage
from ragsweep.evaluation.answering import answers_in, responses_in, routes_in, verdicts_in
from ragsweep.evaluation.config_graph import PaidStage
from ragsweep.evaluation.evaluator import Experiment
from ragsweep.services.replies import estimate_tokens
from ragsweep.services.usage import Pricing
from ragsweep.stages.executor import Executor
from ragsweep.stages.graph import Charge, Plan

SAMPLED = 500
"""Number of the latest stored segments from which the usage of a row is averaged."""

COMPARABLE = 1.5
"""Ratio of a request's own tokens to the measured ones from which the measurement does not apply."""


class Used(NamedTuple):
    """The usage of one stored answer, judgement or route, and the model that prices it."""

    usage: Usage
    model: str = ""


READ: dict[str, Callable[[Any], list[Used]]] = {
    "generate": lambda rows: [Used(one.usage, one.model) for one in answers_in(rows)],
    "judge": lambda rows: [Used(one.usage, one.model) for one in verdicts_in(rows)],
    "query": lambda rows: [Used(one.usage, one.model) for one in answers_in(rows)],
    "route": lambda rows: [Used(one.usage) for one in routes_in(rows)],
    "respond": lambda rows: [Used(one.answer.usage, one.answer.model) for one in responses_in(rows)],
}
"""Readers of the stages whose rows may have a cost."""


def estimate_costs(planned: Plan, experiments: Sequence[Experiment], executor: Executor) -> None:
    """Fill in the highest cost of each stage's calls; stages without calls cost nothing."""
    planned.currency = experiments[0].currency if experiments else ""
    estimator, seen = _Estimator(executor), set()
    readers = {address: _by_reader(rows) for address, rows in planned.missing.items()}
    for experiment in experiments:
        for caller in experiment.graph.callers:
            known, reader = readers.get(caller.node.address), caller.reader.address if caller.reader else ""
            if known is None or (caller.node.address, reader) in seen:
                continue
            seen.add((caller.node.address, reader))
            if rows := known[reader] if reader else known.total():
                planned.stages[caller.node.stage].charge += estimator.charge(caller, experiment, rows)


def _by_reader(rows: Rows) -> Counter[str]:
    """Count rows with unknown keys by the address of their reader, which precedes each."""
    return Counter(row.partition(" ")[0] for row in rows)


class _Estimator:
    """Estimate the cost of paid stages; each measurement is read once."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._known: dict[str, CostEstimate | None] = {}

    def charge(self, caller: PaidStage, experiment: Experiment, rows: int) -> Charge:
        """Estimate the cost of a number of rows."""
        size = self._size(caller, experiment)
        own, one = _own_estimate(caller, size), self._measured(caller)
        estimated = one is None
        if one is not None and own is not None and size.context + size.rest > COMPARABLE * one.tokens_in:
            one, estimated = one._replace(tokens_in=own.tokens_in), True
        one = one or own
        if one is None or not one.calls:
            return Charge()
        calls, read, written = (rows * value for value in one[:3])
        return Charge(calls, read + written, _money(experiment.price, one.model, calls, read, written), estimated)

    def _measured(self, caller: PaidStage) -> CostEstimate | None:
        """Average the usage of stored rows of the same spec, else of the same class and model; None without any."""
        address = caller.node.address
        if address not in self._known:
            own = _own_estimate(caller, RequestSize())
            model = own.model if own else ""
            used = self._used(caller, alike=False)
            if not used and model:
                used = [one for one in self._used(caller, alike=True) if _is(one.model, model)]
            self._known[address] = _mean_of(used, model) if used else None
        return self._known[address]

    def _used(self, caller: PaidStage, alike: bool) -> list[Used]:
        found = self._executor.sample(caller.node, SAMPLED, alike)
        return [one for rows in found for one in READ[caller.node.stage](rows)]

    def _size(self, caller: PaidStage, experiment: Experiment) -> RequestSize:
        """Return the mean size of one request or case, the highest where the chunks are not known yet."""
        questions = experiment.dataset.golden.questions
        rest = _mean([estimate_tokens(_characters(one)) for one in questions]) if "question" in caller.uses else 0.0
        if "reference" in caller.uses:
            rest += _mean([estimate_tokens(len(one.expected[0])) for one in questions if one.expected])
        if "answer" in caller.uses:
            rest += self._answer(experiment)
        if "contexts" not in caller.uses:
            return RequestSize(0.0, 0.0, rest)
        if experiment.graph.located:  # the size of an external system's context is unknown
            return RequestSize(math.nan, math.nan, rest)
        return RequestSize(experiment.top_k, self._context(experiment), rest)

    def _answer(self, experiment: Experiment) -> float:
        """Return the tokens of an answer: as measured, else its limit."""
        for caller in experiment.graph.callers:
            if caller.node.stage in ("generate", "respond"):
                one = self._measured(caller) or _own_estimate(caller, RequestSize())
                return one.tokens_out if one else math.nan
        return 0.0

    def _context(self, experiment: Experiment) -> float:
        """Return the tokens of the context, within its budget where there is one."""
        graph = experiment.graph
        if self._executor.known(graph.counts):
            chunk = _mean(self._executor.get(graph.counts)["tokens"])
        else:
            corpus = experiment.dataset.corpus
            document = corpus.characters / max(len(corpus.ids), 1)
            chunk = estimate_tokens(math.ceil(min(document, _largest(graph.chunks.spec.parameters))))
        tokens, budget = experiment.top_k * chunk, graph.context.spec.parameters.get("budget")
        return tokens if budget is None else min(tokens, float(budget))


def _own_estimate(caller: PaidStage, size: RequestSize) -> CostEstimate | None:
    return caller.part.estimate_cost(size) if isinstance(caller.part, CostEstimator) else None


def _is(served: str, model: str) -> bool:
    """Return whether a model, as a service names it, is the requested one, by name or with a date appended."""
    return served == model or (served.startswith(f"{model}-") and served[len(model) + 1 :][:1].isdigit())


def _mean_of(used: Sequence[Used], model: str) -> CostEstimate:
    calls, read, written = np.mean([one.usage[:3] for one in used], axis=0).tolist()
    if calls and not read + written:  # the service counted none
        read = written = math.nan
    return CostEstimate(calls, read, written, next((one.model for one in used if one.model), model))


def _money(price: Pricing, model: str, calls: float, read: float, written: float) -> float:
    if math.isnan(calls + read + written):
        return math.nan
    return price(model, Usage(math.ceil(calls), math.ceil(read), math.ceil(written)))


def _characters(question: Question) -> int:
    return len(question.text) + sum(len(turn.text) for turn in question.history)


def _largest(parameters: Any) -> float:
    """Return the highest number of characters of a chunk, infinite where its size is unknown or in tokens."""
    size = parameters.get("size")
    return float(size) if isinstance(size, int) and "tokenizer" not in parameters else math.inf


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else 0.0
