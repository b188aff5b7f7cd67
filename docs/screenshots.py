"""Make the pictures in docs/pictures: the demo's sweep in a terminal, on its page, and in MLflow.

Needs Chromium. From the clone: .venv/bin/python docs/screenshots.py

Runs the sweep in the folder demo of the temporary directory (minutes), or shows it if it is already finished there.
"""

import base64
import io
import itertools
import json
import os
import pty
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from PIL import Image
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
BIN = Path(sys.executable).parent
COLOURS = 256
BROWSER = [
    "chromium",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
]
FOLDER = Path(tempfile.gettempdir()) / "demo"
"""The working directory; MLflow displays the paths of artifacts, so its name appears in the pictures."""
PATIENCE, SETTLING = 120, 3
"""Maximum seconds until a page contains the expected text, and further seconds until it is completely drawn."""
CLICKS = "for (const place of ['button[aria-label=Close]', '.ag-row button']) document.querySelector(place)?.click()"
"""Closes the assistant that MLflow opens in every new browser, and unfolds the configs in its list of sweeps."""


def main() -> None:
    """Run the demo's sweep, and take the pictures."""
    PICTURES.mkdir(exist_ok=True)
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, browser(Path(temporary) / "profile") as page:
        _show(100)
        for columns in (100, 160):
            drawing = Path(temporary) / "terminal.svg"
            drawing.write_text(_draw(_show(columns), columns), encoding="utf-8")
            width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing.read_text(encoding="utf-8"))[0]
            page.photograph(f"file://{drawing}", f"terminal_{columns}", int(float(width)), int(float(height)))
        parent, *children = _runs(f"sqlite:///{FOLDER}/mlflow.db")
        report = [BIN / "python", "-m", "ragsweep", "report", parent[:8], "-o", f"{temporary}/report.html"]
        subprocess.run(report, cwd=FOLDER, check=True, stdout=subprocess.DEVNULL)
        for theme in ("light", "dark"):
            page.photograph(f"file://{temporary}/report.html", f"report_desktop_{theme}", 1280, 1850, theme)
            page.photograph(f"file://{temporary}/report.html", f"report_phone_{theme}", 390, 1500, theme)
        tags = {run: MlflowClient(f"sqlite:///{FOLDER}/mlflow.db").get_run(run).data.tags for run in children}
        tabled = next(run for run in children if "mlflow.loggedArtifacts" in tags[run])
        with _mlflow() as server:
            compared = ",".join(f'"{run}"' for run in children)
            for name, path, shown in (
                ("list", "experiments/1/runs?", "demo: "),
                ("parent", f"experiments/1/runs/{parent}?", "Child runs"),
                ("child", f"experiments/1/runs/{children[0]}?", "context_ndcg"),
                ("compare", f'compare-runs?runs=[{compared}]&experiments=["1"]&', "Run details"),
                ("evaluation", f"experiments/1/runs/{tabled}/artifacts/questions.json?", "factual-001"),
            ):
                address = f"{server}/#/{path}workflowType=machine_learning"
                page.photograph(address, f"mlflow_{name}", 1900 if name == "evaluation" else 1500, 1000, shown=shown)


def _show(columns: int) -> str:
    """Run the demo, or show it again, on a pseudo-terminal; return its output."""
    main_end, terminal = pty.openpty()
    environment = {
        **os.environ,
        "COLUMNS": str(columns),
        "TERM": "xterm-256color",
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }
    command = [BIN / "python", ROOT / "run.py", "-m", "sweeps=demo"]
    process = subprocess.Popen(command, cwd=FOLDER, env=environment, stdout=terminal, stderr=terminal)
    os.close(terminal)
    printed = bytearray()
    while block := _read(main_end):
        printed += block
    os.close(main_end)
    if process.wait():
        raise SystemExit(printed.decode())
    return printed.decode().replace("\r\n", "\n")


def _read(end: int) -> bytes:
    """Read from a pseudo-terminal; return no bytes if its program has ended."""
    try:
        return os.read(end, 65536)
    except OSError:
        return b""


def _draw(printed: str, columns: int) -> str:
    """Draw a terminal as SVG."""
    console = Console(record=True, width=columns, file=io.StringIO())
    console.print(Text("$ python run.py -m sweeps=demo", style="bold"))
    console.print(Text.from_ansi(printed), overflow="fold")
    return console.export_svg(title=f"{columns} columns")


def _runs(address: str) -> list[str]:
    """Return the id of the sweep's run, and those of its configs' runs, the best first."""
    runs = MlflowClient(address).search_runs(["1"], order_by=["metrics.context_ndcg DESC"])
    parents = [run.info.run_id for run in runs if run.data.tags["ragsweep.kind"] == "sweep"]
    return parents + [run.info.run_id for run in runs if run.info.run_id not in parents]


@contextmanager
def _mlflow() -> Iterator[str]:
    """Serve MLflow's pages about the demo's runs; yield the address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [BIN / "mlflow", "server", "--backend-store-uri", f"sqlite:///{FOLDER}/mlflow.db", "--port", str(port)]
    server = subprocess.Popen([*command, "--workers", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1)
                break
            except OSError:
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


class Page:
    """A page in Chromium, controlled by the DevTools protocol over a pipe: JSON messages that end with a zero byte."""

    def __init__(self, writer: int, reader: int) -> None:
        self._writer, self._reader = os.fdopen(writer, "wb"), os.fdopen(reader, "rb")
        self._numbers, self._session = itertools.count(1), {}
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}

    def photograph(
        self, address: str, name: str, width: int, height: int, theme: str = "light", shown: str = ""
    ) -> None:
        """Open an address in a window of a given size, wait until it contains ``shown``, and save a screenshot."""
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        self._call("Emulation.setEmulatedMedia", features=features)
        self._call("Page.navigate", url="about:blank")
        self._call("Page.navigate", url=address)
        ready = (
            f"document.readyState == 'complete' && document.documentElement.textContent.includes({json.dumps(shown)})"
        )
        give_up = time.monotonic() + PATIENCE
        while not self._call("Runtime.evaluate", expression=ready)["result"].get("value"):
            if time.monotonic() > give_up:
                raise SystemExit(f"{address} does not show {shown!r}")
            time.sleep(0.5)
        time.sleep(SETTLING)
        self._call("Runtime.evaluate", expression=CLICKS)
        time.sleep(SETTLING)
        picture = Image.open(io.BytesIO(base64.b64decode(self._call("Page.captureScreenshot")["data"])))
        picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(PICTURES / f"{name}.png", optimize=True)
        print(f"{name}.png  {(PICTURES / f'{name}.png').stat().st_size // 1000:,} kB")

    def _call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters, **self._session}
        self._writer.write(json.dumps(message).encode() + b"\0")
        self._writer.flush()
        while True:
            answer = json.loads(b"".join(iter(lambda: self._reader.read(1), b"\0")))
            if answer.get("id") == number:
                return answer["result"]


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """Start Chromium, which reads from descriptor 3 and writes to descriptor 4; yield a page."""
    from_us, to_browser = os.pipe()
    from_browser, to_us = os.pipe()
    pipes = ["bash", "-c", f'exec "$@" 3<&{from_us} 4>&{to_us}', "bash"]
    process = subprocess.Popen(
        [*pipes, *BROWSER, f"--user-data-dir={profile}"], pass_fds=(from_us, to_us), stderr=subprocess.DEVNULL
    )
    os.close(from_us)
    os.close(to_us)
    try:
        yield Page(to_browser, from_browser)
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(profile, ignore_errors=True)


if __name__ == "__main__":
    main()
