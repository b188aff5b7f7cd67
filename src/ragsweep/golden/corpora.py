"""Read the documents of a corpus: JSON lines, in our own format or that of BEIR, a table, or a folder of pages."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from ragsweep.core.errors import Faults
from ragsweep.core.types import Corpus
from ragsweep.golden.pages import ENDINGS, read_page
from ragsweep.golden.reading import Row, Seen, read_rows
from ragsweep.golden.tables import Columns, is_table, read_table

DOCUMENT_KEYS = ("id", "title", "text", "version", "metadata")
DOCUMENT_COLUMNS = ("id", "title", "text", "version")


def read_corpus(path: Path, faults: Faults, columns: Columns | None = None) -> Corpus:
    """Read a corpus; whatever is wrong with it is added to the faults.

    Args:
        path: A file of JSON lines: our own format, or, where its first line has an ``_id``, that of BEIR, whose other
            keys are not read. With ``columns`` it may be a table, too.
        faults: Where faults are collected.
        columns: Which column of a table holds what.
    """
    seen, before = Seen("document"), len(faults.found)
    ids, titles, texts, version = [], [], [], None
    table = columns is not None and is_table(path)
    for key, row in _table_rows(path, columns, faults) if columns and table else _json_rows(path, faults):
        ids.append(row.identifier(key))
        titles.append(row.text("title"))
        texts.append(row.text("text") if table else row.given_text("text"))
        seen.note(ids[-1], row)
        stated = row.text("version") if key == "id" else ""
        version = stated if version is None else version
        if stated != version:
            row.fault(f'version "{stated}" differs from "{version}" of the lines before; a corpus has one version')
    if not ids and len(faults.found) == before:
        faults.add(str(path), "holds no document")
    return Corpus(ids, titles, texts, version or "")


def _json_rows(path: Path, faults: Faults) -> Iterator[tuple[str, Row]]:
    """Yield every line with the name of the key that holds its id: all lines are in the format of the first."""
    key = ""
    for row in read_rows(path, faults):
        key = key or ("_id" if "_id" in row else "id")
        if key == "id":
            row.check_keys(DOCUMENT_KEYS)
        yield key, row


def _table_rows(path: Path, columns: Columns, faults: Faults) -> Iterator[tuple[str, Row]]:
    for row in read_table(path, columns, faults):
        yield "id", row


def read_folder(root: Path, exclude: Sequence[str], faults: Faults) -> tuple[Corpus, tuple[str, ...]]:
    """Read every page in a folder and below; what keeps one from being read is added to the faults.

    Args:
        root: The folder.
        exclude: Patterns of ids that are no documents; ``*`` stands for anything, slashes too.
        faults: Where faults are collected.

    Returns:
        The documents, whose ids are their paths from the folder, and what of the folder is none.
    """
    before = len(faults.found)
    listing = _Listing(root, exclude, faults)
    ids = sorted(listing.pages)
    pages = [read_page(listing.pages[identifier], faults) for identifier in ids]
    if not ids and len(faults.found) == before:
        faults.add(str(root), f"holds no document; known endings: {', '.join(ENDINGS)}")
    return Corpus(ids, [page.title for page in pages], [page.text for page in pages]), listing.notes()


class _Listing:
    """The pages of a folder by id, and a count of what else is there."""

    def __init__(self, root: Path, exclude: Sequence[str], faults: Faults) -> None:
        self.root = root
        self.pages: dict[str, Path] = {}
        self._links, self._others = 0, Counter[str]()
        seen = Seen("document")
        for path in self._walk(faults):
            identifier = path.relative_to(root).as_posix()
            if any(fnmatchcase(identifier, pattern) for pattern in exclude):
                continue
            if path.is_symlink():
                self._links += 1
            elif path.suffix.lower() not in ENDINGS or not path.is_file():
                self._others[path.suffix.lower() or "no ending"] += 1
            else:
                self._add(identifier, path, seen, faults)

    def _walk(self, faults: Faults) -> Iterator[Path]:
        def refused(error: OSError) -> None:
            faults.add(str(error.filename), "the folder may not be read; allow it with chmod u+rx")

        for folder, names, files in os.walk(self.root, onerror=refused):
            names[:] = sorted(name for name in names if not name.startswith("."))
            linked = [name for name in names if Path(folder, name).is_symlink()]
            yield from (Path(folder, name) for name in sorted([*files, *linked]) if not name.startswith("."))

    def _add(self, identifier: str, path: Path, seen: Seen, faults: Faults) -> None:
        try:
            row = Row(str(path), {"id": identifier.encode("utf-8").decode()}, faults)
        except UnicodeEncodeError:
            shown = os.fsencode(path).decode("utf-8", "backslashreplace")
            faults.add(shown, "the name is not UTF-8; rename the file")
            return
        known = row.identifier("id")
        seen.note(known, row)
        self.pages[known] = path

    def notes(self) -> tuple[str, ...]:
        """Return notes on files of the folder that are no documents."""
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self._others.most_common())
        said = [f"files of other kinds left out: {kinds}"] if kinds else []
        return (*said, *([f"{self._links:,} links not followed"] if self._links else []))
