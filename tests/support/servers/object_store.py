"""A real S3 API on loopback: moto's server, with a separate bucket for each test that requests one."""

import itertools
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import httpx
import pytest
from obstore.store import S3Store

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "not-a-secret", "AWS_REGION": "us-east-1"}


class ObjectServer:
    """A server, and the environment variables that a process needs to use it."""

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
    """Serve S3 for the tests of a module, whose processes find it by environment variables."""
    server = ObjectServer()
    with mock.patch.dict(os.environ, server.environment):
        yield server
    server.stop()


@contextmanager
def silent_objects() -> Iterator[S3Store]:
    """Open a bucket of a server that accepts connections, but never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = {"aws_endpoint": f"http://127.0.0.1:{silent.getsockname()[1]}", "region": "x"}
        keys = {"access_key_id": "a", "secret_access_key": "b", "client_options": {"allow_http": True}}
        yield S3Store("bucket", **options, **keys)
