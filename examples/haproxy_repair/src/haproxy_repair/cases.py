"""Check the cases against the installed HAProxy and its manual: ``python -m haproxy_repair.cases``.

What ``haproxy -c`` says of each input is written into its ``errors``, by which the manual is searched.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from haproxy_repair.corpus import documents, read_manual
from haproxy_repair.findings import KINDS
from haproxy_repair.grammar import elements
from haproxy_repair.lines import read_lines
from haproxy_repair.validator import check

FILE = Path(__file__).with_name("cases.jsonl")
DIFFICULTIES = ("easy", "medium", "hard")


def read_cases() -> list[dict[str, Any]]:
    """Read all cases."""
    return [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


def faults(case: dict[str, Any], known: set[str]) -> Iterator[str]:
    """Yield the faults of a case, given the ids of the manual's documents.

    A broken input is refused by ``haproxy -c``, or warned of, or its finding is of a kind that HAProxy does not judge.
    """
    before, after = check(case["input"]), check(case["expected"])
    if case["category"] not in KINDS or case["difficulty"] not in DIFFICULTIES:
        yield "unknown category or difficulty"
    if not after.accepted or after.warnings:
        yield f"the expected repair: {after.report}"
    if before.refused:
        yield f"the input is not checked: {before.refused}"
    if before.accepted and not before.warnings and case["category"] != "security_optimisation":
        yield "haproxy -c finds nothing wrong with the input"
    if unknown := [element.name for element in elements(case["expected"]) if not element.known]:
        yield f"the expected repair contains unknown elements: {unknown}"
    if not case["findings"]:
        yield "no finding"
    numbers = {line.number for line in read_lines(case["input"])}
    for finding in case["findings"]:
        if finding["kind"] not in KINDS or finding["line"] not in numbers:
            yield f"a finding without kind or line: {finding}"
    for evidence in case["evidence"]:
        if evidence["document"] not in known:
            yield f"no section {evidence['document']}"


def main() -> None:
    """Check all cases, and write the output of ``haproxy -c`` for their inputs."""
    known = {document["id"] for document in documents(read_manual())}
    cases = read_cases()
    found = [f"{case['id']}: {fault}" for case in cases for fault in faults(case, known)]
    for case in cases:
        case["errors"] = check(case["input"]).report
    FILE.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    print("\n".join([*found, f"{len(cases)} cases, {len(found)} faults"]))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
