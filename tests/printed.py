"""PDF files with a line of text a page."""

from __future__ import annotations

from io import BytesIO

from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject


def pdf(text: str, password: str = "") -> bytes:
    """Make a page with one line of text, as a word processor's export would hold it."""
    writer = PdfWriter()
    page = writer.add_blank_page(200, 200)
    font = DictionaryObject({
        NameObject("/Type"): NameObject("/Font"),
        NameObject("/Subtype"): NameObject("/Type1"),
        NameObject("/BaseFont"): NameObject("/Helvetica"),
    })  # fmt: skip
    resources = DictionaryObject({NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})})
    page[NameObject("/Resources")] = resources
    content = DecodedStreamObject()
    content.set_data(f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET".encode() if text else b"")
    page[NameObject("/Contents")] = content
    writer.add_metadata({"/Title": "A printed page"})
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    data = BytesIO()
    writer.write(data)
    return data.getvalue()
