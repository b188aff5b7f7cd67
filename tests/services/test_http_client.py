"""Calls against a server that fails in every known way: faults cost time, never numbers."""

import asyncio
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from llm_server import FINAL, TRANSIENT, LlmServer
from llm_server.faults import Response
from ragsweep.core import missing
from ragsweep.services.endpoint import Endpoint
from ragsweep.services.errors import CallError, CallFailed, EndpointFailed

REASONS = {
    "rate_limited": missing.RATE_LIMITED, "rate_limited_seconds": missing.RATE_LIMITED,
    "rate_limited_date": missing.RATE_LIMITED, "rate_limited_absurd": missing.RATE_LIMITED,
    "server_error": missing.SERVER_ERROR, "bad_gateway": missing.SERVER_ERROR, "unavailable": missing.SERVER_ERROR,
    "hang": missing.TIMED_OUT, "slow_drip": missing.TIMED_OUT,
    "drop": missing.CONNECTION_LOST, "short_body": missing.CONNECTION_LOST,
    "malformed_json": missing.MALFORMED, "html": missing.MALFORMED, "wrong_content_type": missing.MALFORMED,
    "big_body": missing.MALFORMED, "no_choices": missing.MALFORMED, "null_content": missing.MALFORMED,
    "empty_content": missing.MALFORMED,
}  # fmt: skip
"""Every fault that may pass, and the reason that a call has if it does not."""

SLOW = ("rate_limited_date", "hang", "slow_drip", "big_body")
"""Faults that take seconds: tested nightly where another one shows the same."""

QUICK = ("rate_limited_seconds", "server_error", "drop", "malformed_json", "null_content")


def by_kind(kinds: Iterable[str], *, nightly: Container[str]) -> list[Any]:
    return [pytest.param(kind, marks=pytest.mark.nightly if kind in nightly else ()) for kind in kinds]


