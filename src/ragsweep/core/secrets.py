"""Mask secrets in all output: configs, names, parameters, errors and logs.

Names such as ``api_key``, ``passwd`` and ``credentials`` are names of secrets. A value is secret if its key in a config
or its environment variable has such a name, or if a config reads it from any environment variable (``${oc.env:NAME}``).
A secret is masked wherever it is written, including in the encodings that `spellings` yields. These exceptions keep
output readable:

- A value that a config sets under the name of a secret, or reads from a variable with such a name, is not masked in
  other strings if it has fewer than 4 characters or is true, false or null. If it has 4 to 7 characters, it is masked
  only as a whole word.
- If no config reads a variable that has the name of a secret, the variable's value is not masked if it has fewer than 8
  characters.
- If a config reads a value from any other variable, the value is not masked if it has fewer than 8 characters, is a
  number, or is a path whose first folder exists. Under a key that begins with ``hydra.``, ``store.`` or ``tracking.``,
  only the passwords in URLs are masked.
"""

import base64
import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from ragsweep.core.errors import ConfigError, RagsweepError
from ragsweep.core.escaping import printable, visible
from ragsweep.core.masked_output import MaskedStream, masked_records
from ragsweep.core.ordering import is_number

MASK = "***"

SHORTEST = 8
"""Length of the shortest value that is masked anywhere in text, because a shorter value could occur inside a word."""

SHORTEST_WORD = 4
"""Length of the shortest value that is masked as a whole word, if its key is the name of a secret."""

_SECRET = re.compile(
    r"(^|[_\W])(key|apikeys?|(api|access|private|secret|auth|service)_?keys|token|secrets?|pass|passwds?|passwords?"
    r"|passphrases?|pwd|credentials?|creds?|authorization|o?auth|bearer|cookies?|dsn|conn(ection)?_?str(ing)?|jwt|sas"
    r"|webhooks?(_url)?|pin|(api|access|auth|bearer|refresh|secret|session|user)_?tokens)(\[\d+\])*$"
    r"|^(tokens|session)(\[\d+\])*$"
)
_COUNT = re.compile(r"[\d_.,]*")
"""A token count, or several token counts separated by commas, as in a sweep."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_IN_URL = re.compile(r"(://(?:[^/\s:@'\"]*:|(?=[^/\s:@'\"]{16})))([^@/\s'\"]+)@")
"""The password in a URL or, in a URL without a password, a user name of 16 or more characters, which may be a token."""

_QUERY = re.compile(r"(?<=://)[^\s'\"<>?]{1,2000}\?[^\s'\"<>]+")
"""A URL with a query string, without its scheme."""

_PARAMETER = re.compile(r"([?&]([^\s=&#]{1,100})=)(?!\$\{)([^&#]+)")
"""The name and value of a query parameter, unless the value is a reference to an environment variable."""

SIGNATURES = ("sig", "signature", "x-amz-signature", "x-goog-signature")
"""Names of the query parameters that grant access to a signed URL."""

_VARIABLES = re.compile(r"((^|,)(['\"]?)\$\{oc\.env:[^},]*(,null)?\}\3)+")
"""A value that consists only of references to environment variables, separated by commas."""

_INSIDE = re.compile(r"[{,]\s*['\"]?([\w-]+)['\"]?\s*:\s*('[^']*'|\"[^\"]*\"|\$\{[^}]*\}|[^,{}\[\]]*)")
"""A key and its value in a mapping on the command line."""


@lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Return whether the last part of a dotted key is the name of a secret, as in ``llm.api_key``."""
    last = name.rpartition(".")[2]
    return last != "PWD" and bool(_SECRET.search(_CAMEL.sub("_", last).lower()))  # PWD is the shell's working folder


@lru_cache(maxsize=4096)
def is_under_secret(name: str) -> bool:
    """Return whether any part of a dotted key is the name of a secret: all values below such a key are secret."""
    return any(map(is_secret, name.split(".")))


def is_count(name: str, value: Any) -> bool:
    """Return whether the name ends in ``tokens`` and the value is a token count, which is not a secret."""
    return name.lower().endswith("tokens") and bool(_COUNT.fullmatch(str(value)))


def mask(value: Any, name: str = "", inside: bool = False) -> Any:
    """Return a copy of a tree of plain values in which the values under names of secrets are masked.

    References (``${oc.env:NAME}``), ``_target_``, token counts, booleans, None and "" remain visible. ``name`` is the
    key of the tree; ``inside`` is true if a key above the tree is the name of a secret.
    """
    inside = inside or is_under_secret(name)
    if isinstance(value, Mapping):
        return {key: mask(item, str(key), inside and key != "_target_") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mask(item, name, inside) for item in value]
    if not inside or value in (None, "") or isinstance(value, bool):
        return value
    return value if _VARIABLES.fullmatch(str(value)) or is_count(name, value) else MASK


