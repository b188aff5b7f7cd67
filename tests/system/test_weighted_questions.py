"""A golden set with weights, from its file to every place that states a mean: all are those of the traffic."""

import csv
import json
import re
from pathlib import Path

import pytest

from support.commands import RUN, call, in_one_process, mlflow_client, runs, write_dataset

pytestmark = pytest.mark.slow

COUNT = 40
HEAVY = 3.0
METRIC = "context_recall"


def write_questions(folder: Path) -> list[str]:
    """Write questions of which every other one finds the right document second only, and is asked three times as often.

    One in five of these finds it under no config.
    """
    corpus = [{"id": f"d{n}", "text": f"one{n} two{n} three{n}"} for n in range(COUNT + 1)]
    golden = [
        {"id": f"q{n}", "question": f"one{n}" + f" two{n + 1} three{n + 1}" * (n % 2), "category": f"c{n % 2}",
         "weight": HEAVY if n % 2 else 1, "evidence": [{"document": f"d{n if n % 10 != 9 else (n + 20) % COUNT}"}]}
        for n in range(COUNT)
    ]  # fmt: skip
    return write_dataset(folder, golden, corpus)


def test_every_mean_is_that_of_the_traffic_and_said_to_be(tmp_path: Path) -> None:
    done = call(tmp_path, RUN, "-m", "top_k=1,3", "headline=[context_recall]", f"objective={METRIC}", "targets=none",
                *write_questions(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stderr
    note = "weighted: 40 questions count as 32"  # 80² / (20 + 20 x 9)
    first, second = 20 / 80, (20 + 16 * HEAVY) / 80  # by hand; by questions they are .50 and .90
    table, said = done.stdout.partition("CHOICE")[::2]
    said = " ".join(said.split())
    assert f"means are {note}" in " ".join(table.split())
    assert re.search(r"^1 +1 +\.25 \[", table, re.MULTILINE)
    assert re.search(r"^2 +3 +\.85 \[", table, re.MULTILINE)
    assert "#2 top_k=3: highest expected context_recall, .85" in said
    assert "#1 top_k=1 -.600 [" in said or "#1 top_k=1 -.60 [" in said
    assert f"Compared: {note}" in said
    (parent,) = runs(tmp_path, "sweep")
    children = {run.data.params["top_k"]: run for run in runs(tmp_path, "config")}
    for top_k, mean in (("1", first), ("3", second)):
        run = children[top_k]
        assert run.data.metrics[METRIC] == pytest.approx(mean)
        assert run.data.tags["ragsweep.weighted"] == note
    load = mlflow_client(tmp_path).download_artifacts
    results = json.loads(Path(load(parent.info.run_id, "results.json")).read_text())
    with Path(load(parent.info.run_id, "results.csv")).open(newline="") as file:
        lines = list(csv.DictReader(file))
    for one, line, mean in zip(results["configs"], lines, (first, second), strict=True):
        assert one["metrics"][METRIC]["value"] == float(line[METRIC]) == pytest.approx(mean)
        assert one["weighted"] == line["weighted"] == note
    assert results["sweep"]["verdict"]["questions"] == COUNT

    ids = [children[top_k].info.run_id[:12] for top_k in ("1", "3")]
    ended = in_one_process(
        {
            "compare": ["compare", *ids, "--metric", METRIC, "--json"],
            "gate": ["gate", "--baseline", ids[0], "--candidate", ids[1], "--margin", f"{METRIC}=.02",
                     "--at-least", f"{METRIC}=.60", "--json", "gate.json"],
            "power": ["power", *ids, "--metric", METRIC, "--json"],
            "ablate": ["ablate", ids[0], "--factor", "top_k", "--metric", METRIC, "top_k=3",
                       "tracking=none"],
        },
        tmp_path,
    )  # fmt: skip
    for name, (code, printed) in ended.items():
        assert (code, note in " ".join(printed.split())) == (0, True), (name, printed)
    compared = json.loads(ended["compare"][1])["metrics"]
    assert compared[f"{METRIC}.difference"] == pytest.approx(second - first)
    assert compared[f"{METRIC}.low"] < second - first < compared[f"{METRIC}.high"]
    checks = json.loads((tmp_path / "gate.json").read_text())["checks"]
    place = checks["columns"].index("candidate")
    assert [row[place] for row in checks["data"]] == [pytest.approx(second)] * 2
    assert json.loads(ended["power"][1])["weighted"] == note
    assert "top_k 3 -> 1   -.600 [" in ended["ablate"][1]
