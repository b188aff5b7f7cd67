"""Serve an evaluated config: a self-contained bundle, and the pipeline that answers from it."""
