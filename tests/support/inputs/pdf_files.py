"""Minimal PDF files with one content stream per page."""

from io import BytesIO
from itertools import accumulate


def line(text: str) -> str:
    """Return a content stream that prints one line of text."""
    return f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET" if text else ""


def pdf(*texts: str, password: str = "") -> bytes:
    """Make a file with one line of text per page, as a word processor exports it."""
    return printed(*map(line, texts), password=password)


def printed(*streams: str, font: str = "", password: str = "") -> bytes:
    """Make a file with a page for each content stream, in Helvetica; ``font``: more entries for the font."""
    first = 5  # object number of the first page; its stream has the next number
    kids = " ".join(f"{first + 2 * page} 0 R" for page in range(len(streams)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(streams)} >>",
        f"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica {font} >>",
        "<< /Title (A printed page) >>",
    ]
    for number, stream in enumerate(streams):
        resources = f"/Resources << /Font << /F1 3 0 R >> >> /Contents {first + 2 * number + 1} 0 R"
        objects += [f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 400 200] {resources} >>", _stream(stream)]
    data = _file(objects)
    return _encrypted(data, password) if password else data


def _stream(text: str) -> str:
    return f"<< /Length {len(text)} >>\nstream\n{text}\nendstream"


def _file(objects: list[str]) -> bytes:
    parts = ["%PDF-1.4\n", *(f"{number} 0 obj\n{text}\nendobj\n" for number, text in enumerate(objects, start=1))]
    places = list(accumulate(map(len, parts)))
    rows = "".join(f"{place:010} 00000 n \n" for place in places[:-1])
    table = f"xref\n0 {len(places)}\n0000000000 65535 f \n{rows}"
    trailer = f"trailer << /Size {len(places)} /Root 1 0 R /Info 4 0 R >>\nstartxref\n{places[-1]}\n%%EOF\n"
    return ("".join(parts) + table + trailer).encode("latin-1")


def _encrypted(data: bytes, password: str) -> bytes:
    from pypdf import PdfWriter

    writer, file = PdfWriter(clone_from=BytesIO(data)), BytesIO()
    writer.encrypt(password, algorithm="RC4-128")
    writer.write(file)
    return file.getvalue()
