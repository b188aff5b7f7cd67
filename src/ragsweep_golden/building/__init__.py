"""Build a golden set from a corpus in six phases."""
