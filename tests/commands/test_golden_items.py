"""`ragsweep golden items`: which questions discriminate between configs, by past sweeps."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest

from ragsweep.core.errors import InputError
from ragsweep.core.results import PARTIAL, Result
from ragsweep.stats.inference.matrix import score_matrix
from ragsweep.stats.items import choose_mini
from ragsweep_golden.commands.items import items
from ragsweep_golden.sets.files import read_changes
from support import output, printed_json
from support.matrices import planted
from support.results import FACTS, changed, record_sweep, refuse, scored, table_rows

HITS = planted(12, 40, 3)
CATEGORY = ["how-to"] * 30 + ["fact"] * 10


def configs(hits: np.ndarray = HITS) -> list[Result]:
    return [scored({"hit": row.tolist()}, {"category": CATEGORY}, name=f"c{n}") for n, row in enumerate(hits)]


def golden_lines(count: int) -> str:
    return "".join(json.dumps({"question": f"Is it {n}?", "id": f"q{n}"}) + "  \n" for n in range(count))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sweeps of six configs, the second with one of the first again and a PARTIAL one; few with three of them."""
    made = configs()
    record_sweep(tmp_path, "aaaa" * 8, *made[:6])
    record_sweep(tmp_path, "bbbb" * 8, *made[5:], changed(made[0], state=PARTIAL))
    record_sweep(tmp_path, "feed" * 8, *made[:3])
    other = replace(FACTS, golden_digest="e" * 64)
    record_sweep(tmp_path, "cccc" * 8, *(changed(one, dataset=other) for one in made[:2]))
    (tmp_path / "golden.jsonl").write_text(golden_lines(41), "utf-8")
    return tmp_path


def test_sweeps_are_pooled_and_each_config_counts_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = output(capsys, items, "aaaa", "bbbb", "--path", str(folder))
    assert printed.startswith("items     hit of 12 distinct configs, 40 questions\n")
    assert "1 config left out: PARTIAL, or dropped by a race" in printed
    assert "1 config with the same scores as another" in printed
    found = printed_json(capsys, items, "aaaa", "bbbb", "--path", str(folder))
    rows = table_rows(found["questions"])
    assert [row["difficulty"] for row in rows] == pytest.approx((1 - HITS.mean(axis=0)).tolist())
    assert [row["all_score"] for row in rows] == HITS.all(axis=0).tolist()
    assert [row["none_scores"] for row in rows] == (~HITS.any(axis=0)).tolist()


def test_few_configs_list_only_what_none_or_all_answer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = output(capsys, items, "feed", "--path", str(folder))
    nobody = np.flatnonzero(~HITS[:3].any(axis=0))
    assert f"none      {len(nobody)} questions: " in printed
    assert f'q{nobody[0]} "q{nobody[0]}"' in printed
    assert "fewer than 8 distinct configs" in printed
    assert "discrimination" not in printed


@pytest.mark.parametrize("informative", [0, 2])
def test_only_informative_questions_are_listed_as_the_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], informative: int
) -> None:
    """Two questions that agree, or two that contradict each other, and four that every config answers."""
    steps = np.arange(9) / 8
    hits = np.column_stack([steps, steps**2 if informative else 1 - steps, *[np.ones(9)] * 4])
    record_sweep(tmp_path, "aaaa" * 8, *(scored({"hit": row.tolist()}, name=f"c{n}") for n, row in enumerate(hits)))
    best = output(capsys, items, "aaaa", "--path", str(tmp_path)).partition("\nbest ")[2].partition("\ncheck ")[0]
    assert ("no question is informative" in best) == (not informative)
    assert [f'"q{n}"' in best for n in range(6)] == [n < informative for n in range(6)]


def test_a_mini_set_has_the_chosen_lines_unchanged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden, mini = folder / "golden.jsonl", folder / "out" / "mini.jsonl"
    options = ["aaaa", "bbbb", "--golden", str(golden), "--mini", str(mini), "--share", ".25", "--path", str(folder)]
    printed = " ".join(output(capsys, items, *options).split())
    assert f"10 of 40 questions, in {mini}" in printed
    assert "chosen on 6 configs and compared with the full set on the other 6" in printed
    chosen = choose_mini(score_matrix(configs(), "hit"), CATEGORY, 10)
    lines = golden.read_text("utf-8").splitlines(keepends=True)
    assert mini.read_text("utf-8") == "".join(lines[n] for n in chosen)
    assert [(one["command"], one["removed"]) for one in read_changes(mini)] == [("golden items", len(lines) - 10)]
    assert sum(CATEGORY[n] == "fact" for n in chosen) in (2, 3)  # 2.5 of 10


