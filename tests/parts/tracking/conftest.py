"""A database and a real tracking server, shared by all tests of tracking: to make either takes seconds."""

from collections.abc import Iterator

import pytest

from support.servers.tracking_server import QUIET, mlflow_server


@pytest.fixture(scope="session", autouse=True)
def _quiet() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUIET.items():
            patch.setenv(name, value)
        patch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield


@pytest.fixture(scope="session")
def sqlite_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('data base')}/mlflow.db"


@pytest.fixture(scope="session")
def server_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with mlflow_server(tmp_path_factory.mktemp("server")) as uri:
        yield uri
