"""Artifacts of runs: written so that no file is ever seen half written."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from ragsweep.parts.tracking.uris import local_folder

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
        with tempfile.TemporaryDirectory(prefix="ragsweep-") as made:
            for name, data in artifacts.items():
                Path(made, name).parent.mkdir(parents=True, exist_ok=True)
                Path(made, name).write_bytes(data)
            cast(Any, _repository(location, uri)).log_artifacts(made)


def missing(location: str, names: Collection[str], uri: str) -> list[str]:
    """Return the names that are no artifacts yet."""
    if folder := local_folder(location):
        return [name for name in names if not (folder / name).exists()]
    folders = {str(PurePosixPath(name).parent) for name in names}
    there = {info.path for name in folders for info in _repository(location, uri).list_artifacts(name)}
    return [name for name in names if name not in there]


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
