"""The categories of a set beside the wanted ones, counted by hand."""

from pathlib import Path

import pytest

from ragsweep.core.errors import ConfigError
from ragsweep_golden.commands import golden
from ragsweep_golden.gates.mix import compare_mix, read_quotas
from support import write_rows


def entries(**counts: int) -> list[dict[str, object]]:
    """Return entries of categories; ``unanswerable`` ones have no answer."""
    names = [name for name, count in counts.items() for _ in range(count)]
    return [{"category": name, "answerable": name != "unanswerable"} for name in names]


def test_unanswerable_is_a_share_of_all_and_the_others_of_the_answerable() -> None:
    given = [*entries(factual=30, procedural=40, other=10, unanswerable=20), {"needs_retrieval": False}]
    rows = compare_mix(given, {"factual": 0.5, "procedural": 0.5, "unanswerable": 0.2})
    found = {one.category: (one.found, one.of, one.is_met) for one in rows}
    others = {"procedural": (40, 80, True), "unanswerable": (20, 100, True), "other": (10, 80, True)}
    assert found == {"factual": (30, 80, False), **others}
    assert rows[0].as_text() == "factual: 30 of 80, wanted 40, NOT MET"
    assert rows[3].as_text() == "other: 10 of 80, no quota"


@pytest.mark.parametrize(("found", "met"), [(5, True), (4, True), (3, False), (6, True), (7, False)])
def test_a_small_set_may_differ_by_one_question(found: int, met: bool) -> None:
    assert compare_mix(entries(a=found, b=10 - found), {"a": 0.5})[0].is_met == met


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": 1.2}, "quotas.a: must be a share from 0 to 1, got 1.2"),
        ({"a": "many"}, "quotas.a: must be a share"),
        ({"a": 0.6, "b": 0.6}, "sum to 1.2, above 1"),
        (3, "must be a mix, or shares"),
    ],
)
def test_what_is_no_share_is_refused(given: object, message: str) -> None:
    with pytest.raises(ConfigError) as fault:
        read_quotas(given)
    assert message in str(fault.value)


def test_the_check_reports_the_quotas(cwd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (cwd / "pages").mkdir()
    (cwd / "pages" / "a.md").write_text("The alder measures 10 metres.\n")
    lines = [
        {"id": str(n), "question": f"q{n}?", "category": "factual", "evidence": [{"document": "a.md"}]}
        for n in range(4)
    ]
    write_rows(cwd / "golden.jsonl", lines)
    assert golden(["check", "golden.jsonl", "corpus=pages", "quotas={factual: .9}"]) == 0
    assert golden(["check", "golden.jsonl", "corpus=pages", "quotas=general"]) == 1
    shown = capsys.readouterr().out
    assert "factual: 4 of 4, wanted 2, NOT MET" in shown
    assert "comparative: 0 of 4, wanted 1" in shown
    with pytest.raises(ConfigError, match="quotas: no mix 'genral'; did you mean \"general\""):
        golden(["check", "golden.jsonl", "corpus=pages", "quotas=genral"])
