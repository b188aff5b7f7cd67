"""``ragsweep golden gates``: judge a golden set by its gates."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragsweep.commands.command_line import Parser, ignore_closed_pipe
from ragsweep.commands.golden.inputs import (
    OVERRIDES,
    embed,
    only_file,
    read_config,
    read_given_entries,
    split,
)
from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.secrets import Secrets
from ragsweep.curation.entries import incoherences, value
from ragsweep.curation.files import write_report
from ragsweep.curation.gates import (
    FAILED,
    GATES,
    NOT_MEASURED,
    GateResult,
    GateRule,
    Subject,
    exit_status,
    judge_gates,
    passage_of,
)
from ragsweep.curation.strata import folders
from ragsweep.curation.validation import Embed
from ragsweep.report.numbers import number
from ragsweep.report.terminal import Terminal

_ABOUT = """Judge a golden set. Each gate has a measured value, a threshold and a verdict; a gate that could not be
measured has not passed. Exit status: 0 no blocking gate failed, 1 one failed, 3 one was not measured, 2 bad input."""

_WORDS = {FAILED: "FAILED", NOT_MEASURED: "NOT MEASURED"}


def gates(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden gates``; return the exit status."""
    parser = Parser("ragsweep golden gates", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("words", nargs="*", metavar="FILE | KEY=VALUE", help=f"the golden file, and {OVERRIDES}")
    parser.add_argument("--json", action="store_true", help="write the report to standard output")
    parser.add_argument("--report", metavar="FILE", help="write the report to a file as well")
    options = parser.parse_args(arguments)
    file = only_file(options, "gates")
    values = read_config([word for word in options.words if "=" in word], Secrets())
    rules = read_rules(values["gates"])
    builder = Builder()
    entries, corpus = read_given_entries(file, values, builder)
    subject = Subject(entries, corpus)
    if corpus is not None:
        subject = Subject(entries, corpus, split(corpus, values, builder), strata=folders(corpus))
    if "embedder" in values:
        subject = with_vectors(subject, lambda texts: embed(texts, values, builder))
    results = judge_gates(subject, rules)
    report = as_json(subject, results)
    if options.report:
        write_report(Path(options.report), report)
    with ignore_closed_pipe():
        if options.json:
            print(json.dumps(report, ensure_ascii=False))
        else:
            show(Terminal.current(), subject, results)
    return exit_status(results)


def read_rules(node: dict[str, Any]) -> dict[str, GateRule]:
    """Read thresholds from the config. Raises ConfigError for an unknown gate, or a threshold that is no number."""
    rules = {}
    for gate, rule in node.items():
        if gate not in GATES:
            raise ConfigError(f'gates: no gate "{gate}"{nearest(gate, GATES)}')
        for key in ("threshold", "highest"):
            given = rule.get(key, 0)
            if isinstance(given, bool) or not isinstance(given, int | float):
                raise ConfigError(f"gates.{gate}.{key}: must be a number, given {given!r}")
        if not isinstance(rule.get("blocking"), bool):
            raise ConfigError(f"gates.{gate}.blocking: must be true or false, given {rule.get('blocking')!r}")
        rules[gate] = GateRule(float(rule["threshold"]), rule["blocking"], rule.get("highest"))
    return rules


def with_vectors(subject: Subject, embed: Embed) -> Subject:
    """Embed questions, answers and passages of the kept entries."""
    numbers = {id(one): number_ for number_, one in enumerate(subject.answerable)}
    passages = [passage_of(subject, numbers[id(one)]) if id(one) in numbers else "" for one in subject.kept]
    return replace(
        subject,
        questions=embed([str(one.get("question") or "") for one in subject.kept]),
        answers=embed([str(one.get("reference") or "") for one in subject.kept]),
        passages=embed(passages),
    )


def as_json(subject: Subject, results: Sequence[GateResult]) -> dict[str, Any]:
    """Return the validation report in JSON types."""
    broken = Counter(code for one in subject.kept for code, _ in incoherences(one))
    return {
        "verdict": {0: "passed", 1: "failed", 3: "not_measured"}[exit_status(results)],
        "questions": len(subject.kept),
        "rejected": subject.rejected,
        "status": dict(Counter(str(value(one, "audit", "status") or "unstated") for one in subject.kept)),
        "gates": [
            {
                "gate": one.gate,
                "title": one.title,
                "value": None if math.isnan(one.value) else one.value,
                "threshold": one.rule.threshold if one.rule.highest is None else [one.rule.threshold, one.rule.highest],
                "verdict": one.verdict,
                "blocking": one.rule.blocking,
                "note": one.note,
            }
            for one in results
        ],
        "constraints": {f"C{n}": broken.get(f"C{n}", 0) for n in range(1, 9)},
    }


def show(terminal: Terminal, subject: Subject, results: Sequence[GateResult]) -> None:
    """Print a row a gate, and the verdict."""
    rows = [
        [
            one.gate,
            one.title,
            "-"
            if math.isnan(one.value)
            else number(one.value, "-")
            if one.value != round(one.value)
            else f"{one.value:g}",
            comparison(one),
            _WORDS.get(one.verdict, one.verdict) if one.rule.blocking or one.verdict == NOT_MEASURED else one.verdict,
            one.note,
        ]
        for one in results
    ]
    terminal.table(["gate", "", ">value", ">threshold", "verdict", ""], rows)
    verdict = {0: "passed", 1: "FAILED", 3: "NOT MEASURED: a blocking gate has no value"}[exit_status(results)]
    rejected = f", {subject.rejected:,} rejected and left out" if subject.rejected else ""
    terminal.block("RESULT", [f"{len(subject.kept):,} questions{rejected}: {verdict}."])


def comparison(one: GateResult) -> str:
    """Write a gate's threshold: ``>= .8``."""
    sign, threshold = GATES[one.gate][1], f"{one.rule.threshold:g}"
    return f"{threshold} to {one.rule.highest:g}" if one.rule.highest is not None else f"{sign} {threshold}"
