"""Files and values of runs: what is logged of a result, and artifacts that are never seen half written."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from ragsweep.core.results import Result
from ragsweep.parts.targets import PASS
from ragsweep.parts.tracking.database import local_folder

if TYPE_CHECKING:
    from mlflow.store.artifact.artifact_repo import ArtifactRepository

UNFINISHED = ".artifact.uploading."
"""Prefix of files that MLflow never lists."""


def write(location: str, artifacts: Mapping[str, bytes], uri: str) -> None:
    """Write files below ``location``, the artifact URI of a run tracked at ``uri``; names may contain slashes.

    In a local folder each file appears whole or not at all. Raises ValueError for a name outside of the folder.
    """
    for name in artifacts:
        if ".." in PurePosixPath(name).parts or PurePosixPath(name).is_absolute():
            raise ValueError(f'"{name}" is no name for an artifact: it leaves the folder of its run')
    if folder := local_folder(location):
        for name, data in artifacts.items():
            _write_atomically(folder / name, data)
    elif artifacts:
        with tempfile.TemporaryDirectory(prefix="ragsweep-") as copies:
            for name, data in artifacts.items():
                Path(copies, name).parent.mkdir(parents=True, exist_ok=True)
                Path(copies, name).write_bytes(data)
            cast(Any, _repository(location, uri)).log_artifacts(copies)


def missing(location: str, names: Collection[str], uri: str) -> list[str]:
    """Return the names that are no artifacts yet."""
    if folder := local_folder(location):
        return [name for name in names if not (folder / name).exists()]
    folders = {str(PurePosixPath(name).parent) for name in names}
    existing = {info.path for name in folders for info in _repository(location, uri).list_artifacts(name)}
    return [name for name in names if name not in existing]


def remove_unfinished(location: str) -> None:
    """Remove the unfinished files of a killed process from a local folder."""
    folder = local_folder(location)
    for path in folder.rglob(f"{UNFINISHED}*") if folder else ():
        path.unlink(missing_ok=True)


def _write_atomically(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # A new name each time: two processes that write the same file must not write into each other's.
    unfinished = path.with_name(f"{UNFINISHED}{uuid.uuid4().hex}")
    try:
        unfinished.write_bytes(data)
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise


def _repository(location: str, uri: str) -> ArtifactRepository:
    # The client's own methods would first read the run with all its metrics, only to find the location.
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    return get_artifact_repository(location, tracking_uri=uri)


LONGEST_PARAMETER = 6_000  # MLflow cuts longer values silently
LONGEST_KEY = 250
LONGEST_TAG = 5_000
LONGEST_DIGEST = 36
LONGEST_GROUP = 100
LONGEST_REQUEST = 600_000
"""Bytes of parameters in one request; MLflow allows 1 MB with the metrics, which are 350 kB at most."""

CUT = " ... (whole in long_tags.json)"

OUTCOMES_FORMAT = "ragsweep.outcomes/1"


def key(name: str) -> str:
    """Replace what MLflow refuses in a key: some characters, and, since keys are paths, ``//`` and ``..``."""
    if len(name) > LONGEST_KEY:  # cut, and distinguished from others with the same beginning
        name = f"{name[: LONGEST_KEY - 9]}-{hashlib.sha256(encoded(name)).hexdigest()[:8]}"
    parts = re.sub(r"[^\w.\- /]|\.\.+", "_", name).split("/")
    return "/".join(part if part.strip(". ") else "_" for part in parts if part) or "_"


