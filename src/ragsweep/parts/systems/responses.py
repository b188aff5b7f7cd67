"""Validate what an external system returns: an answer, and the texts and ids of its context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragsweep.core.types import Answer, Passage, Response, Usage
from ragsweep.parts.prompts import begins_with_refusal


def to_response(answer: Any, texts: Any, ids: Any, refusals: Sequence[str], usage: Usage) -> Response:
    """Create a response; ``texts`` and ``ids`` are lists of equal length, or None.

    An answer that is null or blank, or begins with one of the refusals, is an abstention.

    Raises:
        ValueError: A value has the wrong type or length.
    """
    if answer is not None and not isinstance(answer, str):
        raise ValueError(f"the answer is {answer!r:.60}, not a text")
    text = (answer or "").strip()
    lists = [_texts(name, given) for name, given in (("contexts", texts), ("ids", ids)) if given is not None]
    if len({len(one) for one in lists}) > 1:
        raise ValueError(f"there are {len(lists[0])} contexts and {len(lists[1])} ids")
    length = len(lists[0]) if lists else 0
    contexts = _texts("contexts", texts) if texts is not None else [""] * length
    names = _texts("ids", ids) if ids is not None else [""] * length
    return Response(
        Answer(text, not text or begins_with_refusal(text, refusals), usage=usage),
        tuple(Passage(name, context) for name, context in zip(names, contexts, strict=True) if name or context.strip()),
    )


def _texts(name: str, given: Any) -> list[str]:
    if not isinstance(given, list | tuple):
        raise ValueError(f"the {name} are {given!r:.60}, not a list")
    for one in given:
        if not isinstance(one, str | int) or isinstance(one, bool):
            raise ValueError(f"one of the {name} is {one!r:.60}, not a text")
    return [str(one) for one in given]