MIXED = tuple(name for name in REASONS if name not in ("rate_limited_date", "big_body"))  # whole seconds, 50 MB each


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call again without much of a wait."""
    monkeypatch.setattr("ragsweep.services.limits.SHORTEST_WAIT", 0.001)
    monkeypatch.setattr("ragsweep.services.limits.PAUSE", 0.001)
    monkeypatch.setattr("ragsweep.services.limits.FIRST_ALONE", 0.05)


@contextmanager
def serving(**parameters: Any) -> Iterator[LlmServer]:
    with LlmServer(**{"hang": 20.0, "retry_after": 0.02, **parameters}) as server:
        yield server


def endpoint(server: LlmServer, **parameters: Any) -> Endpoint:
    """Make an endpoint that gives up soon where the server is slow by intention, and late where the machine is."""
    slow = server.faults.keys() & {"hang", "slow_drip"}
    timeout = 10.0 if not slow else 0.5 if len(server.faults) == 1 else 2.0
    return Endpoint(**{"base_url": server.base_url, "model": "m", "timeout": timeout, "concurrency": 8, **parameters})


def ask(made: Endpoint, number: int) -> Any:
    return made.chat([{"role": "user", "content": f"question {number}"}], temperature=0)


def ask_all(made: Endpoint, numbers: int | list[int]) -> dict[int, str]:
    """Ask so many questions, or those of these numbers; return answers, or reasons in brackets."""
    asked = range(numbers) if isinstance(numbers, int) else numbers

    async def work(number: int) -> str:
        try:
            return str((await ask(made, number)).text)
        except CallFailed as failure:
            return f"[{failure.reason}]"

    found: dict[int, str] = {}
    made.each(asked, work, lambda n, text: found.update({asked[n]: text}))
    return found


def good_answers(server: LlmServer) -> Counter[str]:
    return Counter(one.request.digest for one in server.answered)


def test_every_fault_that_may_pass_has_its_reason() -> None:
    assert set(REASONS) == {*TRANSIENT, "no_choices", "null_content", "empty_content"}


@pytest.mark.parametrize("kind", by_kind(REASONS, nightly=REASONS.keys() - set(QUICK)))
def test_fault_that_passes_changes_no_answer_and_no_answer_is_paid_twice(kind: str) -> None:
    with serving() as sound:
        expected = ask_all(endpoint(sound), 24)
    with serving(faults={kind: 0.3}, seed=4) as server:
        assert ask_all(endpoint(server), 24) == expected
    faults = Counter(one.fault for one in server.log)
    assert faults[kind] > 0
    assert faults[""] == 24
    assert set(good_answers(server).values()) == {1}


@pytest.mark.parametrize("kind", by_kind(REASONS, nightly=SLOW))
def test_fault_that_stays_fails_the_call_with_its_reason_after_the_last_repetition(kind: str) -> None:
    way = "raise timeout .*" if REASONS[kind] == missing.TIMED_OUT else ""
    then = "$" if way else "; .* or run again( later)?$"
    with (
        serving(faults={kind: 1}) as server,
        pytest.raises(CallFailed, match=rf"failed after 3 attempts: .*{way}{then}") as caught,
    ):
        asyncio.run(ask(endpoint(server, retries=2), 1))
    assert caught.value.reason == REASONS[kind]
    assert "\n" not in str(caught.value)
    assert len(server.log) == 3


@pytest.mark.parametrize("kind", FINAL)
def test_final_refusal_is_one_request(kind: str) -> None:
    with serving(faults={kind: 1}) as server, pytest.raises(CallError, match=r"failed: status [345]\d\d: ") as caught:
        asyncio.run(ask(endpoint(server), 1))
    is_long = kind == "window_exceeded"
    assert caught.value.reason == (missing.TOO_LONG if is_long else missing.REFUSED_BY_SERVICE)
    assert isinstance(caught.value, EndpointFailed) == (kind != "bad_request" and not is_long)
    assert len(server.log) == 1


@pytest.mark.parametrize(
    "error",
    [
        b'{"type": "insufficient_quota"}',
        b'{"message": "Your account is not active, please check your billing details", "code": "billing_not_active"}',
        b'{"message": "suspended due to insufficient balance", "type": "exceeded_current_quota_error"}',
        b'{"code":"1113","message":"Insufficient balance or no resource package. Please recharge."}',
    ],
)
def test_account_without_money_stops_the_config_at_once(error: bytes) -> None:
    content = b'{"error": ' + error + b"}"
    with serving() as server:
        server.respond = lambda logged: Response(429, content)
        with pytest.raises(EndpointFailed, match=r"check the account$"):
            asyncio.run(ask(endpoint(server, retries=1), 1))
    assert len(server.log) == 1


def test_endpoint_that_refuses_everything_stops_the_config() -> None:
    refused = pytest.raises(EndpointFailed, match="; 7 earlier calls also failed; check the model")
    with serving(faults={"bad_request": 1}) as server, refused:
        ask_all(endpoint(server), 1000)
    assert len(server.log) <= 16


def test_one_refused_question_fails_alone_and_is_counted_with_the_service_s_own_words() -> None:
    with serving(faults={"bad_request": 0.2}, seed=1) as server:
        made = endpoint(server)
        found = ask_all(made, 30)
    refused = [one for one in server.log if one.fault]
    assert 0 < len(refused) < 15
    assert sum(text == f"[{missing.REFUSED_BY_SERVICE}]" for text in found.values()) == len(refused)
    assert len(server.log) == len(found) == 30
    ((reason, (count, words)),) = made.session.meter.failures.items()
    assert (reason, count) == (missing.REFUSED_BY_SERVICE, len(refused))
    assert words.startswith(f"{server.base_url}/chat/completions failed: status 400: ")


@pytest.mark.parametrize(
    ("status", "content", "reason"),
    [
        (400, b"However, the model's context length is only 4096 tokens, resulting in a maximum", missing.TOO_LONG),
        (400, b"The decoder prompt (length 5000) is longer than the maximum model length of 4096.", missing.TOO_LONG),
        (400, b"The input (516368 tokens) is longer than the model's context length (262144)", missing.TOO_LONG),
        (400, b"the model is loaded with context length of only 4096 tokens", missing.TOO_LONG),
        (400, b"the input length exceeds the context length", missing.TOO_LONG),
        (500, b"the input length exceeds the context length", missing.TOO_LONG),
        (500, b"Context size has been exceeded.", missing.TOO_LONG),
        (400, b"prompt is too long: 208310 tokens > 200000 maximum", missing.TOO_LONG),
        (400, b"input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000", missing.TOO_LONG),
        (400, b"too many tokens: total number of tokens (prompt and prediction) cannot exceed 2048", missing.TOO_LONG),
        (422, b"`inputs` must have less than 1024 tokens. Given: 1168", missing.TOO_LONG),
        (422, b"`inputs` tokens + `max_new_tokens` must be <= 2048. Given: 1887 `inputs` tokens", missing.TOO_LONG),
        (400, b"InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]", missing.TOO_LONG),
        (400, b"Your request exceeded model token limit: 262144 (requested: 269030)", missing.TOO_LONG),
        (400, b"The model returned the following errors: Input is too long for requested model.", missing.TOO_LONG),
        (400, b"the request exceeds the available context size. try increasing the context size", missing.TOO_LONG),
        (413, b'{"error": {"code": "tokens_limit_reached", "message": "Request body too large"}}', missing.TOO_LONG),
        (400, b"The input token count (314175) exceeds the maximum number of tokens allowed", missing.TOO_LONG),
        (400, b"This model's maximum prompt length is 131072 but the request contains 537812", missing.TOO_LONG),
        (400, b'{"error": {"code": "content_filter", "param": "prompt"}}', missing.FILTERED),
        (403, b'{"error": {"code": 403, "metadata": {"flagged_input": "..."}}}', missing.FILTERED),
        (400, b'{"error": {"message": "Content Exists Risk"}}', missing.FILTERED),
        (400, b'{"error": {"code": "data_inspection_failed"}}', missing.FILTERED),
        (
            400,
            b'{"error": "tokens to keep from the initial prompt is greater than the context length"}',
            missing.TOO_LONG,
        ),
        (500, b"input (992 tokens) is too large to process. increase the physical batch size", missing.TOO_LONG),
        (500, b"input is too large to process, please increase the physical batch size", missing.TOO_LONG),
        (200, b'{"error": "the model is loaded with context length of only 4096 tokens"}', missing.TOO_LONG),
        (200, b'{"error": {"code": 403, "metadata": {"flagged_input": "..."}}}', missing.FILTERED),
        (200, b'event: error\ndata: {"error": {"message": "Context size has been exceeded."}}\n\n', missing.TOO_LONG),
    ],
)
def test_prompt_that_is_too_long_or_filtered_fails_alone(status: int, content: bytes, reason: str) -> None:
    with serving() as server:
        kind = "application/json" if content.startswith(b"{") or status != 200 else "text/event-stream"
        server.respond = lambda logged: Response(status, content, {"Content-Type": kind})
        assert set(ask_all(endpoint(server), 20).values()) == {f"[{reason}]"}
    assert len(server.log) == 20


@pytest.mark.parametrize("content", [
    b'{"choices": [], "note": "prompt is too long"}', b'{"error": "the model has crashed"}',
    b'data: {"choices": [{"delta": {"content": "prompt is too long"}}]}\n\nevent: error\ndata: crashed\n\n',
])  # fmt: skip
def test_only_the_error_in_an_answer_states_that_the_prompt_is_too_long(content: bytes) -> None:
    kind = "application/json" if content.startswith(b"{") else "text/event-stream"
    with serving() as server:
        server.respond = lambda logged: Response(200, content, {"Content-Type": kind})
        assert ask_all(endpoint(server, retries=1), 1) == {0: f"[{missing.MALFORMED}]"}
    assert len(server.log) == 2


@pytest.mark.parametrize(("kind", "reason"), [("length", missing.TRUNCATED), ("content_filter", missing.FILTERED)])
def test_answer_that_is_cut_or_withheld_is_none_and_its_price_is_known(kind: str, reason: str) -> None:
    with serving(faults={kind: 1}) as server, pytest.raises(CallFailed) as caught:
        asyncio.run(ask(endpoint(server), 1))
    assert caught.value.reason == reason
    assert caught.value.usage.calls == 1
    assert caught.value.usage.tokens_in == 2
    assert caught.value.usage.tokens_out > 0
    assert str(caught.value).endswith("system.body.max_tokens" if kind == "length" else "choose another model")
    assert len(server.log) == 1


def test_model_that_answers_under_another_name_is_named() -> None:
    with serving(faults={"wrong_model": 1}) as server:
        assert asyncio.run(ask(endpoint(server), 1)).model == "another-model"


@pytest.mark.parametrize(
    ("share", "count"), [(0.1, 60), *(pytest.param(s, 1000, marks=pytest.mark.nightly) for s in (0, 0.01, 0.1, 0.3))]
)
def test_mixed_faults_cost_requests_and_no_answers(share: float, count: int) -> None:
    with serving() as sound:
        expected = ask_all(endpoint(sound), count)
    assert len(sound.log) == count
    with serving(faults={kind: share / len(MIXED) for kind in MIXED}, seed=3) as server:
        made = endpoint(server, concurrency=16)
        found = ask_all(made, count)
        failed = [number for number, text in found.items() if text.startswith("[")]
        assert share > 0.1 or failed == []
        assert {**found, **ask_all(made, failed)} == expected  # what failed is not kept, and the next run asks it
    faults = Counter(one.fault for one in server.log)
    assert faults.pop("") == count
    assert len(server.log) == count + sum(faults.values())
    assert len(server.log) <= count * (1.25 if share <= 0.1 else 2)
    assert set(good_answers(server).values()) == {1}


KINDS_OF_DOWN = ("server_error", "rate_limited_seconds", "rate_limited", "rate_limited_absurd", "drop", "hang", "html")


@pytest.mark.parametrize(
    "kind", by_kind(KINDS_OF_DOWN, nightly=set(KINDS_OF_DOWN) - {"server_error", "rate_limited_seconds"})
)
def test_service_that_is_down_is_left_alone_with_one_line(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragsweep.services.limits.PATIENCE", 0.3)
    monkeypatch.setattr("ragsweep.services.limits.PAUSE", 0.02)
    with serving(faults={kind: 1}) as server, pytest.raises(EndpointFailed) as caught:
        ask_all(endpoint(server, concurrency=16), 1000)
    assert caught.value.reason == missing.CIRCUIT_OPEN
    assert "the service is considered down" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(server.log) <= 40


def test_questions_that_a_model_leaves_without_text_fail_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragsweep.services.limits.PATIENCE", 0.0)
    with serving(answer=lambda request: "" if request.last > "question 4" else "said") as server:
        found = ask_all(endpoint(server), 10)
    assert found == {n: f"[{missing.MALFORMED}]" if n > 4 else "said" for n in range(10)}


@pytest.mark.parametrize("is_resumed", [False, True])
def test_questions_that_always_fail_fail_alone(is_resumed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when a later run asks only these questions again, of a service that has answered an earlier run."""
    monkeypatch.setattr("ragsweep.services.limits.PATIENCE", 0.0)
    with serving() as server:
        answered = server.respond
        fails = lambda logged: logged.request.last > "question 6"  # noqa: E731
        monkeypatch.setattr(server, "respond", lambda one: Response(500, b"{}") if fails(one) else answered(one))
        made, numbers = endpoint(server, concurrency=2), [*range(7 * is_resumed, 10)]
        made.session.host(made.base_url, made.key()).breaker.answered_before = is_resumed
        found = ask_all(made, numbers)
    assert sorted(found) == numbers
    assert sorted(n for n, text in found.items() if text == f"[{missing.SERVER_ERROR}]") == [7, 8, 9]


