"""The embedding service's client, against a real server on this machine; how it calls is tested with the reranker's."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.parts.embedders import ApiEmbedder
from ragsweep.parts.prices import Prices
from ragsweep.services.errors import CallFailed
from ragsweep.services.session import ServiceSession
from ragsweep.services.usage import Budget, NoPrices, UsageTotals
from ragsweep.testing.embedders import EmbedderContract
from support.parts import Letters
from support.servers.json_server import Reply, Server, serving

KEY = "k-5ecret-5ecret"
LETTERS = Letters()


def vectors(body: dict[str, Any]) -> list[list[float]]:
    return (3 * LETTERS.embed_queries(body["input"])[:, : body.get("dimensions", 26)]).tolist()


def answer(body: dict[str, Any]) -> Reply:
    """Answer as a service does, but in another order than it was asked."""
    assert all(text.strip() for text in body["input"]), "services refuse empty texts"
    data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors(body))]
    return 200, {}, json.dumps({"object": "list", "data": data[::-1], "usage": {"prompt_tokens": 5}}).encode()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("EMBED_KEY", KEY)
    with serving(monkeypatch, answer) as made:
        yield made


def embedder(server: Server, **parameters: Any) -> ApiEmbedder:
    given = {"base_url": server.url, "model": "m", "key_env": "EMBED_KEY", "retries": 2, "timeout": 10, **parameters}
    return ApiEmbedder(**given)


class TestApiEmbedder(EmbedderContract):
    @pytest.fixture(autouse=True)
    def _served(self, server: Server) -> None:
        self.server = server

    def part(self) -> ApiEmbedder:
        return embedder(self.server, batch_size=2)


def test_call_is_what_services_expect_and_vectors_come_back_to_their_texts(server: Server) -> None:
    texts = [f"text {letter}" for letter in "abcdefg"]
    part = embedder(server, batch_size=3, concurrency=1, dimensions=26, normalize=False)
    np.testing.assert_allclose(part.embed_queries(texts), 3 * LETTERS.embed_queries(texts), rtol=1e-6)
    assert [body["input"] for body in server.bodies] == [texts[:3], texts[3:6], texts[6:]]
    assert {json.dumps({**body, "input": 0}) for body in server.bodies} == {
        json.dumps({"model": "m", "dimensions": 26, "input": 0})
    }
    assert set(server.paths) == {"/v1/embeddings"}
    assert set(server.keys) == {f"Bearer {KEY}"}


def test_dimension_that_is_not_given_is_found_by_one_call(server: Server) -> None:
    part = embedder(server)
    assert part.embed_queries([]).shape == (0, 26)
    part.embed_queries(["one"])
    part.embed_documents(["two"])
    assert [body["input"] for body in server.bodies] == [["dimension"], ["one"], ["two"]]
    assert not any("dimensions" in body for body in server.bodies)


def test_text_without_anything_in_it_is_not_sent_and_its_vector_is_zero(server: Server) -> None:
    found = embedder(server, dimensions=26).embed_documents([" ", "a", ""]).vectors
    assert found.any(axis=1).tolist() == [False, True, False]
    assert embedder(server, dimensions=26).embed_queries(["", "\n"]).tolist() == [[0] * 26] * 2
    assert len(server.bodies) == 1


def test_vectors_have_length_one_unless_configured_otherwise(server: Server) -> None:
    np.testing.assert_allclose(np.linalg.norm(embedder(server).embed_queries(["abc", "x"]), axis=1), 1, rtol=1e-6)
    raw = embedder(server, normalize=False).embed_queries(["abc", "x"])
    np.testing.assert_allclose(np.linalg.norm(raw, axis=1), 3, rtol=1e-6)


def test_prompts_are_put_before_queries_and_documents(server: Server) -> None:
    part = embedder(server, dimensions=26, query_prompt="ask: ", document_prompt="read: ")
    part.embed_queries(["a"])
    found = part.embed_documents(["a", ""])
    assert [body["input"] for body in server.bodies] == [["ask: a"], ["read: a", "read: "]]
    assert found.tokens.tolist() == found.tokens_read.tolist() == [3, 2]


def data(*entries: Any) -> bytes:
    return json.dumps({"data": list(entries)}).encode()


def entry(index: Any, *values: Any) -> dict[str, Any]:
    return {"index": index, "embedding": list(values)}


GOOD = entry(0, 0.5, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html>Sign in</html>", "not JSON: <html>Sign in"),
        (b'{"data": 5}', "no data with index"),
        (data(GOOD), "the response contains 1 vector for 2 texts"),
        (data(GOOD, entry(True, 1, 2)), "2 vectors for 2 texts; there must be one for each index from 0 to 1"),
        (data(GOOD, entry(1, 1, 2, 3)), "a vector has 3 values, but must have 2"),
        (data(GOOD, entry(1, 1, float("nan"))), "a vector contains nan, which is not a finite 32-bit number"),
        (data(GOOD, entry(1, 1, 1e300)), r"a vector contains 1e\+300"),
    ],
)
def test_answer_that_is_not_one_vector_a_text_is_refused(server: Server, content: bytes, message: str) -> None:
    server.reply = lambda body, number: (200, {}, content)
    with pytest.raises(CallFailed, match=message) as caught:
        embedder(server, dimensions=2).embed_queries(["one", "two"])
    assert "\n" not in str(caught.value)
    # What is not JSON comes from something between, and may pass; what is wrong JSON was meant so.
    assert len(server.bodies) == (3 if "not JSON" in message else 1)


def test_service_that_changes_its_dimension_is_refused(server: Server) -> None:
    server.reply = lambda body, number: answer({**body, "dimensions": 10 if number == 1 else 9})
    with pytest.raises(CallFailed, match="a vector has 9 values, but must have 10"):
        embedder(server).embed_queries(["a"])


@pytest.mark.parametrize(("status", "content"), [
    (413, b'{"error": "batch size 3 > maximum allowed batch size 2", "error_type": "Validation"}'),
    (413, b'{"error": "Input validation error: `inputs` must have less than 512 tokens. Given: 514"}'),
    (413, b"<html>413 Request Entity Too Large</html>"),
    (400, b'{"error": {"message": "Invalid input: maximum batch size is 2"}}'),
    (400, b'{"message": "Too many tokens overall, split into more batches."}'),
    (400, b'{"error": {"message": "Requested 416735 tokens, max 300000 tokens per request"}}'),
    (400, b'{"message": "invalid request: total number of texts must be at most 2 - received 3"}'),
])  # fmt: skip
def test_a_batch_that_the_service_refuses_as_too_large_names_the_key(
    server: Server, status: int, content: bytes
) -> None:
    server.reply = lambda body, number: (status, {}, content)
    with pytest.raises(CallFailed, match=rf"status {status}: .*; lower batch_size .* embedder\.batch_size"):
        embedder(server, dimensions=26).embed_documents(["a", "b", "c"])


def test_a_rate_limit_names_a_key_that_the_part_has(server: Server) -> None:
    server.reply = lambda body, number: (429, {}, b"slow down")
    with pytest.raises(CallFailed, match=r"lower concurrency \(of other parts\), or run again later$"):
        embedder(server, dimensions=26, retries=0).embed_documents(["a"])


def test_a_response_that_is_too_large_names_the_key(server: Server) -> None:
    server.reply = lambda body, number: (200, {"Content-Length": str(2**26)}, b"{")
    with pytest.raises(CallFailed, match=r"the response is larger than 32 MiB.*batch_size"):
        embedder(server, dimensions=26, retries=0).embed_documents(["a"])


def test_tokens_of_every_call_are_counted_priced_and_limited(server: Server) -> None:
    part, session = embedder(server, dimensions=26, batch_size=1, concurrency=1), ServiceSession()
    part.service.connect(session)
    session.meter.limit(Budget(tokens=10), Prices("2025-08-15", "USD", "made up", {"m": [200_000, 0]}))
    with pytest.raises(CallFailed, match=r"budget\.tokens=10, used 10"):
        part.embed_documents(["a", "b", "c"])
    assert session.meter.totals == UsageTotals(2, 10, 2.0)
    session.meter.limit(Budget(money=1), NoPrices())
    with pytest.raises(ConfigError, match='the model "m" has no price'):
        part.embed_queries(["a"])
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"base_url": "https://host/v1?key=s3cret"}, r"embedder\.base_url .* no user, password or query"),
        ({"key_env": "s3cret-abc"}, r"embedder\.key_env must be the NAME of an environment variable"),
        ({"dimensions": 0}, r"embedder\.dimensions must be at least 1, got 0"),
        ({"batch_size": 0}, r"embedder\.batch_size must be at least 1, got 0"),
    ],
)
def test_wrong_parameters_are_refused_and_no_secret_is_repeated(parameters: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        ApiEmbedder(**{"base_url": "http://host", "model": "m", **parameters}).check()
    assert "s3cret" not in str(caught.value)
