"""Serve an evaluated config: a bundle of all that it needs, and the pipeline that answers from it."""
