"""Judge a golden set: what a gate measures, its threshold, and tests with a model."""
