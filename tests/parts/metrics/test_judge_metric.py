"""ReplyCache: what a judge answered is kept call by call, and an interrupted verdict pays for what it still lacks."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from llm_server import LlmServer, LoggedRequest, ModelRequest
from llm_server.faults import Response
from ragsweep.core.identity import Spec
from ragsweep.core.types import Judgement, ReplyCache, Usage
from ragsweep.parts.judging import JudgeReply, ResponseSchema
from ragsweep.parts.metrics import JudgeSwayed, RagasAnswerRelevancy, RagasFaithfulness
from ragsweep.parts.metrics.judge_metric import CachedJudge
from ragsweep.services.errors import EndpointFailed
from ragsweep.stages.store import open_store
from ragsweep.stages.stored_replies import StoredReplies, reply_node
from ragsweep.testing.contract import collect
from support import nightly
from support.models import accepting, cases, judge_at

SCHEMA = ResponseSchema("word", {"type": "string"}, str.upper)


class Echo:
    """Answer with the prompt, and embed a text by its length; remember what was asked."""

    samples, fence = 1, True

    def __init__(self) -> None:
        self.asked: list[object] = []

    def check_metric(self, metric: str, embeddings: bool) -> None:
        """Take everything."""

    async def ask(self, prompt: str, schema: ResponseSchema, sample: int, repetition: int) -> JudgeReply:
        """Say it back."""
        self.asked.append((prompt, sample, repetition))
        return JudgeReply(schema.parse(prompt), Usage(1, 10, 2), prompt)

    async def embed(self, texts: Sequence[str]) -> JudgeReply:
        """Count characters, to many digits."""
        self.asked.append(tuple(texts))
        return JudgeReply([[len(text) / 3, -0.1] for text in texts], Usage(1, len(texts), 0))


def reply_cache(folder: Path) -> StoredReplies:
    faults: list[str] = []
    store = open_store(folder, faults.append)
    assert store is not None
    return StoredReplies(reply_node(Spec("judge", "1"), ""), store)


def ask(judge: Echo, cache: ReplyCache, payer: str = "a", repetition: int = 0) -> JudgeReply:
    return asyncio.run(CachedJudge(judge, cache, payer).ask("yes", SCHEMA, 0, repetition))


def test_answer_is_asked_for_once_and_counts_for_who_paid_only(tmp_path: Path) -> None:
    judge = Echo()
    first = ask(judge, reply_cache(tmp_path))
    later = reply_cache(tmp_path)  # another process's
    again, others = ask(judge, later), ask(judge, later, payer="b")
    assert (first.value, again.value, others.value) == ("YES", "YES", "YES")
    assert (first.usage, again.usage, others.usage) == (Usage(1, 10, 2), Usage(1, 10, 2), Usage())
    assert len(judge.asked) == 1
    ask(judge, later, repetition=1)
    assert len(judge.asked) == 2


def test_texts_are_embedded_once_and_to_the_last_bit(tmp_path: Path) -> None:
    judge = Echo()
    first = asyncio.run(CachedJudge(judge, reply_cache(tmp_path), "a").embed(["one", "three", "one"]))
    again = asyncio.run(CachedJudge(judge, reply_cache(tmp_path), "a").embed(["three", "seven", "one"]))
    assert first.value == [[1.0, -0.1], [5 / 3, -0.1], [1.0, -0.1]]
    assert again.value == [first.value[1], first.value[1], first.value[0]]
    assert judge.asked == [("one", "three"), ("seven",)]
    assert (first.usage, again.usage) == (Usage(1, 2, 0), Usage(2, 3, 0))


def test_usage_of_a_reply_that_a_case_reads_again_counts_once(tmp_path: Path) -> None:
    async def read(judge: CachedJudge) -> list[Usage]:
        asked = [await judge.ask("yes", SCHEMA, 0, 0) for _ in range(2)]
        embedded = [await judge.embed(texts) for texts in (["one"], ["one", "three"], ["three"])]
        return [reply.usage for reply in (*asked, *embedded)]

    once = [Usage(1, 10, 2), Usage(), Usage(1, 1, 0), Usage(1, 1, 0), Usage()]
    for _ in range(2):  # the second case reads all replies from the cache
        assert asyncio.run(read(CachedJudge(Echo(), reply_cache(tmp_path), "a"))) == once


def test_any_text_is_kept_as_it_is(tmp_path: Path) -> None:
    texts = {str(n): text for n, text in enumerate(["", "é\n", "\0", "\ud800", '"\\'])}
    reply_cache(tmp_path).update(texts)
    assert dict(reply_cache(tmp_path)) == texts


def test_reply_stays_as_it_was_first_stored(tmp_path: Path) -> None:
    cache = reply_cache(tmp_path)
    cache["key"] = "one"
    cache["key"] = "other"
    assert cache["key"] == reply_cache(tmp_path)["key"] == "one"
    with pytest.raises(TypeError, match="cannot be deleted"):
        del cache["key"]


class Closing(LlmServer):
    """A server that knows nobody any more after some requests."""

    left = 10**9

    def take(self, asked: ModelRequest, headers: Mapping[str, str]) -> LoggedRequest:
        """Change the lock."""
        self.key = None if self.left > 0 else "another"
        self.left -= 1
        return super().take(asked, headers)

    def respond(self, logged: LoggedRequest) -> Response:
        """Refuse later than what was answered before arrives: the refusal cancels what the client still waits for."""
        self.wait(0.5 if logged.fault else 0)
        return super().respond(logged)


@pytest.mark.parametrize("kind", [nightly(JudgeSwayed), RagasFaithfulness, nightly(RagasAnswerRelevancy)])
def test_interrupted_verdicts_pay_for_what_they_lack_and_no_more(kind: type, tmp_path: Path) -> None:
    with Closing(accepting) as server:
        whole = _verdicts(kind, server, {})
        needed = len(server.log)
        assert needed >= 6
        for answered in range(1, needed, 2):
            server.left = answered
            notes = tmp_path / str(answered)
            with pytest.raises(EndpointFailed):
                _verdicts(kind, server, reply_cache(notes))
            _settle(server)
            server.left, before = 10**9, len(server.log)
            assert _verdicts(kind, server, reply_cache(notes)) == whole
            assert len(server.log) - before == needed - answered


def _settle(server: LlmServer) -> None:
    """Wait until no request arrives: one that was cancelled on its way may be late."""
    before = -1
    while len(server.log) > before:
        before = len(server.log)
        time.sleep(0.2)


def _verdicts(kind: type, server: LlmServer, notes: ReplyCache) -> list[Judgement]:
    options = {"share": 1} if kind is JudgeSwayed else {}
    # A reply that misses the timeout was paid for and is not received: a busy machine must not come near it.
    judge = judge_at(server, concurrency=1, retries=0, timeout=120.0, deadline=120.0)
    return collect(partial(kind(judge, **options).judge_cached, cache=notes), cases(3))