def texts(tree: Any) -> Iterator[str]:
    """Yield every string in a tree of plain values and dataclasses, including keys, in no particular order."""
    pending = [tree]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list | tuple):
            pending += value
        elif isinstance(value, Mapping):
            pending += [*value, *value.values()]
        elif is_dataclass(value):
            pending += vars(value).values()


def refuse_secrets(overrides: Sequence[str]) -> None:
    """Raise ConfigError if an override contains a secret, which other users could read in the list of processes."""
    fact = "{}: a {} on the command line ends up in files; put it in an environment variable, {} refer to it: {}"
    reference = "${oc.env:NAME}"
    for line in overrides:
        typed, _, value = line.partition("=")
        name = typed.lstrip("+~")
        if any(_in_urls(value)):
            kind = f"{'password' if _IN_URL.search(value) else 'key'} in a URL"
            other = "and name the variable in a service's key_env; otherwise, put the whole URL in a variable, and"
            shown = f"{typed}='{reference}' (for pgvector, name the variable in url_env)"
            raise ConfigError(fact.format(name, kind, other, shown))
        inside = [(f"{name}.{key}", item.strip()) for key, item in _INSIDE.findall(value)]
        for key, item in [(name, value)] if is_under_secret(name) else inside:
            count = is_count(key, item) or is_count(f"{key}s", item)  # context_token=150 is a misspelt context_tokens
            plain = item in ("", "null", "true", "false") or count or _VARIABLES.fullmatch(item)
            if is_under_secret(key) and not plain:
                shown = f"{typed}='{reference}'" if key == name else f'{key.rpartition(".")[2]}: "{reference}"'
                raise ConfigError(fact.format(key, "secret", "and name the variable in the part's key_env, or", shown))


def _in_urls(text: str) -> Iterator[str]:
    """Yield the secrets in the URLs of ``text``: passwords, user names that may be tokens, secret query parameters."""
    yield from (password for _, password in _IN_URL.findall(text))
    for url in _QUERY.findall(text):
        yield from (value for _, name, value in _PARAMETER.findall(url) if _is_secret_parameter(name))


def _is_secret_parameter(name: str) -> bool:
    return is_secret(name) or name.lower() in SIGNATURES


def mask_text(text: str, *secrets: str) -> str:
    """Return ``text`` with the given secrets, the environment's secrets and the secrets in URLs masked.

    Secrets are masked in all encodings of `spellings`, because services repeat keys in their replies, and libraries
    repeat them in their errors.
    """
    return _mask_all(text, frozenset(secrets), frozenset())


def _mask_all(text: str, anywhere: frozenset[str], others: frozenset[str]) -> str:
    """Return ``text`` with ``anywhere``, ``others``, and the secrets in URLs and in the environment masked.

    Values in ``others`` that have fewer than ``SHORTEST`` characters are masked only as whole words.
    """

    def shown(parameter: re.Match[str]) -> str:
        return parameter[1] + (MASK if _is_secret_parameter(parameter[2]) else parameter[3])

    if "://" in text:
        text = _QUERY.sub(lambda url: _PARAMETER.sub(shown, url[0]), _IN_URL.sub(rf"\1{MASK}@", text))
    variables = {os.environ.get(name, "").strip() for name in os.environ if is_secret(name)}
    forms, words = _forms(anywhere - {""}, others | {value for value in variables if len(value) >= SHORTEST})
    for form in forms:
        if form in text:
            text = text.replace(form, MASK)
    return words.sub(MASK, text) if words else text


@lru_cache(maxsize=16)
def _forms(anywhere: frozenset[str], others: frozenset[str]) -> tuple[list[str], re.Pattern[str] | None]:
    """Return the spellings to mask anywhere, longest first, and a pattern for any secrets to mask as whole words."""
    short = {secret for secret in others - anywhere if len(secret) < SHORTEST}
    long = anywhere | (others - short)
    forms = sorted({form for secret in long for form in spellings(secret)}, key=len, reverse=True)
    words = "|".join(map(re.escape, sorted(short, key=len, reverse=True)))
    return forms, re.compile(rf"(?<!\w)(?:{words})(?!\w)") if words else None


