"""Write docs/parts.md: every option that a config may name, from the comments of its YAML file.

From the clone: .venv/bin/python docs/parts.py; a test holds the page to what this writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONF = ROOT / "conf"
LEFT_OUT = ("answer_context", "answer_metrics", "hydra", "metrics", "targets", "tracking")
HEAD = """# Parts

Every option there is, made from `conf/` by `python docs/parts.py`. Choose one on the command line
(`chunker=recursive`), set its keys beneath the group (`chunker.size=400`), sweep over either
(`-m chunker.size=400,800`). `???` must be given. A range such as "20 to 80" is where sweeps usually look; the part
accepts others too.
"""


def main() -> None:
    """Write the page."""
    (ROOT / "docs" / "parts.md").write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page."""
    groups = sorted({path.parent for path in CONF.rglob("*.yaml")} - {CONF})
    shown = [folder for folder in groups if folder.relative_to(CONF).parts[0] not in LEFT_OUT]
    return "\n".join([HEAD, *(line for folder in shown for line in _group(folder))]) + "\n"


def _group(folder: Path) -> Iterator[str]:
    name = folder.relative_to(CONF).as_posix()
    yield f"## {name}\n"
    yield "| option | what it is for | cost |"
    yield "| --- | --- | --- |"
    options = sorted(folder.glob("*.yaml"))
    for option in options:
        purpose, cost = _purpose(option.read_text("utf-8"))
        yield f"| `{name}={option.stem}` | {_cell(purpose)} | {_cell(cost)} |"
    yield ""
    for option in options:
        if keys := list(_keys(option.read_text("utf-8"))):
            yield f"### {option.stem}\n"
            yield "| key | default | what it does |"
            yield "| --- | --- | --- |"
            yield from (f"| `{key}` | `{default}` | {_cell(said)} |" for key, default, said in keys)
            yield ""


def _purpose(text: str) -> tuple[str, str]:
    """Read the comment at the top: what the option is for, and after "Cost:" what it costs."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# @"):
            lines.append(line.lstrip("# "))
    purpose, _, cost = " ".join(lines).partition("Cost: ")
    return purpose.strip(), cost.strip()


def _keys(text: str) -> Iterator[tuple[str, str, str]]:
    """Read key, default and comment of every key; a comment on lines of its own belongs to the key beneath it."""
    above: list[str] = []
    parents: list[tuple[int, str]] = []
    for line in _folded(text):
        if found := re.match(r"^( *)([\w@/.]+):(?: +([^#]*?))?(?: +#\s*(.*))?$", line):
            indent, key, value, said = len(found[1]), found[2], found[3] or "", found[4] or ""
            parents = [(width, name) for width, name in parents if width < indent]
            name = ".".join([*(parent for _, parent in parents), key])
            if not value:
                parents.append((indent, key))
            elif key not in ("_target_", "defaults"):
                yield name, value, " ".join([said, *above]).strip()
            above = []
        elif line.lstrip().startswith("#") and "_target_" in text.partition(line)[0]:
            above.append(line.strip("# "))


def _folded(text: str) -> Iterator[str]:
    """Yield the lines of a file, each text of several lines as its first one."""
    begun = ""
    for line in text.splitlines():
        if begun and (not line or line.startswith(" ")):
            begun += f" {line.strip()}" if begun.endswith(":") else ""
            continue
        if begun:
            yield f"{begun} ..."
        begun = line[: -len(" |-")] if line.endswith(" |-") else ""
        if not begun:
            yield line
    if begun:
        yield f"{begun} ..."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main()
