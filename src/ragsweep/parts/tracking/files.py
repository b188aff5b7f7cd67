"""Convert a result to the contents of an MLflow run: metrics, tags and parameters within MLflow's limits, and files."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
import tempfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from ragsweep.core.data import describe_weights
from ragsweep.core.locks import replace_file
from ragsweep.core.question_texts import to_texts
from ragsweep.core.results import COMPLETE, Result, judged_metrics, objectives, shown_metrics
from ragsweep.parts.targets import count_met
from ragsweep.parts.tracking import runs
from ragsweep.parts.tracking.database import local_folder

if TYPE_CHECKING:
    from mlflow.store.artifact.artifact_repo import ArtifactRepository

UNFINISHED = ".artifact.uploading."
"""Prefix of the names of files that are still being written; MLflow does not list such files."""


def write(location: str, artifacts: Mapping[str, bytes], uri: str) -> None:
    """Write artifacts (name -> content) below ``location``, the artifact URI of a run tracked at ``uri``.

    Names may contain slashes. In a local folder, each file is written atomically. Raises ValueError for a name that
    refers to a path outside ``location``.
    """
    for name in artifacts:
        if ".." in PurePosixPath(name).parts or PurePosixPath(name).is_absolute():
            raise ValueError(f'"{name}" is not a valid artifact name: it is outside the folder of its run')
    if folder := local_folder(location):
        for name, data in artifacts.items():
            replace_file(folder / name, data, UNFINISHED)
    elif artifacts:
        with tempfile.TemporaryDirectory(prefix="ragsweep-") as copies:
            for name, data in artifacts.items():
                Path(copies, name).parent.mkdir(parents=True, exist_ok=True)
                Path(copies, name).write_bytes(data)
            with _reported(location):
                cast(Any, _repository(location, uri)).log_artifacts(copies)


def missing(location: str, names: Collection[str], uri: str) -> list[str]:
    """Return the names in ``names`` that do not exist as artifacts below ``location``."""
    if folder := local_folder(location):
        return [name for name in names if not (folder / name).exists()]
    folders = {str(PurePosixPath(name).parent) for name in names}
    with _reported(location):
        existing = {info.path for name in folders for info in _repository(location, uri).list_artifacts(name)}
    return [name for name in names if name not in existing]


def remove_unfinished(location: str) -> None:
    """Remove the files that a killed process left unfinished below ``location``, if that is a local folder."""
    folder = local_folder(location)
    for path in folder.rglob(f"{UNFINISHED}*") if folder else ():
        path.unlink(missing_ok=True)


@contextmanager
def _reported(location: str) -> Iterator[None]:
    """Raise errors of an object store's library, such as boto3, as OSError, which `Connection.opened` converts."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except (OSError, MlflowException):
        raise
    except Exception as fault:
        fact = f"{type(fault).__name__}: {(str(fault).splitlines() or [''])[0]}"
        way = "install the store's library, or set its credentials"
        raise OSError(f"artifacts in {location}: {fact}; {way}") from None


def _repository(location: str, uri: str) -> ArtifactRepository:
    # The methods of the client would first read the run with all its metrics, in order to find the location.
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    return get_artifact_repository(location, tracking_uri=uri)


LONGEST_PARAMETER = 6_000  # MLflow truncates longer values without a warning
LONGEST_KEY = 250
LONGEST_TAG = 5_000
LONGEST_DIGEST = 36
LONGEST_REQUEST = 600_000
"""Maximum number of bytes of the parameters in one request; MLflow allows 1 MB, of which metrics take up to 350 kB."""

FAILED = "_n_failed"
"""Suffix of the metrics that count the questions for which a metric failed."""

MOST_METRICS = 40
"""Number of metrics of a run beyond which no optional metrics are added: MLflow displays all metrics side by side."""
OF_MANY = re.compile(r"_at_\d+$|^latency_|^ann_")
"""Matches the names of metrics with many variants: metrics at cutoffs, of latency and of approximate indexes."""
STANDARD = ("ndcg_at_10", "recall_at_10", "mrr", "map", "precision_at_5", "hit_rate_at_5", "f1_at_5")
"""Ranking metrics that are commonly published; conf/targets/retrieval.yaml has a threshold for each of them."""

CUT = " ... (whole in long_tags.json)"

OUTCOMES_FORMAT = "ragsweep.outcomes/1"


