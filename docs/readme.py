"""Fill the README from a real run: what its first sweep prints, and the measured table (pictures: docs/screenshots.py).

Needs docs/measurements.md (benchmarks/published.py). From the clone: .venv/bin/python docs/readme.py
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Sweep, write."""
    with tempfile.TemporaryDirectory() as folder:
        demo = [sys.executable, str(ROOT / "run.py"), "-m", "top_k=3,5,10"]
        wide = {**os.environ, "COLUMNS": "110", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        printed = subprocess.run(demo, cwd=folder, check=True, capture_output=True, text=True, env=wide).stdout
    _fill("output", f"```text\n{_shown(printed)}\n```")
    _fill("measured", _table((ROOT / "docs" / "measurements.md").read_text()))


def _fill(name: str, text: str) -> None:
    """Put a text between its two marks in the README."""
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text().partition(f"<!-- {name} -->\n")
    readme.write_text(f"{before}<!-- {name} -->\n{text}\n<!-- /{name} -->{rest.partition(f'<!-- /{name} -->')[2]}")


def _shown(printed: str) -> str:
    """Leave out the blanks at the ends of lines."""
    return "\n".join(map(str.rstrip, printed.splitlines())).rstrip()


def _table(measurements: str) -> str:
    """Take the first table."""
    lines = measurements.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("|"))
    return "\n".join(itertools.takewhile(lambda line: line.startswith("|"), lines[start:]))


if __name__ == "__main__":
    main()
