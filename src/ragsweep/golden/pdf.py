"""Read the text of a PDF's pages, and find pages that were probably misread."""

import re
from collections import Counter
from collections.abc import Sequence

_CUT = "\ufffe"  # PDFium's replacement of a hyphen and line break at a line end
_CUT_WORD = re.compile(rf"(\w[\w-]*){_CUT}\n?(\w[\w-]*)")
_WORD = re.compile(r"\w[\w-]*")
_LONG_RUN = re.compile(r"(?:(?![\u0e00-\U0010ffff])[^\W\d_]){25,}")  # in a script that separates words by spaces
_GLUED_SHARE = 0.05  # of a page's letters: at most .02 in manuals, .05 to .9 on pages extracted without spaces
_LISTED = 10


def read_pdf(data: bytes) -> tuple[str, list[str]]:
    """Return a PDF's title (may be empty) and the text of each page, with LF line ends.

    Raises PdfiumError for an encrypted or damaged file, and ValueError for a file without text.
    """
    from pypdfium2 import PdfDocument

    with PdfDocument(data) as document:
        title = document.get_metadata_value("Title")
        pages = [page.get_textpage().get_text_range() for page in document]
    if not any(page.strip() for page in pages):
        raise ValueError("contains no text (a scan needs OCR)")
    return title, _uncut("\f".join(pages).replace("\r\n", "\n")).split("\f")


def _uncut(text: str) -> str:
    """Join words hyphenated at a line end.

    The hyphen is kept if the rest of the text has the word more often with it than without it, because PDFium does not
    distinguish hyphens that belong to the word from those of the line break.
    """
    known = Counter(_WORD.findall(text))

    def whole(cut: re.Match[str]) -> str:
        joined, hyphenated = cut[1] + cut[2], f"{cut[1]}-{cut[2]}"
        return hyphenated if known[hyphenated] > known[joined] else joined

    return _CUT_WORD.sub(whole, text).replace(_CUT, "-")


def doubts(pages: Sequence[str]) -> str:
    """Describe the pages without text and those whose words look joined; "" if there are none."""
    empty = [number for number, page in enumerate(pages, start=1) if not page.strip()]
    shares = [sum(map(len, _LONG_RUN.findall(page))) / (sum(map(str.isalpha, page)) or 1) for page in pages]
    glued = [number for number, share in enumerate(shares, start=1) if share > _GLUED_SHARE]
    scanned = "without text (blank, or a scan that needs OCR)"
    kinds = {scanned: empty, "with words that look joined": glued}
    return "; ".join(f"{_numbered(numbers)} {fact}" for fact, numbers in kinds.items() if numbers)


def _numbered(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - _LISTED:,} more" if len(numbers) > _LISTED else ""
    return f"page{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers[:_LISTED]))}{more}"