def key(name: str) -> str:
    """Return a key that MLflow accepts: shortened, without invalid characters, and without ``//`` and ``..``."""
    if len(name) > LONGEST_KEY:  # a hash distinguishes keys with the same beginning
        name = f"{name[: LONGEST_KEY - 9]}-{hashlib.sha256(encoded(name)).hexdigest()[:8]}"
    parts = re.sub(r"[^\w.\- /]|\.\.+", "_", name).split("/")
    return "/".join(part if part.strip(". ") else "_" for part in parts if part) or "_"


def metrics(result: Result) -> dict[str, float]:
    """Return the MLflow metrics of a result (name -> number); the ledger contains all of its numbers.

    - ``<metric>``: the value of each objective, headline metric and judged metric
    - ``<objective>_low``, ``<objective>_high``: the 95 % interval of each objective
    - ``<metric>_n_failed``: the number of questions that an objective or headline metric failed to measure, if any
    - ``race_asked``, ``race_of``: in a race, the number of questions on which the config ran, and the total number
    - ``race_ahead``: a lower bound of the best config's lead over this config, if the race dropped this config
    - ``usage_generate_calls``, ``_tokens_in``, ``_tokens_out``, ``_money``, and the same for ``judge``, ``route`` and
      ``query``: the usage of the original calls, even if their results were reused
    - ``tokens_cut_share``: the proportion of the chunks' tokens that exceed the embedder's input length
    - then, up to MOST_METRICS numbers in all: metrics with a target, STANDARD metrics, other metrics in config order,
      except those that OF_MANY matches (``recall_at_5``, ``latency_p95_ms``), and the intervals of headline metrics
    """
    shown, decides = shown_metrics(result.run.config), objectives(result.run.config)
    summaries = result.summaries.metrics
    first = [name for name in dict.fromkeys([*shown, *judged_metrics(result)]) if name in summaries]
    numbers = {name: summaries[name].value for name in first}
    for one in (summaries[name] for name in decides if name in summaries):
        numbers |= {f"{one.name}_low": one.low, f"{one.name}_high": one.high}
    numbers |= {
        f"{name}{FAILED}": summaries[name].n_failed for name in first if name in shown and summaries[name].n_failed
    }
    for row, used in result.summaries.usage.items():
        numbers |= {f"usage_{row}_{name}": float(value) for name, value in used.items() if name != "estimated"}
    numbers |= {f"race_{name}": float(value) for name, value in result.run.race.items() if not isinstance(value, str)}
    if "tokens_cut_share" in result.run.stages.get("embed", {}):
        numbers["tokens_cut_share"] = result.run.stages["embed"]["tokens_cut_share"]
    wanted = [
        *(target.metric for target in result.summaries.targets),
        *STANDARD,
        *(n for n in summaries if not OF_MANY.search(n)),
    ]
    further = {name: summaries[name].value for name in wanted if name in summaries and name not in numbers}
    for one in (summaries[name] for name in first if name in shown and name not in decides):
        further |= {f"{one.name}_low": one.low, f"{one.name}_high": one.high}
    numbers |= dict(itertools.islice(further.items(), max(0, MOST_METRICS - len(numbers))))
    return {key(name.replace("/", "_")): without_noise(value) for name, value in numbers.items()}


def tags(result: Result) -> dict[str, str]:
    """Return the tags of the MLflow run that records ``result``."""
    run, dataset, targets = result.run, result.run.dataset, result.summaries.targets
    weights, digest = result.questions.get("weight"), dataset.partition_digest[:LONGEST_DIGEST]
    known = {
        runs.KIND: "config",
        runs.SIGNATURE: run.signature,
        runs.WARNINGS: "\n".join(run.warnings),
        runs.TARGETS: "{} of {} met".format(*count_met(targets)) if targets else "",
        runs.PARTITION: f"{dataset.partition} {digest}" if digest else "",
        runs.WEIGHTED: describe_weights(weights) if weights else "",
        runs.STATE: run.state.lower() if run.state != COMPLETE else "",
    }
    return {name: value for name, value in known.items() if value}


def without_noise(value: float) -> float:
    """Return a value without rounding noise: with twelve significant digits, or 0 if it is closer to 0 than 1e-12.

    NaN and infinity are returned unchanged.
    """
    value = float(value)
    return value if not math.isfinite(value) else 0.0 if abs(value) < 1e-12 else float(f"{value:.12g}")


