"""``ragsweep ship``: register an evaluated config as a model that MLflow can serve."""

import argparse
import re
import shlex
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from importlib.metadata import requires, version
from pathlib import Path
from typing import Any

import optuna_sweeper
import ragsweep.core
import ragsweep_serving
from ragsweep.commands.command_line import RUN, Parser, add_path, print_blocks, print_document
from ragsweep.commands.gate import decide, read_condition
from ragsweep.commands.gate import read as read_gate
from ragsweep.commands.gate_report import EXIT_STATUS, gate_document
from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError, InputError, RagsweepError, nearest
from ragsweep.core.results import objectives, shown_metrics
from ragsweep.core.secrets import MASK, texts
from ragsweep.core.traits import traits_of
from ragsweep.core.types import Corpus
from ragsweep.evaluation.assembly import build_graph
from ragsweep.evaluation.config_graph import ConfigGraph
from ragsweep.parts.indexes.external import ExternalIndex
from ragsweep.parts.tracking import Mlflow
from ragsweep.parts.tracking.database import mask_uri
from ragsweep.parts.tracking.models import CONFIG, ModelFiles, ModelVersion
from ragsweep.parts.tracking.runs import SIGNATURE
from ragsweep.parts.tracking.served_traces import BUNDLE
from ragsweep.report.document import Statement, lines
from ragsweep.stages.graph import walk
from ragsweep.stages.shards import LOCAL
from ragsweep.stats.comparable import check_whole
from ragsweep.sweep.composing.trees import leaves
from ragsweep.sweep.concluding.recorded_runs import RecordedRun, find_run, find_target
from ragsweep.sweep.running.retrieved import open_recorded
from ragsweep_serving.bundle import changed_part, write_bundle
from ragsweep_serving.reference import write_reference

SERVED = ("chunker", "retriever", "reranker", "query", "router", "llm", "prices")
"""Keys of the parts that a served model uses."""

UNSERVED = frozenset({
    "cmaes", "hydra-core", "matplotlib", "optuna", "plotly", "prometheus-client", "ragas",
    "langchain-community",
})  # fmt: skip
"""Requirements of ragsweep that are not needed to answer a question."""

# In an editable installation, ragsweep.__path__ begins with a folder that contains only configs.
PACKAGES = [
    Path(ragsweep.core.__path__[0]).parent,
    *(Path(package.__path__[0]) for package in (ragsweep_serving, optuna_sweeper)),
]
"""Folders of the packages that a model contains: the served code, and the packages of this project that it imports."""

_ALIAS = re.compile(r"(?!(?i:latest|v\d+)$)[\w-]{1,255}")

_ABOUT = """Register an evaluated config as a model in MLflow. The model contains the config's chunks and indexes, so no
chunk is embedded again, and the model runs on a machine without the store. With --alias, the alias moves to the new
version if the gate passes against the version that now has the alias."""


def _read(arguments: Sequence[str]) -> argparse.Namespace:
    parser = Parser("ragsweep ship", description=_ABOUT)
    parser.add_argument("run", metavar="RUN", help=RUN)
    parser.add_argument("--name", required=True, help="name of the registered model")
    parser.add_argument("--alias", help="alias, such as champion, to move to the new version")
    worse = "largest acceptable loss of METRIC against the alias's current version; can be repeated"
    parser.add_argument("--unless-worse", action="append", default=[], metavar="METRIC=X", help=worse)
    parser.add_argument("--uri", help="MLflow database or server; default: that of the config, else MLflow's default")
    sample = "share of requests that the served model traces to MLflow, for ragsweep watch; 0 for none"
    parser.add_argument("--trace-sample", type=float, default=1.0, metavar="SHARE", help=sample)
    add_path(parser)
    options = parser.parse_args(arguments)
    if not 0 <= options.trace_sample <= 1:
        raise ConfigError(f"--trace-sample: must be a share from 0 to 1, got {options.trace_sample}")
    if options.unless_worse and not options.alias:
        raise ConfigError("--unless-worse: needs an alias; add --alias NAME")
    if not re.fullmatch(r" *[\w.-][\w .-]*", options.name):
        way = 'use letters, digits, spaces, "-", "_" and ".", with at least one character that is not a space'
        raise ConfigError(f'--name: "{options.name}" is not a valid model name; {way}')
    if options.alias is not None and not _ALIAS.fullmatch(options.alias):  # MLflow rejects it only after registering
        way = 'use letters, digits, "-" and "_", at most 255; MLflow reserves "latest" and numbers such as "v1"'
        raise ConfigError(f'--alias: "{options.alias}" is not a valid alias; {way}')
    return options


