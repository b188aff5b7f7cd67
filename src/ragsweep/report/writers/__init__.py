"""Write a document: to a terminal, as JSON, as Markdown, and as a page."""
