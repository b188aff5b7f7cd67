"""Results, parts, models and commands that tests share."""

import json
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ragsweep.core.errors import InputError


def nightly(*values: Any) -> Any:
    """Mark a case of a test as nightly."""
    return pytest.param(*values, marks=pytest.mark.nightly)


def faults_of(load: Callable[[], object], folder: Path) -> list[str]:
    """Return the lines of the InputError that ``load`` raises, with paths below the folder."""
    with pytest.raises(InputError) as caught:
        load()
    return str(caught.value).replace(f"{folder}/", "").splitlines()


def output(
    capsys: pytest.CaptureFixture[str], command: Callable[[Sequence[str]], int], *arguments: str, status: int = 0
) -> str:
    """Run a command, check its exit status, and return what has been printed to standard output."""
    assert command([*arguments]) == status
    return capsys.readouterr().out


def printed_json(
    capsys: pytest.CaptureFixture[str], command: Callable[[Sequence[str]], int], *arguments: str, status: int = 0
) -> Any:
    """Run a command with --json, check its exit status, and return the document that it prints."""
    return json.loads(output(capsys, command, *arguments, "--json", status=status))


def without_root(command: list[str]) -> list[str]:
    """Return a command that respects file permissions: as root, it first drops the capability to override them."""
    give_up = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"]
    return [*give_up, *command] if os.geteuid() == 0 else command


def json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> str:
    """Write one JSON object per line, and return the path."""
    path.write_text(json_lines(rows), "utf-8")
    return str(path)


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def wait_until(condition: Callable[[], object], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)
