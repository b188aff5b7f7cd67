"""Writers of documents: to a terminal, as JSON, as Markdown, and as a page."""
