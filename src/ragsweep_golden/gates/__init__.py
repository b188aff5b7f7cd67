"""Check a golden set: measure each gate and judge it by its configured threshold, and run tests with a model."""
