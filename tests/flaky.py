"""A generator that follows what lies in the current folder: it fails, or kills its process, where a file says so."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from ragsweep.core.types import Answer, PartTraits, Request, Usage


class Flaky:
    """Say the question again; each question asked is a line of ``asked``."""

    TRAITS = PartTraits(version="1")

    def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Answer one after the other; the words in the file ``down`` fail, those in ``deadly`` kill the process."""
        for number, request in enumerate(requests):
            with Path("asked").open("a") as file:
                file.write(f"{request.question}\n")
            if _holds("deadly", request.question):
                Path("deadly").unlink()
                os.kill(os.getpid(), signal.SIGKILL)
            failed = "timed out" if _holds("down", request.question) else ""
            done(number, Answer("" if failed else request.question, failed=failed, usage=Usage(1, 7, 3)))


def _holds(name: str, question: str) -> bool:
    path = Path(name)
    return path.exists() and path.read_text() in question
