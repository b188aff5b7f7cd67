"""Check a golden set: the measure and threshold of each gate, and tests with a model."""
