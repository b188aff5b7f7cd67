"""Find and reopen runs, and send the contents of an open run: parameters, metrics, files, dataset and rankings."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ragsweep.core.results import Artifacts, DatasetFacts
from ragsweep.parts.tracking import files, runs
from ragsweep.parts.tracking.connection import Connection, OpenRun

if TYPE_CHECKING:
    from mlflow.entities import Run

PAGE = 200
"""Maximum number of runs that one request returns."""


def children(connection: Connection, parent: str, condition: str) -> Iterator[Run]:
    """Yield the child runs of a parent run that meet ``condition``, an expression in MLflow's search syntax."""
    experiment, token = connection.parent(parent).experiment, None
    query = f"tags.`{runs.PARENT}` = '{parent}' and {condition}"
    while True:
        page = connection.client.search_runs([experiment], query, max_results=PAGE, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def exists(connection: Connection, run_id: str) -> bool:
    """Return whether MLflow has a run with this id that is not deleted."""
    from mlflow.exceptions import MlflowException

    try:
        return str(connection.client.get_run(run_id).info.lifecycle_stage) == "active"
    except MlflowException as fault:
        if fault.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return False


def adopt(connection: Connection, run_id: str, name: str, tags: Mapping[str, str]) -> OpenRun:
    """Reopen an existing run: set it to RUNNING, set its name and tags, and remove tags of its earlier outcome.

    Artifacts that a killed process left unfinished are removed, too.
    """
    from mlflow.entities import RunTag

    client = connection.client
    before = client.get_run(run_id)
    client.update_run(run_id, status="RUNNING", name=name)
    earlier = {runs.ERROR, runs.WARNINGS, runs.KILLED, runs.STATE, runs.TARGETS}
    for key in earlier & before.data.tags.keys() - tags.keys():
        client.delete_tag(run_id, key)
    client.log_batch(run_id, tags=[RunTag(key, value) for key, value in tags.items()])
    run = OpenRun.of(before, before)
    files.remove_unfinished(run.artifacts)
    return run


def cleared_failures(run: OpenRun) -> dict[str, float]:
    """Return 0 for each count of failed measurements of an earlier attempt; MLflow cannot delete a metric."""
    known = run.before.data.metrics if run.before else {}
    return {name: 0.0 for name in known if name.endswith(files.FAILED)}


def log_values(
    connection: Connection,
    run: OpenRun,
    parameters: Mapping[str, str],
    metrics: Mapping[str, float],
    artifacts: Mapping[str, bytes],
) -> None:
    """Send parameters, metrics and artifacts to a run; metrics that are NaN or infinite are omitted.

    A run that was reopened gets only new parameters and changed metrics.
    """
    from mlflow.entities import Metric, Param

    short, long = files.parameters(parameters)
    # MLflow rejects a changed parameter, and would store an unchanged metric as a second point.
    params, values = (run.before.data.params, run.before.data.metrics) if run.before else ({}, {})
    now = round(time.time() * 1000)
    numbers = [
        Metric(key, value, now, 0)
        for key, value in ((name, files.without_noise(number)) for name, number in metrics.items())
        if math.isfinite(value) and values.get(key) != value
    ]
    new = {key: value for key, value in short.items() if key not in params}
    first, *rest = [[Param(*pair) for pair in batch] for batch in files.batches(new)]
    connection.client.log_batch(run.id, numbers, first)  # the client splits the metrics if there are too many
    for batch in rest:
        connection.client.log_batch(run.id, params=batch)
    if long:
        artifacts = {**artifacts, "long_parameters.json": files.json_bytes(long)}
    files.write(run.artifacts, artifacts, connection.uri)


def log_dataset(connection: Connection, run_id: str, facts: DatasetFacts) -> None:
    """Log the dataset of a run, with the digests of its golden set and corpus, and its item counts."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    counts = {name: getattr(facts, name) for name in ("documents", "questions", "with_evidence", "unanswerable")}
    profile = json.dumps({**counts, "left_out": dict(facts.left_out)})
    source = json.dumps({"golden_digest": facts.golden_digest, "corpus_digest": facts.corpus_digest})
    digest = facts.golden_digest[: files.LONGEST_DIGEST]
    dataset = Dataset(facts.name[:500] or "dataset", digest, "ragsweep", source, profile=profile)
    # MLflow stores a dataset once for all runs, but the tags of an input for each run. It ignores repeated inputs.
    tags = [InputTag("mlflow.data.context", "evaluation"), InputTag("corpus_digest", facts.corpus_digest)]
    connection.client.log_inputs(run_id, [DatasetInput(dataset, tags)])


def log_rankings(connection: Connection, home: OpenRun, artifacts: Artifacts) -> None:
    """Write rankings and their relevance labels (qrels) as artifacts of ``home``; existing artifacts are skipped."""
    tables = {
        "trec.gz": artifacts.rankings,
        "qrels": artifacts.qrels,
        "evidence.trec.gz": artifacts.evidence_runs,
        "evidence.qrels": artifacts.evidence_qrels,
    }
    texts = {f"rankings/{one[:12]}.{kind}": (table, one) for kind, table in tables.items() for one in table}
    new = files.missing(home.artifacts, list(texts), connection.uri) if texts else []
    rendered = {name: files.packed(name, str(table[address])) for name in new for table, address in [texts[name]]}
    files.write(home.artifacts, rendered, connection.uri)
