"""Models in MLflow's registry: register a config as a "model from code", and find and download versions."""

import shlex
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.parts.tracking.connection import Connection
from ragsweep.parts.tracking.database import mask_uri

ARTIFACT = "bundle"
"""The name under which a model's bundle is stored among its artifacts."""

CONFIG = "ragsweep.config"
"""The model-version tag whose value names the evaluated config, in a form that commands accept."""


class ModelFiles(NamedTuple):
    """The files from which MLflow logs a model, the model's requirements, and an example of its input."""

    code: Path  # run by MLflow when it loads the model
    packages: Sequence[Path]  # imported by the code but not available on a package index
    bundle: Path
    requirements: Sequence[str]
    example: Any


class ModelVersion(NamedTuple):
    """A registered version of a model; ``number`` is its version number, as a string."""

    name: str
    number: str
    tags: Mapping[str, str]

    @property
    def uri(self) -> str:
        """The URI from which MLflow loads the version."""
        return f"models:/{self.name}/{self.number}"


@dataclass(frozen=True)
class ModelRegistry:
    """A model registry; its methods raise TrackingError if the MLflow database or server is unusable."""

    connection: Connection
    experiment: str  # the id of the experiment in which models are logged

    def holder(self, name: str, alias: str) -> ModelVersion | None:
        """Return the model version to which an alias points; None if the model or the alias does not exist."""
        with self.connection.opened(None):
            return _existing(self.connection.client.get_model_version_by_alias, name, alias)

    def find(self, reference: str) -> ModelVersion:
        """Return the version to which ``NAME@ALIAS`` or ``NAME/NUMBER`` refers; the prefix ``models:/`` is optional.

        Raises InputError if this version does not exist, and ConfigError if ``reference`` has neither form.
        """
        text = reference.removeprefix("models:/")
        name, sign, rest = text.rpartition("@" if "@" in text else "/")
        is_number = rest.isdecimal() and len(rest) < 19  # more digits exceed an SQL integer
        if not (name and rest) or {":", "/"} & set(name) or (sign == "/" and not is_number):
            raise ConfigError(f'"{reference}" is not a version of a model; write NAME@ALIAS or NAME/NUMBER')
        with self.connection.opened(None):
            client = self.connection.client
            get = client.get_model_version_by_alias if sign == "@" else client.get_model_version
            found = _existing(get, name, rest)
        if found is None:
            place, names = mask_uri(self.connection.uri), ["--name", name, *(["--alias", rest] if sign == "@" else [])]
            command = shlex.join(["ragsweep", "ship", "RUN", *names, "--uri", place])
            raise InputError(f'{place}: no model version "{text}"; correct the name, or register one: {command}')
        return found

    def download(self, version: ModelVersion, names: Sequence[str], folder: Path) -> Path:
        """Download files of a version's bundle to ``folder``, and return the folder that directly contains them.

        ``names`` lists the names of one or more files.
        """
        import mlflow

        with self.connection.opened(None), self.connection.as_default(self.experiment):
            for name in names:
                place = f"{version.uri}/artifacts/{ARTIFACT}/{name}"
                path = mlflow.artifacts.download_artifacts(artifact_uri=place, dst_path=str(folder))
        return Path(path).parent

    def register(self, name: str, files: ModelFiles, tags: Mapping[str, str]) -> ModelVersion:
        """Log a model, register it as a new version of the model ``name``, and return the version.

        The run and the version get the same tags. The version has no alias.
        """
        import mlflow

        with self.connection.opened(None), self.connection.as_default(self.experiment), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(?s).*type hint", UserWarning)  # MLflow's category is a subclass
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
            made = client.create_model_version(
                name, logged.model_uri, logged.run_id, dict(tags), model_id=logged.model_id
            )
            return ModelVersion(name, str(made.version), dict(tags))

    def point(self, alias: str, version: ModelVersion) -> None:
        """Point an alias of a model to a version; an existing alias is moved."""
        with self.connection.opened(None):
            self.connection.client.set_registered_model_alias(version.name, alias, version.number)


def _existing(get: Callable[[str, str], Any], name: str, which: str) -> ModelVersion | None:
    """Return the version that ``get`` finds for a model's name and an alias or number; None if there is no version."""
    from mlflow.exceptions import MlflowException

    try:
        found = get(name, which)
    except MlflowException as fault:
        if fault.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            return None
        raise
    return ModelVersion(found.name, str(found.version), dict(found.tags))


def _signature() -> Any:
    """Return the MLflow schema of the rows that a model takes as input and returns."""
    from mlflow.models import ModelSignature
    from mlflow.types.schema import AnyType, Array, ColSpec, DataType, Object, Property, Schema

    text, number, whole = DataType.string, DataType.double, DataType.long
    fields = {"document": text, "start": whole, "end": whole, "text": text, "score": number}
    passage = Object([Property(name, kind) for name, kind in fields.items()])
    step = Object([Property("step", text), Property("value", number)])
    # In a table, a missing history is NaN, which MLflow rejects for an array type; `as_turns` checks histories.
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
