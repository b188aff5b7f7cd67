"""The command line as a user types it: what it prints, records, and how it exits."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ragsweep.records.ledger import FINISHED, Ledger
from support.commands import ROOT, RUN, Ragsweep, artifacts, in_one_process, runs, user_environment, write_dataset
from support.servers import forked

pytestmark = pytest.mark.slow


def test_sweep_prints_plan_jobs_and_table_and_is_a_parent_in_mlflow(ragsweep: Ragsweep, tmp_path: Path) -> None:
    done = ragsweep("-m", "top_k=1,2", "headline=[context_recall,context_ndcg]", *write_dataset(tmp_path))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("plan      2 configs · ")
    assert [line.split(" · ")[0] for line in lines if line.startswith("job")] == ["job       1/2", "job       2/2"]
    assert sorted(line.split()[:2] for line in lines if re.match(r"\d+ +\d+ +.*\[", line)) == [["1", "1"], ["2", "2"]]
    assert any("3 of 4 questions have evidence" in line for line in lines)
    assert "mlflow ui" in lines[-1]
    assert done.stderr == ""
    (parent,) = runs(tmp_path, "sweep")
    children = runs(tmp_path, "config")
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    assert {run.info.status for run in [parent, *children]} == {"FINISHED"}
    assert sorted(run.data.params["top_k"] for run in children) == ["1", "2"]
    assert children[0].data.params["retriever"] == "bm25"
    assert len({run.data.tags["ragsweep.signature"] for run in children}) == 2
    assert children[0].data.metrics["context_recall"] == pytest.approx(1.0)
    assert {"context_ndcg_low", "context_ndcg_high"} <= children[0].data.metrics.keys()
    assert 18 <= len(children[0].data.metrics) <= 40
    logged = children[0].data.metrics.keys()
    assert {"ndcg_at_10", "recall_at_10", "precision_at_5", "hit_rate_at_5", "f1_at_5"} <= logged
    assert not any("/" in name for name in (*parent.data.metrics, *logged))  # charts of a prefix precede all others
    assert "context_recall" in parent.data.tags["mlflow.note.content"]
    assert [given.dataset.name for given in children[0].inputs.dataset_inputs] == ["golden"]
    for child in children:
        assert {"config.yaml", "outcomes.parquet", "questions.json"} <= artifacts(tmp_path, child)
        assert json.loads(child.data.tags["mlflow.loggedArtifacts"]) == [{"path": "questions.json", "type": "table"}]
    kept = artifacts(tmp_path, parent)
    assert {"results.json", "results.csv", "plots/metric_by_config.png", "plots/metric_by_category.png"} <= kept
    shared = [name for name in kept if name.startswith("rankings/")]
    assert sorted(name.partition(".")[2] for name in shared) == [
        "evidence.qrels", "evidence.trec.gz", "qrels", "trec.gz",
    ]  # fmt: skip  # two configs, one ranking


@pytest.mark.nightly
def test_single_config_is_one_run_with_its_ranking(ragsweep: Ragsweep, tmp_path: Path) -> None:
    done = ragsweep("top_k=2", *write_dataset(tmp_path))
    assert done.returncode == 0, done.stderr
    assert runs(tmp_path, "sweep") == []
    (run,) = runs(tmp_path, "config")
    assert any(name.startswith("rankings/") for name in artifacts(tmp_path, run))


def test_plan_as_json_is_one_object_and_runs_nothing(ragsweep: Ragsweep, tmp_path: Path) -> None:
    done = ragsweep("-m", "top_k=1,2,3", "plan=json", *write_dataset(tmp_path))
    plan = json.loads(done.stdout)
    assert plan["configs"] == 3
    assert plan["stages"]["retrieve"] == {"asked": 3, "distinct": 1, "stored": 0}
    assert not (tmp_path / "mlflow.db").exists()


def write_package(folder: Path) -> None:
    (folder / "my_parts.py").write_text(
        textwrap.dedent("""
            import time

            import numpy as np
            from ragsweep.core.types import Rankings

            class Shortest:
                \"\"\"Return the shortest chunks first, whatever is asked.\"\"\"

                def __init__(self, fail: bool = False, wait: float = 0.0) -> None:
                    self.fail, self.wait = fail, wait

                def build(self, texts):
                    return {"order": np.argsort([len(text) for text in texts], kind="stable").astype(np.int32)}

                def retrieve(self, index, queries, depth):
                    time.sleep(self.wait)
                    if self.fail:
                        raise RuntimeError("out of luck")
                    order = index["order"][:depth]
                    positions = np.full((len(queries), depth), -1, dtype=np.int32)
                    scores = np.full((len(queries), depth), -np.inf, dtype=np.float32)
                    positions[:, :len(order)], scores[:, :len(order)] = order, -np.arange(len(order))
                    return Rankings(positions, scores)
            """)
    )


def test_retriever_of_ones_own_works_once_its_package_is_trusted(ragsweep: Ragsweep, tmp_path: Path) -> None:
    given = ["-m", *own_retriever(tmp_path)[:-1], "retriever=bm25,mine", "tracking=none"]
    refused = ragsweep(*given, PYTHONPATH=str(tmp_path))
    assert refused.returncode == 2
    assert "export RAGSWEEP_TRUSTED_PACKAGES=my_parts" in refused.stderr
    done = ragsweep(*given, PYTHONPATH=str(tmp_path), RAGSWEEP_TRUSTED_PACKAGES="my_parts")
    assert done.returncode == 0, done.stderr
    assert {line.split()[1] for line in done.stdout.splitlines() if re.match(r"\d+ +", line)} == {"bm25", "mine"}


def own_retriever(folder: Path) -> list[str]:
    write_package(folder)
    (folder / "conf" / "retriever").mkdir(parents=True)
    (folder / "conf" / "retriever" / "mine.yaml").write_text("_target_: my_parts.Shortest\nfail: false\nwait: 0.0\n")
    return [*write_dataset(folder)[:-1], "retriever=mine"]


def test_failing_config_takes_only_itself_in_a_sweep_and_alone(ragsweep: Ragsweep, tmp_path: Path) -> None:
    given = own_retriever(tmp_path)
    trusted = {"PYTHONPATH": str(tmp_path), "RAGSWEEP_TRUSTED_PACKAGES": "my_parts"}
    done = ragsweep("-m", "retriever.fail=true,false", "headline=[context_ndcg]", *given, **trusted)
    assert done.returncode == 1
    assert "failed    1/2 · +fail · runtimeerror: out of luck" in done.stdout.lower()
    (parent,) = runs(tmp_path, "sweep")
    assert parent.info.status == "FAILED"
    statuses = {run.data.params["retriever.fail"]: run for run in runs(tmp_path, "config")}
    assert statuses["true"].info.status == "FAILED"
    assert "out of luck" in statuses["true"].data.tags["ragsweep.error"]
    assert statuses["false"].info.status == "FINISHED"
    single = ragsweep("retriever.fail=true", *given, "tracking=none", **trusted)
    assert single.returncode == 1
    assert "ragsweep: RuntimeError: out of luck" in single.stderr
    assert "Traceback" not in single.stderr
    (log,) = tmp_path.glob("outputs/*/*/ragsweep.log")
    assert "Traceback" in log.read_text()


def write_broken_tracker(folder: Path, method: str) -> dict[str, str]:
    """Write a tracker with a method of its own as tracking=broken; return the environment that trusts it."""
    (folder / "my_tracker.py").write_text(
        "from pathlib import Path\nfrom ragsweep.core.errors import TrackingError\n"
        "from ragsweep.parts.tracking import NoTracking\n\n"
        f"class Broken(NoTracking):\n    identity = 'broken'\n\n{method}"
    )
    (folder / "conf" / "tracking").mkdir(parents=True)
    (folder / "conf" / "tracking" / "broken.yaml").write_text("_target_: my_tracker.Broken\n")
    return {"PYTHONPATH": str(folder), "RAGSWEEP_TRUSTED_PACKAGES": "my_tracker"}


def test_tracker_that_fails_costs_no_result_and_the_sweep_says_so(ragsweep: Ragsweep, tmp_path: Path) -> None:
    fails = "    def log_result(self, result, at, artifacts):\n        raise TrackingError('the server is down')\n"
    trusted = write_broken_tracker(tmp_path, fails)
    done = ragsweep(
        "-m", "top_k=1,2", "tracking=broken", "headline=[context_recall]", *write_dataset(tmp_path), **trusted
    )
    assert done.returncode == 1
    assert done.stdout.count("#1 is in") == done.stdout.count("but not in MLflow: the server is down") == 1
    assert [line for line in done.stdout.splitlines() if "either" in line] == [
        "warning   config #2 is not in MLflow, either",
        "warning   a result of the sweep is not in MLflow, either",
    ]
    assert len(re.findall(r"^\d+ +\d+ +.*\[", done.stdout, re.MULTILINE)) == 2
    single = ragsweep("tracking=broken", *write_dataset(tmp_path), **trusted)
    assert single.returncode == 1
    assert "context_recall" in single.stdout
    assert "in the ledger, but not in MLflow: the server is down" in single.stderr


@pytest.mark.nightly
def test_tracker_that_fails_at_the_end_is_put_right_by_the_same_command(ragsweep: Ragsweep, tmp_path: Path) -> None:
    trusted = write_broken_tracker(
        tmp_path,
        "    def close_sweep(self, run_id, status, *more):\n"
        "        if not Path('up').exists():\n            raise TrackingError('the server is down')\n"
        "        Path('up').write_text(status)\n",
    )
    command = ["-m", "top_k=1,2", "tracking=broken", "headline=[context_ndcg]", *write_dataset(tmp_path)]
    done = ragsweep(*command, **trusted)
    assert done.returncode == 1
    assert "but not in MLflow: the server is down" in done.stdout
    (tmp_path / "up").touch()
    again = ragsweep(*command, **trusted)
    assert again.returncode == 0, again.stdout
    assert "2 of 2 configs are already done" in again.stdout
    assert (tmp_path / "up").read_text() == "FINISHED"


def test_jobs_that_hydra_could_not_start_say_why(ragsweep: Ragsweep, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = ragsweep("-m", "top_k=1,2", "hydra.sweep.dir=file/x", "tracking=none", *write_dataset(tmp_path))
    assert done.returncode == 1
    assert done.stdout.count("did not complete: ConfigError: hydra.sweep.dir: cannot create the folder file/x: ") == 2


@pytest.mark.parametrize(
    ("sent", "status"), [pytest.param(signal.SIGINT, 130, marks=pytest.mark.nightly), (signal.SIGTERM, 143)]
)
def test_interrupted_sweep_is_marked_killed(
    sent: signal.Signals, status: int, tmp_path: Path, environment: dict[str, str]
) -> None:
    given = own_retriever(tmp_path)
    trusted = {"PYTHONPATH": str(tmp_path), "RAGSWEEP_TRUSTED_PACKAGES": "my_parts"}
    process = forked.Popen(
        [sys.executable, str(ROOT / "run.py"), "-m", "retriever.wait=0,60", *given], cwd=tmp_path,
        env={**environment, **trusted}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        assert any(line.startswith("job") for line in process.stdout)
        process.send_signal(sent)
        printed = process.communicate(timeout=60)[0]
    assert process.returncode == status
    assert "stopped   1 of 2 configs done; the same command resumes the sweep" in printed
    assert re.search(r"^NEXT +ragsweep list \w+ +the completed configs, best first$", printed, re.M)
    assert "failed" not in printed
    (parent,) = runs(tmp_path, "sweep")
    assert parent.info.status == "KILLED"
    assert [run.info.status for run in runs(tmp_path, "config")] == ["FINISHED"]


SMALL_SEARCH = ["sweeps=hybrid_tpe", "chunker.size=800", "reranker=none", "hydra.sweeper.plots=false",
                "hydra.sweeper.n_trials=2"]  # fmt: skip


SMALL_SWEEP = ["top_k=1,2"]
JOBLIB = [*SMALL_SWEEP, "hydra/launcher=joblib"]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("sent", "typed", "mended_by"),
    [
        pytest.param(signal.SIGINT, SMALL_SWEEP, "the same command", id="sweep"),
        pytest.param(signal.SIGHUP, SMALL_SEARCH, "sync", id="search by sync"),
        pytest.param(signal.SIGINT, SMALL_SWEEP, "sync", id="sweep by sync"),
        pytest.param(signal.SIGHUP, SMALL_SEARCH, "the same command", id="search"),
        pytest.param(signal.SIGTERM, JOBLIB, "the same command", id="joblib"),
        pytest.param(signal.SIGTERM, JOBLIB, "sync", id="joblib by sync"),
    ],
)
def test_sweep_whose_closing_was_interrupted_is_closed_by_the_same_command_and_by_sync(
    sent: signal.Signals, typed: list[str], mended_by: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    """The signal comes right after the last line, while the parent run is being written."""
    command = [sys.executable, str(ROOT / "run.py"), "-m", *typed, *write_dataset(tmp_path)]
    process = forked.library(command).Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        is_closing = any(line.startswith("NEXT") for line in process.stdout)
        assert is_closing, process.communicate(timeout=60)[1]
        process.send_signal(sent)
        process.communicate(timeout=60)
    assert process.returncode == 128 + sent
    (parent,) = runs(tmp_path, "sweep")
    assert parent.info.status == "KILLED"
    again = command if mended_by == "the same command" else [sys.executable, "-m", "ragsweep", "sync"]
    done = forked.library(again).run(
        again, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    (parent,) = runs(tmp_path, "sweep")
    assert parent.info.status == "FINISHED"
    assert "results.json" in artifacts(tmp_path, parent)


def test_missed_enforced_target_is_exit_status_1_for_a_config_and_a_sweep(ragsweep: Ragsweep, tmp_path: Path) -> None:
    high, low = (
        ["targets=retrieval", "targets.enforce=true", f"targets.mrr.threshold={value}", "~targets.ndcg_at_10"]
        for value in (2, 0)
    )
    only = [f"~targets.{name}" for name in ("recall_at_10", "precision_at_5", "hit_rate_at_5", "map", "f1_at_5")]
    data = [*write_dataset(tmp_path), *only, "tracking=none"]
    assert ragsweep(*low, *data).returncode == 0
    assert ragsweep(*high, *data).returncode == 1
    for _ in range(2):  # when it is run, and when it is shown again
        done = ragsweep("-m", "top_k=1,2", *high, *data)
        assert (done.returncode, "2 of 2 configs miss an enforced target" in done.stdout) == (1, True)


@pytest.mark.nightly
def test_mlflow_project_passes_overrides_and_its_run_is_the_parent(tmp_path: Path, environment: dict[str, str]) -> None:
    overrides = " ".join(["top_k=1,2", *write_dataset(tmp_path)]).replace("=corpus", f"={tmp_path}/corpus")
    overrides = overrides.replace("=golden.jsonl", f"={tmp_path}/golden.jsonl") + f" store.path={tmp_path}/store"
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    binaries = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = forked.run(
        [sys.executable, "-m", "mlflow", "run", str(ROOT), "-e", "sweep", "-P", f"overrides={overrides}",
         "--env-manager", "local", "--experiment-name", "ragsweep"],
        cwd=tmp_path, env={**environment, "MLFLOW_TRACKING_URI": uri, "PATH": binaries},
        capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (parent,) = runs(tmp_path, "sweep")
    assert parent.data.tags["mlflow.project.entryPoint"] == "sweep"
    assert {run.data.tags["mlflow.parentRunId"] for run in runs(tmp_path, "config")} == {parent.info.run_id}
    assert len(runs(tmp_path, "config")) == 2


BAD_INPUT = [
    (["top_k=200"], "top_k=200 exceeds depth=100"),
    (["dataset.golden=nowhere.jsonl"], "nowhere.jsonl"),
    (["retriever=vector", "embedder=sentence_transformer", "embedder.model=./no-such-model"], "./no-such-model"),
    (["tracking.uri=sqlite:////proc/nowhere/mlflow.db"], "/proc/nowhere"),
    (["store.path=/proc/nowhere"], "store.path"),
    (["llm.api_key=sk-123"], "in an environment variable"),
    (["--topk"], 'unknown option "--topk"'),
    (["objective=ndgc_at_10"], 'objective: no metric "ndgc_at_10"; did you mean "ndcg_at_10"?'),
]


def test_bad_input_exits_2_with_one_sentence_and_no_record(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(len(BAD_INPUT))]
    for folder in folders:
        folder.mkdir()
    commands = {
        folder.name: ["run", *write_dataset(folder), *overrides]
        for folder, (overrides, _) in zip(folders, BAD_INPUT, strict=True)
    }
    found = in_one_process(commands, tmp_path)
    for folder, (_, message) in zip(folders, BAD_INPUT, strict=True):
        status, said = found[folder.name]
        refusal = [line for line in said.splitlines() if not line.startswith("warning ")]
        assert (status, len(refusal), message in refusal[-1]) == (2, 1, True), said
        assert not (folder / "outputs").exists()


def test_golden_set_without_evidence_says_which_metrics_cannot_be_had(ragsweep: Ragsweep, tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path, [{"id": "q1", "question": "where does the cat rest"}])
    refused = ragsweep(*dataset, "tracking=none")
    assert refused.returncode == 2
    assert "choose metrics=unlabelled" in refused.stderr
    done = ragsweep(*dataset, "metrics=unlabelled", "tracking=none")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "mlflow.db").exists()
    assert (tmp_path / ".ragsweep" / "ledger.db").exists()


def test_all_bad_configs_of_a_sweep_are_said_before_it_starts(ragsweep: Ragsweep, tmp_path: Path) -> None:
    done = ragsweep("-m", "top_k=1,200,300", *write_dataset(tmp_path))
    assert done.returncode == 2
    assert "top_k=200 exceeds depth" in done.stderr
    assert "top_k=300 exceeds depth" in done.stderr
    assert not (tmp_path / ".ragsweep" / "ledger.db").exists()


@pytest.mark.parametrize(("typed", "said"), [("sweep", ";"), ("shwo", '; did you mean "show"?')])
def test_command_without_a_known_name_shows_the_usage(typed: str, said: str) -> None:
    done = forked.run([sys.executable, "-m", "ragsweep", typed], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1].startswith(f'ragsweep: no command "{typed}"{said} known: run')


def test_help_names_groups_and_keys(ragsweep: Ragsweep) -> None:
    done = ragsweep("--help")
    assert done.returncode == 0
    for word in ("retriever: bm25, hybrid_convex", "top_k: 5", "plan=true"):
        assert word in done.stdout
    listed = set(done.stdout.split("sweeps: ")[1].splitlines()[0].split(", "))  # installed packages may add some
    assert listed >= {path.stem for path in (ROOT / "sweeps").glob("*.yaml")}


def test_a_command_whose_output_is_closed_runs(tmp_path: Path) -> None:
    words = [sys.executable, RUN, "-m", "top_k=1,2", "tracking=none", *write_dataset(tmp_path)]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *words], cwd=tmp_path, env=user_environment(), capture_output=True,
        text=True, check=False, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    (sweep,) = Ledger(tmp_path / ".ragsweep").sweeps()
    assert sweep.status == FINISHED
