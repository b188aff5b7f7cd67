"""Build parts and their Specs from configs: ``_target_`` names the class, and the other keys are its arguments."""

import hashlib
import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, Union

from ragsweep.core.errors import ConfigError, RagsweepError, nearest
from ragsweep.core.identity import BuiltPart, Spec, content_hash
from ragsweep.core.traits import traits_of
from ragsweep.core.trust import find_class, source_digest


class Builder:
    """A builder that builds each distinct part once, so that two configs with the same embedder share the loaded model.

    ``connect`` is called once with each new part, to supply the part with the objects that a command's parts share.
    """

    def __init__(self, connect: Callable[[object], None] = lambda part: None) -> None:
        self._connect = connect
        self._made: dict[str, BuiltPart] = {}
        self._by_config: dict[str, BuiltPart] = {}  # config as JSON -> part; most configs of a sweep share most parts

    def build(self, node: Any, where: str) -> BuiltPart:
        """Build the part that ``node`` describes, after its nested parts; ``where`` is the config key of ``node``.

        Raises ConfigError, with a message that names the key, for a ``node`` that is not a part, an unknown or
        untrusted class, a missing or unknown key, a value of the wrong type, and a default that cannot be part of a
        Spec. An ImportError, OSError, TypeError or ValueError from the constructor, `check()` or `fingerprint()` also
        becomes a ConfigError; a RagsweepError keeps its type.
        """
        try:
            text = json.dumps(node)
        except TypeError:  # not plain values, so not from a config
            return self._build(node, where)
        if text not in self._by_config:
            self._by_config[text] = self._build(node, where)
        return self._by_config[text]

    def _build(self, node: Any, where: str) -> BuiltPart:
        if not isinstance(node, Mapping) or "_target_" not in node:
            is_option = isinstance(node, str) and "." not in where
            way = f'; write "override /{where}: {node}" in the defaults of the file that sets it' if is_option else ""
            raise ConfigError(f"{where}: must be a part (a mapping with _target_), got {node!r}{way}")
        made = find_class(str(node["_target_"]), where)
        arguments = {str(key): value for key, value in node.items() if key != "_target_"}
        _check_keys(made, arguments, where)
        values = {key: self._nested(value, f"{where}.{key}") for key, value in arguments.items()}
        _check_values(made, arguments, values, where)
        operational = traits_of(made, where).operational
        complete = {name: parameter.default for name, parameter in inspect.signature(made).parameters.items()} | values
        kept = {name: _unwrap(value, "spec") for name, value in complete.items() if name not in operational}
        spec = Spec(public_name(made), _version(made), kept)
        for name, value in spec.plain()["parameters"].items():
            if not _is_plain(value):
                raise ConfigError(
                    f"{where}.{name}: {value!r} cannot be part of the address of a stored result; add {name} to the"
                    f" config, or give {made.__name__} a default that is a number, string, list, tuple, mapping or None"
                )
        # Parts that differ only in operational parameters, such as the device, have equal specs but are not shared.
        own = sorted((name, repr(arguments[name])) for name in operational if name in arguments)
        key = f"{spec.digest} {own} {[id(part.value) for part in _parts_in(values)]}"
        if key not in self._made:
            self._made[key] = _construct(made, values, spec, where)
            self._connect(self._made[key].value)
        return self._made[key]

    def _nested(self, value: Any, where: str) -> Any:
        """Return a value in which every mapping with ``_target_`` is replaced with the part that it describes."""
        if isinstance(value, Mapping):
            if "_target_" in value:
                return self.build(value, where)
            return {key: self._nested(item, f"{where}.{key}") for key, item in value.items()}
        if isinstance(value, list):
            return [self._nested(item, f"{where}[{n}]") for n, item in enumerate(value)]
        return value


def check_members(value: Any, protocols: Sequence[type], where: str) -> None:
    """Raise ConfigError unless the part ``value`` has all members of at least one of the ``protocols``.

    The message names the protocol with the fewest missing members and lists these members.
    """
    lacking = {one: [name for name in _members(one) if not hasattr(value, name)] for one in protocols}
    nearest_one = min(protocols, key=lambda one: len(lacking[one]))
    if lacking[nearest_one]:
        names = ", ".join(lacking[nearest_one])
        see = f"{nearest_one.__module__}.{nearest_one.__name__}"
        raise ConfigError(f"{where}: {type(value).__name__} lacks {names}; implement {see}, or name another class")


