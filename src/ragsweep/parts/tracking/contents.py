"""Find and reopen runs, and send the contents of an open run.

The contents are parameters, metrics, files, the dataset, rankings, the prompt and traces. In MLflow's registry, each
distinct prompt is a version. A trace consists of spans with inputs, outputs and durations; scores become feedback.
"""

from __future__ import annotations

import json
import logging
import math
import re
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from string import Formatter
from typing import TYPE_CHECKING, Any, cast

from ragsweep.core.results import Artifacts, DatasetFacts
from ragsweep.core.results import Run as ConfigRun
from ragsweep.parts.tracking import files, runs
from ragsweep.parts.tracking.connection import Connection, OpenRun
from ragsweep.parts.tracking.database import database_path

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_log = logging.getLogger(__name__)

PAGE = 200
"""Maximum number of runs that one request returns."""

TRACES_PAGE = 100

QUESTION = "ragsweep.question"
"""The trace tag whose value is the id of the question."""

KINDS = {"retrieve": "RETRIEVER", "fuse": "CHAIN", "rerank": "RERANKER", "generate": "CHAT_MODEL", "judge": "EVALUATOR"}
"""First word of a span's name -> the span type that MLflow displays."""


def children(connection: Connection, parent: str, condition: str) -> Iterator[Run]:
    """Yield the child runs of a parent run that meet ``condition``, an expression in MLflow's search syntax."""
    experiment, token = connection.run(parent).experiment, None
    query = f"tags.`{runs.PARENT}` = '{parent}' and {condition}"
    while True:
        page = connection.client.search_runs([experiment], query, max_results=PAGE, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def exists(connection: Connection, run_id: str) -> bool:
    """Return whether a run with this id exists in MLflow and is not deleted."""
    from mlflow.exceptions import MlflowException

    try:
        return str(connection.client.get_run(run_id).info.lifecycle_stage) == "active"
    except MlflowException as fault:
        if fault.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return False


def adopt(connection: Connection, run_id: str, name: str, tags: Mapping[str, str]) -> OpenRun:
    """Reopen an existing run: set it to RUNNING, and set its name and tags; return the run.

    Tags that describe an earlier result, and artifacts that a killed process left unfinished, are removed.
    """
    from mlflow.entities import RunTag
    from mlflow.exceptions import MlflowException

    client = connection.client
    before = client.get_run(run_id)
    client.update_run(run_id, status="RUNNING", name=name)
    earlier = {runs.ERROR, runs.WARNINGS, runs.KILLED, runs.STATE, runs.STOPPED, runs.TARGETS}
    for key in earlier & before.data.tags.keys() - tags.keys():
        try:
            client.delete_tag(run_id, key)
        except MlflowException as fault:
            if fault.error_code != "RESOURCE_DOES_NOT_EXIST":  # another process that reopens the run was first
                raise
    client.log_batch(run_id, tags=[RunTag(key, value) for key, value in tags.items()])
    run = OpenRun.of(before, before)
    files.remove_unfinished(run.artifacts)
    return run


def cleared_failures(run: OpenRun) -> dict[str, float]:
    """Map each metric that counts failures of an earlier attempt to 0, because MLflow cannot delete a metric."""
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
    # MLflow rejects a changed parameter and would store an unchanged metric as a second point.
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
    """Log the dataset of a run: the digests of its golden set and corpus, and counts of its documents and questions."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    counts = {name: getattr(facts, name) for name in ("documents", "questions", "with_evidence", "unanswerable")}
    profile = json.dumps({**counts, "left_out": dict(facts.left_out)})
    source = json.dumps({"golden_digest": facts.golden_digest, "corpus_digest": facts.corpus_digest})
    digest = facts.golden_digest[: files.LONGEST_DIGEST]
    dataset = Dataset(facts.name[:500] or "dataset", digest, "ragsweep", source, profile=profile)
    # MLflow stores a dataset once for all runs, stores the tags of an input for each run, and ignores repeated inputs.
    tags = [InputTag("mlflow.data.context", "evaluation"), InputTag("corpus_digest", facts.corpus_digest)]
    connection.client.log_inputs(run_id, [DatasetInput(dataset, tags)])


@contextmanager
def log_rankings(connection: Connection, home: OpenRun, artifacts: Artifacts) -> Generator[None, None, None]:
    """Write rankings and their relevance labels (qrels) as artifacts of ``home`` after a ``with`` block.

    Existing artifacts are skipped. Artifacts for a local folder are compressed in a thread while the block runs.
    """
    tables = {
        "trec.gz": artifacts.rankings,
        "qrels": artifacts.qrels,
        "evidence.trec.gz": artifacts.evidence_runs,
        "evidence.qrels": artifacts.evidence_qrels,
    }
    texts = {f"rankings/{one[:12]}.{kind}": (table, one) for kind, table in tables.items() for one in table}

    def pack(name: str) -> bytes:
        table, address = texts[name]
        return files.packed(name, str(table[address]))

    is_local = bool(files.local_folder(home.artifacts))
    new = files.missing(home.artifacts, list(texts), connection.uri) if is_local else []
    with ThreadPoolExecutor(1) as thread:
        packed = thread.map(pack, new)
        yield
        if not is_local:  # after the block: an unusable store must not prevent the block's requests
            new = files.missing(home.artifacts, list(texts), connection.uri)
            packed = map(pack, new)
        files.write(home.artifacts, dict(zip(new, packed, strict=True)), connection.uri)


def link_prompt(connection: Connection, run: OpenRun, config: ConfigRun) -> None:
    """Link a run to its config's LLM prompt, and register the prompt if it is new; do nothing if there is no prompt.

    If the prompt cannot be registered or linked, a warning is logged, and this connection links no more prompts.
    """
    prompt = (config.config.get("llm") or {}).get("prompt")
    if not isinstance(prompt, Mapping) or connection.prompts is None:
        return
    name = f"ragsweep-{re.sub('[^a-zA-Z0-9_.-]', '_', config.parameters.get('prompt', 'prompt'))}"
    try:
        with connection.as_default(run.experiment):
            key = f"{name} {prompt}"
            if key not in connection.prompts:
                connection.prompts[key] = _prompt_version(connection, name, prompt)
            connection.client.link_prompt_version_to_run(run.id, connection.prompts[key])
    except Exception as fault:  # the registry may not support prompts; config.yaml contains the prompt
        connection.prompts = None
        reason = str(fault).partition("\n")[0] or type(fault).__name__
        _log.warning("prompts are not registered in MLflow, only recorded in each run's config.yaml: %s", reason)


def _prompt_version(connection: Connection, name: str, prompt: Mapping[str, Any]) -> Any:
    """Return the registered version of a prompt; register one if none has the same text and tags.

    If the database is a file, a lock prevents other processes from registering the same prompt at the same time.
    """
    from filelock import FileLock

    template: list[dict[str, Any]] = [
        {"role": role, "content": _in_double_braces(str(prompt.get(key, "")))}
        for role, key in (("system", "system"), ("user", "question"))
    ]
    shown = ("_target_", "system", "question")
    tags = {key: str(value) for key, value in prompt.items() if key not in shown}
    client, path = connection.client, database_path(connection.uri)
    with FileLock(path.with_name(f"{path.name}.lock")) if path else nullcontext():
        known = client.search_prompt_versions(name) if client.search_prompts(f"name = '{name}'") else ()
        same = (one for one in known if one.template == template and one.tags == tags)
        return next(same, None) or client.register_prompt(name, template, tags=tags)


def _in_double_braces(template: str) -> str:
    """Return a template with its placeholders ``{field}`` in MLflow's form ``{{field}}``."""
    parts = Formatter().parse(template)
    return "".join(text + ("" if field is None else f"{{{{{field}}}}}") for text, field, *_ in parts)


def send_traces(connection: Connection, run: OpenRun, traces: Sequence[Mapping[str, Any]], started: float) -> None:
    """Send a run's traces, and wait until they are stored; remove traces of an earlier attempt at the run first.

    ``started`` is the start time of each trace, in seconds since 1970.
    """
    import mlflow

    client = connection.client
    if run.before:
        while found := client.search_traces(
            locations=[run.experiment], run_id=run.id, max_results=TRACES_PAGE, include_spans=False
        ):
            client.delete_traces(run.experiment, trace_ids=[trace.info.trace_id for trace in found])
    with connection.as_default(run.experiment):
        for trace in traces:
            _send_trace(client, run, trace, round(started * 1e9))
        mlflow.flush_trace_async_logging()  # needed if the user's environment enables asynchronous logging


def _send_trace(client: MlflowClient, run: OpenRun, trace: Mapping[str, Any], begun: int) -> None:
    import mlflow
    from mlflow.entities import AssessmentSource

    tags = {QUESTION: str(trace["question_id"])}
    root = client.start_trace(
        "question", "CHAIN", {"question": trace["question"]}, None, tags, run.experiment, begun, run.id
    )
    now = begun
    for span in trace["spans"]:
        attributes = {} if math.isfinite(span["seconds"]) else {"duration": "not measured"}
        part = mlflow.start_span_no_context(
            span["name"],
            KINDS[span["name"].partition(" ")[0]],
            cast(Any, root),
            span["inputs"],
            attributes,
            start_time_ns=now,
        )
        now += 0 if attributes else round(span["seconds"] * 1e9)
        part.end(span["outputs"], end_time_ns=now)
    client.end_trace(root.trace_id, trace["answer"], None, "ERROR" if trace["failed"] else "OK", now)
    for name, score in trace["scores"].items():
        kind, who = ("LLM_JUDGE", score["model"]) if score["model"] else ("CODE", "ragsweep")
        mlflow.log_feedback(
            trace_id=root.trace_id,
            name=name,
            value=score["value"],
            source=AssessmentSource(kind, who),
            rationale=score["reasons"] or None,
        )
