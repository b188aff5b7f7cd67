"""A folder of pages (text, Markdown, reStructuredText, HTML, PDF) with a golden file in our own format."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from ragsweep.errors import Faults
from ragsweep.golden import Found, Selection, golden_set
from ragsweep.golden_format import read_questions
from ragsweep.pages import ENDINGS, read_page
from ragsweep.reading import Row, Seen
from ragsweep.text_files import check_folder
from ragsweep.types import Corpus, Dataset


class Folder:
    """Read every page in a folder and below; its id is its path from there, with slashes.

    Links are not followed, and what begins with a dot is not looked at.

    Args:
        path: The folder.
        golden: File of the questions.
        exclude: Patterns of ids that are no documents; ``*`` stands for anything, slashes too.
        unknown: "error", or "drop" to leave out and count labels that cannot be used.
        limit: How many questions to draw; None for all.
        seed: Chooses which questions are drawn.
        repeated_passages: An anchor found in another document too marks the same passage there.
    """

    VERSION = "2"

    def __init__(
        self,
        path: str,
        golden: str,
        exclude: Sequence[str],
        unknown: str,
        limit: int | None,
        seed: int,
        repeated_passages: bool,
    ) -> None:
        self._path, self._golden = Path(path).expanduser(), Path(golden).expanduser()
        self._exclude = exclude
        self._selection = Selection(unknown, limit, seed)
        self._repeated_passages = repeated_passages

    def load(self) -> Dataset:
        """Read the pages and the golden file.

        Raises:
            ConfigError: ``unknown`` or ``limit`` make no sense.
            InputError: the folder does not exist, or faults of the files, all at once.
        """
        selection, faults = self._selection.check(), Faults()
        check_folder(self._path, "dataset.path needs the documents' folder")
        listing = _Listing(self._path, self._exclude, faults)
        corpus = _read_corpus(listing, faults)
        questions = read_questions(self._golden, corpus.version, faults)
        faults.raise_any()
        golden = golden_set(Found(str(self._golden), questions), corpus, selection, self._repeated_passages)
        return Dataset(self._path.resolve().name, corpus, golden, listing.notes())


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
        """Say what of the folder is no document."""
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in self._others.most_common())
        said = [f"files of other kinds left out: {kinds}"] if kinds else []
        return (*said, *([f"{self._links:,} links not followed"] if self._links else []))


def _read_corpus(listing: _Listing, faults: Faults) -> Corpus:
    before = len(faults.found)
    ids = sorted(listing.pages)
    pages = [read_page(listing.pages[identifier], faults) for identifier in ids]
    if not ids and len(faults.found) == before:
        faults.add(str(listing.root), f"holds no document; known endings: {', '.join(ENDINGS)}")
    return Corpus(ids, [page.title for page in pages], [page.text for page in pages])
