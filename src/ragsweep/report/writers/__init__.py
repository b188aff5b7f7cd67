"""Writers of documents as Markdown and as a page."""
