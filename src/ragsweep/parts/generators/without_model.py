"""Generate no answers, or answers from the fields of a task's cases, without a model."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.missing import NO_ANSWERS
from ragsweep.core.types import Answer, DatasetReader, PartTraits, Question, Request, Turn
from ragsweep.parts.templates import fill


@dataclass(eq=False)
class Baseline:
    """A baseline for tasks: it answers with fields of the case, such as the input or the expected output.

    Args:
        dataset: The dataset of the config.
        answer: A template with ``{input}``, ``{expected}`` or other fields of the case in braces, or a mapping of such
            templates. A mapping, or a field whose value is not a string, is written as JSON.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="2")

    dataset: DatasetReader
    answer: str | Mapping[str, Any]

    def fingerprint(self) -> Mapping[str, str]:
        """Return the hash of the cases, because a changed field can change an answer without changing the request."""
        return {"cases": self.dataset.load().golden.digest}

    def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Answer every request. Raises InputError if the template is invalid or names a field that the case lacks."""
        for number, request in enumerate(requests):
            question = self._questions[request.question, request.history]
            fields = {"input": question.text, "expected": "\n".join(question.expected[:1]), **question.fields}
            try:
                filled = fill(self.answer, fields)
            except ConfigError as fault:
                raise InputError(f"{question.where}: llm.answer cannot be filled in: {fault}") from None
            text = filled if isinstance(filled, str) else json.dumps(filled, ensure_ascii=False)
            done(number, Answer(text, seconds=0.0))

    @cached_property
    def _questions(self) -> Mapping[tuple[str, tuple[Turn, ...]], Question]:
        """The questions, keyed by text and history, because several conversations may end with the same text."""
        return {(question.text, question.history): question for question in self.dataset.load().golden.questions}


class NoGenerator:
    """Placeholder for a missing generator: only retrieval is evaluated."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", silent=True)

    def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Report a failed answer for every request; a run without a generator never calls this method."""
        for number in range(len(requests)):
            done(number, Answer(failed=NO_ANSWERS))