@cache
def _members(protocol: type) -> tuple[str, ...]:
    """Return the names of the public members that a protocol and its bases in the same module declare."""
    ours = [one for one in reversed(protocol.__mro__) if one.__module__ == protocol.__module__]
    return tuple(name for one in ours for name in vars(one) if not name.startswith("_"))


def public_name(made: type) -> str:
    """Return the name that Specs use for a class: its qualified name or, for a built-in part, its ``_target_``."""
    group = re.match(r"ragsweep\.parts\.\w+|ragsweep\.sweep\.races", made.__module__)
    return f"{group.group() if group else made.__module__}.{made.__qualname__}"


def _construct(made: type, values: Mapping[str, Any], spec: Spec, where: str) -> BuiltPart:
    try:
        value = made(**_unwrap(values, "value"))
        if hasattr(value, "check"):
            value.check()
        facts = value.fingerprint() if hasattr(value, "fingerprint") else {}
        if not isinstance(facts, Mapping) or not _is_plain(facts):
            raise ConfigError(f"{made.__name__}.fingerprint must return a mapping of strings, got {facts!r}")
    except RagsweepError as fault:
        raise type(fault)(_with_key(str(fault), made, where)) from None
    except (ImportError, OSError, TypeError, ValueError) as fault:
        raise ConfigError(f"{where}: {fault}") from fault
    return BuiltPart(value, Spec(spec.target, spec.version, spec.parameters, dict(facts)))


def _with_key(message: str, made: type, where: str) -> str:
    """Return a part's error message, changed so that it names the part by its config key, ``where``.

    The message may begin with the name of a parameter after the usual key of the part's class, such as
    ``retriever.k1``. This usual key is replaced with ``where``: for a leg of a hybrid retriever, ``retriever.k1``
    becomes ``retriever.legs.bm25.k1``. If ``where`` ends with the usual key, the usual key is kept, because users set
    this key: ``retriever.embedder``, for example, is interpolated from ``embedder``. The key ``index`` is always
    replaced, because configs have no such key at the top level. If no key is replaced, ``where`` is prefixed to the
    message, unless the message already begins with it.
    """
    parameters = "|".join(inspect.signature(made).parameters) or "(?!)"
    usual = re.match(rf"([\w.]+?)\.({parameters})\b", message)  # in llm.extra.seed: llm, not llm.extra
    if usual and (usual[1] == "index" or not f".{where}".endswith(f".{usual[1]}")):
        return re.sub(rf"(?<![\w.]){re.escape(usual[1])}(?=\.\w)", where, message)
    return message if message.startswith(f"{where}.") else f"{where}: {message}"


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


def _parts_in(value: Any) -> Iterator[BuiltPart]:
    """Yield the outermost BuiltParts in a tree of arguments."""
    if isinstance(value, BuiltPart):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _parts_in(item)


def _unwrap(value: Any, field: Literal["value", "spec"]) -> Any:
    """Return a tree of arguments in which every BuiltPart is replaced with its ``field``: its value or its spec."""
    if isinstance(value, BuiltPart):
        return getattr(value, field)
    if isinstance(value, Mapping):
        return {key: _unwrap(item, field) for key, item in value.items()}
    return [_unwrap(item, field) for item in value] if isinstance(value, list) else value


@cache
def _version(made: type) -> str:
    """Return the version in the TRAITS of a class or, if they state none, a hash of the class's source.

    Every edit of the source changes the hash. For a class outside ragsweep, the hash covers the whole module and its
    imports from the same package, because the results may depend on constants and functions there. It also covers the
    version of each built-in part from which the class inherits, unless it is "1".
    """
    stated = traits_of(made).version
    if stated is not None:
        return str(stated)
    if not made.__module__.startswith("ragsweep.") and (digest := source_digest(made.__module__)):
        parents = [one for one in made.__mro__[1:] if one.__module__.startswith("ragsweep.")]
        later = [version for one in parents if (version := traits_of(one).version) not in (None, "1")]
        return (content_hash([digest, *later]) if later else digest)[:16]
    return hashlib.sha256(inspect.getsource(made).encode()).hexdigest()[:16]


# --- keys and values ---------------------------------------------------------------------------------------------


