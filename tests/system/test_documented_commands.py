"""Every command in the documents, and every command and key in a printed sentence, exists as it is written."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import yaml

from ragsweep.commands import cli
from ragsweep.sweep.composing.command import compose_jobs
from ragsweep_golden.commands import SUBCOMMANDS
from support.commands import in_one_process, read

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
STARTS = re.compile(r"(?:python run\.py|ragsweep) (?=[-\w])")
OPEN = re.compile(r"\.\.\.|<\w|\$[A-Z]|\b[A-Z]{3,}\b(?!=)")
"""A line that leaves something to be filled in."""

OWN = re.compile(r"\b(?:shortest|unlabelled|mend|mine|overlap)\b")
"""Parts that a page writes itself, by its steps."""

GROUPS = sorted(path.name for path in (ROOT / "conf").iterdir() if path.is_dir() and path.name != "hydra")

KNOWN = (*cli._COMMANDS, *entry_points(group=cli.GROUP).names)


def documented() -> Iterator[tuple[str, list[str]]]:
    """Yield page with line, and the words of each command without what the shell does with it."""
    for page in PAGES:
        text = page.read_text("utf-8").replace("\\\n", " ")
        for number, line in enumerate(text.splitlines(), 1):
            indented = line.startswith("    ")
            for found in STARTS.finditer(line):
                written = line[found.start() :] if indented else line[found.start() :].partition("`")[0]
                if not indented and line[: found.start()].count("`") % 2 == 0:
                    continue
                written = re.split(r"\s+#|\s[|&<>]|;\s|\s+→", written)[0]
                try:
                    yield (
                        f"{page.relative_to(ROOT)}:{number}",
                        shlex.split(written.replace("python run.py", "ragsweep run"))[1:],
                    )
                except ValueError:  # a quotation that ends on another line
                    continue


COMMANDS = list(documented())
WRITTEN = {
    " ".join(words[1:]): (place, words[1:])
    for place, words in reversed(COMMANDS)
    if words[0] == "run" and not OPEN.search(" ".join(words)) and not OWN.search(" ".join(words))
}
ELSEWHERE = "sweeps=hybrid_tpe"
"""A search of many options, composed in sweep/test_search_command.py."""

RUNS = [
    pytest.param(
        words, id=place, marks=() if place.startswith("README") and ELSEWHERE not in words else pytest.mark.nightly
    )
    for place, words in WRITTEN.values()
]
OTHERS = [(place, words) for place, words in COMMANDS if words[0] != "run"]


@pytest.mark.parametrize("words", RUNS)
def test_a_documented_run_can_be_composed(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUDY", "sqlite:///study.db")
    flags = [word for word in words if word.startswith("-")]
    assert set(flags) <= {"-m"}
    overrides = [word for word in words if not word.startswith("-")]
    compose_jobs(read(overrides, multirun="-m" in flags))


@cache
def helps() -> dict[str, str]:
    """Return the help of every command and of every golden command."""
    names = {name: [name] for name in KNOWN} | {f"golden {name}": ["golden", name] for name in SUBCOMMANDS}
    pairs = (("judge", "calibrate"), ("judge", "noise"), ("store", "list"), ("store", "evict"))
    names |= {" ".join(pair): list(pair) for pair in pairs}
    found = in_one_process({name: [*words, "--help"] for name, words in names.items()}, ROOT)
    return {name: text for name, (status, text) in found.items() if status == 0}


def test_a_documented_command_and_its_options_exist() -> None:
    unknown = []
    for place, words in OTHERS:
        if words[0] in ("--version", "--help", "-sc"):
            continue
        if words[0] == "is":
            continue
        name = (
            " ".join(words[:2]) if " ".join(words[:2]) in helps() else "store list" if words[0] == "store" else words[0]
        )
        if name not in helps():
            unknown.append(f"{place}: ragsweep {name}")
            continue
        options = {word.partition("=")[0] for word in words if re.match(r"--\w", word)}
        unknown += [f"{place}: {name} {option}" for option in options if option not in helps()[name]]
    assert not unknown


# --- sentences of the program -------------------------------------------------------------------------------------


@cache
def sentences() -> list[tuple[str, str]]:
    """Return place and text of every string in the package except docstrings; values that are filled in are {}."""
    found = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        inner = {
            id(one)
            for node in ast.walk(tree)
            if isinstance(node, ast.JoinedStr)
            for one in ast.walk(node)
            if one is not node
        }
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if id(node) in inner or id(node) in docs:
                continue
            if isinstance(node, ast.JoinedStr):
                text = "".join(one.value if isinstance(one, ast.Constant) else "{}" for one in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            else:
                continue
            if " " in text:
                found.append((f"{path.relative_to(ROOT)}:{node.lineno}", text))
    return found


def keys_of(tree: object) -> set[str]:
    return {str(key) for key in tree} if isinstance(tree, dict) else set()


@cache
def known_keys() -> dict[str, set[str]]:
    """Return group -> the keys of any of its options, and of the main config below that name."""
    config = yaml.safe_load((ROOT / "conf" / "config.yaml").read_text("utf-8"))
    found = {str(name): keys_of(node) for name, node in config.items()}
    for group in GROUPS:
        for file in (ROOT / "conf" / group).rglob("*.yaml"):
            found.setdefault(group, set()).update(re.findall(r"@(\w+)", file.read_text("utf-8")))
            if file.parent.name != group:
                found[group].add(file.parent.name)
            node = yaml.safe_load(file.read_text("utf-8")) or {}
            inside = node if "_target_" in node or group not in node else node[group]
            found.setdefault(group, set()).update(keys_of(inside))
    return found


def test_a_key_in_a_printed_sentence_exists() -> None:
    groups = "|".join([*GROUPS, "success", "recommend", "constraints", "budget", "compute", "finalists"])
    written = re.compile(rf"(?<![\w./-])({groups})\.([a-z_]+)(?![\w(/]|\.(?:py|yaml|db|json))")
    unknown = [
        f"{place}: {group}.{key}"
        for place, text in sentences()
        if "." in text
        for group, key in written.findall(text)
        if key not in known_keys()[group]
    ]
    assert not unknown


def test_a_command_in_a_printed_sentence_exists_with_its_options() -> None:
    unknown = []
    for place, text in sentences():
        if "ragsweep " not in text:
            continue
        for found in re.finditer(r"\bragsweep ((?:[a-z]+ )?[a-z]+)((?: [^`;,)]*)?)", text):
            first = found[1].split()[0]
            if first == "run" or first not in KNOWN or text.startswith("usage:"):
                continue
            name = found[1] if found[1] in helps() else first
            unknown += [
                f"{place}: {name} {option}"
                for option in re.findall(r"(?<![\w-])--[a-z-]+", found[2])
                if option not in helps()[name]
            ]
    assert not unknown
