"""Documents as JSON."""

from ragsweep.report.document import Document
from ragsweep.report.tables import to_json


def as_json(document: Document) -> str:
    """Write a document's facts as strict JSON that ends with a line break."""
    return to_json(document.facts) + "\n"
