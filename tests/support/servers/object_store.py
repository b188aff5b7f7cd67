"""A real S3 API on loopback: moto's server, with a separate bucket for each test that requests one."""

import itertools
import logging
import os
from collections.abc import Callable, Iterator

import httpx
import pytest

Bucket = Callable[[], str]
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "not-a-secret", "AWS_REGION": "us-east-1"}


class ObjectServer:
    """A server, and what a process's environment must have to use it."""

    def __init__(self) -> None:
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        host, port = self._server.get_host_and_port()
        self.url = f"http://{host}:{port}"
        self.environment = {**CREDENTIALS, "AWS_ENDPOINT_URL": self.url}
        self._numbers = itertools.count()

    def bucket(self) -> str:
        """Make an empty bucket, and return its URL."""
        name = f"bucket-{next(self._numbers)}"
        assert httpx.put(f"{self.url}/{name}").status_code == 200
        return f"s3://{name}"

    def stop(self) -> None:
        self._server.stop()


@pytest.fixture(scope="module")
def object_server() -> Iterator[ObjectServer]:
    """Serve S3 for the tests of a module, whose processes find it by their environment."""
    server = ObjectServer()
    before = {name: os.environ.get(name) for name in server.environment}
    os.environ.update(server.environment)
    yield server
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    server.stop()
