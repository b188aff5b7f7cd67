"""Serve an evaluated config from a self-contained bundle, and compare requests with the evaluation."""
