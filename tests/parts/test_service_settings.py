"""Every part that calls a service hands all its settings of calls on, and none of them is part of its address."""

from dataclasses import fields
from typing import Any

import pytest

from ragsweep.core.building import Builder
from ragsweep.core.traits import traits_of
from ragsweep.parts.embedders import ApiEmbedder
from ragsweep.parts.generators import OpenAI
from ragsweep.parts.judges import OpenAIJudge
from ragsweep.parts.rerankers import ApiReranker
from ragsweep.parts.routers import Llm
from ragsweep.parts.service_settings import ServiceSettings
from ragsweep.parts.systems import Http
from ragsweep.services.http_client import Service

URL = "http://localhost:1/v1"
PROMPT = {"_target_": "ragsweep.parts.prompts.Prompt", **dict.fromkeys(("system", "system_alone"), "Answer."),
          "question": "{passages} {question}", "passage": "{text}", "refusals": ["no"], "citations": False}  # fmt: skip
MODEL = {"base_url": URL, "model": "m"}
PARTS: dict[type[ServiceSettings], dict[str, Any]] = {
    ApiEmbedder: MODEL,
    ApiReranker: MODEL,
    Http: {"url": f"{URL}/ask", "body": {"q": "{question}"}, "answer": "a"},
    Llm: MODEL | {"instruction": "Does it need the corpus?"},
    OpenAI: MODEL | {"prompt": PROMPT},
    OpenAIJudge: MODEL,
}
VALUES = {"key_env": "SOME_KEY", "key_header": "api-key", "timeout": 7.0, "deadline": 77.0, "retries": 3,
          "concurrency": 9, "requests_per_minute": 11.0, "tokens_per_minute": 13.0}  # fmt: skip
CASES = [
    (made, name)
    for made in PARTS
    for name in VALUES
    if name in {one.name for one in fields(made)} & {one.name for one in fields(Service)}
]


@pytest.mark.parametrize(("made", "name"), CASES)
def test_setting_of_calls_reaches_the_service_and_no_address(made: type[ServiceSettings], name: str) -> None:
    node = {"_target_": f"{made.__module__.rpartition('.')[0]}.{made.__name__}", **PARTS[made]}
    plain, changed = (Builder().build(node | given, "x") for given in ({}, {name: VALUES[name]}))
    assert getattr(changed.value.service, name) == VALUES[name] != getattr(plain.value.service, name)
    assert changed.spec.digest == plain.spec.digest
    assert name in traits_of(made).operational


class Renamed(OpenAI):
    """Declare traits from scratch: settings of calls become part of the address, and still reach the service."""

    TRAITS = type(OpenAI.TRAITS)(version="1")


def test_settings_reach_the_service_whatever_the_traits_of_a_subclass() -> None:
    part = Renamed(URL, "m", None, retries=3, deadline=77)  # type: ignore[arg-type]
    assert (part.service.retries, part.service.deadline) == (3, 77)
