"""Estimate the cost of a plan's calls to services from measured usage or, if there is none, from parts' estimates."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ragsweep.core.types import Answer, CostEstimate, CostEstimator, Judgement, RequestSize, Response, Route, Usage
from ragsweep.evaluation.answering import may_be_judged, unpacked
from ragsweep.evaluation.config_graph import PaidStage
from ragsweep.evaluation.experiment import Experiment
from ragsweep.evaluation.repetition import samples_of
from ragsweep.services.replies import estimate_tokens
from ragsweep.stages.executor import Executor
from ragsweep.stages.graph import Charge, Plan, plan

SAMPLED = 500
"""Maximum number of stored segments (batches of rows), latest first, over which the usage per row is averaged."""

COMPARABLE = 1.5
"""If a request's tokens exceed this multiple of the measured mean, the part's estimate of input tokens is used."""


KINDS: dict[str, type[Any]] = {
    "generate": Answer,
    "judge": Judgement,
    "query": Answer,
    "route": Route,
    "respond": Response,
}
"""The type of the results of each stage that may call services."""


def plan_costs(experiments: Sequence[Experiment], executor: Executor) -> Plan:
    """Return the plan of the configs' work, with the estimated cost of their calls to services."""
    planned = plan([experiment.wanted for experiment in experiments], executor)
    estimate_costs(planned, experiments, executor)
    return planned


def estimate_costs(planned: Plan, experiments: Sequence[Experiment], executor: Executor) -> None:
    """Set the plan's currency, and add to its stages the expected and the highest cost of their calls to services.

    Stages whose calls have a cost that cannot be estimated (calls of an embedder, for example) are added to
    ``not_estimated``.
    """
    planned.currency = experiments[0].prices.currency if experiments else ""
    estimator, seen, estimated = _Estimator(executor), set(), set()
    # Rows with unknown keys are strings "ADDRESS ROW" (see Plan.missing), grouped by the address of their reader.
    missing = {address: _by_reader(rows) for address, rows in planned.missing.items()}
    for experiment in experiments:
        for stage in experiment.graph.paid_stages:
            found, reader = missing.get(stage.node.address), stage.reader.address if stage.reader else ""
            if found is None or (stage.node.address, reader) in seen:
                continue
            seen.add((stage.node.address, reader))
            keys = found.get(reader, ()) if reader else planned.missing[stage.node.address]
            if stage.node.stage == "judge":
                keys = [key for key in keys if may_be_judged(key, stage.uses)]
            if keys:
                charge = estimator.charge(stage, experiment, len(keys))
                planned.stages[stage.node.stage].charge += charge
                if charge.calls or isinstance(stage.part, CostEstimator):
                    estimated.add(stage.node.address)
    for node in planned.needed:
        if node.check and node.address not in estimated:
            planned.not_estimated.add(node.title)


