"""Reject config files with deep nesting, custom tags, or aliases that expand exponentially."""

import re
from collections.abc import Iterable, Iterator
from itertools import cycle, repeat
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from ragsweep.core.errors import ConfigError

DEPTH = 40
"""Maximum number of levels of a config, and of brackets in a value, because both are processed recursively."""

REPEATED = 10_000
"""Maximum number of values that the aliases (``*name``) of one file may expand to."""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAGS = frozenset({"!", "str", "int", "float", "bool", "null", "seq", "map"})
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_WORD = re.compile(r"[\w.-]+")


def check_files(folders: Iterable[Path], overrides: Iterable[str]) -> None:
    """Check the config files in ``folders`` that the overrides mention, the files that these files mention, and so on.

    A file is mentioned if its stem occurs as a word. Raises ConfigError as `check_file` does.
    """
    files = {path for folder in folders for depth in ("", "*/", "*/*/") for path in folder.glob(f"{depth}*.y*ml")}
    words = {word for line in overrides for word in _WORD.findall(line)}
    while named := {path for path in files if path.stem in words}:
        for path in sorted(named):
            words |= set(_WORD.findall(check_file(path)))
        files -= named


def check_file(path: Path) -> str:
    """Check a YAML file without expanding its aliases, in time proportional to its length; return its text.

    Raises ConfigError for excessive nesting, tags other than those of plain values, repeated keys, recursive
    aliases, aliases that expand to too many values, invalid YAML, and unreadable files. The message names the file
    and, if known, the line and the column.
    """
    try:
        text = path.read_text(encoding="utf-8")
        _check_events(_check_keys(yaml.parse(text, Loader=_Loader), path), path)
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else f"{path}"
        raise ConfigError(f"{place}: {fault.problem}; correct the YAML") from None
    except (yaml.YAMLError, UnicodeDecodeError) as fault:
        why = " ".join(str(fault).split())
        raise ConfigError(f"{path}: not YAML in UTF-8: {why}; correct the text, or save the file as UTF-8") from None
    except OSError as fault:
        raise ConfigError(f"{path}: cannot be read: {fault.strerror}; check the file and its permissions") from None
    return text


def _check_keys(events: Iterator[Any], path: Path) -> Iterator[Any]:
    """Yield the YAML events of a file; raise ConfigError for a key that occurs twice in a mapping."""
    opened: list[tuple[dict[str, int], Iterator[bool]]] = []  # line of each key; whether the next node is a key
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            opened.pop()
        elif isinstance(event, yaml.NodeEvent):
            lines, is_key = opened[-1] if opened else ({}, repeat(False))
            if next(is_key) and isinstance(event, yaml.ScalarEvent) and event.value != "<<":
                line, column = event.start_mark.line + 1, event.start_mark.column + 1
                if first := lines.get(event.value):
                    raise ConfigError(
                        f'{path}:{line}:{column}: key "{event.value}" occurs twice, first in line {first}; keep one'
                    )
                lines[event.value] = line
            if isinstance(event, yaml.CollectionStartEvent):
                keyed = isinstance(event, yaml.MappingStartEvent)
                opened.append(({}, cycle((True, False)) if keyed else repeat(False)))
        yield event


def _check_events(events: Iterator[Any], path: Path) -> None:
    sizes: dict[str, int] = {}  # anchor -> number of its values, with aliases expanded
    opened: list[tuple[str | None, int]] = []  # anchor, and the count before the collection
    count = repeated = 0
    for event in events:
        place = f"{path}:{event.start_mark.line + 1}:{event.start_mark.column + 1}"
        if (tag := getattr(event, "tag", None)) and tag.rpartition(":")[2] not in _TAGS:
            raise ConfigError(f'{place}: a config can contain plain values only, got "{tag}"; remove the tag')
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise ConfigError(
                    f'{place}: "*{event.anchor}" is recursive, or "&{event.anchor}" is not above it; write the value'
                )
            count += sizes[event.anchor]
            repeated += sizes[event.anchor]
            if repeated > REPEATED:
                raise ConfigError(f"{place}: aliases expand to more than {REPEATED:,} values; use fewer aliases")
        elif isinstance(event, yaml.CollectionStartEvent):
            sizes.pop(event.anchor, None)
            opened.append((event.anchor, count))
            count += 1
            if len(opened) > DEPTH:
                raise ConfigError(f"{place}: nested more than {DEPTH} levels deep; use fewer levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            if anchor:
                sizes[anchor] = count - before
        elif isinstance(event, yaml.ScalarEvent):
            count += 1
            if event.anchor:
                sizes[event.anchor] = 1
            if is_deep(event.value):
                raise ConfigError(f"{place}: brackets are nested more than {DEPTH} levels deep; use fewer levels")


def is_deep(text: str) -> bool:
    """Return whether brackets in ``text`` are nested more than `DEPTH` levels deep."""
    if sum(map(text.count, _OPENING)) <= DEPTH:
        return False
    depth = 0
    for letter in text:
        depth += (letter in _OPENING) - (letter in _CLOSING)
        if depth > DEPTH:
            return True
    return False
