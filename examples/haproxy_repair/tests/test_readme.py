"""The commands of the README run as they are written, with a model on this machine that often replies badly."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from haproxy_repair import corpus
from haproxy_repair.cases import read_cases
from scripted_model import ScriptedModel

FOLDER = Path(__file__).resolve().parents[1]
BAD = ("I would look at the log.", '{"findings": [', "[" * 100_000, '{"findings": null, "config": NaN}',
       '{"findings": [], "config": "\\ud800\\u0000"}', "9" * 5000)  # fmt: skip
"""Replies that cannot be read, and one whose configuration is refused."""


class Model(ScriptedModel):
    """A model that repairs with passages what it leaves as it is without, and replies badly to hard cases."""

    def reply(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Return the expected repair of the case in the prompt where there are passages."""
        prompt = messages[-1]["content"]
        number, case = next((n, one) for n, one in enumerate(read_cases()) if one["input"].strip() in prompt)
        helped = "<passage " in prompt
        answer = {"findings": case["findings"] if helped else [], "config": case["expected" if helped else "input"]}
        return BAD[number % len(BAD)] if case["difficulty"] == "hard" else json.dumps(answer)


@contextmanager
def served(model: type[ScriptedModel]) -> Iterator[str]:
    """Serve a model."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), model)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Serve the model."""
    with served(Model) as address:
        yield address


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with the manual and the cases, as ``make demo`` makes them."""
    made = tmp_path_factory.mktemp("readme")
    code = f"import sys; sys.argv = ['', 'haproxy_data']; from {corpus.__name__} import main; main()"
    subprocess.run([sys.executable, "-c", code], cwd=made, check=True, capture_output=True)
    return made


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command line of the README with this interpreter, on a sample of the cases where it runs any."""
    line = re.sub(r"^ragsweep", f"{sys.executable} -m ragsweep", command)
    line += " dataset.limit=20" if re.search(r"ragsweep run|run\.py", line) else ""
    environment = {"RAGSWEEP_TRUSTED_PACKAGES": "haproxy_repair", "OPENAI_API_KEY": "none", "NO_PROXY": "127.0.0.1"}
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def commands() -> list[str]:
    """List the README's command lines of ragsweep, each as one line."""
    blocks = re.findall(r"^    (\S.*)$", (FOLDER / "README.md").read_text("utf-8").replace("\\\n", " "), re.MULTILINE)
    return [re.sub(r"\s+", " ", line) for line in blocks if line.startswith("ragsweep ")]


def test_commands_with_a_model(folder: Path, url: str) -> None:
    """Unreadable replies end none of them; the gate decides, and its exit status is that of a pass."""
    lines = commands()
    assert [line.split()[1] for line in lines] == ["run", "compare", "gate"]
    for line in lines:
        done = run(line.replace("llm=openai", f"llm=openai llm.base_url={url}"), folder)
        assert done.returncode == 0, line + done.stdout + done.stderr
        if " run " in line:
            assert "replies could not be read" in done.stdout + done.stderr
            assert "PARTIAL" not in done.stdout + done.stderr
            assert "several models" not in done.stdout  # a reply that was cut has the name in the config
    assert done.stdout.startswith("gate      pass")
    assert (folder / "model_report" / "comparison.html").is_file()


class Babbler(ScriptedModel):
    """A model that repeats itself until its tokens are spent."""

    def reply(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Return a reply longer than any limit."""
        return "maxconn_" * 100_000


def test_commands_with_a_model_of_which_nothing_can_be_read(folder: Path) -> None:
    """The replies are counted, configs compared by that count, and the gate is refused with the reason."""
    with served(Babbler) as url:
        *measured, gate = [
            run(line.replace("llm=openai", f"llm=openai llm.base_url={url}"), folder)
            for line in (re.sub(r"(?<=[ =])model(?=[# ]|$)", "babbler", one) for one in commands())
        ]
    for done in measured:
        assert done.returncode == 0, done.stdout + done.stderr
    assert "20 of 20 replies could not be read" in re.sub(r"\s+", " ", measured[0].stdout)
    assert gate.returncode == 3
    assert "detection: no question of #1 retriever=none could be scored: 20 unreadable output" in gate.stdout


def test_options_of_the_text(folder: Path, url: str) -> None:
    """The overrides that the README names within its text are accepted."""
    text = (FOLDER / "README.md").read_text("utf-8")
    options = re.findall(r"`('?(?:dataset|llm)\.\w+=[^`]+)`", text)
    assert len(options) == 3
    line = commands()[0].replace("llm=openai", f"llm=openai llm.base_url={url}").replace("name=model", "name=other")
    done = run(f"{line} llm.temperature=.5 {' '.join(options)}", folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_demo(folder: Path) -> None:
    """``make demo`` runs the sweep of all generators and compares the first two."""
    made = subprocess.run(
        ["make", "-n", "demo", f"PYTHON={sys.executable}", f"RUN={sys.executable} -m ragsweep run"],
        cwd=FOLDER, capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [line for line in made.stdout.splitlines() if " ragsweep run" in line or " ragsweep compare" in line]
    assert len(lines) == 2
    for line in lines:
        done = run(line, folder)
        assert done.returncode == 0, line + done.stdout + done.stderr
    assert (folder / "haproxy_report" / "comparison.html").is_file()


def test_git_ignores_what_the_commands_leave(folder: Path) -> None:
    """Whatever the tests above wrote would not appear in the status of a clone."""
    left = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in folder.iterdir())
    assert {"haproxy_data/", "model_report/", "haproxy_report/", "mlflow.db"} <= set(left)
    found = subprocess.run(
        ["git", "check-ignore", "--no-index", *left], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    if found.returncode > 1:
        pytest.skip(f"no checkout: {found.stderr.strip()}")
    assert sorted(found.stdout.split()) == left
