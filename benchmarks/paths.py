"""List the files that a setting, a question's text, a cost and a trial pass through, from traced runs.

    PYTHONPATH=tests python benchmarks/paths.py            # prints the paths
    PYTHONPATH=tests python benchmarks/paths.py --write    # and writes them into docs/architecture.md

A file counts if one of its functions ran and names the value (as a variable, attribute or key), or, for a question's
text, had the text itself in a variable. Functions that pass on a whole object (a config, a result) do not count.
"""

import argparse
import contextlib
import json
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import ragsweep.commands.run  # noqa: F401  imported before anything is traced
from llm_server import LlmServer
from ragsweep.commands.cli import run

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- paths: begin -->", "<!-- paths: end -->"
TEXT = "Which quokka lives on Rottnest Island?"
DOCUMENTS = {"quokka": "The quokka lives on Rottnest Island.", "numbat": "The numbat eats termites."}
COMMANDS = {
    "`top_k=3`": ["-m", "top_k=1,2"],
    "a trial": ["-m", "hydra/sweeper=optuna", "hydra.sweeper.n_trials=2", "top_k=choice(1,2)"],
    "a question's text": ["top_k=3"],
    "an answer's cost": ["llm=openai", "llm.model=m", "llm.key_env=null", "+prices.models.m=[1.0,2.0]"],
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
    """Return whether a variable of a function is the question's text, or a list that begins with it."""
    texts = [value[0] if type(value) is list and value else value for value in frame.f_locals.values()]
    return any(type(text) is str and text == TEXT for text in texts)


FINDS: Mapping[str, Finds] = {
    "`top_k=3`": named("top_k"),
    "a trial": named("trials?"),
    "a question's text": has_text,
    "an answer's cost": named("money|price|priced|cost_per_1000"),
}


@contextmanager
def traced(finds: Finds) -> Iterator[dict[str, None]]:
    """List the files of ours in which a function finds a value, in the order of the calls."""
    found: dict[str, None] = {}
    ours = str(SOURCE)

    def record(frame: FrameType, event: str, _argument: Any) -> None:
        path = frame.f_code.co_filename
        new = path.startswith(ours) and path not in found and event in ("call", "return")
        if new and frame.f_code.co_name != "<module>" and finds(frame):
            found[path] = None

    sys.setprofile(record)
    threading.setprofile(record)  # for the threads that answer
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def files(arguments: list[str], finds: Finds) -> list[str]:
    """Run a command on a small golden set, and return the files that a value passes through."""
    settings = ["dataset=folder", "dataset.path=docs", "dataset.golden=golden.jsonl", "retriever=bm25", "tracking=none"]
    with traced(finds) as found, redirect_stdout(StringIO()):
        try:
            run([*settings, *arguments])
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"{arguments} ended with status {end.code}") from end
    return [Path(path).relative_to(SOURCE).with_suffix("").as_posix() for path in found]


def collect(server: LlmServer) -> Iterator[str]:
    """Write a small golden set into the current folder; yield a line for each path."""
    Path("docs").mkdir()
    for name, text in DOCUMENTS.items():
        Path("docs", f"{name}.txt").write_text(text, "utf-8")
    row = {"id": "q", "question": TEXT, "evidence": [{"document": "quokka.txt", "anchor": DOCUMENTS["quokka"]}]}
    Path("golden.jsonl").write_text(json.dumps(row), "utf-8")
    for title, arguments in COMMANDS.items():
        llm = [f"llm.base_url={server.base_url}"] if "llm=openai" in arguments else []
        path = [name.removeprefix("ragsweep/") for name in files([*arguments, *llm], FINDS[title])]
        yield f"- **{title}** ({len(path)} files): {' → '.join(f'`{name}`' for name in path)}."


def main() -> None:
    """Print the paths, and write them into the page with ``--write``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write them into docs/architecture.md")
    write = parser.parse_args().write
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), LlmServer() as server:
        lines = list(collect(server))
    print("\n".join(lines))
    if write:
        before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        PAGE.write_text("\n".join([before + BEGIN, *lines, END]) + rest.partition(END)[2], "utf-8")


if __name__ == "__main__":
    main()
