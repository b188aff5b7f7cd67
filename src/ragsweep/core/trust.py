"""The classes that a config may name (built-in parts and classes of trusted packages), and hashes of their sources."""

import ast
import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Any

from ragsweep.core.errors import ConfigError, nearest

TRUSTED = "RAGSWEEP_TRUSTED_PACKAGES"
"""Environment variable that lists additional packages, separated by commas; a config may name their classes."""

PARTS = frozenset(
    [*(f"ragsweep.parts.{kind}" for kind in (
        "chunkers", "datasets", "embedders", "generators", "indexes", "judges", "metrics", "outputs", "prices",
        "prompts", "queries", "rerankers", "retrievers", "routers", "systems", "targets", "tracking")),
     "ragsweep.sweep.races"]
)  # fmt: skip
"""Modules of ragsweep whose classes a config may name; a config cannot add modules."""

INSTALLED = ("site-packages", "dist-packages")
"""Names of folders of installed packages: modules side by side in such a folder are unrelated."""


def trusted_packages() -> set[str]:
    """Return the names of the packages that the environment variable RAGSWEEP_TRUSTED_PACKAGES lists."""
    return {name.strip() for name in os.environ.get(TRUSTED, "").split(",") if name.strip()}


def is_ours(part: object) -> bool:
    """Return whether the class of a part or metric is one of ragsweep's."""
    return type(part).__module__.startswith("ragsweep.")


def is_trusted(name: str) -> bool:
    """Return whether RAGSWEEP_TRUSTED_PACKAGES lists a module or class, or a package or module that contains it."""
    names = name.split(".")
    return any(".".join(names[:length]) in trusted_packages() for length in range(1, len(names) + 1))


def find_class(target: str, where: str) -> type:
    """Import and return the class ``target``, which a config names at the key ``where``.

    The name is checked before the import, and the class after it, because a module also exposes the classes that it
    imports. Raises ConfigError, with a message that names the key, if the class is not trusted, does not exist or
    cannot be imported.
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


def check_targets(value: Any, where: str) -> None:
    """Raise ConfigError for the first forbidden ``_target_`` in ``value``, a tree under the key ``where``.

    Nothing is imported.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            inside = f"{where}.{key}"
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
        f'{where}: the package "{package}" of "{target}" is not trusted; to trust it, run: {trusting(package)}'
    )


def trusting(package: str) -> str:
    """Return the shell command that adds a package to the trusted packages."""
    return f"export {TRUSTED}={','.join([*sorted(trusted_packages()), package])}"


def _may_be_built(part: type) -> bool:
    module = part.__module__
    return module in PARTS or module.rpartition(".")[0] in PARTS or is_trusted(module)


def source_digest(module: str) -> str:
    """Return a hash of an imported module's file and of the files that the module imports from its own package.

    Indirect imports are included. A module without a package is treated as if its folder were a package, unless
    packages are installed there. Import statements are parsed, not executed, so neither computed imports nor data files
    are included. Return "" for a module without a file, such as an interpreter session.
    """
    file = getattr(sys.modules[module], "__file__", None)
    if not file:
        return ""
    files = {module: Path(file)}
    home = files[module].parents[module.count(".") + (files[module].stem == "__init__")]
    top = module.partition(".")[0]
    beside = not (home / top).is_dir() and home.name not in INSTALLED
    queue = [module]
    while queue:
        importer = queue.pop()
        for name in _imports(files[importer], importer):
            if name not in files and (beside or name.partition(".")[0] == top) and (path := _find_file(home, name)):
                files[name] = path
                queue.append(name)
    state = hashlib.sha256()
    for name in sorted(files):
        data = files[name].read_bytes()
        state.update(f"{name} {len(data)} ".encode() + data)
    return state.hexdigest()


def _find_file(home: Path, name: str) -> Path | None:
    """Return the file of a module, found without an import, or None; ``home`` contains the top-level package."""
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    inside = home.joinpath(*parts)
    paths = (path for suffix in all_suffixes() for path in (inside / f"__init__{suffix}", Path(f"{inside}{suffix}")))
    return next((path for path in paths if path.is_file()), None)


def _imports(path: Path, module: str) -> Iterator[str]:
    """Yield the names of the packages that contain a module, and of everything that it imports.

    For a compiled module, or a module that cannot be parsed, only the names of these packages are yielded.
    """
    package = module if path.stem == "__init__" else module.rpartition(".")[0]
    parts = package.split(".")
    yield from (".".join(parts[: n + 1]) for n in range(len(parts)))
    try:
        tree = ast.parse(path.read_bytes() if path.suffix == ".py" else b"")
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))  # an imported name may be a module
