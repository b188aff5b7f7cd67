"""Models in MLflow's registry: register configs as models from code, and find their versions and aliases."""

import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.parts.tracking.connection import Connection
from ragsweep.parts.tracking.database import mask_uri

ARTIFACT = "bundle"
"""The artifact name of a model's bundle."""

CONFIG = "ragsweep.config"
"""A version's tag that names the evaluated config, in a form that commands accept."""


class ModelFiles(NamedTuple):
    """The files from which a model is logged, and its requirements and input example."""

    code: Path  # run by MLflow when it loads the model
    packages: Sequence[Path]  # imported by the code, but not on a package index
    bundle: Path
    requirements: Sequence[str]
    example: Any


class ModelVersion(NamedTuple):
    """A registered version of a model."""

    name: str
    number: str
    tags: Mapping[str, str]

    @property
    def uri(self) -> str:
        """The address from which MLflow loads the version."""
        return f"models:/{self.name}/{self.number}"


@dataclass(frozen=True)
class ModelRegistry:
    """The registry of one MLflow database or server. Methods raise TrackingError if it is unusable."""

    connection: Connection
    experiment: str  # the id of the experiment in which models are logged

    def holder(self, name: str, alias: str) -> ModelVersion | None:
        """Return the version that an alias points to; None if the model or the alias does not exist."""
        from mlflow.exceptions import MlflowException

        with self.connection.opened(None):
            try:
                found = self.connection.client.get_model_version_by_alias(name, alias)
            except MlflowException as fault:
                if fault.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                    return None
                raise
            return ModelVersion(found.name, str(found.version), dict(found.tags))

    def find(self, reference: str) -> ModelVersion:
        """Find a version by ``NAME@ALIAS`` or ``NAME/NUMBER``, optionally prefixed by ``models:/``.

        Raises InputError if there is no such version, and ConfigError for any other form of reference.
        """
        from mlflow.exceptions import MlflowException

        text = reference.removeprefix("models:/")
        name, sign, rest = text.rpartition("@" if "@" in text else "/")
        is_number = rest.isdecimal() and len(rest) < 19  # more digits exceed an SQL integer
        if not (name and rest) or {":", "/"} & set(name) or (sign == "/" and not is_number):
            raise ConfigError(f'"{reference}" is not a version of a model; write NAME@ALIAS or NAME/NUMBER')
        if sign == "@":
            found = self.holder(name, rest)
        else:
            with self.connection.opened(None):
                try:
                    version = self.connection.client.get_model_version(name, rest)
                except MlflowException as fault:
                    if fault.error_code != "RESOURCE_DOES_NOT_EXIST":
                        raise
                    found = None
                else:
                    found = ModelVersion(version.name, str(version.version), dict(version.tags))
        if found is None:
            place, names = mask_uri(self.connection.uri), ["--name", name, *(["--alias", rest] if sign == "@" else [])]
            command = shlex.join(["ragsweep", "ship", "RUN", *names, "--uri", place])
            raise InputError(f'{place}: no model version "{text}"; correct it, or register one: {command}')
        return found

    def download(self, version: ModelVersion, names: Sequence[str], folder: Path) -> Path:
        """Download these files of a version's bundle to a place below ``folder``; return the folder with the files."""
        import mlflow

        with self.connection.opened(None), self.connection.as_default(self.experiment):
            for name in names:
                place = f"{version.uri}/artifacts/{ARTIFACT}/{name}"
                path = mlflow.artifacts.download_artifacts(artifact_uri=place, dst_path=str(folder))
        return Path(path).parent

    def register(self, name: str, files: ModelFiles, tags: Mapping[str, str]) -> ModelVersion:
        """Log a model, and register it as a new version with these tags and without an alias."""
        import mlflow

        with self.connection.opened(None), self.connection.as_default(self.experiment), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(?s).*type hint", UserWarning)  # MLflow's own category is a subclass
            with mlflow.start_run(run_name=f"ship {name}", tags=dict(tags)):
                logged = mlflow.pyfunc.log_model(
                    name="model",
                    python_model=str(files.code),
                    artifacts={ARTIFACT: str(files.bundle)},
                    code_paths=[str(path) for path in files.packages],
                    pip_requirements=list(files.requirements),
                    signature=_signature(),
                    input_example=files.example,
                )
            client = self.connection.client
            if not client.search_registered_models(f"name = '{name}'"):
                client.create_registered_model(name)
            made = client.create_model_version(name, logged.model_uri, logged.run_id, tags=dict(tags))
            return ModelVersion(name, str(made.version), dict(tags))

    def point(self, alias: str, version: ModelVersion) -> None:
        """Make an alias point to a version."""
        with self.connection.opened(None):
            self.connection.client.set_registered_model_alias(version.name, alias, version.number)


def _signature() -> Any:
    """Return the schema of the rows that a model reads and returns."""
    from mlflow.models import ModelSignature
    from mlflow.types.schema import AnyType, Array, ColSpec, DataType, Object, Property, Schema

    text, number, whole = DataType.string, DataType.double, DataType.long
    fields = {"document": text, "start": whole, "end": whole, "text": text, "score": number}
    passage = Object([Property(name, kind) for name, kind in fields.items()])
    step = Object([Property("step", text), Property("value", number)])
    # A row without a history has NaN in a table, which MLflow rejects for an array type; `as_turns` checks turns.
    inputs = [ColSpec(text, "question"), ColSpec(AnyType(), "history", required=False)]  # type: ignore[no-untyped-call]
    outputs = [
        ColSpec(text, "query"),
        ColSpec(Array(passage), "context"),
        ColSpec(text, "answer"),
        ColSpec(DataType.boolean, "abstained"),
        ColSpec(text, "failed"),
        ColSpec(whole, "tokens"),
        ColSpec(Array(step), "milliseconds"),
    ]
    return ModelSignature(Schema([*inputs]), Schema([*outputs]))
