"""Serialises outcomes, with all data for the ledger and the tracker, to send them to other processes; no pickle.

    digest · zlib of: length of the header · header (JSON) · scores · counts · own · shared · beside (JSON)

``beside`` contains the data outside the record: the artifacts, and the digests of the holdout questions.
"""

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ragsweep.core.errors import InputError
from ragsweep.core.results import NO_ARTIFACTS, Artifacts, Failure, Result
from ragsweep.records.record_format import Encoded, decode, decode_shared, encode

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
    """Restore a delivery; raises InputError unless the bytes come from `to_bytes` under this name."""
    if _digest(data[_DIGEST:]) != data[:_DIGEST]:
        raise InputError("the outcome does not match its digest")
    try:
        plain = zlib.decompress(data[_DIGEST:])
        end = _LENGTH + int.from_bytes(plain[:_LENGTH], "little")
        facts, blocks = json.loads(plain[_LENGTH:end]), []
        if facts["name"] != name:
            raise ValueError("it belongs to another job")
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
