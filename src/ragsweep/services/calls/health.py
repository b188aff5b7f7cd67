"""Know from what came back whether an endpoint is there: how many calls it gets, and when it gets none."""

from __future__ import annotations

from ragsweep.core.reasons import CIRCUIT_OPEN, REFUSED_BY_SERVICE
from ragsweep.services.calls.failures import CallFailed, EndpointFailed

TOUCHED = 1.0
"""Seconds for which the very first call goes alone: a wrong key then costs one request, and a slow model no more."""

UNKNOWN = 8
"""Calls at a time to an endpoint that has not answered well yet."""

CAREFUL = 4
"""Failures in a row from which on calls go one by one, with growing pauses."""

HOPELESS = 8
"""Failures in a row after which, and after so long a time, an endpoint is taken to be down."""

PATIENCE = 20.0
"""Seconds of failures in a row; what the service asked to wait does not count."""

PAUSE = 0.5
LONGEST_PAUSE = 8.0
REST = 30.0
"""Seconds for which an endpoint that is down is left alone. Then one call may find out."""


class Health:
    """What is known of one endpoint. Times are those of the event loop, in seconds."""

    def __init__(self) -> None:
        self.answered = False  # it has given a good answer
        self.failures = 0  # in a row
        self.begun: float | None = None  # when the first call went out
        self.failing: float | None = None  # when the first call of those in a row went out
        self.paused = 0.0  # until when no call goes out
        self.counted = 0.0  # when a failure was counted last
        self.resting = 0.0  # until when it is taken to be down
        self.fact = ""
        self.refusals = 0

    def most(self, wanted: int, now: float) -> int:
        """Return how many calls may be open, of the number that is wanted."""
        if self.failures >= CAREFUL:
            return 1
        if self.answered:
            return wanted
        return min(wanted, 1 if self.begun is not None and now < self.begun + TOUCHED else UNKNOWN)

    def wait(self, now: float) -> float:
        """Return for how many seconds no call goes out."""
        return max(self.paused - now, 0.0)

    def down(self, now: float) -> EndpointFailed | None:
        """Return the failure of every call while the endpoint is taken to be down."""
        if now >= self.resting:
            return None
        return EndpointFailed(f"{self.fact}; it is taken to be down after {self.failures} failures", CIRCUIT_OPEN)

    def went(self, now: float) -> None:
        """Note that a call goes out."""
        self.begun = now if self.begun is None else self.begun

    def succeeded(self) -> None:
        """Note an answer."""
        self.answered, self.failures, self.failing, self.resting = True, 0, None, 0.0

    def refused(self, failure: CallFailed) -> None:
        """Note that an answer came, and it was final and no good. Raises EndpointFailed if there is never a better."""
        self.failures, self.failing, self.resting = 0, None, 0.0
        self.refusals += 1
        if failure.reason == REFUSED_BY_SERVICE and not self.answered and self.refusals >= HOPELESS:
            raise EndpointFailed(f"{failure} (and so were the {self.refusals - 1} calls before)", failure.reason)

    def failed(self, fact: str, began: float, now: float, asked: float) -> None:
        """Note that a call failed that went out at ``began``, and how many seconds the service asks to wait."""
        paused = max(self.paused, now)
        if self.failures < CAREFUL or began >= self.counted:  # those of one burst count as one failure
            self.failures += 1
            self.counted = now
            over = self.failures - CAREFUL
            if over >= 0:
                self.paused = max(paused, now + min(PAUSE * 2.0 ** min(over, 16), LONGEST_PAUSE))
        self.fact = fact
        self.failing = began if self.failing is None else self.failing
        if self.failures >= HOPELESS and now - self.failing >= PATIENCE:
            self.resting = now + REST
        if now + asked > max(self.paused, paused):
            self.failing += now + asked - paused
            self.paused = now + asked
