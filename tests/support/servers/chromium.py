"""Drive a page in headless Chromium as a person does, through the browser's debugging pipe."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BROWSER = shutil.which("chromium")
HEADLESS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
NAMED: dict[str, dict[str, Any]] = {"Enter": {"text": "\r", "windowsVirtualKeyCode": 13}, "Escape": {}}


class Page:
    """An open page."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read, self._pending, self._number, self._session = write, read, b"", 0, ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the browser and return its result."""
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._number, "method": method, "params": parameters, **session}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._pending:
                self._pending += os.read(self._read, 1 << 16)
            text, _, self._pending = self._pending.partition(b"\0")
            reply = json.loads(text)
            if reply.get("id") == self._number:
                assert "error" not in reply, reply
                return reply["result"]

    def open(self, url: str, until: str) -> None:
        """Open an address, and wait until an expression is true."""
        self.call("Page.navigate", url=url)
        self.wait(until)

    def value(self, expression: str) -> Any:
        """Evaluate an expression in the page."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + 20
        while not self.value(f"Boolean({expression})"):
            assert time.monotonic() < end, f"{expression}: {self.value('document.body.innerText')}"
            time.sleep(0.02)

    def press(self, key: str, modifiers: int = 0) -> None:
        """Press a key: a letter, Enter or Escape; ``modifiers`` is 2 for Control."""
        typed = {} if modifiers else NAMED.get(key, {"text": key})
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, modifiers=modifiers, **typed)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, modifiers=modifiers)


@contextmanager
def page(profile: Path) -> Iterator[Page]:
    """Start a browser with an empty page."""
    ours, theirs = os.pipe(), os.pipe()  # read and write ends: we write to the first, and read from the second
    own = ["--remote-debugging-pipe", f"--user-data-dir={profile}", "--window-size=1100,900"]
    shell = f'exec 3<&{ours[0]} 4>&{theirs[1]} "$@"'  # Chromium reads from descriptor 3, and writes to 4
    browser = subprocess.Popen(
        ["bash", "-c", shell, "bash", str(BROWSER), *HEADLESS, *own], pass_fds=(ours[0], theirs[1]),
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield Page(ours[1], theirs[0])
    finally:
        browser.kill()
        browser.wait(30)
        for end in (*ours, *theirs):
            os.close(end)
