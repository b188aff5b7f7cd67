"""Keep secrets out of written text: configs, names, params, errors, logs.

A value is secret in a command if it stands under a secret's name (``api_key``, ``passwd``, ``credentials``: in a config
or among the variables of the environment), or comes from the environment through an interpolation (``${oc.env:NAME}``).
It is masked by value, however it is spelled. Exempt, since to replace them would make texts unreadable:

- under a secret's name: true, false, and what has fewer than 4 characters (masked under that name only); 4 to 7
  characters are masked where they stand by themselves
- from the environment under any other name: fewer than 8 characters, numbers, and paths whose first folder exists
"""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from ragsweep.core.errors import ConfigError, RagsweepError

MASK = "***"

SHORTEST = 8
"""Characters from which on a value is masked wherever it stands; less may be a part of a word."""

SHORTEST_WORD = 4
"""Characters from which on a value under a secret's name is masked where it stands by itself."""

_SECRET = re.compile(
    r"(^|[_\W])(api_?key|key|token|secret|pass|passwd|password|passphrase|(?<=_)pwd|credentials?|authorization)"
    r"(\[\d+\])*$"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_IN_URL = re.compile(r"(://[^/\s:@'\"]*:)([^@/\s'\"]+)@")
"""The password of a URL."""

_VARIABLES = re.compile(r"((^|,)(['\"]?)\$\{oc\.env:[^},]*(,null)?\}\3)+")
"""Values that are variables of the environment, with no text of their own."""

_INSIDE = re.compile(r"[{,]\s*['\"]?([\w-]+)['\"]?\s*:\s*('[^']*'|\"[^\"]*\"|\$\{[^}]*\}|[^,{}\[\]]*)")
"""A key of a mapping on the command line, and its value."""


@lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Return whether a key's last part names a secret: ``api_key``, ``clientSecret``, ``password[0]``."""
    return bool(_SECRET.search(_CAMEL.sub("_", name.rpartition(".")[2]).lower()))


@lru_cache(maxsize=4096)
def is_under_secret(name: str) -> bool:
    """Return whether any part of a dotted key names a secret: all that stands below is one."""
    return any(map(is_secret, name.split(".")))


def mask(value: Any, name: str = "", inside: bool = False) -> Any:
    """Replace what stands under secret names in a tree of plain values; a variable (``${oc.env:NAME}``) is shown.

    ``inside``: the whole tree stands under a secret's name.
    """
    inside = inside or is_under_secret(name)
    if isinstance(value, Mapping):
        return {key: mask(item, str(key), inside and key != "_target_") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mask(item, name, inside) for item in value]
    shown = value is None or isinstance(value, bool) or value == "" or _VARIABLES.fullmatch(str(value))
    return MASK if inside and not shown else value


def texts(tree: Any) -> Iterator[str]:
    """Yield the texts in a tree of plain values."""
    if isinstance(tree, Mapping):
        tree = list(tree.values())
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, list | tuple):
        yield from chain.from_iterable(map(texts, tree))


def refuse_secrets(overrides: Sequence[str]) -> None:
    """Raise ConfigError for a secret on the command line: other programs see it, and shells keep it."""
    fact = "{}: a {} on the command line ends up in files; put the {} into the environment and name it: {}"
    for line in overrides:
        name, _, value = line.lstrip("+~").partition("=")
        if _IN_URL.search(value):
            raise ConfigError(fact.format(name, "password in a URL", "URL", f"{name}='${{oc.env:NAME}}'"))
        inside = [(f"{name}.{key}", item.strip()) for key, item in _INSIDE.findall(value)]
        for key, item in [(name, value)] if is_under_secret(name) else inside:
            if is_under_secret(key) and item not in ("", "null", "true", "false") and not _VARIABLES.fullmatch(item):
                raise ConfigError(fact.format(key, "secret", "secret", f"{key}='${{oc.env:NAME}}'"))


def mask_text(text: str, *secrets: str) -> str:
    """Replace in a text the secrets given and those of the environment, however they are spelled.

    Services repeat keys in their answers, and libraries in their errors.
    """
    return _mask_all(text, frozenset(secrets), frozenset())


def _mask_all(text: str, anywhere: frozenset[str], others: frozenset[str]) -> str:
    """Mask secrets: those of ``anywhere`` also within words, of ``others`` the short ones as whole words only."""
    text = _IN_URL.sub(rf"\1{MASK}@", text)
    variables = {os.environ.get(name, "").strip() for name in os.environ if is_secret(name)}
    forms, words = _forms(anywhere - {""}, others | {value for value in variables if len(value) >= SHORTEST})
    for form in forms:
        if form in text:
            text = text.replace(form, MASK)
    return words.sub(MASK, text) if words else text


