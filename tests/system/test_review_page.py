"""The review page in a browser: judged by keyboard, its server killed midway, and nothing lost or doubled."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ragsweep_golden.sets.files import write_rows
from support.servers.chromium import BROWSER, Page, page

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
COUNT = 200


@contextmanager
def review(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start ``ragsweep golden review`` and give the page's address; killed at the end."""
    command = [sys.executable, "-m", "ragsweep", "golden", "review", "golden.jsonl", "reviewer=anna", *words]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, env={**os.environ})
    assert server.stdout is not None
    try:
        lines = iter(server.stdout.readline, "")
        yield server, next(found[0] for line in lines if (found := re.search(r"http://\S+", line)))
    finally:
        server.kill()
        server.wait(30)
        server.stdout.close()


def judged(opened: Page) -> int:
    return int(opened.value("document.title.split(' ')[0]"))


@pytest.mark.nightly
@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_two_hundred_judgements_by_keyboard_survive_a_kill_midway(tmp_path: Path) -> None:
    entries = [
        {"id": f"q{n}", "question": f"What is in passage {n}? {HOSTILE}", "reference": HOSTILE,
         "history": [{"role": "user", "text": HOSTILE}],
         "evidence": [{"document": "d", "anchor": "some words"}], "content": {"passage": f"some words {HOSTILE}"},
         "audit": {"status": "silver"}}
        for n in range(COUNT)
    ]  # fmt: skip
    write_rows(tmp_path / "golden.jsonl", entries)
    with page(tmp_path / "profile") as opened:
        with review(tmp_path) as (server, address):
            opened.open(address, "document.querySelector('h1')")
            assert opened.value("document.querySelector('h1').textContent") == entries[0]["question"]
            assert opened.value("document.querySelector('.turn').textContent") == f"user: {HOSTILE}"
            for n in range(COUNT // 2):
                opened.press("r" if n % 10 == 3 else "a")
            opened.wait(f"document.title.startsWith('{COUNT // 2} ')")
            for key in "aaaaa":  # in flight when it dies: each is kept, or reported
                opened.press(key)
            server.send_signal(signal.SIGKILL)
            opened.press("a")
            opened.wait("!document.querySelector('.fault').hidden")
            confirmed = judged(opened)
            assert confirmed >= COUNT // 2
        with review(tmp_path) as (server, address):
            opened.open(address, "document.querySelector('h1')")
            left = int(opened.value("document.title.split(' ')[2]"))
            assert confirmed <= COUNT - left <= confirmed + 1  # one may be on the disk, and its reply was not sent
            opened.press("j")
            opened.press("k")
            opened.press("e")
            opened.wait("document.activeElement.name === 'question'")
            opened.call("Input.insertText", text=" Corrected?")
            opened.press("Enter", modifiers=2)
            opened.wait("document.title.startsWith('1 of')")
            for key in "ru":  # rejected, and taken back
                opened.press(key)
            for _ in range(left - 1):
                opened.press("a")
            opened.wait(f"document.title.startsWith('{left} of')")
            assert opened.value("document.querySelector('h1').textContent") == "All judged"
            opened.press("Enter")
            opened.wait("document.body.innerText.includes('You can close this page')")
            assert server.wait(20) == 0
        assert opened.value("document.querySelectorAll('img, iframe').length") == 0
    found = [json.loads(line) for line in (tmp_path / "golden.jsonl").read_text().splitlines()]
    assert [one["id"] for one in found] == [one["id"] for one in entries]
    assert [len(one["audit"]["reviews"]) for one in found] == [1] * COUNT
    rejected = [one["id"] for one in found if one.get("validation", {}).get("status") == "rejected"]
    assert rejected == [f"q{n}" for n in range(COUNT // 2) if n % 10 == 3]
    assert [one["id"] for one in found if "Corrected?" in one["question"]] == [f"q{COUNT - left}"]
    assert sum(one["audit"]["status"] == "gold" for one in found) == COUNT - len(rejected)
    assert not (tmp_path / "golden.jsonl.reviews.jsonl").exists()
