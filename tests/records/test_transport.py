"""An outcome that was sent is the outcome that arrives, and nothing else is taken for one."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
import zlib

import pytest

from ragsweep.core.errors import InputError
from ragsweep.core.results import Failure, Result
from ragsweep.records.record_format import encode
from ragsweep.records.transport import from_bytes, to_bytes
from support.inputs.mutants import mutant
from support.results import a_result, changed

BESIDE = ("rankings", "qrels", "evidence_runs", "evidence_qrels", "traces")


def sent() -> Result:
    result = a_result()
    return changed(
        result,
        rankings={"a": "q1 Q0 d1 1 .5 x\n"}, qrels={"a": "q1 0 d1 1\n"},
        traces=({"spans": [1, 2.5, None]},), dataset=dataclasses.replace(result.run.dataset, held=("x", "y")),
    )  # fmt: skip


def test_result_or_failure_arrives_as_it_was_sent() -> None:
    arrived, spent = from_bytes("a", to_bytes("a", sent(), {"calls": 3.0}))
    assert spent == {"calls": 3.0}
    assert isinstance(arrived, Result)
    assert encode(arrived) == encode(sent())
    assert {name: getattr(arrived, name) for name in BESIDE} == {name: getattr(sent(), name) for name in BESIDE}
    assert arrived.run.dataset.held == ("x", "y")
    failure = Failure("a", ("x=1",), {"x": "1"}, "no luck", "line\nline", 1.5, 2.5)
    assert from_bytes("a", to_bytes("a", failure, {})) == (failure, {})


def test_outcome_of_another_job_is_refused() -> None:
    with pytest.raises(InputError, match="it belongs to another job"):
        from_bytes("outcomes/x/1", to_bytes("outcomes/x/2", sent(), {}))


def test_damaged_outcome_is_refused() -> None:
    data, chance = to_bytes("a", sent(), {}), random.Random(3)
    for _ in range(200):
        if (changed := mutant(data, chance)) != data:
            with pytest.raises(InputError, match="does not match its digest"):
                from_bytes("a", changed)


@pytest.mark.parametrize("spent", [None, 5, ["calls"], {"calls": "many"}, {"calls": None}, {"calls": 10**400}])
def test_outcome_of_another_form_is_refused_although_its_digest_fits(spent: object) -> None:
    whole = zlib.decompress(to_bytes("a", sent(), {})[32:])
    end = 8 + int.from_bytes(whole[:8], "little")
    facts = json.dumps({**json.loads(whole[8:end]), "spent": spent}).encode()
    data = zlib.compress(len(facts).to_bytes(8, "little") + facts + whole[end:])
    with pytest.raises(InputError, match="not one of this job and version"):
        from_bytes("a", hashlib.blake2b(data, digest_size=32).digest() + data)
