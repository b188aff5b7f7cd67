"""Fill in templates: strings with the names of fields in braces, such as ``{input}``; a literal brace is doubled."""

import json
from collections.abc import Mapping
from string import Formatter
from typing import Any

from ragsweep.core.errors import ConfigError, nearest


def placeholders(template: str, key: str = "") -> list[str]:
    """List the names of the fields in a template, in order and with repetitions.

    Raises ConfigError if a brace is unbalanced, or if a placeholder is not just a name. If ``key``, the config
    key of the template, is given, the message begins with it.
    """
    where = f"{key}: {template!r}" if key else repr(template)
    try:
        parsed = list(Formatter().parse(template))
    except ValueError as fault:
        raise ConfigError(f"{where}: {fault}; close each placeholder, and double each literal brace") from None
    for _, name, specification, conversion in parsed:
        if name is not None and (not name.isidentifier() or specification or conversion):
            raise ConfigError(f"{where}: a placeholder must be only a name in braces; double each literal brace")
    return [name for _, name, _, _ in parsed if name is not None]


def render(template: str, fields: Mapping[str, Any]) -> str:
    """Return a template filled in with the values of ``fields``; a value that is not a string is written as JSON.

    Raises ConfigError for an unknown field and for an invalid template.
    """
    for name in placeholders(template):
        if name not in fields:
            raise ConfigError(f'no field "{name}"{nearest(name, fields)}')
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in fields.items()
    }
    return template.format_map(texts)


def fill(value: Any, fields: Mapping[str, Any]) -> Any:
    """Return a value with all templates in its mappings and lists filled in, at any depth.

    A string that is just a placeholder is replaced by the value of the field, of any type. Keys of mappings, and values
    of other types, are unchanged. Raises ConfigError for an unknown field and for an invalid template.
    """
    if isinstance(value, Mapping):
        return {key: fill(item, fields) for key, item in value.items()}
    if isinstance(value, list):
        return [fill(item, fields) for item in value]
    if not isinstance(value, str):
        return value
    named = placeholders(value)
    alone = len(named) == 1 and value == f"{{{named[0]}}}" and named[0] in fields
    return fields[named[0]] if alone else render(value, fields)
