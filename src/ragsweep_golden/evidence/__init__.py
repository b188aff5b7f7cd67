"""Find texts in documents, quote them briefly, and compare passages by their words."""
