"""Read the value of a field or table cell: a string, a number, a list or an object.

A list or an object may be given as a string in JSON or Python syntax.
"""

import ast
import io
import json
import math
import re
import tokenize
from itertools import pairwise
from typing import Any

_WRITTEN = re.compile(
    r"""(?=[\[{]|array\()(?:[\[\](){},:\s]|'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|[-+]?[\d.][\w.+-]*+"""
    r"""|\b(?:None|True|False|null|true|false|nan|NaN|array|dtype=\w++)\b)++(?:'[^']*|"[^"]*)?""",
    re.DOTALL,
)
"""Pattern of a string that consists of brackets, literals and separators, possibly cut off within a literal."""
_LONE = re.compile(r"\s*[\[{(][\s,:]*")
"""Pattern of an opening bracket with nothing but separators after it; such a string is plain text."""
DEEPEST = 50
TOO_DEEP = f"is nested deeper than {DEEPEST} levels; flatten it"
_WAY = 'write plain text, or, where several strings are accepted, a JSON list of strings, ["...", "..."]'
FLAGS = {**dict.fromkeys(("true", "yes", "1", "1.0"), True), **dict.fromkeys(("false", "no", "0", "0.0"), False)}
"""Text of a boolean in a table -> the boolean; pandas writes 1.0 in a column with empty cells."""
_TEXT = ("text", "value")
_MORE = ("aliases",)
_UNREAD = frozenset((
    "answer_start", "type", "normalized_value", "normalized_aliases", "matched_wiki_entity_name",
    "normalized_matched_wiki_entity_name",
))  # fmt: skip
"""Fields of an answer in SQuAD's or TriviaQA's format that are not read."""


def decoded(value: Any) -> Any:
    """Return the list or object that a string contains in JSON or Python syntax; return any other value unchanged.

    Sets, and tuples that contain a string, a list or an object, become lists. Raises ValueError for lists and
    objects nested deeper than DEEPEST levels, and for a string that looks like a list or an object but cannot be
    parsed. Such a string may be cut off, may be the text of a numpy array, or may have two string literals without a
    comma between them, which Python would join.
    """
    found = _decoded(value)
    if is_deep(found):
        raise ValueError(TOO_DEEP)
    return found


def is_deep(value: Any) -> bool:
    """Return whether lists and objects are nested deeper than DEEPEST levels.

    An object that a YAML file repeats by reference is visited only once per level, because it may expand to billions of
    parts.
    """
    level = {id(value): value}
    for _ in range(DEEPEST + 1):
        groups = [
            one.values() if isinstance(one, dict) else one for one in level.values() if isinstance(one, dict | list)
        ]
        if not groups:
            return False
        level = {id(part): part for group in groups for part in group}
    return True


def _decoded(value: Any) -> Any:
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{", "(", "array(")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        pass
    try:
        found = ast.literal_eval(value.strip())
        tokens = tokenize.generate_tokens(io.StringIO(value.strip()).readline)
        kinds = [token.type for token in tokens if token.type not in (tokenize.NL, tokenize.NEWLINE)]
        if any(pair == (tokenize.STRING, tokenize.STRING) for pair in pairwise(kinds)):
            raise ValueError("literals without a comma")
    except (ValueError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError, TypeError):
        if _WRITTEN.fullmatch(value.strip()) and not _LONE.fullmatch(value):
            raise ValueError(
                f"looks like a list or an object, but cannot be parsed ({value.strip()[:40]}); {_WAY}"
            ) from None
        return value
    if isinstance(found, tuple) and not any(isinstance(one, str | list | dict | tuple) for one in found):
        return value  # (1, 2) is plain text
    return _as_json(found) if isinstance(found, list | dict | tuple | set) else value


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _as_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [_as_json(one) for one in (sorted(value, key=repr) if isinstance(value, set) else value)]
    return value


def plain_number(text: str) -> float:
    """Return the number that ``float`` reads from an ASCII string without underscores; NaN for any other string."""
    try:
        return float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return math.nan


def is_structure(text: str) -> bool:
    """Return whether a string looks like a list or an object, even if it cannot be parsed."""
    try:
        return not isinstance(decoded(text), str)
    except ValueError:
        return True


def plain_texts(value: Any) -> list[str]:
    """Return the distinct strings of a value: a scalar, a list of scalars, or an answer in SQuAD's or TriviaQA's form.

    Numbers and booleans become strings; blank strings and null are omitted. A string in a list is kept even if it
    looks like a list itself. Raises ValueError for any other value.
    """
    found = decoded(value)
    if isinstance(found, dict) and any(name in found for name in _TEXT) and {*found} <= {*_TEXT, *_MORE, *_UNREAD}:
        found = [text for name in (*_TEXT, *_MORE) for text in plain_texts(found.get(name) or [])]
    given = found if isinstance(found, list) else [found]
    texts = [one if isinstance(one, str) else _plain_text(one) for one in given]
    return list(dict.fromkeys(text for text in texts if text.strip()))


def plain_text(value: Any) -> str:
    """Return the only string in a value; "" if it has none.

    Raises ValueError for several strings, and as ``plain_texts`` does.
    """
    texts = plain_texts(value)
    if len(texts) > 1:
        raise ValueError(f"has {len(texts)} strings where one is required; keep one")
    return texts[0] if texts else ""


def _plain_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    shown = json.dumps(value, ensure_ascii=False, default=str)
    raise ValueError(f"has {shown[:40]} where a string is required; {_WAY}")
