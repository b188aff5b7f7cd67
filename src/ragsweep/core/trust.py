"""The classes that a config may name: the built-in parts, and the classes of trusted packages."""

import importlib
import inspect
import os
from collections.abc import Mapping
from typing import Any

from ragsweep.core.errors import ConfigError, nearest

TRUSTED = "RAGSWEEP_TRUSTED_PACKAGES"
"""Environment variable with additional packages, separated by commas, whose classes a config may name."""

PARTS = frozenset(
    [*(f"ragsweep.parts.{kind}" for kind in (
        "chunkers", "datasets", "embedders", "generators", "indexes", "judges", "metrics", "outputs", "prices",
        "prompts", "queries", "rerankers", "retrievers", "routers", "systems", "targets", "tracking")),
     "ragsweep.sweep.races"]
)  # fmt: skip
"""Modules of ragsweep whose classes a config may name; a config cannot add modules."""


def trusted_packages() -> set[str]:
    """Return the names of the packages that the environment variable RAGSWEEP_TRUSTED_PACKAGES lists."""
    return {name.strip() for name in os.environ.get(TRUSTED, "").split(",") if name.strip()}


def is_trusted(name: str) -> bool:
    """Return whether RAGSWEEP_TRUSTED_PACKAGES lists a module or class, or a package or module that contains it."""
    names = name.split(".")
    return any(".".join(names[:length]) in trusted_packages() for length in range(1, len(names) + 1))


def find_class(target: str, where: str) -> type:
    """Import and return the class ``target``, which a config names at the key ``where``.

    The name is checked before the import, and the class after it, because a module also exposes the classes that it
    imports. Raises ConfigError, whose message names the key, if the class is not trusted, does not exist or cannot be
    imported.
    """
    check_target(target, f"{where}._target_")
    module_name, _, name = target.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except Exception as fault:  # a user's module may raise anything on import
        lost = isinstance(fault, ModuleNotFoundError) and f"{module_name}.".startswith(f"{fault.name}.")
        way = "add its folder to PYTHONPATH, or correct the name" if lost else "correct this module, or what it imports"
        raise ConfigError(
            f'{where}._target_: cannot import "{module_name}": {type(fault).__name__}: {fault}; {way}'
        ) from fault
    classes = {key: value for key, value in vars(module).items() if inspect.isclass(value) and _may_be_built(value)}
    if name not in classes:
        found = vars(module).get(name)
        if inspect.isclass(found) and module_name not in PARTS:  # imported from a package that is not trusted
            check_target(f"{found.__module__}.{name}", f"{where}._target_")
        known = nearest(name, classes) or "; the module has no classes: define the class there, or correct the name"
        raise ConfigError(f'{where}._target_: no class "{name}" in {module_name}{known}')
    return classes[name]


def check_targets(value: Any, where: str = "") -> None:
    """Raise ConfigError for the first forbidden ``_target_`` in a tree of plain values, without importing anything."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            inside = f"{where}.{key}" if where else str(key)
            if key == "_target_":
                check_target(item, inside)
            elif isinstance(item, Mapping | list):
                check_targets(item, inside)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            check_targets(item, f"{where}[{number}]")


def check_target(target: object, where: str) -> None:
    """Raise ConfigError unless a config may name the class ``target``, without importing anything."""
    if not isinstance(target, str) or "." not in target:
        raise ConfigError(f"{where}: must be a class with its module, such as my_parts.Shortest, got {target!r}")
    if target.rpartition(".")[0] in PARTS or is_trusted(target):
        return
    package = target.partition(".")[0]
    if package == "ragsweep":
        raise ConfigError(f'{where}: "{target}" is not a built-in part{nearest(target.rpartition(".")[0], PARTS)}')
    raise ConfigError(
        f'{where}: package "{package}" of "{target}" is not trusted; to use your own parts: {trusting(package)}'
    )


def trusting(package: str) -> str:
    """Return the shell command that adds a package to the trusted packages."""
    return f"export {TRUSTED}={','.join([*sorted(trusted_packages()), package])}"


def _may_be_built(part: type) -> bool:
    module = part.__module__
    return module in PARTS or module.rpartition(".")[0] in PARTS or is_trusted(module)
