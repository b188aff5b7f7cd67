"""The line printed for each arriving answer: latency, search, failure or keyword coverage, and question."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from ragsweep.core.plurals import percentage
from ragsweep.core.types import Question, Response
from ragsweep.parts.metrics.bases import answer_text
from ragsweep.parts.metrics.right_answers import KeywordCoverage, keyword_coverage

LONGEST = 60
"""Maximum length of a printed question, in characters; a longer question is cut."""


def live_line(questions: Sequence[Question], metrics: Sequence[Any]) -> Callable[[Any, Any], str]:
    """Return a function that describes a request and its result (an Answer or a Response) on one line.

    Keywords are matched as in the config's metric ``keyword_coverage`` or, without this metric, as whole words.
    """
    asked = {(one.text, tuple(one.history)): one for one in reversed(questions)}
    metric = next((one for one in metrics if isinstance(one, KeywordCoverage)), KeywordCoverage())

    def describe(request: Any, result: Any) -> str:
        answer, passages = (result[0], result[1]) if isinstance(result, Response) else (result, request.passages)
        question = asked.get((request.question, tuple(request.history)))
        parts = ["" if math.isnan(answer.seconds) else f"{answer.seconds:.2f} s"]
        parts.append("searched" if passages else "no context")
        if answer.failed:
            parts.append(f"failed: {answer.failed}")
        elif question and question.keywords:
            text = answer_text(answer, question.expected)
            parts.append(f"keywords {percentage(keyword_coverage(question, text, metric.match, metric.language))}")
        text = " ".join(request.question.split())
        parts.append(text if len(text) <= LONGEST else f"{text[:LONGEST].rstrip()} ...")
        return " · ".join(filter(None, parts))

    return describe
