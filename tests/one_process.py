"""Run several commands one after the other in one process: what they share is imported, built and computed once."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import forked

_COMMANDS = """
import contextlib, io, json, os, sys
from ragsweep.commands.cli import main

ended, place = {}, os.getcwd()
for name, arguments in json.load(sys.stdin).items():
    os.chdir(name if os.path.isdir(name) else place)
    out, error = io.StringIO(), io.StringIO()
    sys.argv = ["ragsweep", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            main()
    except SystemExit as end:
        os.chdir(place)
        ended[name] = [end.code, out.getvalue() + error.getvalue()]
print(json.dumps(ended))
"""


def in_one_process(commands: Mapping[str, Sequence[str]], place: Path) -> dict[str, tuple[int, str]]:
    """Run commands in a folder, or in the one within that has a command's name.

    Returns:
        Of each its exit status, and what it printed.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "RAGSWEEP_", "HYDRA"))}
    own = {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = forked.run(
        [sys.executable, "-c", _COMMANDS], input=json.dumps(commands), cwd=place, capture_output=True, text=True,
        env={**kept, **own}, check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {name: (status, text + done.stderr) for name, (status, text) in json.loads(done.stdout).items()}
