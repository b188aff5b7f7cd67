"""Tell what the calls of a plan will cost: by what the same part was measured to use, else by what it tells ahead."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ragsweep.core.identity import Rows
from ragsweep.core.types import Ahead, Foretelling, Question, Size, Usage
from ragsweep.evaluation.answering import answers_in, responses_in, routes_in, verdicts_in
from ragsweep.evaluation.evaluator import Experiment
from ragsweep.evaluation.laid import Caller
from ragsweep.services.replies import estimate_tokens
from ragsweep.services.usage import Pricing
from ragsweep.stages.executor import Executor
from ragsweep.stages.graph import Charge, Plan

SAMPLED = 500
"""How many of the latest stored segments are looked at to tell what a row costs."""

MORE = 1.5
"""How many times the tokens that were measured a request may have of its own before these tell nothing of it."""


class Used(NamedTuple):
    """What one stored answer, verdict or route cost, and whose price that has."""

    usage: Usage
    model: str = ""


READ: dict[str, Callable[[Any], list[Used]]] = {
    "generate": lambda rows: [Used(one.usage, one.model) for one in answers_in(rows)],
    "judge": lambda rows: [Used(one.usage, one.model) for one in verdicts_in(rows)],
    "query": lambda rows: [Used(one.usage, one.model) for one in answers_in(rows)],
    "route": lambda rows: [Used(one.usage) for one in routes_in(rows)],
    "respond": lambda rows: [Used(one.answer.usage, one.answer.model) for one in responses_in(rows)],
}
"""What reads the rows of a stage whose rows may be paid for."""


def foretell(planned: Plan, experiments: Sequence[Experiment], executor: Executor) -> None:
    """Fill in what the calls of each stage cost at most; what calls nobody is left at nothing."""
    planned.currency = experiments[0].currency if experiments else ""
    told, seen = _Told(executor), set()
    readers = {address: _by_reader(rows) for address, rows in planned.missing.items()}
    for experiment in experiments:
        for caller in experiment.graph.callers:
            known, reader = readers.get(caller.node.address), caller.reader.address if caller.reader else ""
            if known is None or (caller.node.address, reader) in seen:
                continue
            seen.add((caller.node.address, reader))
            if rows := known[reader] if reader else known.total():
                planned.stages[caller.node.stage].charge += told.charge(caller, experiment, rows)


def _by_reader(rows: Rows) -> Counter[str]:
    """Count rows that nobody knows yet by the address that stands before each: of who reads them."""
    return Counter(row.partition(" ")[0] for row in rows)


class _Told:
    """Tell what callers cost; what was measured is looked up once."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._known: dict[str, Ahead | None] = {}

    def charge(self, caller: Caller, experiment: Experiment, rows: int) -> Charge:
        """Tell what so many rows of a caller cost."""
        size = self._size(caller, experiment)
        ahead, one = _ahead(caller, size), self._measured(caller)
        estimated = one is None
        if one is not None and ahead is not None and size.context + size.rest > MORE * one.tokens_in:
            one, estimated = one._replace(tokens_in=ahead.tokens_in), True
        one = one or ahead
        if one is None or not one.calls:
            return Charge()
        calls, read, written = (rows * value for value in one[:3])
        return Charge(calls, read + written, _money(experiment.price, one.model, calls, read, written), estimated)

    def _measured(self, caller: Caller) -> Ahead | None:
        """Average what stored rows of the same spec cost, or else of the same class and model; None without any."""
        address = caller.node.address
        if address not in self._known:
            ahead = _ahead(caller, Size())
            model = ahead.model if ahead else ""
            used = self._used(caller, alike=False)
            if not used and model:
                used = [one for one in self._used(caller, alike=True) if _is(one.model, model)]
            self._known[address] = _mean_of(used, model) if used else None
        return self._known[address]

    def _used(self, caller: Caller, alike: bool) -> list[Used]:
        found = self._executor.sample(caller.node, SAMPLED, alike)
        return [one for rows in found for one in READ[caller.node.stage](rows)]

    # --- how large one request is ------------------------------------------------------------------------------

    def _size(self, caller: Caller, experiment: Experiment) -> Size:
        """Tell how large one request or case is on average, or at most where the chunks are not known yet."""
        questions = experiment.dataset.golden.questions
        rest = _mean([estimate_tokens(_characters(one)) for one in questions]) if "question" in caller.uses else 0.0
        if "reference" in caller.uses:
            rest += _mean([estimate_tokens(len(one.expected[0])) for one in questions if one.expected])
        if "answer" in caller.uses:
            rest += self._answer(experiment)
        if "contexts" not in caller.uses:
            return Size(0.0, 0.0, rest)
        if experiment.graph.located:  # what a system will use of its own nobody knows
            return Size(math.nan, math.nan, rest)
        return Size(experiment.top_k, self._context(experiment), rest)

    def _answer(self, experiment: Experiment) -> float:
        """Tell how many tokens an answer has: as measured, or as many as it may."""
        for caller in experiment.graph.callers:
            if caller.node.stage in ("generate", "respond"):
                one = self._measured(caller) or _ahead(caller, Size())
                return one.tokens_out if one else math.nan
        return 0.0

    def _context(self, experiment: Experiment) -> float:
        """Tell how many tokens the chunks have that are handed on, within the budget where there is one."""
        graph = experiment.graph
        if self._executor.known(graph.counts):
            chunk = _mean(self._executor.get(graph.counts)["tokens"])
        else:
            corpus = experiment.dataset.corpus
            document = corpus.characters / max(len(corpus.ids), 1)
            chunk = estimate_tokens(math.ceil(min(document, _largest(graph.chunks.spec.parameters))))
        tokens, budget = experiment.top_k * chunk, graph.context.spec.parameters.get("budget")
        return tokens if budget is None else min(tokens, float(budget))


def _ahead(caller: Caller, size: Size) -> Ahead | None:
    return caller.part.ahead(size) if isinstance(caller.part, Foretelling) else None


def _is(served: str, model: str) -> bool:
    """Say whether a model, as a service names it, is the one that was asked for: by its own name, or with a date."""
    return served == model or (served.startswith(f"{model}-") and served[len(model) + 1 :][:1].isdigit())


def _mean_of(used: Sequence[Used], model: str) -> Ahead:
    calls, read, written = np.mean([one.usage[:3] for one in used], axis=0).tolist()
    if calls and not read + written:  # nobody counted them
        read = written = math.nan
    return Ahead(calls, read, written, next((one.model for one in used if one.model), model))


def _money(price: Pricing, model: str, calls: float, read: float, written: float) -> float:
    if math.isnan(calls + read + written):
        return math.nan
    return price(model, Usage(math.ceil(calls), math.ceil(read), math.ceil(written)))


def _characters(question: Question) -> int:
    return len(question.text) + sum(len(turn.text) for turn in question.history)


def _largest(parameters: Any) -> float:
    """Tell how many characters a chunk may have, where its chunker has a size and it is not counted in tokens."""
    size = parameters.get("size")
    return float(size) if isinstance(size, int) and "tokenizer" not in parameters else math.inf


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else 0.0