class Secrets:
    """The secrets in the configs of one command; the methods that mask text also mask the environment's secrets."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._values)

    def add(self, value: str, *, named: bool) -> None:
        """Add a value and the secrets in its URLs; ``named`` is true if its key is the name of a secret.

        The value itself is not added if it is true, false or null, or has fewer than ``SHORTEST_WORD`` characters
        (``SHORTEST`` if not ``named``).
        """
        value = value.strip()
        if len(value) >= (SHORTEST_WORD if named else SHORTEST) and value.lower() not in ("true", "false", "null"):
            self._values.add(value)
        self.add_passwords(value)

    def add_variable(self, value: str) -> None:
        """Add the value of an environment variable as `add` does, unless it is a number or a path (see `_is_path`)."""
        if not is_number(value) and not _is_path(value):
            self.add(value, named=False)

    def add_passwords(self, text: str) -> None:
        """Add the secrets in the URLs of ``text``, except secrets of fewer than ``SHORTEST_WORD`` characters."""
        passwords = {form for password in _in_urls(text) for form in (password, unquote(password))}
        self._values.update(password for password in passwords if len(password) >= SHORTEST_WORD)

    def mask_text(self, text: str) -> str:
        """Return ``text`` with all secrets masked; long ones (see ``SHORTEST``) are masked in all `spellings`."""
        return _mask_all(text, frozenset(), frozenset(self._values))

    def has_secret(self, text: str) -> bool:
        """Return whether ``text`` contains a secret that ``mask_text`` would mask."""
        return self.mask_text(text) != text

    def mask_values(self, value: Any) -> Any:
        """Return a tree of plain values and dataclasses with secrets masked in all strings, including keys.

        If masking makes two keys equal, their values are summed if they are integers; otherwise, the last value is
        kept. A tree without secrets is returned itself.
        """
        return self._masked(value) if self.has_secret("\n".join(texts(value))) else value

    def _masked(self, value: Any) -> Any:
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **self._masked(vars(value)))
        if isinstance(value, Mapping):
            hidden: dict[Any, Any] = {}
            for key, item in value.items():
                key, item = self._masked(key), self._masked(item)
                hidden[key] = hidden[key] + item if key in hidden and isinstance(item, int) else item
            return hidden
        if isinstance(value, list | tuple):
            return type(value)(map(self._masked, value))
        return self.mask_text(value) if isinstance(value, str) else value

    def mask_tree(self, tree: Any) -> Any:
        """Return a tree of plain values in which the values under names of secrets, and other secrets, are masked."""
        return self.mask_values(mask(tree))

    @contextmanager
    def masking(self) -> Iterator[None]:
        """Mask secrets in what the block prints and logs, and in the message of a RagsweepError that it raises.

        Control characters in the output are escaped. A writer that emits control sequences must write to the ``styled``
        stream of ``sys.stdout`` or ``sys.stderr`` and must escape its own strings.
        """
        streams, factory = (sys.stdout, sys.stderr), logging.getLogRecordFactory()
        masked: Any = tuple(
            MaskedStream(stream, lambda text: printable(self.mask_text(text)), self.mask_text) for stream in streams
        )
        sys.stdout, sys.stderr = masked
        logging.setLogRecordFactory(masked_records(factory, lambda text: visible(self.mask_text(text))))
        try:
            yield
        except RagsweepError as fault:
            raise type(fault)(self.mask_text(str(fault))) from None
        finally:
            sys.stdout, sys.stderr = streams
            logging.setLogRecordFactory(factory)


def spellings(secret: str) -> Iterator[str]:
    """Yield a secret verbatim, and in the encodings of URLs, JSON, Python, YAML, SQL and base64.

    If a secret has several lines, also yield these forms of each line of ``SHORTEST`` or more characters.
    """
    lines = [line.strip() for line in secret.splitlines()]
    for part in {secret, *(line for line in lines if len(line) >= SHORTEST)}:
        plain = part.encode("utf-8", "surrogateescape")
        yield from (part, quote(part, safe=""), quote_plus(part), json.dumps(part)[1:-1], repr(part)[1:-1])
        yield part.replace("'", "''")  # YAML, SQL
        for coded in (base64.b64encode(plain).decode(), base64.urlsafe_b64encode(plain).decode()):
            yield from (coded, coded.rstrip("="))


def _is_path(value: str) -> bool:
    """Return whether a value is a path whose first folder (or the file itself) exists."""
    path = Path(value).expanduser() if value.startswith("~/") else Path(value)
    try:
        return any(part.exists() for part in (path, *path.parents) if part.name)
    except (OSError, ValueError):  # name too long, or contains NUL
        return False
