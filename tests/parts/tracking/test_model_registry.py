"""Models in MLflow's registry: registered, found and downloaded from a database and from a real tracking server."""

from pathlib import Path

import pytest

from ragsweep.parts.tracking import Mlflow
from ragsweep.parts.tracking.models import ModelFiles

CODE = """
import mlflow


class Echo(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input, params=None):
        return model_input


mlflow.models.set_model(Echo())
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", ["sqlite_uri", "server_uri"])
def test_registered_model_is_found_by_its_alias(place: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    (tmp_path / "model.py").write_text(CODE, "utf-8")
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "manifest.json").write_text("{}", "utf-8")
    registry = Mlflow(request.getfixturevalue(place), "models").models()
    files = ModelFiles(tmp_path / "model.py", [], tmp_path / "bundle", ["mlflow"], None)
    made = registry.register("handbook", files, {"ragsweep.config": "abc#1"})
    registry.point("champion", made)
    assert registry.find("handbook@champion") == made
    (tmp_path / "new").mkdir()
    assert (registry.download(made, ["manifest.json"], tmp_path / "new") / "manifest.json").read_text("utf-8") == "{}"
