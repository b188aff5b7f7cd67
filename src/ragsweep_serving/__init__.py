"""Serves an evaluated config from a self-contained bundle, and compares the served requests with the evaluation."""