def test_what_means_nothing_is_one_clear_line(folder: Path) -> None:
    golden = folder / "golden.jsonl"
    mini = ["--mini", str(folder / "mini.jsonl")]
    cases = {
        "cccc: has a different golden set": ["aaaa", "cccc"],
        "specify the file with --golden": ["aaaa", *mini],
        "- means standard output, which is not supported": ["aaaa", "--mini", "-", "--golden", str(golden)],
        "--share needs --mini": ["aaaa", "--share", ".3"],
        "--critical needs --mini": ["aaaa", "--critical", str(golden)],
        "--golden needs --mini": ["aaaa", "--golden", str(golden)],
        "above 0 and below 1, got 2": ["aaaa", *mini, "--golden", str(golden), "--share", "2"],
        "--mini needs at least 8 configs with different scores, got 3": ["feed", *mini, "--golden", str(golden)],
    }
    refuse(items, cases, "--path", str(folder))
    record_sweep(folder, "dddd" * 8, scored({"latency_ms": [5.0] * 40}))
    refuse(items, {"scores below 0 or above 1": ["dddd"]}, "--path", str(folder))
    options = ["aaaa", "bbbb", *mini, "--golden", str(golden), "--path", str(folder)]
    golden.write_text(json.dumps([{"id": f"q{n}"} for n in range(40)]), "utf-8")
    refuse(items, {"must be JSON lines, because --mini copies": options})
    pandas.DataFrame([{"id": f"q{n}"} for n in range(40)]).to_parquet(golden.with_suffix(".parquet"))
    refuse(items, {"must be JSON lines, because --mini": [*options, "--golden", str(golden.with_suffix(".parquet"))]})
    golden.write_text('{"id": "q1", "question": "?"}\n', "utf-8")
    with pytest.raises(InputError, match='no line has the id "q'):
        items(options)
    assert not (folder / "mini.jsonl").exists()


def test_critical_questions_are_in_the_mini_set_in_any_case(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden, mini, listed = folder / "golden.jsonl", folder / "mini.jsonl", folder / "critical.txt"
    dull = [n for n in range(40) if n not in choose_mini(score_matrix(configs(), "hit"), CATEGORY, 10)][:2]
    listed.write_text("".join(f"q{n}\n" for n in dull), "utf-8")
    options = ["aaaa", "bbbb", "--golden", str(golden), "--mini", str(mini), "--share", ".25", "--path", str(folder)]
    assert "2 critical questions in the mini set" in output(capsys, items, *options, "--critical", str(listed))
    chosen = [json.loads(line)["id"] for line in mini.read_text("utf-8").splitlines()]
    assert len(chosen) == 10
    assert {f"q{n}" for n in dull} <= set(chosen)


def test_critical_questions_without_a_score_are_named_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_sweep(tmp_path, "aaaa" * 8, *configs(np.column_stack([np.full(12, np.nan), HITS[:, 1:]])))
    golden, mini, listed = (tmp_path / name for name in ("golden.jsonl", "mini.jsonl", "ids.txt"))
    golden.write_text(golden_lines(40), "utf-8")
    listed.write_text("q0\nq7\n", "utf-8")
    options = ["aaaa", "--golden", str(golden), "--mini", str(mini), "--critical", str(listed), "--path", str(tmp_path)]
    assert items(options) == 0
    assert len(mini.read_text("utf-8").splitlines()) == 13
    shown = " ".join(capsys.readouterr().out.split())
    assert "12 of 39 questions, in" in shown
    assert "2 critical questions in the mini set, and 1 of them has no score, so the file has 13 questions" in shown


def test_decomposed_ids_are_those_of_the_sweeps(tmp_path: Path) -> None:
    """``e`` and a combining accent in the files of the user, one letter in the sweeps."""
    golden, mini, listed = (tmp_path / name for name in ("golden.jsonl", "mini.jsonl", "ids.txt"))
    composed = {"question_id": [f"\u00e9{n}" for n in range(40)]}
    made = [changed(one, questions=one.questions.with_columns(composed)) for one in configs()]
    record_sweep(tmp_path, "aaaa" * 8, *made)
    golden.write_text(golden_lines(40).replace('"id": "q', '"id": "e\u0301'), "utf-8")
    listed.write_text("e\u03017\n", "utf-8")
    options = ["aaaa", "--golden", str(golden), "--mini", str(mini), "--critical", str(listed)]
    assert items([*options, "--share", ".1", "--path", str(tmp_path)]) == 0
    lines = mini.read_text("utf-8").splitlines(keepends=True)
    assert len(lines) == 4
    assert golden.read_text("utf-8").splitlines(keepends=True)[7] in lines


def test_weighted_questions_choose_the_mini_set_by_their_weights(tmp_path: Path) -> None:
    weights = [100.0 if n == 7 else 1.0 for n in range(40)]
    made = []
    for n, row in enumerate(HITS):
        one = scored({"hit": row.tolist()}, name=f"c{n}")
        mean = replace(one.summaries.metrics["hit"], value=float(np.average(row, weights=weights)))
        made.append(changed(one, metrics={"hit": mean}, questions=one.questions.with_columns({"weight": weights})))
    record_sweep(tmp_path, "aaaa" * 8, *made)
    golden, mini = tmp_path / "golden.jsonl", tmp_path / "mini.jsonl"
    golden.write_text(golden_lines(40), "utf-8")
    assert items(["aaaa", "--golden", str(golden), "--mini", str(mini), "--share", ".1", "--path", str(tmp_path)]) == 0
    assert "q7" in [json.loads(line)["id"] for line in mini.read_text("utf-8").splitlines()]
