"""Send the outcomes of jobs in other processes through an object store, and record them in the command's process.

A worker, which may run on another machine, does not use the command's ledger. It puts each outcome into the object
store, and the command records the available outcomes when its launcher returns or fails. If a worker dies, only its
current job is lost. If the command dies, nothing is lost: when it is repeated, jobs that have sent an outcome are not
evaluated again.

An outcome is sent without pickle, with all data for the ledger and the tracker:

    digest · zlib of: length of the header · header (JSON) · scores · counts · own · shared · beside (JSON)

``beside`` contains the data outside the record: the artifacts, and the digests of the holdout questions.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from hydra.core.utils import JobReturn, JobStatus

from ragsweep.core.errors import InputError, RagsweepError
from ragsweep.core.identity import content_hash
from ragsweep.core.results import NO_ARTIFACTS, PARTIAL, Artifacts, Failure, Result
from ragsweep.records.claims import CONFIG, ClaimKey
from ragsweep.records.ledger import Sweep
from ragsweep.records.record_format import Encoded, decode, decode_shared, encode
from ragsweep.report.tables import partial_note
from ragsweep.stages.leases import Leases
from ragsweep.stages.remote import PAUSE, Remote
from ragsweep.sweep.composing.job import Job
from ragsweep.sweep.composing.search_settings import is_own, money_key, trial_names
from ragsweep.sweep.running.jobs import JobValue, Launch, Partial, attempt, job_value, name_job, rung_value
from ragsweep.sweep.running.recording import OutcomeWriter, RunContext, mask_traces, masked

DELIVERED = "delivered"
"""The return value of a worker's job whose outcome is in the object store."""

ATTEMPTS = 10
"""Maximum number of a worker's attempts to send an outcome, with pauses between them."""

_log = logging.getLogger(__name__)


class Outbox:
    """The outcomes of one sweep in the object store, one for each job or, in a race, for each job and rung."""

    def __init__(self, remote: Remote, sweep: Sweep) -> None:
        self._remote, self.url = remote, remote.url
        self._sweep = content_hash([sweep.id, sweep.created])
        self._leases = Leases(remote)

    @contextmanager
    def alone(self, job: Job) -> Iterator[bool]:
        """Lock a job during the block; yield True if the object store has no outcome of the job yet."""
        name = self._name(job)
        with self._leases.alone(name):
            yield not self._remote.has(name)

    def send(self, job: Job, delivery: Delivery) -> None:
        """Put ``job``'s outcome into the object store; raises RagsweepError after `ATTEMPTS` failed attempts."""
        name = self._name(job)
        data = to_bytes(name, delivery)
        for n in range(ATTEMPTS):
            if n:
                time.sleep(PAUSE)
            if self._remote.put(name, data) is not None:
                return
        raise RagsweepError(
            f"the outcome of config #{job.number + 1} cannot be sent: {self.url} is unreachable; repeat the command"
        )

    def receive(self, job: Job) -> Delivery | None:
        """Return a job's outcome; None if it is missing, unreachable or corrupt. A corrupt outcome is deleted."""
        name = self._name(job)
        data = self._remote.get(name)
        try:
            return None if data is None else from_bytes(name, data)
        except InputError as fault:
            self._remote.warn(f"{self._remote.url}/{name}: {fault}; repeat the command to run the job again")
            self.remove(job)
            return None

    def remove(self, job: Job) -> None:
        """Delete a job's outcome from the object store."""
        self._remote.remove(self._name(job))

    def _name(self, job: Job) -> str:
        return f"outcomes/{self._sweep}/{job.number}{'' if job.rung is None else f'-{job.rung}'}"


# --- in a worker --------------------------------------------------------------------------------------------------


def deliver_job(context: RunContext, sweep: Sweep, job: Job) -> str:
    """Evaluate one config, send its outcome with secrets masked, and return `DELIVERED`.

    If an outcome has been sent before, the config is not evaluated again. An exception in the evaluation is sent as a
    failure and re-raised. Raises RagsweepError if the outcome cannot be sent.
    """
    remote, meter, secrets = context.session.remote, context.session.services.meter, context.secrets
    assert remote is not None
    outbox = Outbox(remote, sweep)
    before, meter.money_key = meter.totals, money_key(context.search)

    def send_failure(failure: Failure) -> None:
        outbox.send(job, Delivery(masked(failure, secrets), meter.since(before)))

    with outbox.alone(job) as missing:
        if missing:
            name_job(context, sweep, job)
            result, artifacts = attempt(context, job, send_failure)
            spent = meter.since(before)
            outbox.send(job, Delivery(masked(result, secrets), spent, mask_traces(artifacts, secrets)))
    return DELIVERED


