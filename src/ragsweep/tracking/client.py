"""Record results in MLflow, by its client only: no global state is touched.

One parent run a sweep, one child a config (``mlflow.parentRunId``). Statuses are always set explicitly, because MLflow
by itself leaves a killed run RUNNING and calls a crashed one FINISHED. NaN is never sent: MLflow stores it as 0.
"""

from __future__ import annotations

import json
import logging
import math
import os
import shlex
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ragsweep.errors import TrackingError
from ragsweep.results import Failure, Result
from ragsweep.tracking import content, place

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment

KIND, SIGNATURE, ERROR, WARNINGS = "ragsweep.kind", "ragsweep.signature", "ragsweep.error", "ragsweep.warnings"
LONGEST_TAG = 5_000
LONGEST_DIGEST = 36
PROBE_SECONDS = 5


class Mlflow:
    """Record in an MLflow database or server.

    Args:
        uri: ``sqlite:///file``, another database MLflow knows, or the address of a tracking server. None means the
            environment's ``MLFLOW_TRACKING_URI``, else ``sqlite:///mlflow.db`` in the current folder.
        experiment: name of the experiment; it is made where it does not exist.

    All methods but ``look`` raise TrackingError where MLflow cannot be reached or refuses.
    """

    def __init__(self, uri: str | None = None, experiment: str = "ragsweep") -> None:
        self.uri = place.absolute(uri or os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db")
        self.experiment = experiment
        self._experiments: dict[str, str] = {}  # parent run ("" for none) -> id of the experiment it is in

    def check(self) -> None:
        """Make sure that results can be recorded: reach the place, make or upgrade its tables, make the experiment.

        Any number of processes may do this at once on an empty place: one works, the others wait.
        """
        place.refuse_unusable(self.uri)
        path = place.database(self.uri)
        with self._told():
            if path:
                path.parent.mkdir(parents=True, exist_ok=True)
            if place.is_server(self.uri):
                _greet(self.uri)
            with place.alone(self.uri):
                if path:
                    _mend_tables(self.uri, path)
                self._experiment_of(None)

    def look(self) -> str:
        """Return the command that opens MLflow's pages on what was recorded, or the server's address."""
        if place.is_server(self.uri):
            page = f"/#/experiments/{self._experiments['']}" if "" in self._experiments else ""
            return place.masked(self.uri).rstrip("/") + page
        if place.database(self.uri) == Path("mlflow.db").absolute():
            return f"{_command()} ui"
        return f"{_command()} ui --backend-store-uri {shlex.quote(place.masked(self.uri))}"

    def open_sweep(self, name: str, tags: Mapping[str, str], parameters: Mapping[str, str], adopt: str | None) -> str:
        """Open the parent run and return its id. ``adopt``: use this run, which somebody else made (``mlflow run``)."""
        with self._told():
            run_id = self._open(name, None, adopt, {**tags, KIND: "sweep"})
            self._log_values(run_id, parameters, {}, adopt is not None)
            return run_id

    def close_sweep(
        self, run_id: str, status: str, artifacts: Mapping[str, bytes], metrics: Mapping[str, float]
    ) -> None:
        """Write what belongs to the whole sweep into the parent run, and end it whatever happens.

        ``status`` is FINISHED, FAILED or KILLED.
        """
        with self._told():
            try:
                self._log_values(run_id, {}, metrics)
                self._write(run_id, artifacts)
            finally:
                self._client().set_terminated(run_id, status)

    def log_artifacts(self, run_id: str, artifacts: Mapping[str, bytes]) -> None:
        """Write files into a run; a name may hold slashes (``plots/recall.png``)."""
        with self._told():
            self._write(run_id, artifacts)

    def log_result(self, result: Result, parent: str | None, adopt: str | None = None) -> str:
        """Record a config as a run of its own and return the run's id.

        The rankings go to the parent, where siblings share them, or without a parent into the run itself.
        """
        tags = {KIND: "config", SIGNATURE: result.signature}
        if result.warnings:
            tags[WARNINGS] = "\n".join(result.warnings)
        with self._told(), self._run(result, parent, adopt, tags) as run_id:
            self._log_values(run_id, result.parameters, content.metrics(result), adopt is not None)
            self._log_dataset(run_id, result)
            files = {"config.yaml": content.yaml(result.config), "outcomes.parquet": content.parquet(result)}
            self._write(run_id, files)
            self._log_rankings(parent or run_id, result.rankings)
            return run_id

    def log_failure(self, failure: Failure, parent: str | None, adopt: str | None = None) -> str:
        """Record a config that could not be evaluated as a FAILED run: the error as a tag, the traceback as a file."""
        tags = {KIND: "config", ERROR: failure.error}
        with self._told(), self._run(failure, parent, adopt, tags, "FAILED") as run_id:
            self._log_values(run_id, failure.parameters, {}, adopt is not None)
            self._write(run_id, {"traceback.txt": content.encoded(failure.traceback or failure.error)})
            return run_id

    def _client(self) -> MlflowClient:
        _quieten()
        from mlflow import MlflowClient

        return MlflowClient(self.uri)  # cheap: MLflow keeps one store a uri

    def _experiment_of(self, parent: str | None) -> str:
        """Return the id of the experiment: the parent's, where there is one (children are shown only inside it)."""
        if (parent or "") not in self._experiments:
            known = self._client().get_run(parent).info.experiment_id if parent else self._own_experiment()
            self._experiments[parent or ""] = known
        return self._experiments[parent or ""]

    def _own_experiment(self) -> str:
        path = place.database(self.uri)
        found = self._find_or_make(str((path.parent / "mlruns").as_uri()) if path else None)
        if found.lifecycle_stage == "deleted":
            raise TrackingError(
                f'{place.masked(self.uri)}: the experiment "{self.experiment}" was deleted; bring it back with '
                f"`mlflow experiments restore -x {found.experiment_id}`, or choose another with tracking.experiment"
            )
        if path:
            place.check_folder(found.artifact_location)
        return str(found.experiment_id)

    def _find_or_make(self, artifacts: str | None) -> Experiment:
        from mlflow.exceptions import MlflowException

        client = self._client()
        found = client.get_experiment_by_name(self.experiment)
        if found is None:
            try:
                return client.get_experiment(client.create_experiment(self.experiment, artifacts))
            except MlflowException:
                found = client.get_experiment_by_name(self.experiment)
                if found is None:  # then it was not that another process had just made it
                    raise
        return found

    def _open(
        self, name: str, parent: str | None, adopt: str | None, tags: Mapping[str, str], started: float = 0.0
    ) -> str:
        from mlflow.entities import RunTag

        client = self._client()
        sent = {content.key(key): value[:LONGEST_TAG] for key, value in tags.items()}
        if parent:
            sent["mlflow.parentRunId"] = parent
        if adopt:
            client.update_run(adopt, status="RUNNING", name=name)
            client.log_batch(adopt, tags=[RunTag(key, value) for key, value in sent.items()])
            return adopt
        sent |= {"mlflow.source.name": "ragsweep", "mlflow.source.type": "LOCAL"}
        run = client.create_run(self._experiment_of(parent), _milliseconds(started), sent, name)
        return str(run.info.run_id)

    @contextmanager
    def _run(
        self, record: Result | Failure, parent: str | None, adopt: str | None, tags: Mapping[str, str],
        status: str = "FINISHED",
    ) -> Generator[str, None, None]:  # fmt: skip
        """Open the run of one config and end it: with ``status`` if all went well, else FAILED or KILLED."""
        run_id = self._open(record.name, parent, adopt, tags, record.started)
        try:
            yield run_id
        except BaseException as error:
            with suppress(Exception):  # what went wrong first is what the user should read
                self._client().set_terminated(run_id, "FAILED" if isinstance(error, Exception) else "KILLED")
            raise
        self._client().set_terminated(run_id, status, _milliseconds(record.ended))

    def _log_values(
        self, run_id: str, parameters: Mapping[str, str], metrics: Mapping[str, float], adopted: bool = False
    ) -> None:
        """Send parameters and metrics; the client cuts them into requests of the size that MLflow allows."""
        from mlflow.entities import Metric, Param

        client, now = self._client(), round(time.time() * 1000)
        short, long = content.parameters(parameters)
        there = client.get_run(run_id).data.params if adopted else {}  # a parameter cannot be written twice
        numbers = [Metric(key, float(value), now, 0) for key, value in metrics.items() if math.isfinite(value)]
        client.log_batch(run_id, numbers, [Param(key, value) for key, value in short.items() if key not in there])
        if long:
            text = json.dumps(long, indent=1, ensure_ascii=False)
            self._write(run_id, {"long_parameters.json": content.encoded(text)})

    def _log_dataset(self, run_id: str, result: Result) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        facts = result.dataset
        source, profile = content.dataset(result)
        digest = facts.golden_digest[:LONGEST_DIGEST]
        dataset = Dataset(facts.name[:500] or "dataset", digest, "ragsweep", source, profile=profile)
        # MLflow shares the row of a dataset among all runs with this digest; tags belong to this run alone.
        tags = [InputTag("mlflow.data.context", "evaluation"), InputTag("corpus_digest", facts.corpus_digest)]
        self._client().log_inputs(run_id, [DatasetInput(dataset, tags)])

    def _log_rankings(self, run_id: str, rankings: Mapping[str, str]) -> None:
        files = {f"rankings/{address[:12]}.trec": text for address, text in rankings.items()}
        there = {info.path for info in self._client().list_artifacts(run_id, "rankings")} if files else set()
        self._write(run_id, {name: content.encoded(text) for name, text in files.items() if name not in there})

    def _write(self, run_id: str, artifacts: Mapping[str, bytes]) -> None:
        if not artifacts:
            return
        with tempfile.TemporaryDirectory(prefix="ragsweep-") as folder:
            for name, data in artifacts.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            self._client().log_artifacts(run_id, folder)

    @contextmanager
    def _told(self) -> Generator[None, None, None]:
        """Say in one sentence what MLflow says in many, without the password of the uri."""
        _quieten()
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (MlflowException, SQLAlchemyError, sqlite3.Error, OSError) as error:
            shown = place.masked(self.uri)
            fact = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")[:500]
            fact = place.masked(fact.replace(self.uri, shown))
            # The cause may quote the uri, so it is dropped where that holds a password.
            raise TrackingError(f"{shown}: {fact}; {place.WAY_OUT}") from (error if shown == self.uri else None)


def _quieten() -> None:
    """Turn off telemetry, and what MLflow and its migrations say that is no warning, before it is imported."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("DO_NOT_TRACK", "true")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    logging.getLogger("alembic").setLevel(logging.WARNING)


def _greet(uri: str) -> None:
    """Raise TrackingError if no server answers soon; MLflow's own calls would try for minutes."""
    from mlflow.exceptions import MlflowException
    from mlflow.utils import credentials, rest_utils

    try:
        host = cast(Any, credentials).get_default_host_creds(uri)
        cast(Any, rest_utils).http_request(host, "/health", "GET", max_retries=0, timeout=PROBE_SECONDS)
    except MlflowException as error:
        reason = place.masked(str(error).rpartition(": ")[2].strip("\"')"))
        raise TrackingError(
            f"{place.masked(uri)}: no MLflow server answers ({reason}); start one with "
            "`mlflow server --backend-store-uri sqlite:///mlflow.db`, correct tracking.uri, or set tracking=none"
        ) from None  # the cause quotes the uri


def _mend_tables(uri: str, path: Path) -> None:
    """Make the tables of a new database, and upgrade those of an older MLflow after copying the file."""
    from alembic.util import CommandError
    from mlflow import db
    from mlflow.store.db import utils

    found, wanted = place.revision(uri, path), cast(Any, utils)._get_latest_schema_revision()
    if found == wanted:
        return
    copy = place.copy_database(path, found) if found else None
    try:
        cast(Any, db.upgrade).callback(uri)  # the function of `mlflow db upgrade`
    except CommandError as error:
        raise TrackingError(
            f"{uri} has tables (revision {found}) that this mlflow does not know; it was written by a newer one, so "
            f"upgrade mlflow, or set tracking.uri to another database (a copy is at {copy})"
        ) from error


def _command() -> str:
    """Spell mlflow as it can be typed here: an environment that is not activated is not on the path."""
    beside = Path(sys.executable).parent / "mlflow"
    if shutil.which("mlflow") or not beside.exists():
        return "mlflow"
    return str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)


def _milliseconds(seconds: float) -> int | None:
    return round(seconds * 1000) if seconds > 0 else None
