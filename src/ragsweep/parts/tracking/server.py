"""Talk to a tracking server without MLflow: does it answer, does it take us, and is it away at the moment?"""

from __future__ import annotations

import base64
import configparser
import json
import os
import ssl
import time
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import BaseHandler, HTTPSHandler, Request, build_opener

from ragsweep.core.errors import TrackingError
from ragsweep.parts.tracking.place import deleted, masked

GREETING_SECONDS = 5.0
PROBE_SECONDS = 1.0
ASKING_SHARE = 0.1
"""While a server is away, at most this share of the time goes into asking whether it is back."""

BOUNDS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",
}
"""MLflow's own bounds for a request are 120 s, seven repetitions, and any wait that the server asks for. With ours a
server that hangs costs ten seconds, once; and no request is sent twice, which would make two runs of one config. What
was missed can be sent again. Whoever sets these in the environment keeps them."""


class Line:
    """The line to one server: remembers an outage, so that it is waited for once and not at every config."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.fault = ""  # why it did not answer when it was last asked
        self._ask_again = 0.0

    def answers(self) -> bool:
        """Ask the server whether it is there; takes PROBE_SECONDS at most."""
        begun = time.monotonic()
        try:
            status, _ = ask(self.uri, "/health", PROBE_SECONDS)
            self.fault = "" if status < 500 else f"HTTP status {status}"
        except OSError as error:
            self.fault = _reason(error)
        now = time.monotonic()
        self._ask_again = now + (now - begun) * (1 / ASKING_SHARE - 1)
        return not self.fault

    def meet(self) -> None:
        """Raise TrackingError if the server is not there when it is first needed."""
        if not self.answers():
            raise _absent(self.uri, self.fault)

    def refuse_if_cut(self) -> None:
        """Raise TrackingError while an outage lasts."""
        if self.fault and (time.monotonic() < self._ask_again or not self.answers()):
            raise TrackingError(
                f"{masked(self.uri)}: the MLflow server is still away ({self.fault}); start it again, "
                "then send what it missed with `ragsweep sync`"
            )


def greet(uri: str, experiment: str) -> None:
    """Raise TrackingError where no MLflow server answers soon, or where it refuses us or the experiment."""
    shown = masked(uri)
    try:
        status, _ = ask(uri, "/health", GREETING_SECONDS)
        if status < 500 and status != 429:
            query = f"/api/2.0/mlflow/experiments/get-by-name?experiment_name={quote(experiment, safe='')}"
            status, body = ask(uri, query, GREETING_SECONDS)
    except OSError as error:
        raise _absent(uri, _reason(error)) from None  # the cause may quote the uri
    if status >= 500 or status == 429:
        raise _absent(uri, f"HTTP status {status}")
    if status in (401, 403):
        if os.environ.get("MLFLOW_TRACKING_AUTH") or _flag("MLFLOW_TRACKING_AWS_SIGV4"):
            return  # then the credentials are made by a plugin, which only MLflow knows
        raise TrackingError(
            f"{shown}: the MLflow server refuses these credentials (HTTP status {status}); set "
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, in the environment"
        )
    _refuse_answer(uri, experiment, body)


def ask(uri: str, path: str, seconds: float) -> tuple[int, bytes]:
    """GET a path of a server, with the credentials that MLflow would send; return HTTP status and body.

    Raises OSError where no answer comes; ``seconds`` is the longest silence.
    """
    try:
        parts = urlsplit(uri)
        request = Request(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/") + path)
        if credentials := _credentials(parts.username, parts.password):
            request.add_unredirected_header("Authorization", credentials)  # another host must not get them
        handlers: list[BaseHandler] = [HTTPSHandler(context=_trust())] if parts.scheme == "https" else []
        with build_opener(*handlers).open(request, timeout=seconds) as answer:
            return int(answer.status), bytes(answer.read())
    except HTTPError as refused:
        with refused:
            return refused.code, refused.read()
    except (HTTPException, ValueError, configparser.Error) as error:  # no HTTP, no address, no credentials file
        raise OSError(str(error) or type(error).__name__) from error


def shows_credentials(uri: str) -> bool:
    """Say whether credentials would be sent to another machine in a way that everybody in between can read."""
    parts = urlsplit(uri)
    host = parts.hostname or ""
    here = host in ("localhost", "::1") or host.startswith("127.")
    return parts.scheme == "http" and not here and _credentials(parts.username, parts.password) is not None


def _refuse_answer(uri: str, experiment: str, body: bytes) -> None:
    try:
        answer = json.loads(body)
        found: dict[str, Any] = answer.get("experiment", {})
        known = "error_code" in answer or "experiment_id" in found
    except (ValueError, AttributeError):
        known = False
    if not known:
        raise TrackingError(f"{masked(uri)}: what answers there is no MLflow server; correct tracking.uri")
    if found.get("lifecycle_stage") == "deleted":
        raise deleted(uri, experiment, str(found["experiment_id"]))


def _absent(uri: str, reason: str) -> TrackingError:
    return TrackingError(
        f"{masked(uri)}: no MLflow server answers ({reason}); start one with "
        "`mlflow server --backend-store-uri sqlite:///mlflow.db`, correct tracking.uri, or set tracking=none"
    )


def _reason(error: OSError) -> str:
    cause = error.reason if isinstance(error, URLError) else error
    return masked(str(cause) or type(cause).__name__)


def _credentials(user: str | None, password: str | None) -> str | None:
    """Return the header that MLflow would send: by name and password, by token, or from the address."""
    file = configparser.ConfigParser(interpolation=None)
    file.read(Path("~/.mlflow/credentials").expanduser())
    given = {
        key: os.environ.get(key) or file.get("mlflow", key.lower(), fallback="") or ""
        for key in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD")
    }
    if all(given.values()):
        return _basic(*given.values())
    if token := os.environ.get("MLFLOW_TRACKING_TOKEN"):
        return f"Bearer {token}"
    return _basic(unquote(user), unquote(password or "")) if user else None


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _trust() -> ssl.SSLContext:
    """Trust the certificates that MLflow would trust."""
    if _flag("MLFLOW_TRACKING_INSECURE_TLS"):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        import certifi

        given = next(filter(None, map(os.environ.get, _AUTHORITIES)), None) or certifi.where()
        is_folder = Path(given).is_dir()
        context = ssl.create_default_context(cafile=None if is_folder else given, capath=given if is_folder else None)
    if own := os.environ.get("MLFLOW_TRACKING_CLIENT_CERT_PATH"):
        context.load_cert_chain(own)
    return context


_AUTHORITIES = ("MLFLOW_TRACKING_SERVER_CERT_PATH", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def _flag(name: str) -> bool:
    return os.environ.get(name, "").lower() in ("true", "1")
