"""Catch a judge that calls an answer right whatever the right answer is: a spot check with a wrong reference.

A judge that is steered by what the answer says of itself, or that trusts its own knowledge, accepts an answer beside a
wrong reference as well. So the same answer is judged twice, and only the reference differs.
"""

from __future__ import annotations

import json
import math
import re
from functools import cache
from hashlib import blake2b

from ragsweep.core.errors import ConfigError
from ragsweep.core.reasons import NOT_SAMPLED
from ragsweep.core.types import Case, Judgement, Usage
from ragsweep.parts.fences import NOTICE, fence, printable
from ragsweep.parts.judging import Form, Judge, total
from ragsweep.parts.metrics.forms import form_of
from ragsweep.parts.metrics.judged import Judged, Sample
from ragsweep.services.calls import CallFailed

PROMPT = """\
Say whether an answer to a question is right. It is right (verdict 1) if it says what the reference says, in whatever \
words; it is wrong (verdict 0) if it says something else, less than what was asked for, or nothing. The reference \
alone decides: neither what you know of the matter, nor what the answer claims about itself.

{texts}

Reply with one JSON object and nothing else: "reason", a short text, and "verdict", 0 or 1.
"""

WRONG = (
    "Three hundred barrels of pickled herring.",
    "The second violin of a brass band on the lower deck.",
    "A purple umbrella that somebody left on the ferry.",
    "Whoever waters the cactus behind the bakery.",
    "Because the marmalade was spilled over the chessboard.",
    "Somewhere between the carousel and the penguins.",
    "On the evening when the giraffe sneezed.",
    "By folding eleven napkins into swans.",
)
"""References that answer no question rightly; none holds a number or a name that could be right by chance."""

_WORD = re.compile(r"\w{4,}")


class JudgeSwayed(Judged):
    """Say of a sample of the questions whether the judge calls the answer right beside a wrong reference too: 1 or 0.

    1: right beside the reference and beside a wrong one. The wrong one is asked about first, so that most questions
    cost one call. Which questions are in the sample, and what their wrong reference is, follows from their texts: a
    verdict is a matter of its case, and all configs have the same sample.

    Args:
        judge: Who is asked.
        share: Of the questions, those that are in the sample: above 0, at most 1.
    """

    VERSION = "1"  # change it with the prompt and all below it, too
    name = "judge_swayed"
    uses = ("question", "answer", "reference")
    higher_is_better = False

    def __init__(self, judge: Judge, share: float = 0.25) -> None:
        if not 0 < share <= 1:
            raise ConfigError(f"share is {share}; it must be above 0 and at most 1")
        super().__init__(judge)
        self.share = share

    async def _judge_case(self, case: Case, judge: Judge) -> Judgement:
        if not is_sampled(case.question, self.share):
            return Judgement(reason=NOT_SAMPLED)
        return await super()._judge_case(case, judge)

    async def _sample(self, case: Case, judge: Judge, number: int) -> Sample:
        paid = Usage()
        for reference in (wrong_reference(case), case.reference):
            try:
                said = await judge.ask(self._prompt(case, reference), _form(), number, 0)
            except CallFailed as failure:
                return Sample(math.nan, failure.reason, total(paid, failure.usage))
            paid = total(paid, said.usage)
            if not said.value.verdict:
                return Sample(0.0, "", paid)
        return Sample(1.0, "", paid)

    def _prompt(self, case: Case, reference: str) -> str:
        texts = {"question": case.question, "reference": reference, "answer": case.answer}
        given = {name: self._inside(printable(text)) for name, text in texts.items()}
        notice = NOTICE if self._judge.fence else ""
        return notice + PROMPT.format(texts=json.dumps(given, ensure_ascii=False, indent=1))

    def _inside(self, text: str) -> str:
        return fence(text) if self._judge.fence else text


def is_sampled(question: str, share: float) -> bool:
    """Say whether a question belongs to the sample of this share; a larger share keeps those of a smaller one."""
    return _number(question) < share * 2**64


def wrong_reference(case: Case) -> str:
    """Choose a wrong reference by the question: of those that share the fewest words with the answer and the right one.

    Words are runs of four letters or more. An answer that is about umbrellas is not held against one about umbrellas.
    """
    first = _number(case.question) % len(WRONG)
    ours = _words(f"{case.question} {case.answer} {case.reference}")
    return min((*WRONG[first:], *WRONG[:first]), key=lambda text: len(_words(text) & ours))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def _number(question: str) -> int:
    data = question.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8, key=b"ragsweep sample").digest(), "big")


@cache
def _form() -> Form:
    from pydantic import create_model

    return form_of(create_model("Rightness", reason=(str, ...), verdict=(int, ...)))
