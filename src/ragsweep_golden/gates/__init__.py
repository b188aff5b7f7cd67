"""Check a golden set: compare measured values with the thresholds of quality gates, and run tests with a model."""
