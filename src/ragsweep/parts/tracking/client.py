"""Record results in MLflow; the process's active run and default tracking URI remain unchanged.

A sweep is recorded as a parent run, and each of its configs as a child run (tag ``mlflow.parentRunId``). The status of
every run is set explicitly, because MLflow leaves the run of a killed process RUNNING and sets the run of a crashed
process to FINISHED. NaN is never sent, because MLflow would store it as 0.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ragsweep.core.errors import ConfigError
from ragsweep.core.identity import content_hash
from ragsweep.core.results import NO_ARTIFACTS, NO_TRACES, PARTIAL, TRACES, Artifacts, DatasetFacts, Failure, Result
from ragsweep.core.results import Run as ConfigRun
from ragsweep.parts.tracking import contents, files, runs
from ragsweep.parts.tracking.connection import ANSWER_SECONDS, TRACE_SECONDS, Connection, OpenRun, find_outage
from ragsweep.parts.tracking.database import (
    absolute_uri,
    check_exists,
    database_path,
    describe_risk,
    is_server,
    mask_uri,
    mlflow_command,
)
from ragsweep.parts.tracking.models import ModelRegistry
from ragsweep.parts.tracking.runs import ALONE, RUNS_VIEW, Child, RunPlacement

if TYPE_CHECKING:
    from mlflow import MlflowClient

FEW = 50
"""Maximum number of jobs whose runs are searched for one by one (20 ms each); for more jobs, all runs of the sweep
are listed (10 ms each)."""

QUESTIONS = "questions.json"
"""The artifact with the table of questions that MLflow's evaluation page displays."""
CHOSEN, ALL = TABLES = ("chosen", "all")
"""Values of ``tables``: the configs of a sweep that get a table of questions."""


