"""The MLflow model of a shipped config, as code: MLflow runs this file when it loads the model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel, PythonModelContext

from ragsweep.serving.pipeline import ServedAnswer, ServedPipeline, as_turns


class ShippedConfig(PythonModel):
    """Answer each row of a table with a column ``question`` and, where there are conversations, ``history``."""

    def load_context(self, context: PythonModelContext) -> None:
        """Load the bundle."""
        self.pipeline = ServedPipeline(Path(context.artifacts["bundle"]))

    # Without annotations: MLflow would take them for the model's signature.
    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        """Return a row for each question: query, context, answer and milliseconds."""
        return [_row(self.pipeline.answer(str(row["question"]), as_turns(_given(row.get("history")))))
                for row in model_input.to_dict("records")]  # fmt: skip


def _given(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


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


set_model(ShippedConfig())
