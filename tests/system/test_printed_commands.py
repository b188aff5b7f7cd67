"""The commands that are printed below a result, or in a message, are run as they are printed."""

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support import write_rows
from support.commands import RUN, add_tables, call, user_environment, write_dataset
from support.servers import forked

PRINTED = re.compile(
    r"(?:^(?:NEXT| {4}) +|[;:`] ?| by |# )"
    r"((?:ragsweep (?:[a-z]+) |python run\.py )\S.*?)(?=`|;|, |\.$| {2,}| sends | runs | takes | # |$)",
    re.M,
)
GIVEN = {"FOLDER": "corpus.jsonl", "GOLDEN.jsonl": "made.jsonl"}
"""What a person puts in place of a word in capitals; a command with another one is a pattern, and is not run."""
COMMANDS = {
    "sweeps": [
        "run top_k=1 tracking=none {data}", "run -m top_k=1,2 retriever=none,bm25 llm=extractive tracking=none {data}",
        "list", "list first", "show first#1 --missed", "report first", "report --history", "report missing",
        "name first#1 taken", "name first#2 taken", "show missing#1",
    ],
    "comparisons": [
        "compare first#1 first#2", "power first#1 first#2", "power --questions 50",
        "judge calibrate labels.jsonl --run first#1", "judge noise first#1 first#2 --metric context_recall",
        "gate --baseline first#1 --candidate first#2 --margin context_recall=.1", "ablate first#1 top_k=1,2 --plan",
        "ablate first#1 top_k=1,2",
    ],
    "service": [
        "ship first#1 --name shipped --alias champion", "ship first#2 --name shipped --alias champion"
        " --unless-worse context_recall=.02",
        "watch shipped@champion", "watch missing@champion", "sync", "sync --uri sqlite:///b.db", "store list",
        "store evict --unreachable --yes",
    ],
    "golden sets": [
        "golden check golden.jsonl corpus=corpus.jsonl", "golden check table.csv corpus=corpus.jsonl",
        "golden import table.csv 'out=my set.jsonl' 'corpus=my docs.jsonl'",
        "golden gates 'my set.jsonl' 'corpus=my docs.jsonl'", "golden add golden.jsonl corpus=corpus.jsonl",
        "golden build 'corpus=my docs.jsonl' 'out=built here' questions=5", "golden partition golden.jsonl",
        "golden pool first golden=golden.jsonl 'out=my pool.jsonl'", "golden diff golden.jsonl 'my set.jsonl'",
        "golden export golden.jsonl format=ragas out=ragas.jsonl", "golden verify golden.jsonl corpus=corpus.jsonl",
        "golden harvest 'harvested here.jsonl' 'corpus=my docs.jsonl' log=log.jsonl", "golden items first",
    ],
}  # fmt: skip


def printed_commands(text: str) -> list[str]:
    return [found[1].strip() for found in PRINTED.finditer(text)]


def review(folder: Path, words: list[str]) -> str:
    """Open the page of a review, and end it."""
    with forked.Popen(
        [sys.executable, "-m", "ragsweep", *words], cwd=folder, env=user_environment(), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    return line


def run(folder: Path, words: list[str]) -> str:
    """Run a command of a user; a fault of its words, or of what they name, is a dead end."""
    if words[:2] == ["golden", "review"]:
        return review(folder, words)
    done = call(folder, *([RUN] if words[0] == "run.py" else ["-m", "ragsweep"]), *words[words[0] == "run.py" :])
    assert "Traceback" not in done.stderr, done.stderr
    return f"exit {done.returncode}\n{done.stdout}{done.stderr}"


def write_files(folder: Path) -> list[str]:
    data = write_dataset(folder)
    (folder / "my docs.jsonl").write_text((folder / "corpus.jsonl").read_text())
    (folder / "table.csv").write_text("id,question,answer\n1,where does the cat rest,The cat sleeps on the warm mat\n"
                                      "2,what is baked,Bread\n")  # fmt: skip
    write_rows(folder / "log.jsonl", [{"question": "who guards the yard"}])
    labels = [{"question_id": f"q{n}", "metric": "context_recall", "label": 1} for n in (1, 2, 3)]
    write_rows(folder / "labels.jsonl", labels)
    add_tables(folder)
    return data


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a folder with files and a sweep that is named first, and the overrides that choose its dataset."""
    folder = tmp_path_factory.mktemp("user")
    data = shlex.join(write_files(folder))
    run(folder, ["run", "-m", "top_k=1,2", "llm=extractive", "name=first", *shlex.split(data)])
    return folder, data


@pytest.mark.nightly
@pytest.mark.parametrize("group", COMMANDS)
def test_every_printed_command_runs(group: str, place: tuple[Path, str]) -> None:
    """Those that each command prints below its result and in its messages; and those that they print in turn."""
    folder, data = place
    ran: set[str] = set()
    for command in COMMANDS[group]:
        text = run(folder, shlex.split(command.format(data=data)))
        assert not text.startswith("exit 2") or "missing" in command or "taken" in command, f"{command}: {text}"
        waiting = printed_commands(text)
        while waiting:
            printed = waiting.pop()
            words = shlex.split(printed)
            for name, given in GIVEN.items():
                words = [re.sub(rf"\b{re.escape(name)}$", given, word) for word in words]
            if printed in ran or "..." in words or any(re.search(r"(^|=|@)[A-Z]{2,}\b", word) for word in words[1:]):
                continue
            ran.add(printed)
            text = run(folder, words[1:])
            assert not text.startswith("exit 2"), f"{command} prints {printed}: {text}"
            waiting += printed_commands(text)
    assert ran or group == "service"  # which advises where something is wrong
