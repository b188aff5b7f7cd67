"""List the files that a setting, a question's text, a cost and a trial pass through, from traced runs.

    python benchmarks/paths.py            # prints the paths
    python benchmarks/paths.py --write    # and writes them into docs/architecture.md

A file counts if one of its functions ran and names the value (as a variable, attribute or key), or, for a question's
text, had the text itself in a variable. Functions that pass on a whole object (a config, a result) do not count.
"""

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from ragsweep.commands.cli import run

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- paths: begin -->", "<!-- paths: end -->"
TEXT = "Which quokka lives on Rottnest Island?"
DOCUMENTS = {"quokka": "The quokka lives on Rottnest Island.", "numbat": "The numbat eats termites."}
COMMANDS = {
    "`top_k=3`": ["top_k=3"],
    "a trial": ["-m", "hydra/sweeper=optuna", "hydra.sweeper.n_trials=2", "top_k=choice(1,2)"],
    "a question's text": ["top_k=3"],
    "an answer's cost": ["top_k=1", "llm=extractive", "prices.models.extractive=[1.0,2.0]"],
}

Finds = Callable[[FrameType], bool]


def names(code: CodeType) -> frozenset[str]:
    """Return the variables, attributes and keys that a function names."""
    words = [word for word in code.co_consts if isinstance(word, str)]
    return frozenset([*code.co_names, *code.co_varnames, *words])


def named(pattern: str) -> Finds:
    """Return a test of whether a function names a value."""
    known: dict[CodeType, bool] = {}

    def finds(frame: FrameType) -> bool:
        code = frame.f_code
        if code not in known:
            known[code] = any(re.fullmatch(pattern, name) for name in names(code))
        return known[code]

    return finds


def has_text(frame: FrameType) -> bool:
    """Return whether a variable of a function is the question's text, or a list with it."""
    return any(value == TEXT or (type(value) in (list, tuple) and TEXT in value[:9]) for value in frame.f_locals.values()
               if type(value) in (str, list, tuple))


FINDS: Mapping[str, Finds] = {
    "`top_k=3`": named("top_k"),
    "a trial": named("trials?"),
    "a question's text": has_text,
    "an answer's cost": named("costs?|cost_usd"),
}


@contextmanager
def traced(finds: Finds) -> Iterator[dict[Path, None]]:
    """List the files of ours in which a function finds a value, in the order of the calls."""
    found: dict[Path, None] = {}

    def record(frame: FrameType, event: str, _argument: Any) -> None:
        if event in ("call", "return") and frame.f_code.co_name != "<module>":
            path = Path(frame.f_code.co_filename)
            if path not in found and path.is_relative_to(SOURCE) and finds(frame):
                found[path] = None

    sys.setprofile(record)
    try:
        yield found
    finally:
        sys.setprofile(None)


def files(arguments: list[str], finds: Finds) -> list[str]:
    """Run a command on a small golden set, and return the files that a value passes through."""
    with traced(finds) as found, redirect_stdout(StringIO()), suppress(SystemExit):
        run(["dataset=jsonl", "dataset.corpus=docs", "dataset.questions=golden.jsonl", "retriever=bm25", "tracking=none", *arguments])
    return [path.relative_to(SOURCE).with_suffix("").as_posix() for path in found]


def main() -> None:
    """Print the paths, and write them into the page if asked to."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("docs").mkdir()
        for name, text in DOCUMENTS.items():
            Path("docs", f"{name}.txt").write_text(text, "utf-8")
        row = {"id": "q", "question": TEXT, "evidence": [{"document": "quokka.txt", "quote": DOCUMENTS["quokka"]}]}
        Path("golden.jsonl").write_text(json.dumps(row), "utf-8")
        for title, arguments in COMMANDS.items():
            path = files(arguments, FINDS[title])
            print(f"{title}: {len(path)} files: {' → '.join(path)}")


if __name__ == "__main__":
    main()
