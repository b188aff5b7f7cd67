"""Compare readers of PDF text with pdftotext: joined words, words that pdftotext lacks, ligatures, time.

python benchmarks/pdf_text.py FILE.pdf ...
Needs ``pdftotext`` (poppler-utils), pypdf and pypdfium2; pdfminer.six is measured if installed.
"""

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

from ragsweep.core.errors import Faults
from ragsweep.golden.pages import read_page

LONG = re.compile(r"[^\W\d_]{25,}")
LIGATURE = re.compile("[\ufb00-\ufb06]")
WORD = re.compile(r"[^\W\d_]{2,}")


def poppler(path: Path) -> str:
    return subprocess.run(["pdftotext", str(path), "-"], capture_output=True, check=True, text=True).stdout


def pypdf(path: Path) -> str:
    from pypdf import PdfReader

    return "\n\n".join(page.extract_text() for page in PdfReader(BytesIO(path.read_bytes())).pages)


def pypdfium2(path: Path) -> str:
    from pypdfium2 import PdfDocument

    with PdfDocument(path) as document:
        return "\n\n".join(page.get_textpage().get_text_range() for page in document)


def pdfminer(path: Path) -> str:
    from pdfminer.high_level import extract_text

    return str(extract_text(path))


def ragsweep(path: Path) -> str:
    faults = Faults()
    text = read_page(path, faults, "leave it out").text
    faults.raise_any()
    return text


READERS: tuple[Callable[[Path], str], ...] = (poppler, pypdf, pypdfium2, pdfminer, ragsweep)


def words(text: str) -> Counter[str]:
    """Count the words, without ligatures and hyphens, on which readers differ."""
    for number, letters in enumerate(("ff", "fi", "fl", "ffi", "ffl", "st", "st")):
        text = text.replace(chr(0xFB00 + number), letters)
    return Counter(WORD.findall(re.sub(r"[-\u00ad\u2010\ufffe]\s*", "", text)))


def row(read: Callable[[Path], str], path: Path, reference: Counter[str]) -> list[float]:
    """Measure one reader on one file: runs of 25 letters, superfluous and missing words, ligatures, seconds."""
    start = time.perf_counter()
    text = read(path)
    seconds = time.perf_counter() - start
    found = words(text)
    counts = [len(LONG.findall(text)), (found - reference).total(), (reference - found).total()]
    return [*counts, len(LIGATURE.findall(text)), seconds]


def line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def shown(file: str, reader: str, numbers: list[float]) -> str:
    *counts, seconds = numbers
    return line([file, reader, *(f"{count:,.0f}" for count in counts), f"{seconds:.2f}"])


def main(paths: list[Path]) -> None:
    """Print a row for each reader and file, and the totals of each reader."""
    readers = [read for read in READERS if read is not pdfminer or find_spec("pdfminer")]
    head = ["file", "reader", "runs of 25 letters", "words not in pdftotext", "words missing", "ligatures", "s"]
    print(line(head), line(["---"] * len(head)), sep="\n")
    totals: dict[str, list[float]] = {}
    for path in paths:
        reference = words(poppler(path))
        for read in readers:
            *counts, seconds = row(read, path, reference)
            print(shown(path.name, read.__name__, [*counts, seconds]), flush=True)
            before = totals.get(read.__name__, [0.0] * 5)
            totals[read.__name__] = [one + other for one, other in zip(before, [*counts, seconds], strict=True)]
    for name, total in totals.items():
        print(shown("all", name, total))


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
