"""The MLflow model of a shipped config, as code: MLflow runs this file when it loads the model."""

import time
from functools import partial
from pathlib import Path
from typing import Any

from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel, PythonModelContext
from pandas import DataFrame

from ragsweep.core.errors import InputError
from ragsweep.core.types import Answer, Turn
from ragsweep.parts.tracking.served_traces import is_traced, send_served
from ragsweep.services.errors import CallFailed
from ragsweep_serving.pipeline import ServedAnswer, ServedPipeline, as_question, as_turns
from ragsweep_serving.reference import REFERENCE, Reference
from ragsweep_serving.tracing import TraceQueue, describe, describe_failure


class ShippedConfig(PythonModel):
    """A model that answers the ``question`` in each row of a table, after the turns in its ``history``, if any."""

    def load_context(self, context: PythonModelContext) -> None:
        """Load the bundle, with its reference if it has one, and create a queue for traces."""
        folder = Path(context.artifacts["bundle"])
        self.pipeline = ServedPipeline(folder)
        self.reference = Reference.read(folder) if REFERENCE in self.pipeline.bundle.manifest["files"] else None
        self.traces = TraceQueue(send_served, self.reference.trace_sample if self.reference else 0.0)

    # There is no return annotation, because MLflow would infer a signature from it in place of the given one.
    def predict(  # type: ignore[no-untyped-def]  # noqa: ANN201
        self, context: PythonModelContext, model_input: DataFrame, params: Any = None
    ):
        """Return a row for each question: query, context, answer, abstained, failed, tokens and milliseconds.

        If the question or the history is invalid, or if the search fails, the row has no answer, and ``failed``
        contains the reason.
        """
        return [self._row(row.get("question"), row.get("history")) for row in model_input.to_dict("records")]

    def _row(self, question: Any, history: Any) -> dict[str, Any]:
        try:
            asked = as_question(question), as_turns(history)
        except InputError as fault:
            return _failed_row(str(fault))
        try:
            return _row(self._answer(asked))
        except CallFailed as failure:
            return _failed_row(failure.reason)

    def _answer(self, asked: tuple[str, list[Turn]]) -> ServedAnswer:
        """Return the answer to a question; trace it if the bundle has a reference and MLflow can store traces."""
        began = time.time()
        if self.reference is None or not is_traced():
            return self.pipeline.answer(*asked)
        names = self.reference.model, self.reference.bundle
        try:
            found = self.pipeline.answer(*asked)
        except Exception as fault:
            self.traces.put(partial(describe_failure, *names, asked, began, fault))
            raise
        self.traces.put(partial(describe, *names, asked, began, found))
        return found


def _row(found: ServedAnswer) -> dict[str, Any]:
    answer = found.answer
    return {
        "query": found.query,
        "context": [passage._asdict() for passage in found.context],
        "answer": answer.text if answer else "",
        "abstained": bool(answer and answer.abstained),
        "failed": answer.failed if answer else "",
        "tokens": answer.usage.tokens_in + answer.usage.tokens_out if answer else 0,
        "milliseconds": [{"step": step, "value": value} for step, value in found.milliseconds.items()],
    }


def _failed_row(reason: str) -> dict[str, Any]:
    return _row(ServedAnswer([], Answer("", failed=reason), "", {}))


set_model(ShippedConfig())