def ship(arguments: Sequence[str]) -> int:
    """Run ``ragsweep ship``; return 0, or the exit status of the gate (1 or 3) if the alias does not move."""
    options = _read(arguments)
    found = find_run(options.path, options.run)
    check_whole(found.result)
    _check_margins(options.unless_worse, found)
    reference = find_target(options.path, options.run)
    tracking = found.result.run.config.get("tracking") or {}
    tracker = Mlflow(options.uri or tracking.get("uri"), str(tracking.get("experiment") or "ragsweep"))
    tracker.check()
    registry = tracker.models()
    champion = registry.holder(options.name, options.alias) if options.alias else None
    decision, tags = None, champion.tags if champion else {}
    # The reference alone may name a different config: record numbers differ between ledgers.
    if champion and (tags.get(CONFIG), tags.get(SIGNATURE)) != (reference, found.result.run.signature):
        decision = _gate(champion, found, options.run, options.path, options.unless_worse)
    with tempfile.TemporaryDirectory(prefix="ragsweep-ship-") as folder:
        names = options.name, uuid.uuid4().hex, options.trace_sample
        files = _files(found, (reference, options.path), names, Path(folder) / "bundle")
        made = registry.register(options.name, *files)
    print_blocks(lines(Statement("shipped", f"{found} as {made.uri}", {"uri": made.uri})))
    if decision:
        print_document(gate_document(decision))
    if champion and decision and decision.decision != "pass":
        print_blocks(lines(Statement("alias", f"{options.alias} stays at {champion.uri}")))
        return EXIT_STATUS[decision.decision]
    if options.alias:
        if options.unless_worse and not champion:
            print_blocks(lines(Statement("gate", f"not applied: no earlier version has the alias {options.alias}")))
        registry.point(options.alias, made)
        uri = registry.connection.uri
        env = f"MLFLOW_TRACKING_URI={shlex.quote(mask_uri(uri))} " if uri != Mlflow().uri else ""
        serve = f"{env}mlflow models serve -m {shlex.quote(f'models:/{options.name}@{options.alias}')}"
        print_blocks(lines(Statement("alias", f"{options.alias} points to this version; serve it with {serve}")))
    return 0


def _check_margins(margins: Sequence[str], found: RecordedRun) -> None:
    """Raise ConfigError for an invalid margin and an unmeasured metric, even if no version has the alias yet."""
    summaries = found.result.summaries.metrics
    for margin in margins:
        try:
            metric = read_condition(margin).metric
        except ConfigError as fault:
            raise ConfigError(str(fault).replace("--margin", "--unless-worse")) from None
        if metric not in summaries:
            raise ConfigError(f'--unless-worse: no metric "{metric}" was measured{nearest(metric, summaries)}')


def _gate(champion: ModelVersion, found: RecordedRun, typed: str, path: str, margins: Sequence[str]) -> Any:
    """Return the gate's decision on whether the config may take the alias of ``champion``, a registered version."""
    if not (before := champion.tags.get(CONFIG)):
        fact = f"{champion.uri}: was not registered by ragsweep ship, so there is nothing to compare with"
        raise InputError(f"{fact}; choose another --alias, or delete this alias in MLflow")
    if not margins:
        metric = (*objectives(found.result.run.config), "METRIC")[0]
        way = f"to move it, set the largest acceptable loss against that version, such as --unless-worse {metric}=.02"
        raise ConfigError(f"--alias: {champion.uri} already has this alias; {way}")
    baseline = None
    with suppress(InputError):
        baseline = find_run(path, before)
    if baseline is None or baseline.result.run.signature != champion.tags.get(SIGNATURE):
        fact = f"{champion.uri}: was evaluated as {before}, which is not in {path}"
        raise InputError(f"{fact}; specify the ledger of both configs with --path, or evaluate both in one store")
    typed_margins = [argument for margin in margins for argument in ("--margin", margin)]
    try:
        options = read_gate(["--candidate", typed, "--baseline", before, *typed_margins, "--path", path])
        return decide(baseline._replace(typed=champion.uri), None, found, options)
    except ConfigError as fault:
        raise ConfigError(str(fault).replace("--margin", "--unless-worse")) from None


