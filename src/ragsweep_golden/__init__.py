"""Build, check, review and convert golden sets."""
