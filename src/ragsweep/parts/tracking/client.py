"""Record results in MLflow, by its client only: no active run, no global tracking uri is touched.

One parent run a sweep, one child a config (``mlflow.parentRunId``). Statuses are always set explicitly, because MLflow
by itself leaves a killed run RUNNING and calls a crashed one FINISHED. NaN is never sent: MLflow stores it as 0.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import time
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ragsweep.core.identity import content_hash
from ragsweep.core.results import COMPLETE, PARTIAL, Failure, Result
from ragsweep.parts.targets import count_met
from ragsweep.parts.tracking import children, content, files, place, server, tables
from ragsweep.parts.tracking.children import ALONE, Child, Place
from ragsweep.parts.tracking.connection import Connection, Opened

if TYPE_CHECKING:
    from mlflow.entities import Experiment, Param, Run

LONGEST_NAME = 250
LONGEST_TAG = 5_000
LONGEST_DIGEST = 36
LONGEST_REQUEST = 600_000
"""Bytes of parameters in one request; MLflow allows 1 MB with the metrics, which are 350 kB at most."""
CUT = " ... (whole in long_tags.json)"
FEW = 50
"""Children that are rather looked up one by one (20 ms each) than among all (10 ms each)."""
PAGE = 200


class Mlflow:
    """Record in an MLflow database or server.

    Args:
        uri: ``sqlite:///file``, another database MLflow knows, or the address of a tracking server. None means the
            environment's ``MLFLOW_TRACKING_URI``, else ``sqlite:///mlflow.db`` in the current folder.
        experiment: name of the experiment; it is made where it does not exist.

    All methods but ``look`` raise TrackingError where MLflow cannot be reached or refuses. While a server is away they
    do so at once. What was begun can be done again: see ``children`` and :class:`Place`.
    """

    def __init__(self, uri: str | None = None, experiment: str = "ragsweep") -> None:
        self.uri = place.absolute(uri or os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db")
        self.experiment = experiment

    def check(self) -> None:
        """Raise what stands against recording here, as far as can be told without MLflow, in milliseconds."""
        place.refuse_unusable(self.uri)
        path = place.database(self.uri)
        with self._place.told():
            if path:
                path.parent.mkdir(parents=True, exist_ok=True)
                with place.alone(self.uri):
                    tables.inspect(self.uri, path, self.experiment)
            elif place.is_server(self.uri):
                server.greet(self.uri, self.experiment)

    def risk(self) -> str:
        """Say what is risky about recording here; an empty text where nothing is."""
        if place.is_server(self.uri) and server.shows_credentials(self.uri):
            return (
                f"{place.masked(self.uri)}: the credentials for MLflow are sent unencrypted; give the server's https://"
                " address as tracking.uri"
            )
        return ""

    def prepare(self) -> None:
        """Check, load MLflow, make or upgrade its tables, and make the experiment; the first record does it otherwise.

        Any number of processes may do this at once on an empty place: one works, the others wait.
        """
        self.check()
        with self._place.talking():
            self._own_experiment()

    @property
    def identity(self) -> str:
        """Tell this place and experiment from others, without a word of the uri, which may hold a password."""
        return content_hash(["mlflow", self.uri, self.experiment])

    def find(self, tags: Mapping[str, str], started: float | None = None) -> str | None:
        """Find the run with these tags that started then (seconds since 1970), if there is one."""
        with self._place.talking():
            conditions = [f"tags.`{name}` = '{value}'" for name, value in tags.items()]
            if started is not None:
                conditions.append(f"attributes.start_time = {_milliseconds(started)}")
            client = self._place.client()
            found = client.search_runs([self._own_experiment()], " and ".join(conditions), max_results=1)
            return str(found[0].info.run_id) if found else None

    def has_ended(self, run_id: str) -> bool:
        """Return whether a run has come to an end, whichever."""
        with self._place.talking():
            return str(self._place.client().get_run(run_id).info.status) != "RUNNING"

    def look(self) -> str:
        """Return the command that opens MLflow's pages on what was recorded, or the server's address."""
        if place.is_server(self.uri):
            known = self._place.experiments.get(self.experiment)
            return place.masked(self.uri).rstrip("/") + (f"/#/experiments/{known}" if known else "")
        if place.database(self.uri) == Path("mlflow.db").absolute():
            return f"{place.command()} ui"
        return f"{place.command()} ui --backend-store-uri {shlex.quote(place.masked(self.uri))}"

    def open_sweep(self, name: str, tags: Mapping[str, str], parameters: Mapping[str, str], adopt: str | None) -> str:
        """Open the parent run and return its id. ``adopt``: use this run, which somebody else made (``mlflow run``)."""
        with self._place.talking():
            run = self._open(name, Place(adopt=adopt), {**tags, children.KIND: "sweep"})
            self._place.homes[run.id] = run
            self._log_values(run, parameters, {})
            return run.id

    def reopen_sweep(self, run_id: str) -> None:
        """Set the parent run of a sweep that goes on to RUNNING, and remove what a killed process left half written."""
        with self._place.talking():
            self._place.client().update_run(run_id, status="RUNNING")
            files.sweep_out(self._place.home(run_id).artifacts)

    def close_sweep(
        self,
        run_id: str,
        status: str,
        artifacts: Mapping[str, bytes],
        metrics: Mapping[str, float],
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Write what belongs to the whole sweep into the parent run, and end it whatever happens.

        ``status`` is FINISHED, FAILED or KILLED. A sweep that is closed again keeps one value a metric.
        """
        with self._place.talking():
            try:
                for name, value in (tags or {}).items():
                    self._place.client().set_tag(run_id, content.key(name), _told_short(value))
                if metrics:
                    run = self._place.client().get_run(run_id)
                    self._log_values(Opened.of(run, run), {}, metrics)
                files.write(self._place.home(run_id).artifacts, artifacts, self.uri)
            finally:
                self._place.client().set_terminated(run_id, status)

    def children(self, parent: str, jobs: Collection[int] | None = None) -> dict[int, Child]:
        """Find the runs of a sweep's configs by job number; ``jobs``: only of these, which is quicker where few.

        Where two runs claim one job (a kill between a request and its answer), a finished one wins; the other is ended
        as KILLED and says why in the tag ``ragsweep.killed``.
        """
        with self._place.talking():
            if jobs is not None and len(jobs) <= FEW:
                runs = [run for job in jobs for run in self._search(parent, f"tags.`{children.JOB}` = '{job}'")]
            else:
                runs = list(self._search(parent, f"tags.`{children.KIND}` = 'config'"))
            found, losers = children.settle(runs)
            for run_id, why in losers.items():
                self._kill(run_id, why)
            return found if jobs is None else {job: child for job, child in found.items() if job in set(jobs)}

    def end_abandoned(self, parent: str, kept: Collection[int] = ()) -> list[str]:
        """End the RUNNING children that nobody will complete, all but those of the jobs ``kept``, and return their ids.

        They become KILLED and say why in the tag ``ragsweep.killed``.
        """
        with self._place.talking():
            numbers = {str(job) for job in kept}
            runs = self._search(parent, "attributes.status = 'RUNNING'")
            ended = [str(run.info.run_id) for run in runs if run.data.tags.get(children.JOB) not in numbers]
            for run_id in ended:
                self._kill(run_id, "its process ended before it was recorded whole")
            return ended

    def log_artifacts(self, run_id: str, artifacts: Mapping[str, bytes]) -> None:
        """Write files into a run; a name may hold slashes (``plots/recall.png``)."""
        with self._place.talking():
            files.write(self._place.home(run_id).artifacts, artifacts, self.uri)

    def tag(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Add tags to a run, whatever its status."""
        from mlflow.entities import RunTag

        with self._place.talking():
            told = [RunTag(content.key(name), _told_short(value)) for name, value in tags.items()]
            self._place.client().log_batch(run_id, tags=told)

    def log_result(self, result: Result, at: Place = ALONE) -> str:
        """Record a config as a run of its own and return the run's id.

        The rankings go to the parent, where siblings share them, or without a parent into the run itself; one that is
        there already is not rendered. Doing it again with ``at.adopt`` completes what is missing, and doubles nothing.
        A result that is PARTIAL is a FAILED run with the tag ``ragsweep.state``; one that was dropped has the tag too.
        """
        tags = {children.KIND: "config", children.SIGNATURE: result.signature}
        if result.warnings:
            tags[children.WARNINGS] = "\n".join(result.warnings)
        if result.targets:
            tags[children.TARGETS] = "{} of {} met".format(*count_met(result.targets))
        if result.dataset.partition_digest:
            tags[children.PARTITION] = f"{result.dataset.partition} {result.dataset.partition_digest[:LONGEST_DIGEST]}"
        if result.state != COMPLETE:
            tags[children.STATE] = result.state.lower()
        status = "FAILED" if result.state == PARTIAL else "FINISHED"
        with self._place.talking(), self._run(result, at, tags, status) as run:
            written = {"config.yaml": content.yaml(result.config), "outcomes.parquet": content.parquet(result)}
            self._log_values(run, result.parameters, content.metrics(result), written)
            self._log_dataset(run.id, result)
            self._log_rankings(self._place.home(at.parent) if at.parent else run, result)
            return run.id

    def log_failure(self, failure: Failure, at: Place = ALONE) -> str:
        """Record a config that could not be evaluated as a FAILED run: the error as a tag, the traceback as a file."""
        tags = {children.KIND: "config", children.ERROR: failure.error}
        with self._place.talking(), self._run(failure, at, tags, "FAILED") as run:
            written = {"traceback.txt": content.encoded(failure.traceback or failure.error)}
            self._log_values(run, failure.parameters, {}, written)
            return run.id

    @property
    def _place(self) -> Connection:
        return Connection.to(self.uri)

    def _own_experiment(self) -> str:
        known = self._place.experiments
        if self.experiment not in known:
            path = place.database(self.uri)
            found = self._find_or_make(str((path.parent / "mlruns").as_uri()) if path else None)
            if found.lifecycle_stage == "deleted":
                raise place.deleted(self.uri, self.experiment, str(found.experiment_id))
            if path:
                place.check_folder(found.artifact_location)
            known[self.experiment] = str(found.experiment_id)
        return known[self.experiment]

    def _find_or_make(self, artifacts: str | None) -> Experiment:
        from mlflow.exceptions import MlflowException

        client = self._place.client()
        found = client.get_experiment_by_name(self.experiment)
        if found is None:
            try:
                return client.get_experiment(client.create_experiment(self.experiment, artifacts))
            except MlflowException:
                found = client.get_experiment_by_name(self.experiment)
                if found is None:  # then it was not that another process had just made it
                    raise
        return found

    def _search(self, parent: str, condition: str) -> Iterator[Run]:
        client, experiment, token = self._place.client(), self._place.home(parent).experiment, None
        query = f"tags.`{children.PARENT}` = '{parent}' and {condition}"
        while True:
            page = client.search_runs([experiment], query, max_results=PAGE, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def _kill(self, run_id: str, why: str) -> None:
        self._place.client().set_tag(run_id, children.KILLED, why)
        self._place.client().set_terminated(run_id, "KILLED")

    def _open(self, name: str, at: Place, tags: dict[str, str], started: float = 0.0) -> Opened:
        if len(name) > LONGEST_NAME:
            name, tags = name[: LONGEST_NAME - 4] + " ...", {**tags, children.NAME: name}
        if at.job is not None:
            tags = {**tags, children.JOB: str(at.job)}
        short = {content.key(key): _told_short(value) for key, value in tags.items()}
        if at.parent:
            short[children.PARENT] = at.parent
        run = self._adopt(at.adopt, name, short) if at.adopt else self._create(at.parent, name, short, started)
        if len(long := {key: value for key, value in tags.items() if len(value) > LONGEST_TAG}):
            files.write(run.artifacts, {"long_tags.json": _json(long)}, self.uri)
        return run

    def _create(self, parent: str | None, name: str, tags: dict[str, str], started: float) -> Opened:
        # MLflow shows children inside their parent's experiment only.
        experiment = self._place.home(parent).experiment if parent else self._own_experiment()
        tags |= {"mlflow.source.name": "ragsweep", "mlflow.source.type": "LOCAL"}
        return Opened.of(self._place.client().create_run(experiment, _milliseconds(started), tags, name))

    def _adopt(self, run_id: str, name: str, tags: Mapping[str, str]) -> Opened:
        from mlflow.entities import RunTag

        client = self._place.client()
        before = client.get_run(run_id)
        client.update_run(run_id, status="RUNNING", name=name)
        for key in {
            children.ERROR,
            children.WARNINGS,
            children.KILLED,
            children.STATE,
        } & before.data.tags.keys() - tags.keys():
            client.delete_tag(run_id, key)  # an earlier attempt's, and no longer true
        client.log_batch(run_id, tags=[RunTag(key, value) for key, value in tags.items()])
        run = Opened.of(before, before)
        files.sweep_out(run.artifacts)
        return run

    @contextmanager
    def _run(
        self, record: Result | Failure, at: Place, tags: dict[str, str], status: str = "FINISHED"
    ) -> Generator[Opened, None, None]:
        """Open the run of one config and end it: with ``status`` if all went well, else FAILED or KILLED."""
        run = self._open(record.name, at, tags, record.started)
        try:
            yield run
            self._place.client().set_terminated(run.id, status, _milliseconds(record.ended))
        except BaseException as error:
            with suppress(Exception):  # what went wrong first is what the user should read
                if not self._place.is_cut():
                    self._place.client().set_terminated(run.id, "FAILED" if isinstance(error, Exception) else "KILLED")
            raise

    def _log_values(
        self,
        run: Opened,
        parameters: Mapping[str, str],
        metrics: Mapping[str, float],
        artifacts: Mapping[str, bytes] | None = None,
    ) -> None:
        """Send parameters, metrics and files; what an adopted run has already is not sent again."""
        from mlflow.entities import Metric, Param

        client, now = self._place.client(), round(time.time() * 1000)
        short, long = content.parameters(parameters)
        # A parameter cannot be written twice, and a metric would get a second point.
        there, counted = (run.before.data.params, run.before.data.metrics) if run.before else ({}, {})
        numbers = [
            Metric(key, float(value), now, 0)
            for key, value in metrics.items()
            if math.isfinite(value) and counted.get(key) != value
        ]
        first, *others = _requests([Param(key, value) for key, value in short.items() if key not in there])
        client.log_batch(run.id, numbers, first)  # the client cuts them where there are more than MLflow allows
        for batch in others:
            client.log_batch(run.id, params=batch)
        sent = {**(artifacts or {}), **({"long_parameters.json": _json(long)} if long else {})}
        files.write(run.artifacts, sent, self.uri)

    def _log_dataset(self, run_id: str, result: Result) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        facts = result.dataset
        source, profile = content.dataset(result)
        digest = facts.golden_digest[:LONGEST_DIGEST]
        dataset = Dataset(facts.name[:500] or "dataset", digest, "ragsweep", source, profile=profile)
        # MLflow shares the row of a dataset among all runs with this digest; tags belong to this run alone. A run that
        # has the dataset already does not get it twice.
        tags = [InputTag("mlflow.data.context", "evaluation"), InputTag("corpus_digest", facts.corpus_digest)]
        self._place.client().log_inputs(run_id, [DatasetInput(dataset, tags)])

    def _log_rankings(self, home: Opened, result: Result) -> None:
        """Write runs and their qrels; a text that is there already is not made."""
        known = self._place.rankings
        names = {f"rankings/{address[:12]}.trec": (result.rankings, address) for address in result.rankings}
        names |= {f"rankings/{address[:12]}.qrels": (result.qrels, address) for address in result.qrels}
        asked = [name for name in names if (home.id, name) not in known]
        new = files.missing(home.artifacts, asked, self.uri) if asked else []
        texts = {name: content.encoded(str(texts[address])) for name in new for texts, address in [names[name]]}
        files.write(home.artifacts, texts, self.uri)
        known.update((home.id, name) for name in asked)


def _requests(parameters: list[Param]) -> list[list[Param]]:
    """Cut parameters into requests of a size that MLflow allows; there is always one."""
    batches: list[list[Param]] = [[]]
    filled = 0
    for parameter in parameters:
        size = len(json.dumps({"key": parameter.key, "value": parameter.value}))
        if filled + size > LONGEST_REQUEST:
            batches.append([])
            filled = 0
        batches[-1].append(parameter)
        filled += size + 2
    return batches


def _told_short(tag: str) -> str:
    return tag if len(tag) <= LONGEST_TAG else tag[: LONGEST_TAG - len(CUT)] + CUT


def _json(values: Mapping[str, str]) -> bytes:
    return content.encoded(json.dumps(values, indent=1, ensure_ascii=False))


def _milliseconds(seconds: float) -> int | None:
    return round(seconds * 1000) if seconds > 0 else None