def _files(
    found: RecordedRun, at: tuple[str, str], names: tuple[str, str, float], folder: Path
) -> tuple[ModelFiles, Mapping[str, str]]:
    """Write the bundle to a folder; return the model's files and tags.

    ``at`` contains the name by which commands find the config, and the folder of its ledger. ``names`` is as in
    `write_reference`.
    """
    result, (reference, path) = found.result, at
    config = {**result.run.config, "store": {"path": path, "stages": True}}
    if "ragsweep.parts.systems.Pipeline" not in str((config.get("system") or {}).get("_target_")):
        raise InputError(
            f"{found} evaluates an external system, which cannot be shipped; ship a run with system=pipeline"
        )
    session = open_recorded(result, path, config.get("compute", LOCAL))
    dataset = session.recorded_dataset(result)
    if dataset is None:
        fact = "its dataset cannot be loaded, or its corpus has changed since the evaluation"
        raise InputError(f"{found}: {fact}; restore the data, or run the config again and ship that run")
    if dataset.excluded:
        fact = "the config was evaluated without the queries' own documents, which a served model would find"
        raise InputError(
            f"{found}: dataset.exclude_self=true: {fact}; run the config again with"
            " dataset.exclude_self=false, and ship that run"
        )
    graph = evaluated_graph(session.builder, found, dataset.corpus)
    indexes = list(external_indexes(session.builder.build(config["retriever"], "retriever").value))
    for index in indexes:
        index.check_ship()
    folder.mkdir()
    write_reference(folder, names, result, dataset, (graph, session.evaluator.executor))
    write_bundle(folder, config, dataset.corpus, graph, session.evaluator.executor)
    shown = [name for name in (*objectives(config), *shown_metrics(config)) if name in result.summaries.metrics]
    summaries = {name: result.summaries.metrics[name] for name in shown}
    tags = {
        CONFIG: reference,
        BUNDLE: names[1],
        "ragsweep.name": result.name,
        SIGNATURE: result.run.signature,
        "ragsweep.golden_set": result.run.dataset.golden_digest,
        "ragsweep.corpus": result.run.dataset.corpus_digest,
        **{
            f"ragsweep.metric.{name}": f"{one.value:.6g} [{one.low:.6g}, {one.high:.6g}]"
            for name, one in summaries.items()
        },
    }
    example = {"question": str(result.questions["question"][0])}
    code = PACKAGES[1] / "mlflow_model.py"
    facts = {name for node in walk([graph.context, *graph.asked]) for name in node.spec.files}
    return ModelFiles(code, PACKAGES, folder, requirements(indexes, facts), [example]), tags


def evaluated_graph(builder: Builder, found: RecordedRun, corpus: Corpus) -> ConfigGraph:
    """Return the graph of a recorded config.

    Raises InputError, which names the key, for a value that is masked in the ledger, and for a part that differs from
    the evaluated part. Raises other RagsweepErrors as `build_graph` does.
    """
    config, fault, proved = found.result.run.config, None, set()
    try:
        graph = build_graph(builder, config, corpus)
        if part := changed_part(graph, found.result.run.addresses):
            why = "its code, weights or settings, or ragsweep itself, have changed since the evaluation"
            raise InputError(f"{found}: {part}: {why}; run the config again, and ship that run")
        # Equal addresses prove that these texts were evaluated as they are: asterisks in them do not mask a secret.
        proved = {text for node in walk(graph.own) for text in texts(node.spec.plain())}
    except RagsweepError as caught:
        fault = caught
    for key, text in leaves({key: config[key] for key in SERVED}):
        if MASK in str(text) and text not in proved:
            raise InputError(
                f"{found}: {key}: its value is masked in the ledger ({text}), and a bundle contains no secret and no"
                " value of an environment variable; if it is a name or an address, write it out in the config; if it is"
                " an API key, put it in the variable that key_env names; then run the config again, and ship that run"
            )
    if fault:
        raise fault
    return graph


def external_indexes(retriever: Any) -> Iterator[ExternalIndex]:
    """Yield the indexes of a retriever, or of its legs, that are outside the store."""
    for leg in getattr(retriever, "legs", {"": retriever}).values():
        if isinstance(index := getattr(leg, "index", None), ExternalIndex):
            yield index


def requirements(indexes: Sequence[ExternalIndex], facts: Set[str] = frozenset()) -> list[str]:
    """Return the requirements of a shipped config, pinned to the installed versions.

    ``facts`` are the names of libraries on whose versions a part depends. The requirements are those of ragsweep, the
    libraries that ``indexes`` require, and ragsweep's optional libraries in ``facts``, without those in UNSERVED.
    """
    lines = requires("ragsweep") or ()
    named = [(re.split(r"[ <>=!~;\[]", line, maxsplit=1)[0], "extra ==" in line) for line in lines]
    optional = {name for name, extra in named if extra and name in facts}
    names = [name for name, extra in named if not extra]
    names += sorted(optional.union(*(traits_of(index).requires for index in indexes)))
    return [f"{name}=={version(name).partition('+')[0]}" for name in names if name not in UNSERVED]
