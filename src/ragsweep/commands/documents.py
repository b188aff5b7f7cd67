"""Functions that read the documents given to a command as a folder or a file."""

import sys
from collections.abc import Sequence
from pathlib import Path

from ragsweep.core.errors import Faults
from ragsweep.core.secrets import mask_text
from ragsweep.core.types import Corpus
from ragsweep.golden.corpora import read_corpus, read_folder
from ragsweep.golden.text_files import plain_or_gzipped


def read_documents(place: str, excluded: Sequence[str] | None = None) -> Corpus:
    """Return the corpus in a folder of pages, a BEIR folder, or a file; print notes on it to standard error.

    The file, or any file in a BEIR folder, may be gzipped. ``excluded`` are patterns for the ids to skip in a folder of
    pages. Raises InputError for faulty files.
    """
    path, faults, notes = Path(place).expanduser(), Faults(), tuple[str, ...]()
    file = plain_or_gzipped(path / "corpus.jsonl" if path.is_dir() else path)
    if path.is_dir() and not file.exists():
        corpus, notes = read_folder(path, excluded, faults, configured=False)
    else:
        corpus = read_corpus(file, faults)
    faults.raise_any()
    show_notes((*notes, *faults.notes))
    return corpus


def show_notes(notes: Sequence[str]) -> None:
    """Print notes on documents to standard error, because standard output may be JSON."""
    for note in notes:
        print(f"ragsweep: note: {mask_text(note)}", file=sys.stderr)