def test_model_that_leaves_every_question_without_text_stops_the_config() -> None:
    never = pytest.raises(
        EndpointFailed, match=r"the message contains no text: .*; 7 earlier calls also failed; check the model"
    )
    with serving(faults={"empty_content": 1}) as server, never:
        ask_all(endpoint(server, retries=1), 1000)
    assert len(server.log) <= 32


def test_missing_server_costs_few_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragsweep.services.limits.PATIENCE", 0.1)
    made = Endpoint("http://127.0.0.1:9/v1", "m", concurrency=16)
    said = r"127\.0\.0\.1:9/v1/chat/completions failed: ConnectError .* is considered down"
    with pytest.raises(EndpointFailed, match=said):
        ask_all(made, 1000)


def test_service_that_rests_gets_no_call_and_is_used_again_when_it_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragsweep.services.limits.PATIENCE", 0.1)
    with serving(faults={"unavailable": 1}) as server:
        made = endpoint(server)
        with pytest.raises(EndpointFailed):
            ask_all(made, 100)
        sent = len(server.log)
        with pytest.raises(EndpointFailed):
            asyncio.run(ask(made, 1))
        assert len(server.log) == sent
        server.faults = {}
        made.session.host(made.base_url, made.key()).breaker._open_until = 0.0  # as after its rest
        assert len(ask_all(made, 30)) == 30


