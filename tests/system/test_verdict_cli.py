"""The verdict as a user meets it: when a sweep ends, shown again, in MLflow, sent later; and who saw the holdout."""

import json
import re
from pathlib import Path

import pytest
from mlflow.entities import Run

from support.commands import add_tables, artifacts, mlflow_client, printed, runs, write_dataset

pytestmark = pytest.mark.slow

COUNT = 30
FILES = {"verdict/verdict.md", "verdict/differences.csv", "verdict/slices.csv", "plots/differences.png"}


def write_questions(folder: Path) -> list[str]:
    """Write questions of which every other one finds the wrong document first, and the right one second."""
    corpus = [{"id": f"d{n}", "text": f"one{n} two{n} three{n}"} for n in range(COUNT + 1)]
    golden = [
        {"id": f"q{n}", "question": f"one{n}" + f" two{n + 1} three{n + 1}" * (n % 2), "category": f"c{n % 3}",
         "evidence": [{"document": f"d{n}"}]}
        for n in range(COUNT)
    ]  # fmt: skip
    return write_dataset(folder, golden, corpus)


def parent(folder: Path) -> tuple[Run, dict[str, bytes]]:
    """Find the one parent run, and its files that belong to the verdict."""
    (run,) = runs(folder, "sweep")
    names = sorted(artifacts(folder, run) & {*FILES, "results.json"})
    load = mlflow_client(folder).download_artifacts
    return run, {name: Path(load(run.info.run_id, name)).read_bytes() for name in names}


def verdict(shown: str) -> list[str]:
    """Cut out the sentences of the result and of its limits."""
    end = next(shown.index(word) for word in ("\nFIX ", "\nNEXT ") if word in shown)  # FIX: of a busy machine
    text = " ".join(shown[shown.index("CHOICE") : end].split())
    return re.split(r"(?<=[.\])])(?: EVIDENCE| LIMITS)? (?=[#A-Z]|context_ndcg against)", text.removeprefix("CHOICE "))


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], str]:
    """A sweep that was run once: its folder, what was typed, what it printed."""
    folder = tmp_path_factory.mktemp("swept")
    add_tables(folder)
    typed = ["-m", "ragsweep", "run", "-m", "top_k=1,3", "headline=[context_ndcg]", *write_questions(folder)]
    return folder, typed, printed(folder, *typed)


def test_sweep_ends_with_a_verdict_and_its_parent_run_holds_it(swept: tuple[Path, list[str], str]) -> None:
    folder, _, shown = swept
    said = verdict(shown)
    assert said[0].startswith("#2 top_k=3: highest expected context_ndcg")
    flat = " ".join(shown.split())
    assert "A higher top_k does not lower context_ndcg on any question" in flat
    assert len(re.findall(r"expected gain \S+ on new questions", flat)) == flat.count("expected gain")
    assert len(said) <= 10
    run, files = parent(folder)
    assert files.keys() == FILES | {"results.json"}
    told = json.loads(files["results.json"])["sweep"]["verdict"]
    lines = "".join("".join(told["lines"]).split())
    assert all("".join(sentence.split()) in lines for sentence in said)
    assert (told["best"], told["questions"], told["clusters"]) == ("#2 top_k=3", COUNT, COUNT)
    result = json.loads(files["results.json"])["result"]
    assert (result["kind"], result["choice"], result["rises_with"]) == ("choice", "#2 top_k=3", ["top_k"])
    tags = run.data.tags
    assert tags["ragsweep.swept"] == "top_k = 1, 3"
    assert tags["ragsweep.best"] == "#2 top_k=3"
    (dataset,) = [one.dataset for one in run.inputs.dataset_inputs]
    assert tags["ragsweep.dataset"] == dataset.name == "golden"
    assert json.loads(dataset.profile)["questions"] == COUNT
    assert run.data.tags["ragsweep.result"] == "choice"
    assert run.data.tags["ragsweep.verdict"] == " ".join([result["sentence"], *result["evidence"]])
    assert told["configs"]["#1 top_k=1"]["verdict"] == "shown worse"
    assert (run.data.metrics["verdict_configs"], run.data.metrics["verdict_best_set"]) == (2, 1)


def test_finished_sweep_says_it_again_and_a_lost_database_gets_it_back(
    swept: tuple[Path, list[str], str], tmp_path: Path
) -> None:
    folder, typed, said = swept
    before, files = parent(folder)
    for path in folder.glob("mlflow.db*"):
        path.unlink()
    add_tables(folder)
    assert printed(folder, "-m", "ragsweep", "sync").startswith("sync      2 results sent")
    alias = tmp_path / "alias"  # MLflow keeps a client an address, and the old one reads the deleted file
    alias.symlink_to(folder)
    after, again = parent(alias)
    assert {name: data for name, data in again.items() if name != "results.json"} == {
        name: data for name, data in files.items() if name != "results.json"
    }
    assert json.loads(again["results.json"])["sweep"] == json.loads(files["results.json"])["sweep"]
    assert after.data.tags["ragsweep.verdict"] == before.data.tags["ragsweep.verdict"]
    assert after.data.metrics == before.data.metrics
    repeated = printed(folder, *typed)
    assert "is already finished" in repeated
    (address,) = re.findall(r"/#/experiments/1/runs/(\w+)\n", repeated)
    assert address == after.info.run_id != before.info.run_id
    assert verdict(repeated) == verdict(said)


@pytest.mark.nightly
def test_looks_at_the_holdout_are_counted_and_shown(tmp_path: Path) -> None:
    typed = ["tracking=none", *write_questions(tmp_path)]

    def looked(*arguments: str) -> str:
        said = printed(tmp_path, "-m", "ragsweep", "run", *arguments, *typed)
        found = re.search(r"The holdout was used (once|twice|\d+ times)", said)
        return found[1] if found else ""

    assert looked("-m", "top_k=1,3", "partition=holdout", "plan=true") == ""  # which looks at nothing
    assert looked("-m", "top_k=1,3", "partition=holdout") == "once"
    assert looked("-m", "top_k=1,3", "partition=holdout") == "once"  # the same look, shown again
    assert looked("top_k=1", "partition=holdout") == "twice"
    assert looked("top_k=1", "partition=tune") == "twice"  # every summary says so
