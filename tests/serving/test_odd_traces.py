"""Any trace and any record of a log is read or counted as not readable; none ends or stalls the command."""

import json
import random
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragsweep.core.errors import InputError
from ragsweep.parts.tracking.models import ModelVersion
from ragsweep.parts.tracking.served_traces import BUNDLE, FACTS, MODEL, ServedTrace, read_served
from ragsweep.report.document import texts
from ragsweep.report.tables import to_json
from ragsweep.stats.drift import TOLERANCE, ClusteredSample
from ragsweep_golden.commands.harvest import find_question, read_log
from ragsweep_serving.commands.watch_findings import Watch
from ragsweep_serving.commands.watch_report import results, watch_document
from ragsweep_serving.watching import RequestComparison, Requests
from support.inputs.mutants import mutated
from test_watching import KNOWN, reference, traces


def as_plain(trace: ServedTrace) -> dict[str, Any]:
    facts = json.loads(json.dumps(trace.facts))
    tags = {MODEL: trace.model, BUNDLE: trace.bundle}
    return {"tags": tags, "began": 1_000_000, "attributes": {FACTS: facts}, "inputs": {"question": trace.question}}


def as_mlflow(plain: Mapping[str, Any]) -> Any:
    span = SimpleNamespace(parent_id=None, attributes=plain["attributes"], inputs=plain["inputs"])
    info = SimpleNamespace(tags=plain["tags"], request_time=plain["began"])
    return SimpleNamespace(info=info, data=SimpleNamespace(spans=[span]))


def watched(mutants: list[dict[str, Any]]) -> tuple[int, Counter[str]]:
    skipped: list[str] = []
    found = [one for plain in mutants if (one := read_served(as_mlflow(plain), skipped.append))]
    requests, before = Requests(found, KNOWN), reference()
    compared = RequestComparison(requests, before, TOLERANCE)
    version = ModelVersion("handbook", "1", {BUNDLE: "b"})
    parts = (compared.drifts(0.05), compared.lacks(), compared.measures()) if found else ([], [], {})
    shown = Watch(version, 0.0, requests, before, *parts, [], None, Counter(skipped))
    assert all(texts(results(shown)))
    options = Namespace(numbers=True, model="m@a", since="7d", uri=None, experiment=None)
    json.loads(to_json(watch_document(shown, options).facts)).items()
    return len(found), Counter(skipped)


@pytest.mark.parametrize(
    ("seed", "count"), [(0, 300), *(pytest.param(n, 1000, marks=pytest.mark.nightly) for n in (1, 2))]
)
def test_trace_of_any_shape_is_read_or_skipped_and_counted(seed: int, count: int) -> None:
    chance, plain = random.Random(seed), [as_plain(one) for one in traces()]
    read, skipped = watched([mutated(chance.choice(plain), chance) for _ in range(count)])
    assert read + skipped.total() == count
    assert min(read, skipped.total()) > count / 10
    assert all(len(reason) < 80 for reason in skipped)


def test_trace_without_a_span_or_with_unreadable_attributes_is_skipped() -> None:
    skipped: list[str] = []
    empty = as_mlflow(as_plain(traces()[0]))
    empty.data.spans = []
    assert read_served(empty, skipped.append) is None
    assert read_served(SimpleNamespace(info=None, data=None), skipped.append) is None
    assert skipped == [f"no object in the root span's attribute {FACTS}", "an unreadable span"]


def test_one_long_question_widens_no_other() -> None:
    sample = ClusteredSample.of([1.0] * 20_000, ["a" * 1_000_000, *(f"b{n % 50}" for n in range(19_999))])
    assert sample.clusters.max() == 50  # as an array of texts this takes 80 GB


@pytest.mark.parametrize(
    ("seed", "count"), [(0, 300), *(pytest.param(n, 1000, marks=pytest.mark.nightly) for n in (1, 2))]
)
def test_record_of_any_shape_has_a_question_or_a_fault_with_its_line(
    seed: int, count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(seed)
    record = {"id": 1, "input": {"messages": [{"role": "user", "content": [{"type": "text", "text": "where?"}]}]}}
    for _ in range(count):
        path = tmp_path / "log.jsonl"
        path.write_text(json.dumps(mutated(record, chance)) + '\n{"question": "who?"}\n', "utf-8")
        first, second = read_log(path)
        assert second == "who?"
        noted = capsys.readouterr().err
        assert not noted or (first == "" and f"1 record not read:\n{path}:1" in noted)


@pytest.mark.parametrize("levels", [60, 300, 900, 5000, 100_000])
def test_nested_record_is_a_fault_with_its_line(levels: int, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for text in ('{"input": ' * levels + "1" + "}" * levels, json.dumps({"input": "[" * levels + "]" * levels})):
        path.write_text(text + "\n", "utf-8")
        with pytest.raises(InputError, match=r"log\.jsonl:1"):
            read_log(path)


@pytest.mark.parametrize("levels", [60, 300, 900])
def test_nested_inputs_of_a_trace_are_refused(levels: int) -> None:
    with pytest.raises(ValueError, match="nested deeper than 50 levels"):
        find_question(json.loads('{"input": ' * levels + "1" + "}" * levels))
