"""Eleven secrets on three ways out of a run: none of them is in anything that was written or printed.

The ways out: the run succeeds, it fails (the service refuses the key), and it is killed. What is scanned: every file
below the folder it ran in (configs, logs, databases page by page, artifacts, stored answers) and what it printed; each
canary as it is, as base64, as JSON and as a part of a URL.
"""

import base64
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from llm_server import LlmServer, ModelRequest
from ragsweep.core.secrets import spellings
from support.commands import RUN, write_dataset, write_option
from support.servers import forked

pytestmark = pytest.mark.slow

CANARY = "cAnAry-7f3a91c2/e4+d8=b5"


class Way(NamedTuple):
    """How a canary gets in: into the environment, the command line, a file; and what the service does with it."""

    variables: Mapping[str, str] = {}
    overrides: tuple[str, ...] = ()
    prepare: Callable[[Path, str], None] | None = None
    echoes: str = ""  # where the service repeats the header: body or header
    refused: str = ""  # what is said to it before anything is run


def _config_literal(folder: Path, url: str) -> None:
    write_option(
        folder / "own",
        "llm/mine",
        f"defaults: [openai, _self_]\nbase_url: {url}\nmodel: m\nextra: {{api_key: '{CANARY}'}}\n",
    )


def _netrc(folder: Path, url: str) -> None:
    (folder / "home").mkdir()
    (folder / "home" / ".netrc").write_text(f"machine 127.0.0.1 login me password {CANARY}\n")
    (folder / "home" / ".netrc").chmod(0o600)


def _git_remote(folder: Path, url: str) -> None:
    for command in (["init", "-q"], ["remote", "add", "origin", f"https://me:{CANARY}@example.org/x.git"]):
        subprocess.run(["git", *command], cwd=folder, check=True)


def _raising(folder: Path, url: str) -> None:
    (folder / "raising.py").write_text(
        textwrap.dedent("""
            import os
            from dataclasses import replace
            from ragsweep.parts.generators import OpenAI

            class Raising(OpenAI):
                TRAITS = replace(OpenAI.TRAITS, version="1")

                def generate(self, requests, done):
                    super().generate(requests, done)
                    raise RuntimeError("sent " + os.environ["LLM_KEY"])
        """)
    )


OVERRIDE = "llm.base_url={url}"
PLAIN = ("llm.base_url={url}", "llm.key_env=LLM_KEY")
WAYS = {
    "environment": Way({"LLM_KEY": CANARY}, PLAIN),
    "config_literal": Way({}, ("llm=mine",), _config_literal, refused="a secret in a config ends up in files"),
    "url_user": Way({}, (f"llm.base_url='http://me:{CANARY}@127.0.0.1/v1'",), refused="no user, password or query"),
    "bearer": Way({"LLM_KEY": f"Bearer {CANARY}"}, PLAIN),
    "netrc": Way({}, (OVERRIDE, "llm.key_env=null"), _netrc),
    "database_url_in_environment": Way(
        {"MLFLOW_TRACKING_URI": f"postgresql://me:{quote(CANARY, safe='')}@127.0.0.1:9/x"},
        (OVERRIDE, "llm.key_env=null"),
    ),
    "exception_text": Way(
        {"LLM_KEY": CANARY, "RAGSWEEP_TRUSTED_PACKAGES": "raising"}, (*PLAIN, "llm._target_=raising.Raising"), _raising
    ),
    "echoed_in_body": Way({"LLM_KEY": CANARY}, PLAIN, echoes="body"),
    "echoed_in_header": Way({"LLM_KEY": CANARY}, (*PLAIN, "hydra.verbose=true"), echoes="header"),
    "several_lines": Way({"LLM_KEY": f"first line\n{CANARY}\nlast"}, PLAIN),
    "git_remote": Way({}, (OVERRIDE, "llm.key_env=null"), _git_remote),
}


def _surroundings(folder: Path, url: str) -> None:
    _netrc(folder, url)
    _git_remote(folder, url)
    _raising(folder, url)


TOGETHER = Way(
    {"LLM_KEY": CANARY, "OTHER_KEY": f"first line\n{CANARY}", "RAGSWEEP_TRUSTED_PACKAGES": "raising"},
    (*PLAIN, "hydra.verbose=true"), _surroundings, echoes="body",
)  # fmt: skip
"""Most of the cases in one run; the nightly tests try each one separately."""

