"""Serving of an evaluated config: a self-contained bundle, and the pipeline that answers questions from it."""
