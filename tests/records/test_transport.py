"""An outcome that was sent is the outcome that arrives, and nothing else is taken for one."""

import dataclasses
import hashlib
import json
import random
import zlib

import pytest

from ragsweep.core.errors import InputError
from ragsweep.core.results import Artifacts, Failure, Result
from ragsweep.records.record_format import encode
from ragsweep.sweep.running.delivery import Delivery, from_bytes, to_bytes
from support.inputs.mutants import mutant
from support.results import a_result, changed

ARTIFACTS = Artifacts(
    rankings={"a": "q1 Q0 d1 1 .5 x\n"}, qrels={"a": "q1 0 d1 1\n"}, traces=({"spans": [1, 2.5, None]},)
)


def sent() -> Delivery:
    result = a_result()
    return Delivery(
        changed(result, dataset=dataclasses.replace(result.run.dataset, held=("x", "y"))), {"calls": 3.0}, ARTIFACTS
    )


def test_result_or_failure_arrives_as_it_was_sent() -> None:
    arrived = from_bytes("a", to_bytes("a", sent()))
    assert arrived.spent == {"calls": 3.0}
    assert isinstance(arrived.outcome, Result)
    assert encode(arrived.outcome) == encode(sent().outcome)
    assert arrived.artifacts == ARTIFACTS
    assert arrived.outcome.run.dataset.held == ("x", "y")
    failure = Failure("a", ("x=1",), {"x": "1"}, "no luck", "line\nline", 1.5, 2.5)
    assert from_bytes("a", to_bytes("a", Delivery(failure, {}))) == Delivery(failure, {})


def test_outcome_of_another_job_is_refused() -> None:
    with pytest.raises(InputError, match="its header names another job"):
        from_bytes("outcomes/x/1", to_bytes("outcomes/x/2", sent()))


def test_damaged_outcome_is_refused() -> None:
    data, chance = to_bytes("a", sent()), random.Random(3)
    for _ in range(200):
        if (changed := mutant(data, chance)) != data:
            with pytest.raises(InputError, match="does not match its digest"):
                from_bytes("a", changed)


@pytest.mark.parametrize("spent", [None, 5, ["calls"], {"calls": "many"}, {"calls": None}, {"calls": 10**400}])
def test_outcome_of_another_form_is_refused_although_its_digest_fits(spent: object) -> None:
    whole = zlib.decompress(to_bytes("a", sent())[32:])
    end = 8 + int.from_bytes(whole[:8], "little")
    facts = json.dumps({**json.loads(whole[8:end]), "spent": spent}).encode()
    data = zlib.compress(len(facts).to_bytes(8, "little") + facts + whole[end:])
    with pytest.raises(InputError, match="from another job or another version"):
        from_bytes("a", hashlib.blake2b(data, digest_size=32).digest() + data)
