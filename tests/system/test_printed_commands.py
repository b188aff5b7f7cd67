"""The commands that are printed below a result are run as they are printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from command_line import call, write_dataset

NEXT = re.compile(r"^(?:NEXT| {4}) +((?:ragsweep|python run\.py) \S.*?)(?: {2,}.*)?$", re.M)


def printed_commands(text: str) -> list[list[str]]:
    return [shlex.split(found[1]) for found in NEXT.finditer(text)]


def run(folder: Path, *arguments: str, ends: tuple[int, ...] = (0,)) -> str:
    done = call(folder, "-m", "ragsweep", *arguments)
    assert done.returncode in ends, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.mark.nightly
def test_every_command_below_a_result_runs(tmp_path: Path) -> None:
    """Those of a sweep, of a config, of a comparison, of golden commands; and those that they print in turn."""
    data = write_dataset(tmp_path)
    texts = [
        run(tmp_path, "run", "-m", "top_k=1,2", "llm=extractive", "tracking=none", *data),
        run(tmp_path, "run", "top_k=1", "tracking=none", *data),
        run(tmp_path, "run", "-m", "top_k=1,2", "retriever=none,bm25", "llm=extractive", "tracking=none", *data),
    ]
    ran: set[str] = set()
    waiting = [command for text in texts for command in printed_commands(text)]
    assert waiting
    while waiting and len(ran) < 40:
        command = waiting.pop()
        if command[0] != "ragsweep" or " ".join(command) in ran or any(word.isupper() for word in command[1:]):
            continue
        ran.add(" ".join(command))
        waiting += printed_commands(run(tmp_path, *command[1:], ends=(0, 1, 3)))
    assert {command.split()[1] for command in ran} >= {"compare", "report"}
