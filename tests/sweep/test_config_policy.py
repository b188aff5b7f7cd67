"""A config can only choose among our parts: a hostile config runs no other code."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.commands import ROOT, user_environment, write_dataset
from support.inputs.hostile_configs import BOMBS, PAYLOADS, Payload

CANARY = """
import os
os.mkdir(os.environ["CANARY"] + "-imported")
def act(*values, **more):
    os.mkdir(os.environ["CANARY"] + "-called")
"""

CHILD = """
import contextlib, io, json, os, sys, time
from pathlib import Path
from ragsweep.commands import cli
payloads, folder, dataset = json.load(sys.stdin)
told, known, events = {}, {"sitecustomize"}, []
seen = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "socket.connect",
        "socket.getaddrinfo", "socket.bind", "ctypes.dlopen", "pickle.find_class", "urllib.Request", "os.mkdir",
        "os.remove", "os.rename", "shutil.rmtree", "os.putenv")

def writes(path, mode, flags):
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))

def listen(name, details):
    if not listening:
        return
    if name == "import" and details[0].partition(".")[0] not in known:
        events.append(f"import {details[0]}")
    elif name in seen:
        events.append(f"{name} {details[:1]!r}")
    elif name == "open" and isinstance(details[2], int) and writes(*details):
        events.append(f"open {details[0]!r}")

def call(arguments):
    screen = io.StringIO()
    with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
        try:
            cli.run(arguments)
        except SystemExit as end:
            return end.code, screen.getvalue()
        except BaseException as fault:
            return repr(fault)[:500], screen.getvalue()[:2000]

listening = False
sys.addaudithook(listen)
warm = Path(folder, "warm")
warm.mkdir()
os.chdir(warm)
assert (came := call(["plan=true", *dataset]))[0] == 0, came
known |= {name.partition(".")[0] for name in sys.modules}
for name, payload in payloads.items():
    here = Path(folder, str(len(told))) if payload["files"] else warm
    here.mkdir(exist_ok=True)
    for path, text in payload["files"].items():
        (here / path).parent.mkdir(parents=True, exist_ok=True)
        (here / path).write_text(text)
    os.chdir(here)
    events, listening, started = [], True, time.process_time()
    status, said = call([*payload["arguments"], *dataset])
    listening = False
    told[name] = [status, said, events, time.process_time() - started]
# Not ru_maxrss: that is never below what the process had that started this one.
peak = 1024 * int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
sys.__stdout__.write("\\n" + json.dumps([told, peak]))
"""


def attacked(payloads: dict[str, Payload], folder: Path, limit: int | None = None) -> tuple[dict[str, Any], int]:
    """Type every command in a folder of its own, in one process; return what it did, and the most memory it took."""
    dataset = [f"{line.replace('=', f'={folder}/')}" if "jsonl" in line and "." in line else line
               for line in write_dataset(folder)]  # fmt: skip
    (folder / "canary.py").write_text(CANARY)
    plain = {name: dataclasses.asdict(payload) for name, payload in payloads.items()}
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))\n" if limit else ""
    done = subprocess.run(
        [sys.executable, "-c", limited + CHILD], cwd=folder, env=environment(folder), capture_output=True, text=True,
        input=json.dumps([plain, str(folder), dataset]), check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told, peak = json.loads(done.stdout.splitlines()[-1])
    return told, peak


def environment(folder: Path) -> dict[str, str]:
    own = {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]), "CANARY_TOKEN": "sesame"}
    return user_environment(**own, CANARY=str(folder / "pwned"), OPENBLAS_NUM_THREADS="1")


DAILY = ("alias in a package of parts", "pickle in numpy", "in arguments", "option file", "searched folder",
         "named sweep", "enqueued", "function of a search", "callback", "cluster of a launcher",
         "log handler's factory", "log outside by the job's name", "programs by a variable", "secret as a value",
         "help", "YAML that calls")  # fmt: skip
"""A payload for each way in."""


@pytest.fixture(scope="module")
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Type the commands of the tests that are run."""
    tests = [item for item in request.session.items if isinstance(item, pytest.Function)]
    asked = {
        item.callspec.params["name"]
        for item in tests
        if item.path == request.path and "told" in item.fixturenames  # other files have a fixture of that name
    }
    chosen = {name: payload for name, payload in PAYLOADS.items() if name in asked}
    return attacked(chosen, tmp_path_factory.mktemp("attacked"))[0]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in DAILY else [pytest.mark.nightly]) for name in PAYLOADS]
)
def test_hostile_config_is_refused_with_its_key_and_has_no_effect(name: str, told: dict[str, Any]) -> None:
    status, said, events, _ = told[name]
    assert status == 2, said
    assert PAYLOADS[name].key in said
    assert "Traceback" not in said
    assert "sesame" not in said
    assert events == []


@pytest.mark.parametrize("name", ["os.system", pytest.param("package to search", marks=pytest.mark.nightly)])
def test_hostile_config_has_no_effect_through_the_real_command(name: str, tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path)
    (tmp_path / "canary.py").write_text(CANARY)
    for path, text in PAYLOADS[name].files.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    before = sorted(tmp_path.rglob("*"))
    done = subprocess.run(
        [sys.executable, str(ROOT / "run.py"), *PAYLOADS[name].arguments, *dataset], cwd=tmp_path,
        env=environment(tmp_path), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stdout + done.stderr
    assert PAYLOADS[name].key in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.nightly
def test_bombs_are_refused_before_they_go_off(tmp_path: Path) -> None:
    told, peak = attacked(BOMBS, tmp_path, limit=500_000_000)
    for name, (status, said, events, seconds) in told.items():
        assert status == 2, (name, status, said)
        assert BOMBS[name].key in said, (name, said[:300])
        assert len(said) < 1000, name
        assert events == [], name
        assert seconds < 2, name
    assert peak < 500_000_000
