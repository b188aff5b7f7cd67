"""``ragsweep watch``: detect drift between the requests of a served model and its evaluation."""

import argparse
import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ragsweep.commands.command_line import Parser, output_file, print_document, write_document
from ragsweep.commands.documents import read_documents
from ragsweep.commands.served import MODEL, SINCE, read_since, read_traces
from ragsweep.core.errors import ConfigError, nearest
from ragsweep.parts.tracking import Mlflow
from ragsweep.parts.tracking.models import ModelRegistry, ModelVersion
from ragsweep.report.tables import to_json
from ragsweep.stats.drift import ORDER, RATIO, SHARE, TOLERANCE
from ragsweep_serving.bundle import MANIFEST, read_manifest
from ragsweep_serving.commands.watch_findings import (
    EXIT_STATUS,
    Threshold,
    Watch,
    compare_corpora,
    read_shipped_corpus,
    write_prometheus,
)
from ragsweep_serving.commands.watch_report import watch_document
from ragsweep_serving.reference import REFERENCE, WORDS, Reference, read_words
from ragsweep_serving.watching import RequestComparison, Requests

_KINDS = {"share": SHARE, "score": ORDER, "latency": RATIO}

_ABOUT = """Compare the traces of a served model with its evaluation: empty results, scores, words, languages and forms
of questions, refusals, failures, latencies, tokens and money. A drift is reported if the interval of the difference
lies outside a tolerance; if requests and evaluated questions have the same distribution, at most 5 % of these
commands report a false drift. Exit status: 0 no drift, 1 a drift or an exceeded threshold, 2 bad input, 3 too few
questions to decide."""
_TOLERANCE = """largest difference that is not drift: share=.05 (difference between two shares), score=.1 (by how much
the probability that a request has the larger number differs from .5), latency=1.5 (ratio); can be repeated"""
_LOOKS = """number of commands that share the 5 %% risk of a false alarm: with 30, 95 %% of months with one command a
day have no false alarm"""


def watch(arguments: Sequence[str]) -> int:
    """Run ``ragsweep watch``; return the exit status: 0 no drift, 1 alarm, 3 too few questions."""
    options = _read(arguments)
    registry = Mlflow(options.uri, "ragsweep").registry()
    version = registry.find(options.model)
    since = read_since(options.since, time.time())
    found = look(registry, version, since, options)
    document = watch_document(found, options)
    if options.json:
        write_document(options.json, to_json(document.facts) + "\n")
    if options.prometheus:
        write_prometheus(found, options.prometheus)
    print_document(document)
    return EXIT_STATUS[found.decision]


def _read(arguments: Sequence[str]) -> argparse.Namespace:
    parser = Parser("ragsweep watch", description=_ABOUT)
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    parser.add_argument("--since", default="7d", metavar="WHEN", help=f"{SINCE}; default: 7d")
    parser.add_argument(
        "--uri", help="MLflow database or server (default: MLFLOW_TRACKING_URI, else sqlite:///mlflow.db)"
    )
    parser.add_argument("--experiment", metavar="NAME", help="only the traces of this experiment (default: all)")
    corpus = "the current documents, to count the requests that new, changed or removed documents affect"
    parser.add_argument("--corpus", metavar="FOLDER", help=corpus)
    most = "an upper limit for a number that --numbers lists: latency_p95_ms=300, empty_share=.05; can be repeated"
    parser.add_argument("--max", action="append", default=[], metavar="NUMBER=X", help=most)
    least = "a lower limit for such a number: top_score/rerank=.2; can be repeated"
    parser.add_argument("--min", action="append", default=[], metavar="NUMBER=X", help=least)
    parser.add_argument("--tolerance", action="append", default=[], metavar="KIND=X", help=_TOLERANCE)
    parser.add_argument("--looks", type=int, default=1, metavar="N", help=_LOOKS)
    numbers = "print every number that --max and --min accept, with its 95 %% interval"
    parser.add_argument("--numbers", action="store_true", help=numbers)
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write all findings as JSON")
    text = "write the numbers in the text format of Prometheus"
    parser.add_argument("--prometheus", type=output_file, metavar="FILE", help=text)
    options = parser.parse_args(arguments)
    if options.looks < 1:
        raise ConfigError(f"--looks: must be at least 1, got {options.looks}")
    given = [(kind, text) for kind in ("max", "min") for text in getattr(options, kind)]
    options.thresholds = [Threshold(*_read_pair(f"--{kind}", text), kind) for kind, text in given]
    options.tolerances = dict(TOLERANCE)
    for text in options.tolerance:
        kind, value = _read_pair("--tolerance", text)
        if kind not in _KINDS:
            raise ConfigError(f'--tolerance: no kind "{kind}"{nearest(kind, _KINDS)}')
        if not (value >= 1 if kind == "latency" else 0 <= value < (0.5 if kind == "score" else 1)):
            raise ConfigError(
                f"--tolerance: {text}: must be at least 1 for latency, at least 0 and below 1 for share, and at least 0"
                " and below .5 for score"
            )
        options.tolerances[_KINDS[kind]] = value
    return options


def _read_pair(option: str, text: str) -> tuple[str, float]:
    name, _, size = text.partition("=")
    try:
        number = float(size)
    except ValueError:
        number = math.nan
    if not name or not math.isfinite(number):
        example = "share=.05" if option == "--tolerance" else "latency_p95_ms=300"
        raise ConfigError(f'{option}: "{text}" is invalid; write NAME=NUMBER, such as {example}')
    return name, number


def look(registry: ModelRegistry, version: ModelVersion, since: float, options: argparse.Namespace) -> Watch:
    """Return the comparison of a version's evaluation with the version's traces since ``since`` (in epoch seconds).

    Raises ConfigError for a threshold on an unknown measure (unless there is no trace), and InputError for traces,
    bundles or documents that cannot be read.
    """
    traces, skipped = read_traces(registry, version, since, options.experiment)
    with tempfile.TemporaryDirectory(prefix="ragsweep-watch-") as name:
        folder = registry.download(version, (MANIFEST, REFERENCE, WORDS), Path(name))
        read_manifest(folder, (REFERENCE, WORDS))
        reference, requests = Reference.read(folder), Requests(traces, read_words(folder))
        changes = None
        if options.corpus:
            shipped, excluded = read_shipped_corpus(registry, version, Path(name))
            changes = compare_corpora(shipped, read_documents(options.corpus, excluded), options.corpus)
    stale = changes.concerned(traces) if changes and traces else None
    compared = RequestComparison(requests, reference, options.tolerances, stale)
    if not traces:
        return Watch(version, since, requests, reference, [], [], {}, [], changes, skipped)
    drifts, measures = compared.drifts(0.05 / options.looks), compared.measures()
    for one in options.thresholds:
        if one.name not in measures:
            raise ConfigError(f'--{one.kind}: these traces have no number "{one.name}"{nearest(one.name, measures)}')
    thresholds = [one.decide(measures[one.name]) for one in options.thresholds]
    return Watch(version, since, requests, reference, drifts, compared.lacks(), measures, thresholds, changes, skipped)