# --- in the command -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Collector:
    """A launcher that also records the outcomes that its jobs have sent to the object store."""

    context: RunContext
    sweep: Sweep
    launcher: Launch

    def launch(self, jobs: Sequence[Job]) -> list[JobReturn]:
        """Launch jobs and record the outcomes that they sent, even if the launcher fails; return one result per job."""
        try:
            returned = list(self.launcher(jobs))
        except Exception as fault:
            _log.debug("the launcher failed", exc_info=fault)
            returned = [_job_return(fault) for _ in jobs]
        assert self.context.session.remote is not None
        outbox = Outbox(self.context.session.remote, self.sweep)
        return [self._collect(outbox, job, result) for job, result in zip(jobs, returned, strict=True)]

    def _collect(self, outbox: Outbox, job: Job, result: JobReturn) -> JobReturn:
        delivery = outbox.receive(job)
        if delivery is None:
            lost = getattr(result, "_return_value", None) == DELIVERED
            fault = RagsweepError(
                f"the outcome of config #{job.number + 1} cannot be read from {outbox.url}; repeat the command"
            )
            return _job_return(fault) if lost else result
        self._record(job, delivery)
        outbox.remove(job)
        return self._returned(job, delivery)

    def _record(self, job: Job, delivery: Delivery) -> None:
        """Record an outcome, unless its job is already finished or dropped, or another process is working on it."""
        search, claims = self.context.search, self.context.ledger.claims
        assigned = search is not None and is_own(search)
        if claims.claim_job(self.sweep.id, job.number, assigned=assigned) is not None:
            return
        names = trial_names(search, job.number + 1) if search else self.sweep.names
        writer = OutcomeWriter(self.context, job.number, position=(job.number, len(names)), fenced=assigned)
        try:
            if isinstance(delivery.outcome, Failure):
                writer.keep_failure(delivery.outcome)
            elif job.rung is not None:
                writer.record(delivery.outcome)
            else:
                writer.keep(delivery.outcome, delivery.artifacts)
        finally:
            claims.release(ClaimKey(CONFIG, self.sweep.id, job.number))

    def _returned(self, job: Job, delivery: Delivery) -> JobReturn:
        outcome = delivery.outcome
        if isinstance(outcome, Failure):
            return _job_return(RuntimeError(outcome.error), delivery.spent)
        if job.rung is not None:
            return _job_return(rung_value(outcome, delivery.spent))
        if outcome.run.state == PARTIAL:
            return _job_return(Partial(f"{outcome.name}: {partial_note(outcome)}"), delivery.spent)
        return _job_return(job_value(self.context, job.number, outcome, delivery.spent))


def _job_return(value: JobValue | Exception, spent: Mapping[str, float] = {}) -> JobReturn:
    """Return Hydra's result of a job; if ``value`` is an exception, store ``spent`` in its attribute ``cost``."""
    result = JobReturn()
    if isinstance(value, Exception) and spent:
        value.cost = dict(spent)  # type: ignore[attr-defined]
    result.return_value = value
    result.status = JobStatus.FAILED if isinstance(value, Exception) else JobStatus.COMPLETED
    return result


_BLOCKS = ("scores", "counts", "own", "shared")
_DIGEST, _LENGTH = 32, 8


class Delivery(NamedTuple):
    """An outcome, the calls, tokens and money that were spent on it, and its artifacts."""

    outcome: Result | Failure
    spent: Mapping[str, float]
    artifacts: Artifacts = NO_ARTIFACTS


def to_bytes(name: str, delivery: Delivery) -> bytes:
    """Serialise a delivery, together with the name under which it is stored."""
    outcome, spent, artifacts = delivery
    encoded, beside = encode(outcome), dict[str, Any]()
    if isinstance(outcome, Result):
        texts = {name: dict(table) for name, table in vars(artifacts).items() if name != "traces"}
        beside = {**texts, "traces": list(artifacts.traces), "held": list(outcome.run.dataset.held)}
    blocks = [*(getattr(encoded, name) for name in _BLOCKS), json.dumps(beside, default=str).encode()]
    facts = {
        "name": name,
        "status": encoded.status,
        "signature": encoded.signature,
        "text": encoded.text,
        "digest": encoded.shared_digest,
        "spent": dict(spent),
        "lengths": list(map(len, blocks)),
    }
    header = json.dumps(facts).encode()
    data = zlib.compress(b"".join([len(header).to_bytes(_LENGTH, "little"), header, *blocks]))
    return _digest(data) + data


def from_bytes(name: str, data: bytes) -> Delivery:
    """Restore a delivery from ``data``. Raises InputError unless `to_bytes` created ``data`` with the same ``name``."""
    if _digest(data[_DIGEST:]) != data[:_DIGEST]:
        raise InputError("the outcome does not match its digest")
    try:
        plain = zlib.decompress(data[_DIGEST:])
        end = _LENGTH + int.from_bytes(plain[:_LENGTH], "little")
        facts, blocks = json.loads(plain[_LENGTH:end]), []
        if facts["name"] != name:
            raise ValueError("its header names another job")
        for length in facts["lengths"]:
            blocks.append(plain[end : end + length])
            end += length
        scores, counts, own, shared, others = blocks
        digest = facts["digest"]
        encoded = Encoded(facts["status"], facts["signature"], facts["text"], scores, counts, own, shared, digest)
        spent = {name: float(amount) for name, amount in facts["spent"].items()}
        outcome = decode(encoded, decode_shared(shared, digest) if digest else {})
        if isinstance(outcome, Failure):
            return Delivery(outcome, spent)
        beside = json.loads(others)
        dataset = replace(outcome.run.dataset, held=tuple(beside.pop("held")))
        outcome = replace(outcome, run=replace(outcome.run, dataset=dataset))
        return Delivery(outcome, spent, Artifacts(traces=tuple(beside.pop("traces")), **beside))
    except (zlib.error, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as fault:
        raise InputError(f"the outcome is from another job or another version: {fault}") from None


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()
