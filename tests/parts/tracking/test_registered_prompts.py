"""Prompts in MLflow's registry: one version for each text, and nothing is lost where they cannot be registered."""

import json
import os

import pytest

from ragsweep.parts.tracking import Mlflow
from support.results import a_result
from support.servers.tracking_server import client

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:sqlalchemy", "ignore:The ``noload``",
                                        "ignore:.*Any type hint")  # fmt: skip


def log(tracker: Mlflow, option: str, **prompt: str) -> str:
    given = {"_target_": "P", "system": "", "question": "{passages} {{}} {question}", "passage": "{text}", **prompt}
    return tracker.log_result(a_result(config={"llm": {"prompt": given}}, parameters={"prompt": option}))


def linked(tracker: Mlflow, run: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(client(tracker).get_run(run).data.tags.get("mlflow.linkedPrompts", "[]"))
    return found


def test_each_text_of_a_prompt_is_one_version_and_a_failure_is_one_warning(
    sqlite_uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    tracker, before = Mlflow(sqlite_uri, "prompts"), dict(os.environ)
    given = [{}, {"passage": "[{number}] {text}"}, {}, {"system": "Be brief."}, {"passage": "[{number}] {text}"}]
    versions = [linked(tracker, log(tracker, "a prompt", **texts)) for texts in given]
    assert versions == [[{"name": "ragsweep-a_prompt", "version": number}] for number in "12132"]
    assert client(tracker).load_prompt("prompts:/ragsweep-a_prompt/1").template[1] == {
        "role": "user", "content": "{{passages}} {} {{question}}"
    }  # fmt: skip
    assert linked(tracker, tracker.log_result(a_result(config={"llm": {"_target_": "Extractive"}}))) == []

    client(tracker).create_registered_model("ragsweep-model")  # no prompt can have the name of a model
    for _ in range(2):
        run = log(tracker, "model")
        assert (client(tracker).get_run(run).info.status, linked(tracker, run)) == ("FINISHED", [])
    assert len([record for record in caplog.records if "prompts are not registered" in record.message]) == 1
    assert {name: os.environ.get(name) for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID")} == {
        name: before.get(name) for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID")
    }
