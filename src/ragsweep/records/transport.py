"""Serialise outcomes for transport between machines: all data for the ledger and the tracker, without pickle.

    digest · zlib of: length of the header · header (JSON) · scores · counts · own · shared · beside (JSON)

``beside`` has the data outside the record: rankings, their labels, traces, and the partition of the questions.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ragsweep.core.errors import InputError
from ragsweep.core.results import Failure, Result
from ragsweep.records.record_format import Encoded, decode, decode_shared, encode

_TEXTS = ("rankings", "qrels", "evidence_runs", "evidence_qrels")
_BLOCKS = ("scores", "counts", "own", "shared")
_DIGEST, _LENGTH = 32, 8


def to_bytes(name: str, outcome: Result | Failure, spent: Mapping[str, float]) -> bytes:
    """Serialise an outcome, with the name of its object and the cost of its calls."""
    encoded, beside = encode(outcome), dict[str, Any]()
    if isinstance(outcome, Result):
        beside = {name: dict(getattr(outcome, name)) for name in _TEXTS}
        beside |= {"traces": list(outcome.traces), "held": list(outcome.run.dataset.held)}
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


def from_bytes(name: str, data: bytes) -> tuple[Result | Failure, dict[str, float]]:
    """Return an outcome and its cost; raises InputError unless `to_bytes` made the bytes under this name."""
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
        outcome = decode(encoded, decode_shared(shared, digest) if digest else {})
        if isinstance(outcome, Result):
            beside = json.loads(others)
            held, traces = tuple(beside.pop("held")), tuple(beside.pop("traces"))
            outcome = replace(outcome, dataset=replace(outcome.run.dataset, held=held), traces=traces, **beside)
        return outcome, {name: float(spent) for name, spent in facts["spent"].items()}
    except (zlib.error, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as fault:
        raise InputError(f"the outcome is not one of this job and version: {fault}") from None


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()
