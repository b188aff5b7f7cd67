"""Put files among the artifacts of a run, so that none is ever seen half written."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from ragsweep.parts.tracking import place

if TYPE_CHECKING:
    from mlflow.store.artifact.artifact_repo import ArtifactRepository

UNFINISHED = ".artifact.uploading."
"""MLflow never lists a file whose name begins so."""


def write(location: str, artifacts: Mapping[str, bytes], uri: str) -> None:
    """Write files below ``location``, the artifact uri of a run tracked at ``uri``; names may hold slashes.

    In a local folder each file appears whole or not at all. Raises ValueError for a name that leaves the folder.
    """
    for name in artifacts:
        if ".." in PurePosixPath(name).parts or PurePosixPath(name).is_absolute():
            raise ValueError(f'"{name}" is no name for an artifact: it leaves the folder of its run')
    folder = place.folder(location)
    if folder:
        for name, data in artifacts.items():
            _put(folder / name, data)
    elif artifacts:
        _send(location, artifacts, uri)


def missing(location: str, names: Collection[str], uri: str) -> list[str]:
    """Return those names that are no artifacts yet; all are taken to lie in one folder."""
    folder = place.folder(location)
    if folder:
        return [name for name in names if not (folder / name).exists()]
    folders = {str(PurePosixPath(name).parent) for name in names}
    there = {info.path for name in folders for info in _repository(location, uri).list_artifacts(name)}
    return [name for name in names if name not in there]


def sweep_out(location: str) -> None:
    """Remove what a killed process left unfinished in a local folder."""
    folder = place.folder(location)
    for path in folder.rglob(f"{UNFINISHED}*") if folder else ():
        path.unlink(missing_ok=True)


def _put(path: Path, data: bytes) -> None:
    # The name is new each time: two processes that write the same file must not write into each other's.
    unfinished = path.with_name(f"{UNFINISHED}{uuid.uuid4().hex}")
    try:
        try:
            unfinished.write_bytes(data)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(data)
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise


def _send(location: str, artifacts: Mapping[str, bytes], uri: str) -> None:
    with tempfile.TemporaryDirectory(prefix="ragsweep-") as folder:
        for name, data in artifacts.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        cast(Any, _repository(location, uri)).log_artifacts(folder)


def _repository(location: str, uri: str) -> ArtifactRepository:
    # The client's own methods would read the run back first, with all its metrics, to learn the location.
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    return get_artifact_repository(location, tracking_uri=uri)
