"""Write docs/parts.md: the options of the groups that select parts, and their keys, from comments in the YAML files.

From the clone: .venv/bin/python docs/parts.py; a test compares the page with this output.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CONF = ROOT / "conf"
LEFT_OUT = ("answer_context", "answer_metrics", "hydra", "metrics", "targets", "tracking")
SHORT = 18
"""Maximum length of a comment that is repeated in every group that has the key; longer ones share a row."""

Shared = Mapping[tuple[str, str], list[str]]
"""Name and comment of a key -> the groups that have it."""

HEAD = """# Parts

This page, written by `python docs/parts.py`, lists the options of the config groups that select parts (except
`metrics`, `targets` and `tracking`), and each option's keys. `chunker=recursive` selects an option, `chunker.size=400`
sets a key, and `-m chunker.size=400,800` sweeps over a key. `???` marks a required value, `...` one of several lines.
URLs are examples. A range such as "20 to 80" is worth sweeping, but other values are often accepted. A cost marked
"stored" or "once" is not paid again. "Keys of `x`" means that the option also has the keys of `x`. An empty option cell
repeats the cell above. If defaults differ within a row, it lists the most common and the exceptions, or one per option.
"""


class Key(NamedTuple):
    """A key of an option: its dotted name, default and comment."""

    name: str
    default: str
    text: str


def main() -> None:
    """Write the page."""
    (ROOT / "docs" / "parts.md").write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page."""
    folders = sorted({path.parent for path in CONF.rglob("*.yaml")} - {CONF})
    groups = {path.relative_to(CONF).as_posix(): _texts(path) for path in folders if _is_shown(path)}
    shared = _shared(groups)
    lines = [line for name, texts in groups.items() for line in _group(name, texts, shared)]
    return "\n".join([HEAD, *lines, *_shared_keys(shared)]) + "\n"


def _is_shown(folder: Path) -> bool:
    return folder.relative_to(CONF).parts[0] not in LEFT_OUT


def _texts(folder: Path) -> dict[str, str]:
    return {path.stem: path.read_text("utf-8") for path in sorted(folder.glob("*.yaml"))}


def _shared(groups: Mapping[str, Mapping[str, str]]) -> Shared:
    """Find keys with the same long comment in several groups, unless a group has two such comments for a key."""
    found: dict[tuple[str, str], list[str]] = {}
    for group, texts in groups.items():
        for key in {(key.name, key.text) for text in texts.values() for key in _keys(text)}:
            found.setdefault(key, []).append(group)
    several = {key: found[key] for key in sorted(found) if len(found[key]) > 1 and len(key[1]) > SHORT}
    meanings = Counter((name, group) for (name, _), having in several.items() for group in having)
    return {key: having for key, having in several.items() if all(meanings[key[0], group] == 1 for group in having)}


def _shared_keys(shared: Shared) -> Iterator[str]:
    yield "## Keys of several groups\n"
    yield "| key | groups | meaning |"
    yield "| --- | --- | --- |"
    for (name, text), groups in shared.items():
        yield f"| `{name}` | {', '.join(groups)} | {_cell(text)} |"


def _group(name: str, texts: Mapping[str, str], shared: Shared) -> Iterator[str]:
    yield f"## {name}\n"
    yield "| option | purpose | cost |"
    yield "| --- | --- | --- |"
    for option, text in texts.items():
        purpose, cost = _purpose(text)
        yield f"| `{name}={option}` | {_cell(purpose + _inherited(text, list(texts)))} | {_cell(cost)} |"
    yield ""
    if rows := list(_rows(texts, shared)):
        yield "| option | key=default | meaning |"
        yield "| --- | --- | --- |"
        yield from rows
        yield ""


def _rows(texts: Mapping[str, str], shared: Shared) -> Iterator[str]:
    """Yield rows for keys of several options, then for keys of one; keys with the same comment share a row."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    configurable = {option for option, text in texts.items() if any(_keys(text))}
    for option, text in texts.items():
        for key in _keys(text):
            found.setdefault((key.name, key.text), {})[option] = key.default
    own, elsewhere = dict[tuple[str, str], list[str]](), dict[str, list[str]]()
    for (name, text), defaults in sorted(found.items(), key=lambda entry: len(entry[1]) == 1):
        options = "all" if len(configurable) > 1 and configurable == set(defaults) else ", ".join(defaults)
        if (name, text) in shared:
            elsewhere.setdefault(options, []).append(_defaults(name, defaults))
        else:
            own.setdefault((options, text), []).append(_defaults(name, defaults))
    rows = {**own, **{(options, "[below](#keys-of-several-groups)"): keys for options, keys in elsewhere.items()}}
    above = ""
    for (options, text), keys in rows.items():
        yield f"| {options if options != above else ''} | {_cell('; '.join(keys))} | {_cell(text)} |"
        above = options


def _defaults(name: str, defaults: Mapping[str, str]) -> str:
    """Write a key with the default of most options and the others by name, or with one default for each option."""
    ((common, count),) = Counter(defaults.values()).most_common(1)
    if 2 * count > len(defaults):
        others = [f"{option}: `{value}`" for option, value in defaults.items() if value != common]
        return ", ".join([f"`{name}={common}`", *others])
    first, *rest = defaults.values()
    return ", ".join([f"`{name}={first}`", *(f"`{value}`" for value in rest)])


def _inherited(text: str, options: list[str]) -> str:
    """Name the options from which this one inherits keys."""
    bases = [name for name in re.findall(r"^  - (\w+)$", text, re.MULTILINE) if name in options]
    return "".join(f" Keys of `{name}`." for name in bases)


def _purpose(text: str) -> tuple[str, str]:
    """Read the comment at the top: the purpose, and the cost after "Cost:"."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# @"):
            lines.append(line.lstrip("# "))
    purpose, _, cost = " ".join(lines).partition("Cost: ")
    return purpose.strip(), cost.strip()


def _keys(text: str) -> Iterator[Key]:
    """Read all keys that are used; a comment on lines of its own belongs to the key below it."""
    above: list[str] = []
    parents: list[tuple[int, str]] = []
    for line in _folded(text):
        if found := re.match(r"^( *)([\w@/.]+):(?: +([^#]*?))?(?: +#\s*(.*))?$", line):
            indent, key, value, comment = len(found[1]), found[2], found[3] or "", found[4] or ""
            parents = [(width, name) for width, name in parents if width < indent]
            name = ".".join([*(parent for _, parent in parents), key])
            said = " ".join([comment, *above]).strip()
            if not value:
                parents.append((indent, key))
            if (value or said) and key not in ("_target_", "defaults") and comment != "not used":
                yield Key(name, value or "...", said)
            above = []
        elif line.lstrip().startswith("#") and "_target_" in text.partition(line)[0]:
            above.append(line.strip("# "))


def _folded(text: str) -> Iterator[str]:
    """Yield the lines of a file, each string or list of several lines as the line of its key with the value "..."."""
    inside, lines = False, text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if inside and (not line or line.startswith(" ")):
            continue
        inside = line.endswith(" |-") or (line.endswith(":") and following.startswith("  - "))
        yield f"{line.removesuffix(' |-')} ..." if inside else line


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main()