def _check_keys(made: type, arguments: Mapping[str, Any], where: str) -> None:
    parameters = inspect.signature(made).parameters
    for parameter in parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ConfigError(f"{where}: {made.__name__} accepts {parameter}; name its parameters instead")
    for key in arguments:
        if key not in parameters:
            known = nearest(key, parameters) or "; it has no parameters: remove this key"
            raise ConfigError(f'{where}.{key}: {made.__name__} has no parameter "{key}"{known}')
    for name, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and name not in arguments:
            raise ConfigError(
                f"{where}.{name}: {made.__name__} requires a value; set +{where}.{name}=..., or add {name}"
                " beside _target_ in the config file"
            )


def _check_values(made: type, arguments: Mapping[str, Any], values: Mapping[str, Any], where: str) -> None:
    """Raise ConfigError for an argument that does not match its type hint, or a user's part that lacks a member."""
    initialize = inspect.getattr_static(made, "__init__")
    try:
        hints = typing.get_type_hints(made if initialize is object.__init__ else initialize)
    except NameError:  # the name of a type that is imported for type checkers only
        return
    for key, value in arguments.items():
        if key in hints and not _matches(value, hints[key]):
            quoted = isinstance(value, int | float) and _matches(str(value), hints[key])
            way = as_number(value) if _matches(1, hints[key]) else ""
            if isinstance(value, str) and _matches([], hints[key]):
                way = f"; write '{where}.{key}=[\"{value}\"]'"
            if quoted:
                way = f"; to pass the value as text, write '{where}.{key}=\"{value}\"'"
            raise ConfigError(f"{where}.{key}: must be {_describe(hints[key])}, got {value!r}{way}")
        options = typing.get_args(hints.get(key)) or (hints.get(key),)
        protocols = [one for one in options if _is_part(one) and getattr(one, "_is_protocol", False)]
        own = isinstance(values[key], BuiltPart) and not values[key].spec.target.startswith("ragsweep.")
        if protocols and own:  # other checks reject a built-in part under a wrong key, with a remedy
            check_members(values[key].value, protocols, f"{where}.{key}")


def as_number(value: object) -> str:
    """Return a remedy for a list or a numeric string where a number is required; "" for any other value."""
    if isinstance(value, list) and value:
        return f"; to sweep over several values, write {','.join(map(str, value))}"
    if not (isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d+(\.\d*)?([eE][+-]?\d+)?\s*", value)):
        return ""
    return "; the value is text: remove the quotes, or decode a variable, KEY='\"${oc.decode:${oc.env:NAME}}\"'"


def _matches(value: Any, hint: Any) -> bool:
    """Return whether a value matches a type hint: a plain type, Literal, mapping, list, part, or a union of such hints.

    Return True for any other kind of hint.
    """
    origin = typing.get_origin(hint) or hint
    if origin in (Union, types.UnionType):
        return any(_matches(value, option) for option in typing.get_args(hint))
    if origin is Literal:
        return value in typing.get_args(hint)
    if origin in (dict, Mapping):
        nested = [inside for inside in typing.get_args(hint)[1:] if typing.get_origin(inside) is Mapping]
        return isinstance(value, Mapping) and all(_matches(one, inside) for inside in nested for one in value.values())
    if origin in (Sequence, list, tuple):
        return isinstance(value, list | tuple)
    if hint is type(None):
        return value is None
    if hint in (int, float):
        return isinstance(value, int if hint is int else int | float) and not isinstance(value, bool)
    if hint in (bool, str):
        return isinstance(value, hint)
    if _is_part(hint):
        return isinstance(value, Mapping) and "_target_" in value
    return True


def _is_part(hint: Any) -> bool:
    return inspect.isclass(hint) and hint.__module__.startswith("ragsweep.")


def _describe(hint: Any) -> str:
    origin = typing.get_origin(hint) or hint
    if origin in (Union, types.UnionType):
        return " or ".join(_describe(option) for option in typing.get_args(hint))
    if origin is Literal:
        return " or ".join(repr(option) for option in typing.get_args(hint))
    if origin in (dict, Mapping):
        nested = [inside for inside in typing.get_args(hint)[1:] if typing.get_origin(inside) is Mapping]
        return "a mapping of mappings" if nested else "a mapping"
    if origin in (Sequence, list, tuple):
        return "a list"
    if _is_part(hint):
        return "a part (a mapping with _target_)"
    return {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "null"}.get(
        hint, str(hint)
    )
