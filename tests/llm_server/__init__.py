"""An HTTP server on loopback with OpenAI's protocol, and with faults on request.

It answers chat completions (plain, with ``response_format``, with a JSON Schema in the prompt) and
embeddings. An answer is a function of the request, so two runs get equal answers::

    with LlmServer(faults={"rate_limited": 0.1}, seed=1) as server:
        endpoint = Endpoint(server.base_url, "any-model")
        ...
    assert len(server.log) >= 1  # every request, failed or not

``answer=`` takes a function of :class:`ModelRequest` that returns a text, or a dict that is sent as JSON. ``FAULTS``
names the faults; a share of 1 fails every request. Which request fails is a function of the seed, the request and the
number of earlier attempts, not of the order of arrival.
"""

from llm_server.faults import FAULTS, FINAL, TRANSIENT
from llm_server.requests import ModelRequest
from llm_server.server import LlmServer, LoggedRequest

__all__ = ["FAULTS", "FINAL", "TRANSIENT", "LlmServer", "LoggedRequest", "ModelRequest"]
