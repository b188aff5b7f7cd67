"""Check configurations by the real ``haproxy -c``, in a sandbox: ``python -m haproxy_repair.validator FILE``.

HAProxy runs without privileges (as nobody where this process is root), with an empty environment, in a temporary folder
that contains nothing but the configuration, and with limits of time, memory and output. Whatever makes it read another
file, load code or start a program while it checks is refused before it starts: see :func:`refuse`.

A name in place of an address is resolved by the C library, so that its check depends on the network.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from pwd import getpwnam
from typing import NamedTuple

from haproxy_repair.lines import SECTIONS, Line, read_lines, word_set

NAME = "repair.cfg"
LONGEST = 65_536
"""Bytes of a configuration, and of HAProxy's output that is read."""

SECONDS = 10
MEMORY = 1 << 30
MOST = 4096
"""Number of verdicts that are cached."""

MISSING = "haproxy is missing: apt-get install haproxy"

FILE_DIRECTIVES = word_set("""
    backing-file ca-base crt-base default-path errorfile external-check h1-case-adjust-file
    httpclient.ssl.ca-file insecure-fork-wanted insecure-setuid-wanted issuers-chain-path load
    load-server-state-from-file lua-load lua-load-per-thread lua-prepend-path parse-resolv-conf presetenv
    resetenv server-state-base server-state-file server-state-file-name setenv ssl-dh-param-file ssl-engine
    ssl-provider ssl-provider-path unsetenv wurfl-data-file wurfl-patch-file 51degrees-data-file
    deviceatlas-json-file
""")
"""Directives that read or write files, load code, start programs, or change the environment."""

FILE_PARAMETERS = word_set("ca-file ca-sign-file ca-verify-file crl-file crt crt-list namespace tls-ticket-keys")
"""Parameters of bind and server lines that name files."""

SOCKET_LINES = frozenset({"bind", "default-bind", "server", "default-server", "server-template", "stats", "dgram-bind"})
ACTION_LINES = ("http-", "tcp-request", "tcp-response")
ACTION_FILES = frozenset({"errorfile", "file", "lf-file"})
FILE_FUNCTION = re.compile(r"\b(?:map(?:_\w+)?|jwt_verify)\(|^(?:(?:add|del)-(?:acl|map)|set-map)\(")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

MESSAGE = re.compile(r"^\[(ALERT|WARNING)\]\s+\(\d+\) : (.*)$", re.MULTILINE)
PLACE = re.compile(rf"\[{re.escape(NAME)}:(\d+)\]")
SUMMARIES = ("config : Error(s) found in configuration file", "config : Fatal errors found in configuration")


class Message(NamedTuple):
    """An alert or a warning; line 0 where it names no place."""

    line: int
    text: str


class Verdict(NamedTuple):
    """What ``haproxy -c`` said of a configuration; or why it was not started, or not finished."""

    accepted: bool
    alerts: tuple[Message, ...] = ()
    warnings: tuple[Message, ...] = ()
    refused: str = ""

    @property
    def error_count(self) -> int:
        """Count the alerts that name a file and line; what is not accepted for other reasons counts 1."""
        return sum(alert.line > 0 for alert in self.alerts) or int(not self.accepted)

    @property
    def warning_count(self) -> int:
        """Count the warnings that name a file and line."""
        return sum(warning.line > 0 for warning in self.warnings)

    @property
    def report(self) -> str:
        """Alerts and warnings, one a line."""
        return "\n".join(message.text for message in (*self.alerts, *self.warnings)) or self.refused


def find_haproxy() -> str:
    """Return the program's path; raises FileNotFoundError, with the package's name, where there is none."""
    found = shutil.which("haproxy", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    if found is None:
        raise FileNotFoundError(MISSING)
    return found


@lru_cache(MOST)
def check(text: str) -> Verdict:
    """Check a configuration; equal texts are checked once."""
    haproxy = find_haproxy()
    if reason := refuse(text):
        return Verdict(False, refused=reason)
    with tempfile.TemporaryDirectory(prefix="haproxy_repair_") as folder:
        os.chmod(folder, 0o755)  # noqa: PTH101
        file = Path(folder, NAME)
        file.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")
        file.chmod(0o644)
        return _run(haproxy, folder)


def _run(haproxy: str, folder: str) -> Verdict:
    limits = ["prlimit", f"--as={MEMORY}", f"--cpu={SECONDS}", f"--fsize={LONGEST}", "--core=0", "--nofile=256", "--"]
    nobody = {"user": "nobody", "group": getpwnam("nobody").pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    with tempfile.TemporaryFile() as output:  # a file of the child, so that its limit bounds the output
        try:
            status = subprocess.run(
                [*limits, haproxy, "-c", "-f", NAME], cwd=folder, env={"PATH": os.defpath}, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, timeout=SECONDS, check=False, **nobody,  # type: ignore[call-overload]
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            return Verdict(False, refused=f"haproxy -c took longer than {SECONDS} seconds")
        output.seek(0)
        said = output.read(LONGEST).decode("utf-8", "replace")
    if status < 0:
        return Verdict(False, refused=f"haproxy -c ended by signal {-status}")
    return read_verdict(said, status == 0)


def read_verdict(said: str, accepted: bool) -> Verdict:
    """Read the messages of ``haproxy -c``, closing summary lines left out."""
    kinds: dict[str, list[Message]] = {"ALERT": [], "WARNING": []}
    for kind, text in MESSAGE.findall(said):
        if not text.startswith(SUMMARIES):
            place = PLACE.search(text)
            kinds[kind].append(Message(int(place[1]) if place else 0, text))
    return Verdict(accepted, tuple(kinds["ALERT"]), tuple(kinds["WARNING"]))


def refuse(text: str) -> str:
    """Return why a text must not be checked; empty where it may be."""
    if not text.strip():
        return "empty"
    if len(text.encode("utf-8", "surrogatepass")) > LONGEST:
        return f"longer than {LONGEST:,} bytes"
    if CONTROL.search(text) or re.search("[\ud800-\udfff]", text):
        return "control characters"
    lines = read_lines(text)
    if not lines or lines[0].words[0] not in SECTIONS:
        return "no configuration: it does not begin with a section"
    return next(filter(None, map(_refuse_line, lines)), "")


def _refuse_line(line: Line) -> str:
    words = [word for word in line.words if word not in ("no", "default")]
    first = words[0] if words else ""
    named = f"line {line.number}: "
    if line.variable:
        return f"{named}an environment variable"
    if first.startswith("."):
        return f"{named}{first} is for the preprocessor"
    if line.section == "program":
        return f"{named}a program"
    if first in FILE_DIRECTIVES or words[:2] == ["option", "external-check"]:
        return f"{named}{' '.join(words[:2])} leaves the sandbox"
    if first == "filter" and {"spoe", "opentracing"} & set(words[1:2]):
        return f"{named}filter {words[1]} reads a file"
    files = FILE_PARAMETERS if first in SOCKET_LINES else ACTION_FILES if first.startswith(ACTION_LINES) else ()
    found = next((word for word in words[1:] if word in files or word == "-f" or FILE_FUNCTION.search(word)), "")
    return f"{named}{found} reads a file" if found else ""


def main() -> None:
    """Print the verdict on a file."""
    verdict = check(Path(sys.argv[1]).read_text("utf-8"))
    print(verdict.report or "accepted")
    print(f"{verdict.error_count} errors, {verdict.warning_count} warnings")
    sys.exit(not verdict.accepted)


if __name__ == "__main__":
    main()
