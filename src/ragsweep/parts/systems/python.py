"""Evaluate a system in this process: a Python function, or the pipeline that the config describes."""

import importlib
import inspect
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from ragsweep.core.errors import ConfigError
from ragsweep.core.identity import content_hash
from ragsweep.core.interruption import raise_overdue
from ragsweep.core.missing import SYSTEM_RAISED
from ragsweep.core.trust import is_trusted, source_digest, trusting
from ragsweep.core.types import Answer, PartTraits, Request, Response, Usage
from ragsweep.parts.limits import check_at_least
from ragsweep.parts.prompts import check_refusals
from ragsweep.parts.systems.responses import Returned, to_response
from ragsweep.services.session import each_in_threads
from ragsweep.services.thoughts import TAGS, check_tags

_log = logging.getLogger(__name__)

KEYS = ("answer", "contexts", "ids", "scores", "tokens_in", "tokens_out")


@dataclass(eq=False)
class Python:
    """A system that is a Python function, named as "package.module.function" and called with each question.

    If the function has a second positional parameter, it also gets the earlier turns, a list of mappings with ``role``
    and ``content``. The function must return the text of the answer (None: an abstention), or a mapping with ``answer``
    (optional if ``answers`` is false) and any of ``contexts``, ``ids``, ``scores``, ``tokens_in`` and ``tokens_out``.
    If the function raises an exception or returns anything else, the answer counts as failed. The module of the
    function must be trusted. The address of a result contains a hash of the source of this module, and of the modules
    that it imports from its own package.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="2", operational=frozenset({"concurrency"}))

    function: str
    answers: bool = True
    refusals: Sequence[str] = ()
    thoughts: Sequence[str] | None = TAGS
    version: str = ""
    concurrency: int = 1

    def check(self) -> None:
        """Raise ConfigError if a setting is invalid, or if the function is not trusted or cannot be imported.

        The module of the function is imported.
        """
        module, _, name = self.function.rpartition(".")
        if not module or not name.isidentifier():
            raise ConfigError(
                f"system.function must be a function with its module, such as my_system.ask, got {self.function!r}"
            )
        if not is_trusted(module):
            package = module.partition(".")[0]
            raise ConfigError(
                f'system.function: the package "{package}" is not trusted; to trust it, run: {trusting(package)}'
            )
        check_tags(self.thoughts, "system")
        check_refusals(self.refusals, "system")
        check_at_least("system", 1, concurrency=self.concurrency)
        if not callable(self._function):
            raise ConfigError(f"system.function: {self.function} is not callable; name a function")

    def fingerprint(self) -> Mapping[str, str]:
        """Return a hash of the source of the function's module and of its imports from the same package.

        The result is empty if there is no source file.
        """
        names = {self.function.rpartition(".")[0], str(getattr(inspect.unwrap(self._function), "__module__", ""))}
        trusted = [name for name in names if name in sys.modules and is_trusted(name)]
        digests = {name: digest for name in trusted if (digest := source_digest(name))}
        return {"source": content_hash(digests)} if digests else {}

    @cached_property
    def _function(self) -> Callable[..., Any]:
        module, _, name = self.function.rpartition(".")
        try:
            function: Callable[..., Any] = getattr(importlib.import_module(module), name)
        except Exception as fault:  # a user's module may raise anything
            missing = isinstance(fault, ImportError)
            way = (
                "install its package, or add its folder to PYTHONPATH" if missing else "correct the module, or the name"
            )
            raise ConfigError(
                f'system.function: cannot import "{self.function}": {type(fault).__name__}: {fault}; {way}'
            ) from fault
        return function

    @cached_property
    def _takes_history(self) -> bool:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        try:
            parameters = inspect.signature(self._function).parameters.values()
        except ValueError:  # a function written in C may have no signature
            return False
        return sum(parameter.kind in kinds for parameter in parameters) > 1

    def ask(self, requests: Sequence[Request], done: Callable[[int, Response], None]) -> None:
        """Call the function for every request, ``concurrency`` at a time; call ``done(index, response)`` for each."""
        if self.concurrency == 1:  # in the caller's thread, because a function may work in only one thread
            for number, request in enumerate(requests):
                done(number, self._respond(request))
            return
        each_in_threads(requests, self._respond, done, self.concurrency)

    def _respond(self, request: Request) -> Response:
        history = [{"role": turn.role, "content": turn.text} for turn in request.history]
        arguments = (request.question, history) if self._takes_history else (request.question,)
        begin = time.perf_counter()
        try:
            response = self._parse(self._function(*arguments))
            return response._replace(answer=response.answer._replace(seconds=time.perf_counter() - begin))
        except Exception as fault:  # a user's function may raise anything
            raise_overdue(fault)
            fact = "%s raised an error or returned an invalid value for the question %r"
            _log.exception(fact, self.function, request.question)
            return Response(Answer(failed=SYSTEM_RAISED))

    def _parse(self, returned: Any) -> Response:
        if returned is None or isinstance(returned, str):
            return to_response(Returned(returned), self.refusals, Usage(1), self.thoughts)
        if not isinstance(returned, Mapping) or ("answer" in returned) < self.answers or not {*returned} <= {*KEYS}:
            needed = "the key answer (unless system.answers=false) and " if self.answers else ""
            keys = ", ".join(KEYS[1:] if self.answers else KEYS)
            raise ValueError(
                f"the function must return a string, None, or a mapping with {needed}no keys other than {keys};"
                f" got {returned!r:.60}"
            )
        tokens_in, tokens_out = (int(returned.get(name) or 0) for name in ("tokens_in", "tokens_out"))
        found = Returned(*map(returned.get, Returned._fields))
        return to_response(found, self.refusals, Usage(1, tokens_in, tokens_out), self.thoughts)


class Pipeline:
    """Placeholder for no external system: the config's other parts form the pipeline, and this part is never called."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", silent=True)

    def ask(self, requests: Sequence[Request], done: Callable[[int, Response], None]) -> None:
        """Report an empty response for every request."""
        for number in range(len(requests)):
            done(number, Response())
