"""Read what an existing system says: an answer, and the texts and ids of its context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragsweep.core.types import Answer, Passage, Response, Usage
from ragsweep.parts.prompts import declined


def response(answer: Any, texts: Any, ids: Any, refusals: Sequence[str], usage: Usage) -> Response:
    """Put a response together; ``texts`` and ``ids`` are lists of one length, either of them may be None.

    An answer that is null or blank, or begins with one of the refusals, is an abstention.

    Raises:
        ValueError: One of them is not what it should be; the message is the fact.
    """
    if answer is not None and not isinstance(answer, str):
        raise ValueError(f"the answer is {answer!r:.60}, not a text")
    said = (answer or "").strip()
    listed = [_listed(name, given) for name, given in (("contexts", texts), ("ids", ids)) if given is not None]
    if len({len(one) for one in listed}) > 1:
        raise ValueError(f"there are {len(listed[0])} contexts and {len(listed[1])} ids")
    number = len(listed[0]) if listed else 0
    contexts = _listed("contexts", texts) if texts is not None else [""] * number
    names = _listed("ids", ids) if ids is not None else [""] * number
    return Response(
        Answer(said, not said or declined(said, refusals), usage=usage),
        tuple(Passage(name, text) for name, text in zip(names, contexts, strict=True) if name or text.strip()),
    )


def _listed(name: str, given: Any) -> list[str]:
    if not isinstance(given, list | tuple):
        raise ValueError(f"the {name} are {given!r:.60}, not a list")
    for one in given:
        if not isinstance(one, str | int) or isinstance(one, bool):
            raise ValueError(f"one of the {name} is {one!r:.60}, not a text")
    return [str(one) for one in given]
