"""Judge golden sets."""