class Mlflow:
    """A tracker that records results in an MLflow database or on an MLflow server.

    Args:
        uri: ``sqlite:///file``, another database that MLflow supports, or the address of a tracking server. The default
            is the environment variable ``MLFLOW_TRACKING_URI`` or, if it is not set, ``sqlite:///mlflow.db`` in the
            current folder.
        experiment: The name of the experiment; a missing experiment is created.
        traces: Which questions of a config get a trace: none, failures, sample or all.
        tables: The configs of a sweep that get a table of questions: "chosen" (the two configs that the sweep's report
            compares first) or "all".

    Methods that call MLflow raise TrackingError if MLflow cannot be reached or rejects a call. If the recording of a
    run is interrupted, recording it again with ``RunPlacement.adopt`` completes the run without duplicates.
    """

    def __init__(
        self, uri: str | None = None, experiment: str = "ragsweep", traces: str = NO_TRACES, tables: str = CHOSEN
    ) -> None:
        self.uri = absolute_uri(uri or os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db")
        self.experiment = experiment
        self.traces = traces  # only checked in this class; an evaluation reads the setting from the config
        self.tables = tables

    def check(self) -> None:
        """Raise ConfigError for invalid settings, and TrackingError as ``Connection.check`` does.

        MLflow is not loaded.
        """
        if self.traces not in TRACES:
            raise ConfigError(f"tracking.traces must be {', '.join(TRACES[:-1])} or {TRACES[-1]}, got {self.traces!r}")
        if self.tables not in TABLES:
            raise ConfigError(f"tracking.tables must be {' or '.join(TABLES)}, got {self.tables!r}")
        if not self.experiment.strip():
            raise ConfigError("tracking.experiment is blank; name an experiment, or omit the key")
        self._connection.check()

    def risk(self) -> str:
        """Return a warning if credentials would be sent to another machine unencrypted, else ""."""
        return describe_risk(self.uri)

    def models(self) -> ModelRegistry:
        """Return the model registry at the tracking URI; its method ``register`` logs models to the experiment.

        The experiment is created if it does not exist.
        """
        with self._connection.opened():
            return ModelRegistry(self._connection, self._experiment_id())

    def registry(self) -> ModelRegistry:
        """Return the model registry at the tracking URI, for reading; raise InputError for a missing database file."""
        check_exists(self.uri, "set --uri (golden harvest: traces) or MLFLOW_TRACKING_URI to an existing database")
        self._connection.check()
        return ModelRegistry(self._connection, "0")

    @property
    def identity(self) -> str:
        """A hash of the tracking URI and the experiment, stored instead of the URI, which may contain a password."""
        return content_hash(["mlflow", self.uri, self.experiment])

    def find(self, tags: Mapping[str, str], started: float | None = None, known: str | None = None) -> str | None:
        """Return ``known`` if it is the id of a run, else the id of a run with these tags; None if neither exists.

        Only this tracker's experiment is searched, but ``known`` may be a run in another experiment, created by
        ``mlflow run``. If ``started`` (seconds since 1970) is given, the run with these tags must have started
        then, to the millisecond.
        """
        conditions = [f"tags.`{name}` = '{value}'" for name, value in tags.items()]
        if started is not None:
            conditions.append(f"attributes.start_time = {_milliseconds(started)}")
        with self._connection.opened():
            experiment = self._experiment_id()
            if known and contents.exists(self._connection, known):
                return known
            matches = self._client.search_runs([experiment], " and ".join(conditions), max_results=1)
            return str(matches[0].info.run_id) if matches else None

    def has_ended(self, run_id: str) -> bool:
        """Return whether a run has any status other than RUNNING."""
        with self._connection.opened():
            return str(self._client.get_run(run_id).info.status) != "RUNNING"

    def view_command(self) -> str:
        """Return the command that starts MLflow's web interface or, for a server, the address of the runs' page."""
        if is_server(self.uri):
            experiment = self._connection.experiments.get(self.experiment)
            return mask_uri(self.uri).rstrip("/") + (f"/#/experiments/{experiment}?{RUNS_VIEW}" if experiment else "")
        # `mlflow ui` alone opens the store in MLFLOW_BACKEND_STORE_URI or, if it is not set, any experiments in mlruns.
        has_another = "MLFLOW_BACKEND_STORE_URI" in os.environ or any(Path("mlruns").glob("*/meta.yaml"))
        if database_path(self.uri) == Path("mlflow.db").absolute() and not has_another:
            return f"{mlflow_command()} ui"
        return f"{mlflow_command()} ui --backend-store-uri {shlex.quote(mask_uri(self.uri))}"

    def sync_options(self) -> list[str]:
        """Return the options that make `ragsweep sync` send results to this tracker; secrets in the URI are masked."""
        usual = Mlflow()
        options = [] if self.uri == usual.uri else [f"--uri={mask_uri(self.uri)}"]
        return options + ([] if self.experiment == usual.experiment else [f"--experiment={self.experiment}"])

    def address(self, run_id: str) -> str:
        """Return the address of a run's page on the server or in `mlflow ui`.

        Return "" if this process has not yet recorded a run, because the id of the experiment is then unknown.
        """
        known = self._connection.runs.get(run_id)  # its experiment may have been renamed
        if (experiment := known.experiment if known else self._connection.experiments.get(self.experiment)) is None:
            return ""
        base = mask_uri(self.uri).rstrip("/") if is_server(self.uri) else "http://127.0.0.1:5000"
        return f"{base}/#/experiments/{experiment}/runs/{run_id}"

    def open_sweep(
        self, name: str, tags: Mapping[str, str], adopt: str | None = None, span: tuple[float, float] = (0.0, 0.0)
    ) -> str:
        """Create a sweep's parent run or, if ``adopt`` is a run's id, reopen that run as the parent; return its id.

        ``span`` is the start time of a new run and the end time for `close_sweep`, in seconds since 1970; 0 means now.
        """
        with self._connection.opened():
            run = self._open(name, RunPlacement(adopt=adopt), {**tags, runs.KIND: "sweep"}, span[0])
            self._connection.runs[run.id] = replace(run, before=None, ended=span[1])
            return run.id

    def close_sweep(
        self,
        run_id: str,
        status: str,
        artifacts: Mapping[str, bytes],
        metrics: Mapping[str, float],
        tags: Mapping[str, str] | None = None,
        dataset: DatasetFacts | None = None,
    ) -> None:
        """Write a sweep's results to the parent run, and then end the run with ``status``.

        If writing fails, the run is not ended, so that `ragsweep sync` can complete it. ``status`` is FINISHED, FAILED
        or KILLED. If a sweep is closed again, only changed metrics get a second value.
        """
        with self._connection.opened():
            for name, value in (tags or {}).items():
                self._client.set_tag(run_id, files.key(name), files.short_tag(value))
            if metrics:
                run = self._client.get_run(run_id)
                contents.log_values(self._connection, OpenRun.of(run, run), {}, metrics, {})
            if dataset:
                contents.log_dataset(self._connection, run_id, dataset)
            written = {**artifacts, **files.long_tags(tags or {})}
            parent = self._connection.run(run_id)
            files.write(parent.artifacts, written, self.uri)
            self._client.set_terminated(run_id, status, _milliseconds(parent.ended))

    def children(self, parent: str, jobs: Collection[str] | None = None) -> dict[str, Child]:
        """Map the name of each job in ``jobs`` (None: of every job of the sweep) to the job's run.

        Jobs without a run are omitted. A job has several runs if a process was killed between a request and the
        response. All of these runs but one are ended as KILLED, with the reason in the tag ``ragsweep.killed``.
        """
        with self._connection.opened():
            if jobs is not None and len(jobs) <= FEW:
                conditions = [f"tags.`{runs.JOB}` = '{job}'" for job in jobs]
            else:
                conditions = [f"tags.`{runs.KIND}` = 'config'"]
            candidates = [
                run for condition in conditions for run in contents.children(self._connection, parent, condition)
            ]
            chosen, superfluous = runs.assign_runs(candidates)
            for run_id, reason in superfluous.items():
                self._kill(run_id, reason)
            return {job: child for job, child in chosen.items() if jobs is None or job in jobs}

    def end_abandoned(self, parent: str, kept: Collection[str] = ()) -> list[str]:
        """End the RUNNING children of a parent run as KILLED, except those whose job is in ``kept``.

        Return the ids of the runs that were ended.
        """
        with self._connection.opened():
            running = contents.children(self._connection, parent, "attributes.status = 'RUNNING'")
            ended = [str(run.info.run_id) for run in running if run.data.tags.get(runs.JOB) not in kept]
            for run_id in ended:
                self._kill(run_id, "its process ended before the run was completely recorded")
            return ended

    def log_artifacts(self, run_id: str, artifacts: Mapping[str, bytes]) -> None:
        """Write artifacts of a run: a mapping from names, such as ``plots/recall.png``, to contents."""
        with self._connection.opened():
            files.write(self._connection.run(run_id).artifacts, artifacts, self.uri)

    def log_table(self, run_id: str, table: bytes) -> None:
        """Write a run's table of questions for MLflow's evaluation page; replace the existing table, if any."""
        self.log_artifacts(run_id, {QUESTIONS: table})
        # MLflow's own log_table would append the questions again when an upload is repeated.
        self.tag(run_id, {runs.TABLES: json.dumps([{"path": QUESTIONS, "type": "table"}])})

    def tag(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Add tags to a run of any status; long values are cut."""
        from mlflow.entities import RunTag

        with self._connection.opened():
            sent = [RunTag(files.key(name), files.short_tag(value)) for name, value in tags.items()]
            self._client.log_batch(run_id, tags=sent)

    def log_result(self, result: Result, at: RunPlacement = ALONE, artifacts: Artifacts = NO_ARTIFACTS) -> str:
        """Record the result of a config as a run, and return the run's id.

        Rankings are written to the parent run, so that all its children share them, or to the run itself if it has no
        parent. Existing rankings are not written again. A PARTIAL result is recorded as a FAILED run.
        """
        status = "FAILED" if result.run.state == PARTIAL else "FINISHED"
        seconds = ANSWER_SECONDS + TRACE_SECONDS * len(artifacts.traces)
        with self._connection.opened(seconds), self._run(result.run, at, files.tags(result), status) as run:
            home = self._connection.run(at.parent) if at.parent else run
            with contents.log_rankings(self._connection, home, artifacts):
                written = {"config.yaml": files.yaml(result.run.config), "outcomes.parquet": files.parquet(result)}
                numbers = {**contents.cleared_failures(run), **files.metrics(result)}
                contents.log_values(self._connection, run, result.run.parameters, numbers, written)
                contents.log_dataset(self._connection, run.id, result.run.dataset)
            contents.link_prompt(self._connection, run, result.run)
            if artifacts.traces:
                contents.send_traces(self._connection, run, artifacts.traces, result.run.started)
            return run.id

    def log_failure(self, failure: Failure, at: RunPlacement = ALONE) -> str:
        """Record a failed config as a FAILED run, with the error as a tag and the traceback as an artifact.

        Return the run's id.
        """
        tags = {runs.KIND: "config", runs.ERROR: failure.error}
        with self._connection.opened(), self._run(failure, at, tags, "FAILED") as run:
            written = {"traceback.txt": files.encoded(failure.traceback or failure.error)}
            contents.log_values(self._connection, run, failure.parameters, {}, written)
            return run.id

    @property
    def _connection(self) -> Connection:
        return Connection.to(self.uri)

    @property
    def _client(self) -> MlflowClient:
        return self._connection.client

    def _experiment_id(self) -> str:
        return self._connection.experiment(self.experiment)

    def _kill(self, run_id: str, reason: str) -> None:
        self._client.set_tag(run_id, runs.KILLED, reason)
        self._client.set_terminated(run_id, "KILLED")

    def _open(self, name: str, at: RunPlacement, tags: dict[str, str], started: float = 0.0) -> OpenRun:
        if len(name) > files.LONGEST_KEY:
            name, tags = name[: files.LONGEST_KEY - 4] + " ...", {**tags, runs.NAME: name}
        if at.job is not None:
            tags = {**tags, runs.JOB: at.job}
        short = {files.key(key): files.short_tag(value) for key, value in tags.items()}
        if at.parent:
            short[runs.PARENT] = at.parent
        if at.adopt:
            run = contents.adopt(self._connection, at.adopt, name, short)
        else:
            run = self._create(at.parent, name, short, started)
        self._connection.runs[run.id] = replace(run, before=None)
        files.write(run.artifacts, files.long_tags(tags), self.uri)
        return run

    def _create(self, parent: str | None, name: str, tags: dict[str, str], started: float) -> OpenRun:
        # MLflow shows child runs only in their parent's experiment.
        experiment = self._connection.run(parent).experiment if parent else self._experiment_id()
        tags |= {"mlflow.source.name": "ragsweep", "mlflow.source.type": "LOCAL"}
        if not parent and (commit := runs.git_commit()):
            tags |= {runs.COMMIT: commit}
        return OpenRun.of(self._client.create_run(experiment, _milliseconds(started), tags, name))

    @contextmanager
    def _run(
        self, record: ConfigRun | Failure, at: RunPlacement, tags: dict[str, str], status: str
    ) -> Generator[OpenRun, None, None]:
        """Open the run of ``record`` for a ``with`` block, and end the run with ``status`` after the block.

        If the block raises an exception, the run ends as FAILED, or as KILLED if the process is interrupted. If MLflow
        cannot be reached, the run stays RUNNING.
        """
        run = self._open(record.name, at, tags, record.started)
        try:
            yield run
            self._client.set_terminated(run.id, status, _milliseconds(record.ended))
        except BaseException as error:
            if not find_outage(error):
                with suppress(Exception):  # the first error is reported
                    self._client.set_terminated(run.id, "FAILED" if isinstance(error, Exception) else "KILLED")
            raise


def _milliseconds(seconds: float) -> int | None:
    return round(seconds * 1000) if seconds > 0 else None
