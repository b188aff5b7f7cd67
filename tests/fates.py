"""A retriever whose jobs end badly, each in its own way; the package that tests/system/test_bad_jobs.py trusts."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ragsweep.core.types import Answer, Arrays, PartTraits, Rankings, Request
from ragsweep.parts.ranking import arrange


class Fateful:
    """Rank in the order of positions, unless fate has something else in mind."""

    TRAITS = PartTraits(version="1")

    def __init__(self, fate: str = "good") -> None:
        self.fate = fate

    def build(self, texts: Sequence[str]) -> Arrays:
        return {"count": np.array([len(texts)])}

    def retrieve(self, index: Arrays, queries: Sequence[str], depth: int) -> Rankings:
        if self.fate == "raises":
            raise ValueError("no luck today")
        if self.fate == "exits":
            sys.exit(3)
        if self.fate == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fate == "hangs":
            time.sleep(600)
        if self.fate == "unwritten":  # what becomes of this job cannot be written down
            with sqlite3.connect(Path(".ragsweep", "ledger.db")) as connection:
                connection.execute(
                    "CREATE TRIGGER IF NOT EXISTS full BEFORE INSERT ON records"
                    " BEGIN SELECT RAISE(FAIL, 'no room for it'); END"
                )
            connection.close()
        if self.fate == "memory":
            before = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, before[1]))
            try:
                np.ones(16 << 30, dtype=np.uint8)
            finally:
                resource.setrlimit(resource.RLIMIT_AS, before)
        positions = np.tile(np.arange(int(index["count"][0])), (len(queries), 1))
        return arrange(positions, -positions.astype(np.float32), depth)


class Mortal:
    """A generator that answers like others until it has answered so many questions; then one name is fatal."""

    TRAITS = PartTraits(version="1", needs_context=False)

    def __init__(self, name: str, dies: str, lives: int) -> None:
        self.name = name
        self.dies = dies
        self.lives = lives

    def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        asked = Path(f"{self.name}.asked")
        for number in range(len(requests)):
            if self.name == self.dies and asked.exists() and asked.stat().st_size >= self.lives:
                os.kill(os.getpid(), signal.SIGKILL)
            with asked.open("a") as log:
                log.write(".")
            done(number, Answer("salt"))