def parameters(values: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the parameters to send, with hashes in place of long values, and a mapping from names to long values."""
    long = {name: value for name, value in values.items() if len(value) > LONGEST_PARAMETER}
    hashes = {name: f"sha256:{hashlib.sha256(encoded(value)).hexdigest()}" for name, value in long.items()}
    return {key(name): value for name, value in {**values, **hashes}.items()}, long


def parquet(result: Result) -> bytes:
    """Return the table of questions as a Parquet file; a column of mixed types is converted to text."""
    import pyarrow  # type: ignore[import-untyped, unused-ignore]
    from pyarrow import parquet as writer  # type: ignore[import-untyped, unused-ignore]

    single = pyarrow.list_(pyarrow.float32())

    def column(values: Sequence[Any]) -> Any:
        try:
            array = pyarrow.array(values)
            # Single precision is enough, because the scores of a context have six digits.
            return array.cast(single) if array.type == pyarrow.list_(pyarrow.float64()) else array
        except UnicodeEncodeError:  # an unpaired surrogate
            return column(json.loads(encoded(json.dumps(values, ensure_ascii=False))))
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
            return pyarrow.array([None if value is None else str(value) for value in values])

    table = pyarrow.table({name: column(values) for name, values in to_texts(result.questions).items()})
    facts = {"format": OUTCOMES_FORMAT, "signature": result.run.signature}
    buffer = pyarrow.BufferOutputStream()
    # Dictionaries, statistics and a second schema are useless in a table of a few hundred rows. A higher compression
    # level takes up to twice as long but saves less than a tenth.
    plain = {"use_dictionary": False, "write_statistics": False, "store_schema": False}
    with writer.ParquetWriter(buffer, table.schema, compression="zstd", compression_level=3, **plain) as file:
        file.add_key_value_metadata(facts)
        file.write_table(table)
    return bytes(buffer.getvalue().to_pybytes())


def yaml(config: Mapping[str, Any]) -> bytes:
    """Return a config as YAML, in UTF-8, with its keys in their original order."""
    branches = (json.dumps({key: value}, default=str) for key, value in config.items())
    return encoded("".join(map(_branch_as_yaml, branches)))


@lru_cache(maxsize=256)
def _branch_as_yaml(branch: str) -> str:
    """Convert a mapping from JSON to YAML; the result is cached, because most branches are equal in many configs."""
    import yaml as writer  # type: ignore[import-untyped, unused-ignore]

    dumper = getattr(writer, "CSafeDumper", writer.SafeDumper)  # seven times as fast
    return str(writer.dump(json.loads(branch), Dumper=dumper, sort_keys=False, allow_unicode=True))


def encoded(text: str) -> bytes:
    """Return a text in UTF-8, with a question mark in place of each unpaired surrogate."""
    return text.encode("utf-8", "replace")


def packed(name: str, text: str) -> bytes:
    """Return a text as the content of the file ``name``, compressed with gzip if the name ends in ``.gz``."""
    if not name.endswith(".gz"):
        return encoded(text)
    # Z_FILTERED ignores short matches, because among digits they are accidental; the file becomes 10 % smaller. Level 7
    # takes twice as long as level 4 for rankings and makes them 8 % smaller.
    packer = zlib.compressobj(4, wbits=16 + zlib.MAX_WBITS, strategy=zlib.Z_FILTERED)
    return packer.compress(encoded(text)) + packer.flush()


def json_bytes(values: Mapping[str, str]) -> bytes:
    """Encode a mapping from names to strings as JSON, in UTF-8."""
    return encoded(json.dumps(values, indent=1, ensure_ascii=False))


def short_tag(value: str) -> str:
    """Return a tag's value, cut to the length that MLflow accepts and marked with CUT if it is too long."""
    return value if len(value) <= LONGEST_TAG else value[: LONGEST_TAG - len(CUT)] + CUT


def long_tags(tags: Mapping[str, str]) -> dict[str, bytes]:
    """Return an artifact (name -> content) with the whole values of tags that `short_tag` cuts; {} if it cuts none."""
    long = {name: value for name, value in tags.items() if len(value) > LONGEST_TAG}
    return {"long_tags.json": json_bytes(long)} if long else {}


def batches(values: Mapping[str, str]) -> list[list[tuple[str, str]]]:
    """Return the parameters in batches that fit into one request each; one empty batch if there are no parameters."""
    divided: list[list[tuple[str, str]]] = [[]]
    size = 0
    for name, value in values.items():
        length = len(json.dumps({"key": name, "value": value})) + 2
        if size + length > LONGEST_REQUEST:
            divided.append([])
            size = 0
        divided[-1].append((name, value))
        size += length
    return divided