QUICK = {("together", "failure"), *((name, "success") for name, way in WAYS.items() if way.refused)}
CASES = [
    pytest.param(name, way_out, marks=() if (name, way_out) in QUICK else pytest.mark.nightly)
    for name, way in {**WAYS, "together": TOGETHER}.items()
    for way_out in ("success", "failure", "kill")
    if not way.refused or way_out == "success"  # what is refused begins no run
]


class Echoing(LlmServer):
    """A server that repeats what it was sent as a key."""

    where = ""

    def respond(self, logged: Any) -> Any:
        response = super().respond(logged)
        key = logged.headers.get("Authorization", "")
        if self.where == "header":
            response.headers = {**response.headers, "X-Seen": key}
        if self.where == "body" and response.status != 200:
            response.content = b'{"error": "wrong key: %s"}' % key.encode()
        return response


def forms(secret: str) -> set[bytes]:
    """List the ways in which a secret could have been written."""
    several = {form.encode() for form in spellings(secret)}
    for offset in range(3):  # base64 of a text that holds it, at any place
        coded = base64.b64encode(b"x" * offset + secret.encode() + b"xxx")
        several.add(coded[4 : len(coded) // 4 * 4 - 8])
    return several


def found_in(folder: Path, printed: str, left_out: set[Path], canary: str = CANARY) -> list[str]:
    """Name the places where the canary is; the bytecode of a module that a person wrote has its constants."""
    sought = forms(canary)
    files = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    places = {str(path): path.read_bytes() for path in files if path not in left_out}
    places["(printed)"] = printed.encode()
    return sorted(name for name, content in places.items() if any(form in content for form in sought))


@pytest.mark.parametrize(("name", "way_out"), CASES)
def test_no_canary_is_found(name: str, way_out: str, tmp_path: Path, environment: dict[str, str]) -> None:
    way = {**WAYS, "together": TOGETHER}[name]

    def answer(asked: ModelRequest) -> str:
        return f"said {server.log[-1].headers.get('Authorization')}" if way.echoes == "body" else "said"

    overrides = [*write_dataset(tmp_path), "llm=openai", "llm.model=m", "store.path=store", "depth=5", "top_k=2"]
    with Echoing(answer, hang=60) as server:
        server.where = way.echoes
        server.faults = {"failure": {"unauthorised": 1.0}, "kill": {"hang": 0.9}}.get(way_out, {})
        if way.prepare:
            way.prepare(tmp_path, server.base_url)
        prepared = {path for path in tmp_path.rglob("*") if path.is_file()}
        variables = {**environment, "HOME": str(tmp_path / "home"), **way.variables}
        variables["PYTHONPATH"] = os.pathsep.join([str(tmp_path), variables.get("PYTHONPATH", "")])
        more = [one.format(url=server.base_url) for one in way.overrides]
        chosen = [one for one in overrides if one != "llm=openai" or "llm=mine" not in more]
        flags = ["--config-dir", str(tmp_path / "own")] if "llm=mine" in more else []
        command = [sys.executable, RUN, *flags, *chosen, *more, "~metrics.semantic_similarity"]
        child = forked.Popen(
            command, cwd=tmp_path, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if way_out == "kill" and not way.refused:
            _kill_when_asked(child, server)
        out, err = child.communicate(timeout=120)
        sent = [header for one in server.log for header in one.headers.values() if CANARY in header]
    assert found_in(tmp_path, out + err, prepared) == []
    expected = {"success": 0, "failure": 1, "kill": -signal.SIGKILL}[way_out]
    if way.refused or name == "several_lines":
        assert child.returncode in (1, 2), err
        assert way.refused in err
        assert server.log == []
    else:
        fails = name in ("exception_text", "database_url_in_environment")  # the latter: there is no such database
        assert child.returncode == (1 if fails and way_out == "success" else expected), err
        assert bool(sent) == ("LLM_KEY" in way.variables)
        assert server.log


def _kill_when_asked(child: forked.Popen, server: LlmServer) -> None:
    while not server.log and child.poll() is None:
        time.sleep(0.02)
    time.sleep(0.2)
    child.kill()
