"""A real HTTP server on this machine that speaks OpenAI's protocol, and fails as often and as badly as you ask.

It answers chat completions (plain, with ``response_format``, with tools, with a JSON Schema in the prompt) and
embeddings. What it says is a function of what it was asked, so two runs get equal answers. Use it to test a plugin of
yours that calls a model::

    from ragsweep.testing.llm_server import LlmServer

    with LlmServer(faults={"rate_limited": 0.1}, seed=1) as server:
        endpoint = Endpoint(server.base_url, "any-model")
        reply = run(endpoint.chat([{"role": "user", "content": "hello"}]))
    assert len(server.log) >= 1  # every request that came, whatever became of it

``answer=`` takes a function of :class:`Asked` that returns a text, or a dict that is sent as JSON. ``FAULTS`` names the
faults; a share of 1 makes every request fail so, and the rest of a share below 1 is answered well. Which request fails
follows from the seed, from what is asked and from how often it was asked before: not from the order of arrival.
"""

from __future__ import annotations

from ragsweep.testing.llm_server.asked import Asked
from ragsweep.testing.llm_server.faults import FAULTS, FINAL, TRANSIENT
from ragsweep.testing.llm_server.server import LlmServer, Logged

__all__ = ["FAULTS", "FINAL", "TRANSIENT", "Asked", "LlmServer", "Logged"]
