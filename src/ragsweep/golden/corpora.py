"""Read the documents of a corpus from JSON lines or Parquet (in four formats), a table, or a folder of files."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from ragsweep.core.errors import Faults
from ragsweep.core.plurals import counted
from ragsweep.core.types import Corpus
from ragsweep.golden.pages import ENDINGS, read_page
from ragsweep.golden.reading import Row, UniqueIds, normal_id, read_rows
from ragsweep.golden.tables import Columns, is_table, read_table
from ragsweep.golden.text_files import plain_or_gzipped

DOCUMENT_KEYS = ("id", "title", "text", "version", "metadata")
DOCUMENT_COLUMNS = ("id", "title", "text", "version")


def read_corpus(path: Path, faults: Faults, columns: Columns | None = None) -> Corpus:
    """Return the corpus in a file of JSON lines or Parquet or, with ``columns``, in a table; add errors to ``faults``.

    The keys of the first line determine the format: ``_id`` means BEIR's format, ``doc_id`` means AutoRAG's, and
    ``contents`` without ``text`` means FlashRAG's. Any other file is in ragsweep's format. Unknown keys are faults in
    ragsweep's format but are ignored in tables and in the other formats. Lines that state different versions of the
    corpus, and a file without documents, are also faults.
    """
    unique, before = UniqueIds("document"), len(faults.found)
    ids, titles, texts, version = [], [], [], None
    table = columns if columns and is_table(path) else None
    key, text = "id" if table else "", "text"
    for row in read_table(path, table, faults) if table else read_rows(path, faults):
        if not key:  # the first line
            key = next((name for name in ("_id", "doc_id") if name in row), "id")
            text = "contents" if "contents" in row and "text" not in row else "text"
        if (key, text) == ("id", "text") and not table:
            row.check_keys(DOCUMENT_KEYS)
        ids.append(row.identifier(key))
        titles.append(row.text("title"))
        texts.append(row.text(text) if table else row.given_text(text))
        unique.check(ids[-1], row)
        stated = row.text("version") if (key, text) == ("id", "text") else ""
        version = stated if version is None else version
        if stated != version:
            given, other = (f'"{one}"' if one else "none" for one in (stated, version))
            row.fault(f"the version is {given}, but {other} in earlier lines; give every line the same version")
    if not ids and len(faults.found) == before:
        faults.add(str(path), "contains no documents; add at least one")
    return _check_texts(Corpus(ids, titles, texts, version or ""), path, faults)


def read_folder(
    root: Path, exclude: Sequence[str] | None, faults: Faults, configured: bool = True
) -> tuple[Corpus, tuple[str, ...]]:
    """Return the corpus of a folder (its files with a suffix in ENDINGS, also in subfolders), and notes for the user.

    The id of a document is its path relative to the folder. Unreadable files, and a folder without documents, are
    faults. Hidden files, symbolic links, and files whose ids match a pattern in ``exclude`` are skipped; in a pattern,
    ``*`` also matches slashes. The notes count files of other types, links and files without text, and list pages that
    may have been misread.

    Faults suggest ``dataset.exclude``, unless ``exclude`` is None or the patterns come from another config
    (``configured=False``).
    """
    before, unique = len(faults.found), UniqueIds("document")
    pages: dict[str, Path] = {}
    links, others = 0, Counter[str]()
    for path in _walk(root, faults):
        identifier = path.relative_to(root).as_posix()
        if any(fnmatchcase(normal_id(identifier), normal_id(pattern)) for pattern in exclude or ()):
            continue
        if path.is_symlink():
            links += 1
        elif path.suffix.lower() not in ENDINGS or not path.is_file():
            others[path.suffix.lower() or "without a suffix"] += 1
        elif not any("\ud800" <= sign <= "\udfff" for sign in identifier):  # surrogates: bytes that are not UTF-8
            row = Row(str(path), {"id": identifier}, faults)
            normalised = row.identifier("id")
            unique.check(normalised, row)
            pages[normalised] = path
        else:
            faults.add(os.fsencode(path).decode("utf-8", "backslashreplace"), "its name is not UTF-8; rename the file")
    way_out = "exclude it with dataset.exclude" if configured and exclude is not None else "move it out of the folder"
    documents = {name: read_page(pages[name], faults, way_out) for name in sorted(pages)}
    if not documents and len(faults.found) == before:
        left = " except those that dataset.exclude skips" if exclude else ""
        faults.add(str(root), f"contains no documents{left}; add files with a known suffix: {', '.join(ENDINGS)}")
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in others.most_common())
    notes = [f"files of other types skipped: {kinds}"] if kinds else []
    notes += [f"{counted(links, 'link')} not followed"] if links else []
    blank = [name for name, page in documents.items() if not page.text.strip() and not page.doubts]
    notes += [f"files without text: {len(blank):,}, the first {blank[0]}"] if blank else []
    notes += [f"{name}: {page.doubts}" for name, page in documents.items() if page.doubts]
    starts = {name: page.starts for name, page in documents.items() if page.starts}
    titles, texts = [page.title for page in documents.values()], [page.text for page in documents.values()]
    return _check_texts(Corpus(list(documents), titles, texts, page_starts=starts), root, faults), tuple(notes)


def read_documents(path: Path, faults: Faults, columns: Columns | None = None) -> tuple[Corpus, tuple[str, ...]]:
    """Return the corpus in a folder or a file (see ``read_folder`` and ``read_corpus``), and the notes on a folder."""
    if path.is_dir():
        return read_folder(path, None, faults)
    return read_corpus(plain_or_gzipped(path), faults, columns), ()


def _check_texts(corpus: Corpus, path: Path, faults: Faults) -> Corpus:
    """Return the corpus; add a fault if all titles and texts are blank, unless the corpus has other faults."""
    if corpus.ids and not faults.found and not any(map(str.strip, (*corpus.titles, *corpus.texts))):
        faults.add(str(path), "no document has a title or text; correct the key or column of the text, or the files")
    return corpus


def _walk(root: Path, faults: Faults) -> Iterator[Path]:
    """Yield the files and links in a folder and its subfolders, except hidden ones, sorted by name in each folder."""

    def refuse(error: OSError) -> None:
        faults.add(str(error.filename), "permission denied; make the folder readable with chmod u+rx")

    for folder, names, files in os.walk(root, onerror=refuse):
        names[:] = sorted(name for name in names if not name.startswith("."))
        linked = [name for name in names if Path(folder, name).is_symlink()]
        yield from (Path(folder, name) for name in sorted([*files, *linked]) if not name.startswith("."))
