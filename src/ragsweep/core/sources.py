"""Identify code outside this package: a module's file, and those of the modules of its package that it imports."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from importlib.machinery import all_suffixes
from pathlib import Path

INSTALLED = ("site-packages", "dist-packages")
"""Folders in which modules lie beside each other that have nothing to do with each other."""


def source_digest(module: str) -> str:
    """Hash a module's file and those of its own modules that it imports, directly or by way of others.

    Its own are those of its package; for a module without a package, those in and below its folder, unless packages are
    installed there. Import statements are read, not run: an import by a computed name is not followed, nor is a file of
    data. Returns an empty string for a module without a file, such as one typed into an interpreter.
    """
    state, files = hashlib.sha256(), _files(module)
    for name in sorted(files):
        data = files[name].read_bytes()
        state.update(f"{name} {len(data)} ".encode() + data)
    return state.hexdigest() if files else ""


def _files(module: str) -> dict[str, Path]:
    """Find the files of a module and of its own modules that it imports, by module name."""
    file = getattr(sys.modules[module], "__file__", None)
    if not file:
        return {}
    found = {module: Path(file)}
    home = found[module].parents[module.count(".") + (found[module].stem == "__init__")]
    top = module.partition(".")[0]
    beside = not (home / top).is_dir() and home.name not in INSTALLED
    waiting = [module]
    while waiting:
        name = waiting.pop()
        for one in _imported(found[name], name):
            if one not in found and (beside or one.partition(".")[0] == top) and (path := _file(home, one)):
                found[one] = path
                waiting.append(one)
    return found


def _file(home: Path, name: str) -> Path | None:
    """Find a module's file below the folder of its first part, importing nothing; None if it is not there."""
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    inside = home.joinpath(*parts)
    places = (place for end in all_suffixes() for place in (inside / f"__init__{end}", Path(f"{inside}{end}")))
    return next((place for place in places if place.is_file()), None)


def _imported(path: Path, module: str) -> Iterator[str]:
    """List the modules that a module imports anywhere, and the packages that contain it.

    A name that is imported from a module may be a module itself: both are named.
    """
    package = module if path.stem == "__init__" else module.rpartition(".")[0]
    parts = package.split(".")
    yield from (".".join(parts[: n + 1]) for n in range(len(parts)))
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))


def _tree(path: Path) -> ast.Module:
    """Parse a source file; one that is compiled, or that Python cannot read, has no imports to follow."""
    try:
        return ast.parse(path.read_bytes() if path.suffix == ".py" else b"")
    except SyntaxError:
        return ast.parse("")
