"""Conversion of documents to JSON."""

from ragsweep.report.document import Document
from ragsweep.report.tables import to_json


def as_json(document: Document) -> str:
    """Return a document's facts as strict JSON, followed by a line break."""
    return to_json(document.facts) + "\n"
