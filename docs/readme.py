"""Fill the README from real runs: the output of its two sweeps, and the measured table (pictures: docs/screenshots.py).

Needs docs/measurements.md (benchmarks/published.py). From the clone: .venv/bin/python docs/readme.py [FOLDER]. The
second sweep generates 259 answers; if it is already finished in FOLDER, it is only shown.
"""

import itertools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Run the two sweeps, and write their output and the measured table to the README."""
    with tempfile.TemporaryDirectory() as folder:
        first = _run(folder, "top_k=3,5,10")
        answers = _run(sys.argv[1] if len(sys.argv) > 1 else folder, "sweeps=answers", "dataset.limit=60")
    _fill("output", f"```text\n{first}\n```")
    _fill("answers", f"```text\n{answers[answers.index('ragsweep  ') : answers.index('EVIDENCE  ')].rstrip()}\n```")
    _fill("measured", _table((ROOT / "docs" / "measurements.md").read_text()))


def _run(folder: str, *overrides: str) -> str:
    """Run a sweep; return its output without the progress of running stages."""
    wide = {**os.environ, "COLUMNS": "110", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = [sys.executable, str(ROOT / "run.py"), "-m", *overrides]
    printed = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, env=wide).stdout
    lines = [line.rstrip() for line in printed.splitlines() if not re.search(r" · .* (left|so far)\b| s so far", line)]
    return "\n".join(lines).rstrip()


def _fill(name: str, text: str) -> None:
    """Replace the text between two markers in the README."""
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text().partition(f"<!-- {name} -->\n")
    readme.write_text(f"{before}<!-- {name} -->\n{text}\n<!-- /{name} -->{rest.partition(f'<!-- /{name} -->')[2]}")


def _table(measurements: str) -> str:
    """Return the first table."""
    lines = measurements.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("|"))
    return "\n".join(itertools.takewhile(lambda line: line.startswith("|"), lines[start:]))


if __name__ == "__main__":
    main()