@pytest.mark.parametrize("kind", ["hang", "slow_drip"])
def test_deadline_of_a_call_holds_however_slowly_the_answer_comes(kind: str) -> None:
    with (
        serving(faults={kind: 1}) as server,
        pytest.raises(CallFailed, match=r"failed after 1 attempt: .*0\.3 seconds; raise deadline "),
    ):
        asyncio.run(ask(endpoint(server, timeout=10, deadline=0.3), 1))
    assert len(server.log) == 1
    assert not any(one.ended - one.began >= 20 for one in server.log)  # what the server would have taken, had it ended


def test_no_wait_is_begun_that_ends_after_the_deadline() -> None:
    with serving(faults={"rate_limited_seconds": 1}, retry_after=30) as server, pytest.raises(CallFailed) as caught:
        asyncio.run(ask(endpoint(server, deadline=5), 1))
    assert caught.value.reason == missing.RATE_LIMITED
    assert len(server.log) == 1


def test_retry_after_pauses_all_calls() -> None:
    with serving(faults={"rate_limited_seconds": 0.2}, retry_after=0.3, seed=1) as server:
        ask_all(endpoint(server, concurrency=2), 12)
    refused = [one for one in server.log if one.fault]
    assert refused
    for one in refused:
        between = [other for other in server.log if one.ended + 0.02 < other.began < one.ended + 0.28]
        assert between == []


