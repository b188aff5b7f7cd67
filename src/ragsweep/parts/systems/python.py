"""Ask a system that is a Python function."""

from __future__ import annotations

import importlib
import inspect
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cached_property
from typing import Any

from ragsweep.core.errors import ConfigError
from ragsweep.core.identity import content_hash
from ragsweep.core.reasons import SYSTEM_RAISED
from ragsweep.core.sources import source_digest
from ragsweep.core.trust import TRUSTED, is_trusted
from ragsweep.core.types import Answer, Request, Response, Usage
from ragsweep.parts.responses import response

_log = logging.getLogger(__name__)

KEYS = ("answer", "contexts", "ids", "tokens_in", "tokens_out")


class Python:
    """Call ``function`` ("package.module.function") with each question.

    It takes the question, and the conversation so far (a list of role and content) if it has a second parameter; it
    returns the answer, or a mapping with ``answer`` and, if it likes, ``contexts``, ``ids``, ``tokens_in``,
    ``tokens_out``. What it raises is that question's failure. Its module must be trusted, as a class of your own must;
    its source is part of the result's address, with that of the modules of its package that it imports. So is
    ``version``, which is yours: change it when what the function stands on changes elsewhere.
    """

    VERSION = "1"
    OPERATIONAL = frozenset({"concurrency"})

    def __init__(self, function: str, refusals: Sequence[str] = (), version: str = "", concurrency: int = 1) -> None:
        """Name the function; it is imported when it is first called."""
        self.function = function
        self.refusals = refusals
        self.version = version
        self.concurrency = concurrency

    def check(self) -> None:
        """Raise ConfigError for a function that is not trusted or not there."""
        module, _, name = str(self.function).rpartition(".")
        if not module or not name.isidentifier():
            raise ConfigError(f"system.function must be package.module.function, given {self.function!r}")
        if not is_trusted(module):
            package = module.partition(".")[0]
            raise ConfigError(
                f'system.function: package "{package}" is not trusted; to call your own function set the environment'
                f" variable {TRUSTED}={package}"
            )
        if self.concurrency < 1:
            raise ConfigError(f"system.concurrency is {self.concurrency}; it must be 1 or more")
        if not callable(self._called):
            raise ConfigError(f"system.function: {self.function} is no function")

    def fingerprint(self) -> Mapping[str, str]:
        """Hash the source of the function's module, and of the modules of its package that it imports."""
        names = {self.function.rpartition(".")[0], str(getattr(inspect.unwrap(self._called), "__module__", ""))}
        known = [name for name in names if name in sys.modules and is_trusted(name)]
        found = {name: digest for name in known if (digest := source_digest(name))}
        return {"source": content_hash(found)} if found else {}

    @cached_property
    def _called(self) -> Callable[..., Any]:
        module, _, name = self.function.rpartition(".")
        try:
            called: Callable[..., Any] = getattr(importlib.import_module(module), name)
        except Exception as fault:  # whatever a user's module raises while it is imported
            raise ConfigError(
                f'system.function: cannot import "{self.function}": {type(fault).__name__}: {fault}'
            ) from fault
        return called

    @cached_property
    def _takes_history(self) -> bool:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return sum(one.kind in kinds for one in inspect.signature(self._called).parameters.values()) > 1

    def ask(self, requests: Sequence[Request], done: Callable[[int, Response], None]) -> None:
        """Call the function for every request, ``concurrency`` at a time."""
        if self.concurrency == 1:
            for number, request in enumerate(requests):
                done(number, self._asked(request))
            return
        with ThreadPoolExecutor(self.concurrency) as threads:
            calls = {threads.submit(self._asked, request): number for number, request in enumerate(requests)}
            try:
                for call in as_completed(calls):
                    done(calls[call], call.result())
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise

    def _asked(self, request: Request) -> Response:
        history = [{"role": turn.role, "content": turn.text} for turn in request.history]
        begin = time.perf_counter()
        try:
            said = self._called(request.question, history) if self._takes_history else self._called(request.question)
            found = _read(said, self.refusals)
            return found._replace(answer=found.answer._replace(seconds=time.perf_counter() - begin))
        except Exception:  # a user's function may raise anything; it is this question's failure
            _log.exception("%s raised an error for the question %r", self.function, request.question)
            return Response(Answer(failed=SYSTEM_RAISED))


def _read(said: Any, refusals: Sequence[str]) -> Response:
    if said is None or isinstance(said, str):
        return response(said, None, None, refusals, Usage())
    if not isinstance(said, Mapping) or "answer" not in said or not {*said} <= {*KEYS}:
        raise ValueError(f"it returned {said!r:.60}; return a text, or a mapping of {', '.join(KEYS)}")
    usage = Usage(1, int(said.get("tokens_in", 0)), int(said.get("tokens_out", 0)))
    return response(said["answer"], said.get("contexts"), said.get("ids"), refusals, usage)
