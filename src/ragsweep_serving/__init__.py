"""Serving of an evaluated config from a self-contained bundle, and comparison of requests with the evaluation."""
