"""What a run writes is for its owner, and a run talks to nobody that it was not told of."""

import os
import socket
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ragsweep.parts.tracking import Mlflow, NoTracking
from ragsweep.records.ledger import Ledger
from support.commands import ROOT, RUN, Ragsweep, printed, user_environment, write_dataset

LISTENER = """
import os, sys

def listen(name, details):
    if name in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        with open(os.environ["HEARD"], "a") as file:
            file.write(f"{name} {details[1:] if name == 'socket.connect' else details}\\n")

sys.addaudithook(listen)
"""


MASKED = "import os, runpy, sys; os.umask(0o077); del sys.argv[0]; runpy.run_path(sys.argv[0], None, '__main__')"


def modes(folder: Path) -> dict[Path, int]:
    """Return the modes of what a run wrote: its store, its outputs, and what it recorded."""
    written = [path for name in (".ragsweep", "outputs", "mlflow.db", "mlartifacts") for path in folder.glob(name)]
    return {path: stat.S_IMODE(path.stat().st_mode) for root in written for path in (root, *root.rglob("*"))}


def check(found: dict[Path, int]) -> None:
    assert {path for path, mode in found.items() if mode & 0o007} == set()
    store = {path: mode for path, mode in found.items() if ".ragsweep" in path.parts}
    assert {"ledger.db", "stages", "whole"} <= {path.name for path in store}
    assert {(path, mode) for path, mode in store.items() if mode != (0o700 if path.is_dir() else 0o600)} == set()


def test_stricter_mask_stays(tmp_path: Path) -> None:
    printed(tmp_path, "-c", MASKED, RUN, *write_dataset(tmp_path), "tracking=none")
    found = modes(tmp_path)
    check(found)
    assert {path for path, mode in found.items() if mode & 0o070} == set()


@pytest.mark.nightly
def test_run_and_its_imports_talk_to_nobody_and_write_for_their_owner(tmp_path: Path) -> None:
    (tmp_path / "heard").write_text("")
    (tmp_path / "sitecustomize.py").write_text(LISTENER)
    done = subprocess.run(
        [sys.executable, RUN, *write_dataset(tmp_path)[:-1], "retriever=hybrid_rrf"], cwd=tmp_path, umask=0,
        env=user_environment(PYTHONPATH=str(tmp_path), HEARD=str(tmp_path / "heard")), capture_output=True, text=True,
        check=False, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "heard").read_text() == ""
    found = modes(tmp_path)
    check(found)
    assert {"mlflow.db", "outputs", "config.yaml"} <= {path.name for path in found}


def test_ledger_and_folders_above_it_are_their_owners_outside_the_command(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ledger = Ledger(tmp_path / "a" / "b")  # held: one that is forgotten takes its log away while it is looked at
        ledger.sweeps()
    finally:
        os.umask(before)
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert {name for name, mode in found.items() if mode & 0o077} == set()
    assert found.keys() >= {"a", "b", "ledger.db"}


def test_listener_hears(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(LISTENER)
    code = textwrap.dedent("""
        import socket
        from contextlib import suppress
        with suppress(OSError):
            socket.create_connection(("localhost", 9), timeout=1)
    """)
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(tmp_path), "HEARD": str(tmp_path / "heard")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    heard = (tmp_path / "heard").read_text()
    assert "socket.getaddrinfo ('localhost', 9" in heard
    assert "socket.connect" in heard


@pytest.mark.parametrize(
    ("uri", "variable", "risky"),
    [
        ("http://elsewhere:5000", "MLFLOW_TRACKING_TOKEN", True),
        ("http://elsewhere:5000", None, False),
        ("http://me:geheim@elsewhere:5000", None, True),
        ("https://elsewhere:5000", "MLFLOW_TRACKING_TOKEN", False),
        ("http://127.0.0.1:5000", "MLFLOW_TRACKING_TOKEN", False),
        ("http://localhost:5000", "MLFLOW_TRACKING_TOKEN", False),
        ("http://[::1]:5000", "MLFLOW_TRACKING_TOKEN", False),
        ("sqlite:///mlflow.db", "MLFLOW_TRACKING_TOKEN", False),
    ],
)
def test_credentials_over_an_open_line_are_a_warning_without_them(
    uri: str, variable: str | None, risky: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "geheim")
    said = Mlflow(uri).risk()
    assert ("sent unencrypted" in said) == risky
    assert "geheim" not in said
    assert NoTracking().risk() == ""


def test_command_says_that_credentials_are_sent_over_an_open_line(ragsweep: Ragsweep, tmp_path: Path) -> None:
    with socket.create_server(("0.0.0.0", 0)) as silent:
        uri = f"http://0.0.0.0:{silent.getsockname()[1]}"  # this machine, by a name that is not a loopback name
        given = {"MLFLOW_TRACKING_TOKEN": "geheim", "MLFLOW_HTTP_REQUEST_TIMEOUT": "1"}
        done = ragsweep(*write_dataset(tmp_path), f"tracking.uri={uri}", **given)
    assert f"warning   {uri}: the credentials for MLflow are sent unencrypted" in done.stdout
    assert "geheim" not in done.stdout + done.stderr


def test_what_the_pages_tell_to_type_opens_no_port_to_the_network() -> None:
    names = ("README.md", "CONTRIBUTING.md", "Makefile", "MLproject")
    pages = [*(ROOT / name for name in names), *ROOT.glob("docs/*.md")]
    said = "\n".join(page.read_text() for page in pages)
    assert "mlflow ui" in said  # which listens on 127.0.0.1
    for opening in ("0.0.0.0", "--host", "-h 0", "[::]"):
        assert opening not in said
