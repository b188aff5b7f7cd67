"""Build, check and review golden sets."""
