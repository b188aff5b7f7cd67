"""What ``ragsweep store`` prints, asks and refuses, and how it exits."""

import argparse
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.commands.store import eviction_document, read, read_age, read_size, removal_document, store
from ragsweep.core.errors import RagsweepError
from ragsweep.records.ledger import Ledger
from ragsweep.report.numbers import ago, duration, spelled
from ragsweep.stages.store import Store
from ragsweep.stages.storekeeping import StorePlace, contents
from support.servers import forked
from test_ledger import opened, result
from test_storekeeping import NODES, fill, kept, tree

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def place(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> StorePlace:
    monkeypatch.delenv("RAGSWEEP_STORE", raising=False)
    return fill(cwd / ".ragsweep")


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Type a command; return its exit status, and what it printed to the screen and as errors."""

    def typed(*arguments: str) -> tuple[int, str, str]:
        try:
            return store(arguments), *capsys.readouterr()
        except RagsweepError as fault:
            return fault.exit_status, capsys.readouterr().out, str(fault)

    return typed


def numbers(line: str) -> list[str]:
    return re.split(r" {3,}", line.strip())


def test_stages_are_listed_with_their_sums(place: StorePlace, call: Call) -> None:
    status, out, err = call()
    lines = {line.split("  ")[0]: numbers(line) for line in out.splitlines() if line}
    assert (status, err) == (0, "")
    assert lines["stage"] == ["stage", "entries", "size", "took", "oldest", "newest", "last used"]
    size = (place.folder / "whole" / NODES["chunk"].address).stat().st_size
    assert lines["chunk"][1:4] == ["1", spelled(size), "2.0 s"]
    assert lines["all"][1] == "4"
    assert lines["all"][3] == "8.0 s"
    assert lines["pieces of interrupted computations"][1] == "1"
    assert re.search(r"disk +the store uses .* · .* of .* free", out)
    assert call("list")[1].splitlines()[0] == out.splitlines()[0]


def test_entries_say_who_used_them(place: StorePlace, call: Call) -> None:
    ledger, kept_store = Ledger(place.path), Store(place.folder, print)
    ledger.write(opened(ledger, "a").id, 0, result("a"))
    kept_store.used([NODES["chunk"].address], "s" * 64)
    kept_store.used([NODES["chunk"].address], "unwritten")
    printed = call("--entries", "--stage", "chunk")[1].splitlines()
    (line,) = (line for line in printed if NODES["chunk"].address[:12] in line)
    assert numbers(line)[1:3] == ["chunk", "Chunk"]
    assert numbers(line)[-2:] == ["2", "s (1), not in the ledger (1)"]


def test_json_is_strict_and_complete(place: StorePlace, call: Call) -> None:
    status, out, _ = call("--json", "--entries")
    facts = json.loads(out, parse_constant=pytest.fail)
    assert status == 0
    assert facts["path"] == str(place.path)
    assert {stage: found["entries"] for stage, found in facts["stages"].items()} == dict.fromkeys(NODES, 1)
    assert {one["address"] for one in facts["entries"]} == {node.address for node in NODES.values()}
    assert facts["pieces"]["count"] == 1
    assert "entries" not in json.loads(call("--json")[1])


@pytest.mark.parametrize("how", ["flag", "environment", "default"])
def test_says_which_store_it_is_and_how_that_was_chosen(
    how: str, place: StorePlace, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    if how == "default":
        assert f"store     {place.path} (the default" in call()[1]
        return
    fill(other)
    monkeypatch.setenv("RAGSWEEP_STORE", str(other if how == "environment" else tmp_path / "nowhere"))
    said = call(*(["--path", str(other)] if how == "flag" else []))[1]
    assert f"store     {other} ({'--path' if how == 'flag' else 'the environment'}" in said


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["lst"], "invalid choice: 'lst' (choose from 'list', 'evict')"),
        (["--entires"], "unrecognized arguments: --entires; see --help"),
        (["--path", "nowhere"], "no store in"),
        (["--path", ".ragsweep/stages"], "did you mean"),
        (["--stage", "chnk"], 'did you mean "chunk"?'),
        (["evict"], "--older-than AGE, --to-size SIZE, --unreachable, --stage STAGE, --quarantine, --all"),
        (["evict", "--yes"], "specify a condition"),
        (["evict", "--older-than", "30"], '--older-than: must be an age such as 45m, 12h, 30d or 8w, got "30"'),
        (["evict", "--to-size", "big"], '--to-size: must be a size such as 500MB or 2GB, got "big"'),
        (["evict", "--to-size", "5IB"], '--to-size: must be a size such as 500MB or 2GB, got "5IB"'),
        (["evict", "--stage", "indx", "--yes"], 'did you mean "index"?'),
        (["evict", "--unreachable", "--yes"], "no ledger"),
        (["evict", "--all"], "add --yes to remove without confirmation"),
    ],
)
def test_bad_input_exits_2_and_changes_nothing(typed: list[str], message: str, place: StorePlace, call: Call) -> None:
    before = tree(place.path)
    status, _, err = call(*typed)
    assert status == 2
    assert message in err
    assert len(err.splitlines()) == 1
    assert tree(place.path) == before


def test_evict_says_what_goes_and_leaves_the_rest(place: StorePlace, call: Call) -> None:
    status, out, _ = call("evict", "--stage", "index", "--older-than", "0s", "--yes")
    assert status == 0
    assert re.search(r"remove    1 entry · .* kB · 2\.0 s of computation", out)
    assert kept(place.path) == set(NODES) - {"index"}


def test_the_documents_of_an_eviction_carry_its_numbers(place: StorePlace) -> None:
    found = contents(place)
    chunk, index = ([one for one in found.items if one.stage == stage] for stage in ("chunk", "index"))
    (remove,) = (
        one for one in eviction_document(place, [*chunk, *index], "--path").statements if one.label == "remove"
    )
    assert remove.data == {"items": 2}
    tried = [(chunk[0], ""), (index[0], "it has been used in the meantime")]
    data = {one.label: one.data for one in removal_document(place, found, tried, "the disk is full").statements}
    assert data.keys() == {"left", "removed", "note", "disk"}
    assert data["removed"] == {"removed": 1}
    assert data["disk"]["bytes"] == found.bytes


def test_evict_of_nothing_is_fine(place: StorePlace, call: Call) -> None:
    before = tree(place.path)
    status, out, _ = call("evict", "--older-than", "1w", "--yes")
    assert (status, tree(place.path)) == (0, before)
    assert "no entry meets" in out


def test_evict_of_all_leaves_a_store_that_works(place: StorePlace, call: Call) -> None:
    assert call("evict", "--all", "--yes")[0] == 0
    assert kept(place.path) == set()
    assert "nothing is stored" in call()[1]


@pytest.mark.parametrize(("answer", "left"), [("y", 0), ("", 4)])
def test_asks_where_somebody_can_answer(answer: str, left: int, place: StorePlace) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ragsweep", "store", "evict", "--all"]
    with forked.Popen(command, stdin=theirs, stdout=subprocess.PIPE, text=True) as process:
        os.write(ours, f"{answer}\n".encode())
        out, _ = process.communicate()
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 0
    assert "remove? [y/N]" in out
    assert len(kept(place.path)) == left


def test_nothing_heavy_is_loaded(place: StorePlace) -> None:
    code = (
        "import sys\nfrom ragsweep.commands.cli import main\n"
        "for rest in ([], ['evict', '--all', '--yes']):\n"
        "    sys.argv = ['ragsweep', 'store', *rest]\n"
        "    try: main()\n    except SystemExit as end: assert not end.code, end.code\n"
        "loaded = {'torch', 'mlflow', 'hydra', 'omegaconf', 'pandas', 'matplotlib'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_sizes_and_ages_as_people_type_them() -> None:
    sizes = {"500MB": 5e8, "1.5 kB": 1500, "1GiB": 2**30, "0B": 0, "7b": 7}
    ages = {"12h": 43200, "30d": 2592000, "45m": 2700, "0.5 s": 0.5, "2W": 1209600}
    assert {text: read_size(text) for text in sizes} == sizes
    assert {text: read_age(text) for text in ages} == ages
    assert read(["evict", "--to-size", "2GB"]).to_size == 2e9


@given(st.text(max_size=6) | st.from_regex(r"[0-9.]{1,3} ?[a-zA-Z]{0,3}", fullmatch=True))
def test_anything_else_is_refused(typed: str) -> None:
    for reads, pattern in ((read_size, r"\s*\d+(\.\d+)? *([kmgt]i?)?b\s*"), (read_age, r"\s*\d+(\.\d+)? *[smhdw]\s*")):
        if re.fullmatch(pattern, typed, re.IGNORECASE):
            assert reads(typed) >= 0
        else:
            with pytest.raises(argparse.ArgumentTypeError, match="must be a"):
                reads(typed)


def test_sizes_and_times_are_spelled_with_their_unit() -> None:
    assert [spelled(n) for n in (0, 999, 1000, 99_960, 999_600, 5e12)] == [
        "0 B", "999 B", "1.0 kB", "100 kB", "1.0 MB", "5.0 TB",
    ]  # fmt: skip
    assert [duration(s) for s in (0.005, 1, 12.4, 179, 200, 7200, 20_000)] == [
        "0.01 s", "1.0 s", "12 s", "179 s", "3 min", "120 min", "5.6 h",
    ]  # fmt: skip
    assert [ago(s) for s in (-5, 59.6, 60, 3599, 86399, 86400 * 1200)] == [
        "0 s", "60 s", "1 min", "59 min", "23 h", "1,200 d",
    ]  # fmt: skip