@lru_cache(maxsize=16)
def _forms(anywhere: frozenset[str], others: frozenset[str]) -> tuple[list[str], re.Pattern[str] | None]:
    """List the spellings to replace everywhere, the longest first; the pattern matches short whole words."""
    short = {secret for secret in others - anywhere if len(secret) < SHORTEST}
    long = anywhere | (others - short)
    forms = sorted({form for secret in long for form in spellings(secret)}, key=len, reverse=True)
    words = "|".join(map(re.escape, sorted(short, key=len, reverse=True)))
    return forms, re.compile(rf"(?<!\w)(?:{words})(?!\w)") if words else None


class Secrets:
    """The values of one command's configs that must not be shown, beside the secrets of the environment."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._values)

    def add(self, value: str, *, named: bool) -> None:
        """Add a value; ``named``: it stands under a secret's name."""
        value = value.strip()
        if len(value) >= (SHORTEST_WORD if named else SHORTEST) and value.lower() not in ("true", "false", "null"):
            self._values.add(value)
        self.add_passwords(value)

    def add_variable(self, value: str) -> None:
        """Add a value of the environment, unless it is short, a number or a path."""
        try:
            float(value)
        except ValueError:
            if not _is_path(value):
                self.add(value, named=False)

    def add_passwords(self, text: str) -> None:
        """Add the passwords of the URLs in a text, which may also stand outside of their URL."""
        passwords = {form for _, password in _IN_URL.findall(text) for form in (password, unquote(password))}
        self._values.update(password for password in passwords if len(password) >= SHORTEST_WORD)

    def mask_text(self, text: str) -> str:
        """Replace all secrets in a text, however they are spelled."""
        return _mask_all(text, frozenset(), frozenset(self._values))

    def has_secret(self, text: str) -> bool:
        """Return whether a text contains a secret."""
        return self.mask_text(text) != text

    def mask_values(self, value: Any) -> Any:
        """Replace secrets in the texts of a tree of plain values; keys stay."""
        if isinstance(value, Mapping):
            return {key: self.mask_values(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(map(self.mask_values, value))
        return self.mask_text(value) if isinstance(value, str) else value

    def mask_tree(self, tree: Any) -> Any:
        """Mask secrets in a tree of plain values, by key or by value."""
        tree = mask(tree)
        return self.mask_values(tree) if self.has_secret("\n".join(texts(tree))) else tree

    @contextmanager
    def masking(self) -> Iterator[None]:
        """Mask all that is printed, logged or raised in the block, by whichever library."""
        streams, factory = (sys.stdout, sys.stderr), logging.getLogRecordFactory()
        masked: Any = tuple(_MaskedStream(stream, self.mask_text) for stream in streams)
        sys.stdout, sys.stderr = masked
        logging.setLogRecordFactory(_masked_records(factory, self.mask_text))
        try:
            yield
        except RagsweepError as fault:
            raise type(fault)(self.mask_text(str(fault))) from None
        finally:
            sys.stdout, sys.stderr = streams
            logging.setLogRecordFactory(factory)


def spellings(secret: str) -> Iterator[str]:
    """Yield the ways in which a secret is written: as it is, in URLs, JSON, Python, YAML, base64, each of its lines."""
    lines = [line.strip() for line in secret.splitlines()]
    for part in {secret, *(line for line in lines if len(line) >= SHORTEST)}:
        plain = part.encode("utf-8", "surrogateescape")
        yield from (part, quote(part, safe=""), quote_plus(part), json.dumps(part)[1:-1], repr(part)[1:-1])
        yield part.replace("'", "''")  # YAML, SQL
        for coded in (base64.b64encode(plain).decode(), base64.urlsafe_b64encode(plain).decode()):
            yield from (coded, coded.rstrip("="))


def _is_path(value: str) -> bool:
    """Return whether a value is a path to a file or folder, of which at least the first folder exists."""
    path = Path(value).expanduser() if value.startswith("~/") else Path(value)
    try:
        return any(part.exists() for part in (path, *path.parents) if part.name)
    except (OSError, ValueError):  # too long for a name, or a NUL in it
        return False


class _MaskedStream:
    """A stream that masks what is written and delegates all else."""

    def __init__(self, stream: Any, mask_text: Callable[[str], str]) -> None:
        self._stream, self._mask_text = stream, mask_text

    def write(self, text: str) -> int:
        self._stream.write(self._mask_text(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _masked_records(
    make: Callable[..., logging.LogRecord], mask_text: Callable[[str], str]
) -> Callable[..., logging.LogRecord]:
    """Return a factory of log records without secrets: each text is formatted and masked at once."""
    formatter = logging.Formatter()

    def make_masked(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        try:
            text = record.getMessage()
        except Exception:  # arguments that do not fit the text: logging would print both
            text = f"{record.msg} {record.args}"
        record.msg, record.args = mask_text(text), None
        if record.exc_info and record.exc_info[0] is not None:
            record.exc_text = mask_text(formatter.formatException(record.exc_info))
        if record.stack_info:
            record.stack_info = mask_text(record.stack_info)
        return record

    return make_masked