def _by_reader(rows: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for reader, _, key in (row.partition(" ") for row in rows):
        found.setdefault(reader, []).append(key)
    return found


class _Estimator:
    """An estimator of the cost of paid stages; the measured usage of each node is read only once."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._measurements: dict[str, CostEstimate | None] = {}

    def charge(self, stage: PaidStage, experiment: Experiment, rows: int) -> Charge:
        size = self._size(stage, experiment)
        own, one = _own_estimate(stage, size), self._measured(stage)
        estimated = one is None
        if one is not None and one.calls and own is not None and _has_calls_per_passage(stage, size):
            factor = own.calls / one.calls  # the measured contexts may have had more or fewer passages
            one = one._replace(calls=own.calls, tokens_in=factor * one.tokens_in, tokens_out=factor * one.tokens_out)
        if one is not None and own is not None and size.context + size.rest > COMPARABLE * one.tokens_in:
            one, estimated = one._replace(tokens_in=own.tokens_in), True
        one = one or own
        if one is None or not one.calls:
            return Charge()
        tokens, money = _cost(one, rows, experiment, own.model if own else "")
        most = (tokens, money) if estimated else _cost(own, rows, experiment) if own else (math.nan, math.nan)
        return Charge(rows * one.calls, tokens, money, estimated, *most)

    def _measured(self, stage: PaidStage) -> CostEstimate | None:
        """Return the mean usage of a node's stored rows or, if there are none, of similar rows; None without either.

        Similar rows belong to other nodes with the same stage, class of part and model. Of similar judgements, only
        single samples count; their mean usage is multiplied by the number of samples that the part's judge takes.
        """
        address = stage.node.address
        if address not in self._measurements:
            own = _own_estimate(stage, RequestSize())
            model = own.model if own else ""
            items, samples = self._sample(stage, alike=False), 1
            if not items and model:
                items = [one for one in self._sample(stage, alike=True) if _is(_model(one), model)]
                if KINDS[stage.node.stage] is Judgement:
                    items, samples = [one for one in items if math.isnan(one.spread)], samples_of(stage.part)
            self._measurements[address] = _mean_of(items, model, samples) if items else None
        return self._measurements[address]

    def _sample(self, stage: PaidStage, alike: bool) -> list[Any]:
        kind = KINDS[stage.node.stage]
        items = [one for rows in self._executor.sample(stage.node, SAMPLED, alike) for one in unpacked(rows, kind)]
        return [one.answer for one in items] if kind is Response else items

    def _size(self, stage: PaidStage, experiment: Experiment) -> RequestSize:
        """Return the mean size of one request or case; an external system's contexts have the size NaN (unknown)."""
        questions = experiment.dataset.golden.questions
        rest = 0.0
        if "question" in stage.uses:
            lengths = [len(one.text) + sum(len(turn.text) for turn in one.history) for one in questions]
            rest = _mean([estimate_tokens(length) for length in lengths])
        if "reference" in stage.uses:
            rest += _mean([estimate_tokens(len(one.expected[0])) for one in questions if one.expected])
        if "answer" in stage.uses:
            rest += self._answer(experiment)
        if "contexts" not in stage.uses:
            return RequestSize(0.0, 0.0, rest)
        if experiment.graph.located:  # the size of an external system's context is unknown
            return RequestSize(math.nan, math.nan, rest)
        return RequestSize(experiment.top_k, self._context(experiment), rest)

    def _answer(self, experiment: Experiment) -> float:
        """Return the mean tokens per answer, measured or estimated; NaN if unknown, 0 if there are no answers."""
        for stage in experiment.graph.paid_stages:
            if stage.node.stage in ("generate", "respond"):
                one = self._measured(stage) or _own_estimate(stage, RequestSize())
                return one.tokens_out if one else math.nan
        return 0.0

    def _context(self, experiment: Experiment) -> float:
        """Return the expected number of tokens in the ``top_k`` chunks of a context, capped at the token budget.

        If the tokens of the chunks are not counted yet, return an upper estimate from the size of the chunks or
        documents.
        """
        graph = experiment.graph
        if self._executor.known(graph.counts):
            chunk = _mean(self._executor.get(graph.counts)["tokens"])
        else:
            corpus, parameters = experiment.dataset.corpus, graph.chunks.spec.parameters
            characters = corpus.characters / max(len(corpus.ids), 1)
            if isinstance(size := parameters.get("size"), int) and "tokenizer" not in parameters:
                characters = min(characters, size)
            chunk = estimate_tokens(math.ceil(characters))
        tokens = experiment.top_k * chunk
        return tokens if graph.budget is None else min(tokens, float(graph.budget))


def _cost(one: CostEstimate, rows: int, experiment: Experiment, configured: str = "") -> tuple[float, float]:
    """Return the tokens and the price of ``rows`` results, each of which costs ``one``; NaN if unknown.

    If the model of ``one`` has no price, the price of the model ``configured`` is used.
    """
    calls, tokens_in, tokens_out = (rows * value for value in one[:3])
    if math.isnan(calls + tokens_in + tokens_out):
        return tokens_in + tokens_out, math.nan
    usage = Usage(math.ceil(calls), math.ceil(tokens_in), math.ceil(tokens_out))
    return tokens_in + tokens_out, experiment.prices.money(one.model, usage, configured)


def _own_estimate(stage: PaidStage, size: RequestSize) -> CostEstimate | None:
    return stage.part.estimate_cost(size) if isinstance(stage.part, CostEstimator) else None


def _model(item: Any) -> str:
    return "" if isinstance(item, Route) else str(item.model)


def _is(served: str, model: str) -> bool:
    """Return whether ``served``, a model's name from a service, is ``model``, possibly with a date appended."""
    return served == model or (served.startswith(f"{model}-") and served[len(model) + 1 :][:1].isdigit())


def _has_calls_per_passage(stage: PaidStage, size: RequestSize) -> bool:
    """Return whether each passage costs calls; False if the number of passages is unknown (NaN) or 0."""
    with_passages, without = (_own_estimate(stage, one) for one in (size, size._replace(passages=0.0)))
    return with_passages is not None and without is not None and with_passages.calls > without.calls


def _mean_of(items: Sequence[Any], model: str, samples: int) -> CostEstimate:
    """Return the mean usage of ``items``, times ``samples``; its model is ``model`` unless an item names another."""
    calls, tokens_in, tokens_out = (samples * np.mean([one.usage[:3] for one in items], axis=0)).tolist()
    if calls and not tokens_in + tokens_out:  # the service reported no tokens
        tokens_in = tokens_out = math.nan
    return CostEstimate(calls, tokens_in, tokens_out, next(filter(None, map(_model, items)), model))


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else 0.0
