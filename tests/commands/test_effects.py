"""`ragsweep effects`: what each parameter of a sweep does."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ragsweep.commands.compare import compare
from ragsweep.commands.effects import effects
from ragsweep.core.results import PARTIAL, Result
from ragsweep.stats.inference.estimates import TOO_SHORT
from support import output, printed_json
from support.results import FACTS, changed, drawn, record, record_sweep, refuse, scored, table_rows

PARENT = "feed" * 8
BASE = drawn(0.5)
GAINS = drawn(0.2, 40, 0.02, 1)


def config(a: str, b: str, together: float = 0.1) -> Result:
    """Make a config in which a=2 gains .2 a question, b=2 nothing, and both together another .1."""
    gained = [(gain if a == "2" else 0.0) + (together if a == b == "2" else 0.0) for gain in GAINS]
    scores = [one + more for one, more in zip(BASE, gained, strict=True)]
    return scored({"ndcg": scores}, name=f"a={a} b={b}", overrides=(f"a={a}", f"b={b}"), parameters={"a": a, "b": b})


def told(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> tuple[Any, dict[str, dict[str, Any]]]:
    found = printed_json(capsys, effects, PARENT, "--path", str(folder), *arguments)
    return found, {row["factors"]: row for row in table_rows(found["effects"])}


def test_a_grid_shows_main_effects_and_interactions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_sweep(tmp_path, PARENT, *(config(a, b) for a, b in product("12", "12")))
    found, rows = told(capsys, tmp_path)
    assert (found["method"], found["metric"]) == ("full grid", "ndcg")
    assert rows["a"]["effect"] == pytest.approx(0.25)  # .2 alone and .3 with b, averaged
    assert rows["b"]["effect"] == pytest.approx(0.05)
    assert rows["a x b"]["effect"] == pytest.approx(0.1)
    assert all(row["low"] <= row["effect"] <= row["high"] and row["low"] > 0 for row in rows.values())
    beyond = {name: row["beyond_chance"] for name, row in rows.items()}
    assert beyond == {"a": True, "b": False, "a x b": False}  # one unseen loss of 1 could undo the small ones
    assert {name for name, row in rows.items() if row["note"] == TOO_SHORT} == {"b", "a x b"}
    for form in ([], ["--markdown"]):
        printed = output(capsys, effects, PARENT[:6], "--path", str(tmp_path), *form)
        assert printed.index("a 1 -> 2") < printed.index("b 1 -> 2") < printed.index("together")


def test_an_effect_that_compare_calls_shown_is_marked_with_the_reason_and_the_level(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_sweep(tmp_path, PARENT, *(config(a, b) for a, b in product("12", "12")))
    assert "shown better" in output(capsys, compare, f"{PARENT[:8]}#3", f"{PARENT[:8]}#4", "--path", str(tmp_path))
    said = " ".join(output(capsys, effects, PARENT, "--path", str(tmp_path)).split())
    assert "at the joint level of 3 effects; ragsweep compare applies this check only to slices" in said
    record_sweep(tmp_path, "beef" * 8, config("1", "1"), config("2", "1"))
    assert "ragsweep compare" not in output(capsys, effects, "beef", "--path", str(tmp_path))


def test_effects_on_an_amount_are_ratios(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """a=2 halves every latency: also of a question that takes a hundred times as long."""
    slow = [1000.0 * (100 if n == 0 else 1) * (1 + one) for n, one in enumerate(BASE)]
    results = [
        scored({"latency_ms": [one / factor for one in slow]}, name=f"a={a}", parameters={"a": a})
        for a, factor in (("1", 1.0), ("2", 2.0))
    ]
    record_sweep(tmp_path, PARENT, *results)
    found, rows = told(capsys, tmp_path)
    assert (rows["a"]["ratio"], rows["a"]["effect"], rows["a"]["beyond_chance"]) == (pytest.approx(0.5), None, True)
    assert "ratios" not in found["method"]
    assert "x 0.50 [0.50, 0.50]" in output(capsys, effects, PARENT, "--path", str(tmp_path))


def test_partial_configs_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = [config("1", "1"), config("2", "1")]
    record_sweep(tmp_path, PARENT, *whole, changed(config("1", "2"), state=PARTIAL))
    assert told(capsys, tmp_path)[1].keys() == {"a"}
    assert effects([PARENT, "--path", str(tmp_path)]) == 0
    assert "without 1 config that is PARTIAL or dropped by a race" in capsys.readouterr().out


def test_texts_that_begin_with_the_same_word_are_shown_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_sweep(tmp_path, PARENT, config("Answer in one word", "1"), config("Answer in one line or in two", "1"))
    assert effects([PARENT, "--path", str(tmp_path)]) == 0
    assert "a Answer in one word -> Answer in one line or in two " in " ".join(capsys.readouterr().out.split())


def test_what_cannot_be_said_is_one_clear_line(tmp_path: Path) -> None:
    record(tmp_path, config("1", "1"))
    other = changed(config("1", "2"), dataset=replace(FACTS, golden_digest="e"))
    record_sweep(tmp_path, PARENT, config("1", "1"), other)
    record_sweep(tmp_path, "beef" * 8, config("1", "1"), changed(config("1", "2"), state=PARTIAL))
    refuse(effects, {
        'no sweep "x"; list the sweeps: ragsweep list --path ': ["x"],
        "is the run of one config": ["1" * 8],
        "rebaseline: .*; sweep over one golden set": [PARENT],
        "two are required": ["beef"],
        "expected one argument": ["beef", "--metric"],
    }, "--path", str(tmp_path))  # fmt: skip