@pytest.mark.parametrize("rate", [{"requests_per_minute": 600}, {"tokens_per_minute": 6000}], ids=str)
def test_retry_after_pauses_calls_that_wait_for_the_rate_limit(
    rate: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragsweep.services.limits.BURST", 0.05)
    refused = lambda logged: Response(429, b"{}", headers={"Retry-After": "1"})  # noqa: E731
    with serving() as server:
        answered = server.respond
        monkeypatch.setattr(server, "respond", lambda logged: (refused if logged.number == 1 else answered)(logged))
        made = endpoint(server, concurrency=8, **rate)
        messages = [{"role": "user", "content": "x"}]
        made.each(range(8), lambda n: made.chat(messages, max_tokens=9, seed=n), lambda *_: None)
    refusal = server.log[1].ended
    assert [one for one in server.log if 0.25 < one.began - refusal < 0.9] == []  # else one every 0.1 seconds
    assert len(server.log) == 9


@pytest.mark.parametrize("rate", [{"requests_per_minute": 300}, {"tokens_per_minute": 6000}], ids=str)
def test_rates_are_spread_over_their_minute(rate: dict[str, int]) -> None:
    with serving() as server:
        made = endpoint(server, concurrency=16, **rate)
        messages = [{"role": "user", "content": "x" * 40}]
        made.each(range(8), lambda n: made.chat(messages, max_tokens=10, seed=n), lambda *_: None)
    # 8 requests at 5 a second, or 8 x 20 tokens at 100 a second, the first second's worth immediately
    assert max(one.began for one in server.log) - min(one.began for one in server.log) >= 0.3
