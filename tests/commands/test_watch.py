"""`ragsweep watch`: a served model's traces beside its evaluation, from shipping to the sentences that name a drift."""

import json
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow
import pandas
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ragsweep.commands.served import read_since
from ragsweep.core.errors import ConfigError, InputError
from ragsweep_golden.commands.harvest import harvest
from ragsweep_serving.commands.ship import ship
from ragsweep_serving.commands.watch import watch
from support import output, read_rows, write_rows
from support.commands import RUN, printed, user_environment, write_files
from support.default_tracking import restoring_tracking_uri

pytestmark = pytest.mark.slow

TOPICS = ("cats", "dogs", "bread", "ships", "rivers", "clocks", "lamps", "ropes", "wheels", "nails", "roofs", "bells",
          "kites", "drums", "boots", "coats", "jars", "forks", "masks", "tents")  # fmt: skip
QUESTIONS = [f"where do people keep the {topic} in winter" for topic in TOPICS]
FRENCH = [f"où est-ce que les gens gardent leurs {topic} pendant l'hiver" for topic in TOPICS]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Evaluate and ship a config, and load it; return the folder and the model."""
    folder = tmp_path_factory.mktemp("served")
    texts = [{"id": topic, "text": f"People keep the {topic} in the shed in winter."} for topic in TOPICS]
    rows = [{"id": one, "question": text, "evidence": [{"document": one}]}
            for one, text in zip(TOPICS, QUESTIONS, strict=True)]  # fmt: skip
    data = write_files(folder, texts, rows)
    printed(folder, RUN, *data, "retriever=hybrid_rrf", "embedder=hashing", "llm=extractive", "depth=4", "top_k=2")
    with restoring_tracking_uri(), pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
        patch.setenv("MLFLOW_EXPERIMENT_NAME", "assistant")
        assert ship(["record 1", "--name", "handbook", "--alias", "champion"]) == 0
        model = mlflow.pyfunc.load_model("models:/handbook@champion")
        yield SimpleNamespace(folder=folder, model=model, traces=model.unwrap_python_model().traces)


def ask(served: SimpleNamespace, questions: list[str]) -> float:
    """Ask a served model, until its traces are sent; return when that began."""
    began = time.time()
    served.model.predict(pandas.DataFrame({"question": questions}))
    assert served.traces.flush(60)
    mlflow.flush_trace_async_logging()
    return began


def test_requests_like_the_golden_set_are_no_drift_and_others_are_named(
    served: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert watch(["handbook@champion", "--since", "0.0001m"]) == 3
    assert "No trace was found" in " ".join(capsys.readouterr().out.split())

    began = ask(served, QUESTIONS)
    since = datetime.fromtimestamp(began - 0.01).isoformat()
    files = ["--json", str(tmp_path / "watch.json"), "--prometheus", str(tmp_path / "watch.prom")]
    said = output(capsys, watch, "handbook@champion", "--since", since, "--tolerance", "latency=1000", *files)
    assert "No drift" in said
    assert "latency_p95_ms" not in said
    assert watch(["handbook@champion", "--since", since, "--tolerance", "latency=1000", "--numbers"]) == 0
    assert {"latency_p95_ms", "latency_p99_ms/fuse", "unknown_words_mean"} <= set(capsys.readouterr().out.split())
    found = json.loads((tmp_path / "watch.json").read_text())
    assert (found["requests"], found["questions"], found["evaluated"]) == (20, 20, 20)
    drifts = {row[0]: row for row in found["drifts"]["data"]}
    for name in ("top_score/retrieve/bm25", "gap/retrieve/bm25", "top_score/retrieve/vector", "top_score/fuse"):
        assert drifts[name][2] == pytest.approx(drifts[name][3], rel=1e-6)  # the same questions have the same scores
        assert drifts[name][4] == pytest.approx(0.5)
    assert drifts["refused_share"][2:4] == drifts["empty_share"][2:4] == [0, 0]

    families = {one.name: one for one in text_string_to_metric_families((tmp_path / "watch.prom").read_text())}
    values = {one.labels["number"]: one.value for one in families["ragsweep_watch_value"].samples}
    assert values["empty_share"] == 0
    assert values["latency_p50_ms"] > 0
    assert families["ragsweep_watch_requests"].samples[0].value == 20

    assert watch(["handbook/1", "--since", since, "--max", "latency_p95_ms=.0001", "--tolerance", "latency=1000"]) == 1
    assert "--max 0.0001 is exceeded" in " ".join(capsys.readouterr().out.split())
    assert watch(["handbook/1", "--since", since, "--min", "latency_p50_ms=1e9", "--tolerance", "latency=1000"]) == 1
    assert "--min 1000000000 is not reached" in " ".join(capsys.readouterr().out.split())

    ask(served, FRENCH)
    uri = mlflow.get_tracking_uri()
    place = ["--uri", uri, "--experiment", "assistant"]
    said = " ".join(output(capsys, watch, "handbook@champion", "--tolerance", "latency=1000", *place, status=1).split())
    assert f"--model handbook@champion --since 7d traces={uri} experiment=assistant" in said
    assert "Language shift: fr 50.0 % of the requests, 0.0 % in the evaluation" in said
    assert "lacking language fr" in said
    assert "Topic shift" not in said  # words of another language do not count as a topic shift

    (tmp_path / "golden.jsonl").write_text((served.folder / "golden.jsonl").read_text())
    assert harvest([str(tmp_path / "golden.jsonl"), "corpus=corpus.jsonl", "--model", "handbook@champion"]) == 0
    added = read_rows(tmp_path / "golden.jsonl")[20:]
    assert sorted(one["question"] for one in added) == sorted(FRENCH)


def test_traces_are_stored_although_the_process_exits_at_once(served: SimpleNamespace) -> None:
    ask = f"model.predict([{{'question': {QUESTIONS[0]!r}}}])"
    code = f"import mlflow\nmodel = mlflow.pyfunc.load_model('models:/handbook@champion')\nfor _ in range(5): {ask}"
    place = {"MLFLOW_TRACKING_URI": mlflow.get_tracking_uri(), "MLFLOW_EXPERIMENT_NAME": "leaving"}
    command, environment = [sys.executable, "-c", code], user_environment(**place)
    done = subprocess.run(command, cwd=served.folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    experiment = mlflow.get_experiment_by_name("leaving")
    assert len(mlflow.search_traces(locations=[experiment.experiment_id], return_type="list")) == 5


@pytest.mark.nightly
def test_changed_documents_named(served: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    began = ask(served, QUESTIONS)
    since = ["--since", datetime.fromtimestamp(began - 0.01).isoformat(), "--tolerance", "latency=1000"]
    rows = read_rows(served.folder / "corpus.jsonl")
    same = tmp_path / "same.jsonl"
    write_rows(same, rows)
    assert watch(["handbook@champion", *since, "--corpus", str(same)]) == 0
    changed = [{**row, "text": row["text"].replace("shed", "cellar")} for row in rows[:12]] + rows[12:19]
    changed.append({"id": "new", "text": "Something else."})
    write_rows(tmp_path / "today.jsonl", changed)
    capsys.readouterr()
    assert watch(["handbook@champion", *since, "--corpus", str(tmp_path / "today.jsonl")]) == 1
    assert "Stale index: 12 documents changed, 1 new, 1 gone" in " ".join(capsys.readouterr().out.split())
    (tmp_path / "other.jsonl").write_text('{"id": "other", "text": "another corpus"}\n')
    with pytest.raises(InputError, match="specify the same folder or file"):
        watch(["handbook@champion", *since, "--corpus", str(tmp_path / "other.jsonl")])


@pytest.mark.parametrize(
    ("typed", "error", "said"),
    [
        (["nothing@champion"], InputError, "no model"),
        (["handbook/7"], InputError, "no model"),
        (["handbook"], ConfigError, "NAME@ALIAS or NAME/NUMBER"),
        (["hand:book/7"], ConfigError, "NAME@ALIAS or NAME/NUMBER"),
        (["handbook/99999999999999999999"], ConfigError, "NAME@ALIAS or NAME/NUMBER"),
        (["handbook@champion", "--since", "yesterday"], ConfigError, "7d, 12h"),
        (["handbook@champion", "--tolerance", "shares=1"], ConfigError, 'did you mean "share"'),
        (["handbook@champion", "--tolerance", "share=1"], ConfigError, "at least 0 and below 1 for share"),
        (["handbook@champion", "--max", "empty_share"], ConfigError, "write NAME=NUMBER, such as latency_p95_ms=300"),
        (["handbook@champion", "--tolerance", "share"], ConfigError, "write NAME=NUMBER, such as share=.05"),
        (["handbook@champion", "--looks", "0"], ConfigError, "at least 1"),
        (["handbook@champion", "--experiment", "x"], InputError, 'no experiment "x"; known: .*assistant'),
    ],
)
def test_bad_input_is_refused(served: SimpleNamespace, typed: list[str], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        watch(typed)


def test_threshold_of_an_unknown_number_is_refused_with_the_nearest_one(served: SimpleNamespace) -> None:
    ask(served, QUESTIONS[:2])
    with pytest.raises(ConfigError, match='did you mean "empty_share"'):
        watch(["handbook@champion", "--max", "empty=1"])


def test_since_is_a_duration_or_a_date() -> None:
    assert [read_since(text, 86400.0 * 10) for text in ("7d", "12h", "30m")] == [259200.0, 820800.0, 862200.0]
    assert read_since("2026-05-01T00:00:00+00:00", 0.0) == 1777593600.0
    with pytest.raises(ConfigError, match='--since: "9999999d" is neither an age'):  # 27,000 years
        read_since("9999999d", 0.0)


def test_model_of_another_server_is_not_looked_for(tmp_path: Path) -> None:
    place: Any = f"sqlite:///{tmp_path / 'none.db'}"
    with pytest.raises(InputError, match="no such file"):
        watch(["handbook@champion", "--uri", place])
    assert not (tmp_path / "none.db").exists()
