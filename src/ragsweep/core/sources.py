"""Identify code outside ragsweep by a hash of a module's file and of the files that are imported from its package."""

import ast
import hashlib
import sys
from collections.abc import Iterator
from importlib.machinery import all_suffixes
from pathlib import Path

INSTALLED = ("site-packages", "dist-packages")
"""Names of folders of installed packages: modules side by side in such a folder are unrelated."""


def source_digest(module: str) -> str:
    """Return a hash of the file of an imported module and of the files that it imports from its own package.

    Indirect imports are included. For a module without a package, the modules in its folder take the place of the
    package, unless packages are installed there. Import statements are parsed, not executed, so neither computed
    imports nor data files are included. Return "" for a module without a file, such as an interpreter session.
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
    """Return the file of a module, or None, without importing it; ``home`` contains its top-level package."""
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