def metrics(result: Result) -> dict[str, float]:
    """Name every number of a result.

    - ``<metric>``: the value over all questions, with ``n_scored/``, ``n_failed/`` and the 95 % interval ``low/`` to
      ``high/``; where questions failed also ``coverage/``, ``low_bound/`` and ``high_bound/``
    - ``<label>/<value>/<metric>``: a group's value with its ``n_scored/``, for headline metrics of which some question
      of the group was scored (results.json has all; a thousand numbers per run would drown MLflow's pages)
    - ``first_stage/<metric>``: before reranking; ``reranking/up`` and the like: the effect of reranking
    - ``latency/<stage>/p95_ms`` and the like; ``index/seconds``, ``index/bytes``, in a hybrid ``index_<leg>/...``
    - ``usage/generate/tokens_in`` and the like: the cost of the answers when they were first made
    - ``target/<metric>``: 1 where the target is met, else 0
    - ``race/asked``, ``race/ahead``: questions asked, and least lead of the best over this dropped config
    - ``tokens_cut_share``: proportion of the chunks' tokens beyond the embedder's window
    """
    headline = (*result.config.get("headline", ()), *result.config.get("answer_headline", ()))
    # MLflow's pages list metrics in the order in which they were sent.
    summaries = sorted(result.summaries.values(), key=lambda summary: summary.name not in headline)
    numbers = {_part(summary.name): summary.value for summary in summaries}
    for summary in summaries:
        facts = ["n_scored", "n_failed", "low", "high"]
        if summary.coverage < 1:
            facts += ["coverage", "low_bound", "high_bound"]
        numbers |= {f"{fact}/{_part(summary.name)}": getattr(summary, fact) for fact in facts}
    for label, values in result.groups.items():
        parts = _distinct(list(values))
        for value, group in values.items():
            for summary in group.values():
                if not summary.n_scored or (headline and summary.name not in headline):
                    continue
                name = f"{_part(label)}/{parts[value]}/{_part(summary.name)}"
                numbers |= {name: summary.value, f"n_scored/{name}": summary.n_scored}
    for place, table in (("latency/", result.latency), ("", result.indexes), ("usage/", result.usage)):
        for row, values_of_row in table.items():
            numbers |= {f"{place}{_part(row)}/{name}": float(value) for name, value in values_of_row.items()}
    numbers |= {f"first_stage/{_part(name)}": summary.value for name, summary in result.first_stage.items()}
    numbers |= {f"reranking/{name}": value for name, value in result.reranking.items()}
    numbers |= {f"race/{name}": float(value) for name, value in result.race.items() if not isinstance(value, str)}
    numbers |= {
        f"target/{_part(target.metric)}": float(target.verdict == PASS) for target in result.targets if target.band
    }
    if "tokens_cut_share" in result.stages.get("embed", {}):
        numbers["tokens_cut_share"] = result.stages["embed"]["tokens_cut_share"]
    return {key(name) if len(name) > LONGEST_KEY else name: value for name, value in numbers.items()}


def parameters(values: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the parameters to send, in which long values are replaced by their hash, and the long values."""
    long = {name: value for name, value in values.items() if len(value) > LONGEST_PARAMETER}
    hashes = {name: f"sha256:{hashlib.sha256(encoded(value)).hexdigest()}" for name, value in long.items()}
    return {key(name): value for name, value in {**values, **hashes}.items()}, long


def parquet(result: Result) -> bytes:
    """Serialise the table of questions; a column of mixed types becomes text."""
    import pyarrow  # type: ignore[import-untyped, unused-ignore]
    from pyarrow import parquet as writer  # type: ignore[import-untyped, unused-ignore]

    def column(values: Sequence[Any]) -> Any:
        try:
            return pyarrow.array(values)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
            return pyarrow.array([None if value is None else str(value) for value in values])

    table = pyarrow.table({name: column(values) for name, values in result.outcomes.items()})
    facts = {"format": OUTCOMES_FORMAT, "signature": result.signature}
    buffer = pyarrow.BufferOutputStream()
    writer.write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), **facts}), buffer)
    return bytes(buffer.getvalue().to_pybytes())


def yaml(config: Mapping[str, Any]) -> bytes:
    """Serialise a config as YAML, in its own order."""
    import yaml as writer  # type: ignore[import-untyped, unused-ignore]

    plain = json.loads(json.dumps(config, default=str))
    dumper = getattr(writer, "CSafeDumper", writer.SafeDumper)  # seven times as fast
    return encoded(str(writer.dump(plain, Dumper=dumper, sort_keys=False, allow_unicode=True)))


def encoded(text: str) -> bytes:
    """Encode a text; an unpaired surrogate becomes a question mark."""
    return text.encode("utf-8", "replace")


def json_bytes(values: Mapping[str, str]) -> bytes:
    """Serialise texts as JSON."""
    return encoded(json.dumps(values, indent=1, ensure_ascii=False))


def short_tag(value: str) -> str:
    """Cut a tag to the length that MLflow accepts."""
    return value if len(value) <= LONGEST_TAG else value[: LONGEST_TAG - len(CUT)] + CUT


def batches(values: Mapping[str, str]) -> list[list[tuple[str, str]]]:
    """Divide parameters into requests of a size that MLflow accepts; at least one, which may be empty."""
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


def _part(name: str) -> str:
    return key(name.replace("/", "_"))


def _distinct(values: Sequence[str]) -> dict[str, str]:
    """Name groups so that no two share a key, even where they differ only in characters that MLflow refuses."""
    parts: dict[str, str] = {}
    for value in values:
        part = _part(value)[:LONGEST_GROUP]
        if part in parts.values():
            part = f"{part}-{hashlib.sha256(encoded(value)).hexdigest()[:6]}"
        parts[value] = part
    return parts
