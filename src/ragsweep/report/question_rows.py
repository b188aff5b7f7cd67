"""The table of one config's questions for MLflow's evaluation page, in the format of ``mlflow.log_table``."""

import json
import math
from collections.abc import Callable
from typing import Any

from ragsweep.core.results import Result, shown_metrics
from ragsweep.evaluation.question_table import beginning
from ragsweep.parts.tracking.files import encoded, without_noise

FIRST_COLUMNS = ("question_id", "question", "reference", "answer", "context")
"""The columns before the scores; the page shows about six columns at once."""
LAST_COLUMNS = ("category", "first_evidence_rank", "unscored")
LONGEST_PASSAGE, MOST_CONTEXT = 500, 1_000_000
"""Maximum characters of one chunk, and of all contexts of a config."""


def question_rows(result: Result, chunk: Callable[[str], str] | None) -> bytes:
    """Serialise the table of a config's questions as JSON; NaN becomes null.

    ``chunk`` returns the text of the chunk with a given name. The first 500 characters of each text are written, or
    fewer if there are many chunks. If ``chunk`` is None, only the names are written.
    """
    words = [result.questions.words_of(n) for n in range(result.questions.rows)]
    reasons = [[f"{name}: {text}" for name, text in one.items()] for one in words]
    outcomes = {**result.questions, "reasons": reasons}
    if result.questions.unscored:
        outcomes["unscored"] = list(map(json.dumps, result.questions.unscored))
    if chunk and "context" in outcomes:
        most = min(LONGEST_PASSAGE, MOST_CONTEXT // max(sum(map(len, outcomes["context"])), 1))
        outcomes["context"] = [
            "\n\n".join(f"{name}: {beginning(chunk(name), most)}" for name in names) for names in outcomes["context"]
        ]
    judged = [name for one in words for name in one]
    scores, last = dict.fromkeys((*shown_metrics(result.run.config), *judged)), ["reasons"] if judged else []
    shown = [name for name in (*FIRST_COLUMNS, *scores, *last, *LAST_COLUMNS) if name in outcomes]
    columns = [[_cell(value) for value in outcomes[name]] for name in shown]
    table = {"columns": shown, "data": [list(row) for row in zip(*columns, strict=True)]}
    return encoded(json.dumps(table, ensure_ascii=False, allow_nan=False, default=str))


def _cell(value: Any) -> Any:
    """Convert a cell to JSON: lists become lines, NaN becomes null."""
    if isinstance(value, list | tuple):
        return "\n".join(map(str, value))
    value = value.item() if hasattr(value, "item") else value
    if not isinstance(value, float):
        return value
    return without_noise(value) if math.isfinite(value) else None
