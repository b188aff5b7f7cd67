"""Measure the shape of the code: lines, arrows between files, the longest chain of imports, heights of packages, words.

    python benchmarks/house.py

The length of a chain is the number of files from one file down to one that imports no file of ours; the height of a
package is the length of the longest chain inside it. Imports under TYPE_CHECKING do not count.
"""

import ast
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"
DOCS = Path(__file__).parent.parent / "docs"
LONG = 300
"""Lines above which a file is listed."""

Graph = Mapping[Path, frozenset[Path]]


def modules(source: Path) -> dict[str, Path]:
    """Return the file of every module below a folder, by its name."""
    names = {path: path.relative_to(source).with_suffix("").parts for path in sorted(source.rglob("*.py"))}
    return {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for path, parts in names.items()}


def import_graph(source: Path) -> Graph:
    """Return the files of ours that each file imports at run time."""
    known = modules(source)
    return {
        path: frozenset(known[name] for name in imported_names(ast.parse(path.read_text())) if name in known) - {path}
        for path in known.values()
    }


def imported_names(tree: ast.AST) -> Iterator[str]:
    """Yield the absolute names that a file imports at run time."""
    if isinstance(tree, ast.If) and "TYPE_CHECKING" in ast.unparse(tree.test):
        return
    if isinstance(tree, ast.Import):
        yield from (alias.name for alias in tree.names)
    if isinstance(tree, ast.ImportFrom) and tree.module:
        yield from (tree.module, *(f"{tree.module}.{alias.name}" for alias in tree.names))
    for node in ast.iter_child_nodes(tree):
        yield from imported_names(node)


def longest_chain(graph: Graph, among: Collection[Path]) -> list[Path]:
    """Return the longest chain of imports that stays among some files, the importing file first."""
    inside, chains = set(among), dict[Path, list[Path]]()

    def chain(path: Path) -> list[Path]:
        if path not in chains:
            chains[path] = []  # ends a chain that would be a cycle
            chains[path] = [path, *max((chain(other) for other in sorted(graph[path] & inside)), key=len, default=[])]
        return chains[path]

    return max((chain(path) for path in sorted(inside)), key=len, default=[])


def packages(graph: Graph, source: Path) -> dict[str, list[Path]]:
    """Return the files of each package; the subfolders of ragsweep and hydra_plugins count as packages."""
    found: dict[str, list[Path]] = {}
    for path in graph:
        folders = path.relative_to(source).parts[:-1]
        depth = 2 if folders[0] in ("ragsweep", "hydra_plugins") else 1
        found.setdefault("/".join(folders[:depth]), []).append(path)
    return found


def count_words(docs: Path) -> dict[str, int]:
    """Count the words of each page; a word has a letter or a digit, so table borders do not count."""
    pages = {page.relative_to(docs).as_posix(): page.read_text("utf-8").split() for page in docs.rglob("*.md")}
    return {page: sum(any(map(str.isalnum, word)) for word in words) for page, words in pages.items()}


def main() -> None:
    """Print the figures."""
    graph = import_graph(SOURCE)
    texts = {path: path.read_text() for path in graph}
    lines = {path: len(text.splitlines()) for path, text in texts.items()}
    chain = longest_chain(graph, graph)
    print(f"{len(graph)} files, {sum(lines.values()):,} lines, {sum(map(len, graph.values())):,} arrows")
    print(f"longest chain: {len(chain)} files, from {' -> '.join(str(path.relative_to(SOURCE)) for path in chain)}")
    print(f"{sum(number > LONG for number in lines.values())} files of more than {LONG} lines")
    print(f"{sum(text.count('# fmt: skip') for text in texts.values())} times fmt: skip")
    print("\n| package | lines | files | height |\n| --- | --- | --- | --- |")
    for name, files in sorted(packages(graph, SOURCE).items()):
        height = len(longest_chain(graph, files))
        print(f"| {name} | {sum(lines[path] for path in files):,} | {len(files)} | {height} |")
    words = count_words(DOCS)
    print("\n| page | words |\n| --- | --- |")
    for page, number in [*sorted(words.items()), ("all", sum(words.values()))]:
        print(f"| {page} | {number:,} |")


if __name__ == "__main__":
    main()
